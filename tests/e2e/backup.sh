#!/usr/bin/env bash
# A small backup travels: another state folder measures nothing again, exports the same bytes, and goes on
# with a job where it stood.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
printf '{"op":"gemm","shapes":[{"M":16,"N":[32,64],"K":32}]}' >"$TMP/shapes.json"
run() { # state folder, words...
  local state=$1
  shift
  "$BIN/gktune" "$@" --state "$state" >"$TMP/out" 2>"$TMP/err" || bad "$*: $(cat "$TMP/err")"
}
command=(run gemm --shapes "$TMP/shapes.json" --device mock --budget 24 --seed 3)
run "$TMP/one" "${command[@]}" --export "$TMP/x1"
run "$TMP/one" db backup "$TMP/small.db" --no-samples
run "$TMP/one" db backup "$TMP/whole.db"
[ "$(stat -c %s "$TMP/small.db")" -lt "$(stat -c %s "$TMP/whole.db")" ] || bad "the small backup is not smaller"
run "$TMP/two" db restore "$TMP/small.db"
run "$TMP/two" db check
run "$TMP/two" best gemm
grep -q 'M=16 N=64 K=32' "$TMP/out" || bad "the picks did not come along: $(cat "$TMP/out")"
run "$TMP/two" export gemm --arch mock-sm_80 --format header --out "$TMP/x0" # its files came along too
cmp "$TMP/x1/gk_gemm_mock_sm_80.h" "$TMP/x0/gk_gemm_mock_sm_80.h" || bad "another header before anything ran"
run "$TMP/two" "${command[@]}" --export "$TMP/x2" --json
python3 - "$TMP/out" <<'PY' || bad "it measured again"
import json, sys
rates = json.load(open(sys.argv[1]))["job"]["rates"]
assert rates["verified"] == 0 and rates["failed"] == 0 and rates["duplicates"] == 48, rates
PY
cmp "$TMP/x1/gk_gemm_mock_sm_80.h" "$TMP/x2/gk_gemm_mock_sm_80.h" || bad "the headers differ"
# Once more from a backup of the backup: nothing wears off.
run "$TMP/two" db backup "$TMP/small2.db" --no-samples
run "$TMP/three" db restore "$TMP/small2.db"
run "$TMP/three" "${command[@]}" --export "$TMP/x3"
cmp "$TMP/x1/gk_gemm_mock_sm_80.h" "$TMP/x3/gk_gemm_mock_sm_80.h" || bad "the headers differ after two trips"
# A backup of a job that has not ended, and whose files are not there: the same command goes on with it.
run "$TMP/four" submit gemm --shapes "$TMP/shapes.json" --arch mock-sm_80 --budget 24 --seed 3
run "$TMP/four" db backup "$TMP/begun.db" --no-samples
run "$TMP/five" db restore "$TMP/begun.db"
run "$TMP/five" "${command[@]}"
grep -q '^job 1: gemm, done; 2 problems' "$TMP/out" || bad "the begun job did not go on: $(cat "$TMP/out")"
# A copy of the store's file is no backup: its log is not in it.
cp "$TMP/one/gktune.db" "$TMP/copy.db"
"$BIN/gktune" db restore "$TMP/copy.db" --state "$TMP/eight" >"$TMP/out" 2>"$TMP/err" && bad "a copy of a store was restored"
grep -q 'gktune db backup' "$TMP/err" || bad "no advice for a copy of a store: $(cat "$TMP/err")"
[ -e "$TMP/eight" ] && bad "a refused copy made a folder"
# What is damaged is not restored.
python3 - "$TMP/small.db" "$TMP/bad.db" <<'PY'
import sys
data = bytearray(open(sys.argv[1], "rb").read())
for at in range(len(data) // 2, len(data), 97):
    data[at] ^= 0x55
open(sys.argv[2], "wb").write(data)
PY
"$BIN/gktune" db restore "$TMP/bad.db" --state "$TMP/six" >"$TMP/out" 2>"$TMP/err" && bad "a damaged backup was restored"
[ -e "$TMP/six/gktune.db" ] && bad "a damaged store was left behind"
head -c 20000 "$TMP/whole.db" >"$TMP/half.db"
"$BIN/gktune" db restore "$TMP/half.db" --state "$TMP/six" >"$TMP/out" 2>"$TMP/err" && bad "half a backup was restored"
[ -n "$(find "$TMP/six" -name 'gktune.db*')" ] && bad "something of it was left behind: $(ls "$TMP/six")"
# A restore into a folder that a daemon serves, or beside --connect, would have another store looked through than its own.
"$BIN/gktuned" --state "$TMP/two" >"$TMP/daemon.out" 2>"$TMP/daemon.log" &
daemon=$!
children+=("$daemon")
eventually 20 grep -q '^ready' "$TMP/daemon.out" || bad "no daemon: $(cat "$TMP/daemon.log")"
"$BIN/gktune" db restore "$TMP/bad.db" --state "$TMP/seven" --connect "ipc://$TMP/two/gktuned.sock" >"$TMP/out" 2>"$TMP/err" && bad "garbage was restored beside --connect"
grep -q 'without --connect' "$TMP/err" || bad "restore beside --connect: $(cat "$TMP/err")"
[ -e "$TMP/seven" ] && bad "a refused restore made a folder"
kill -STOP "$daemon" # or it would see that its store is gone
mv "$TMP/two/gktune.db" "$TMP/gone.db"
"$BIN/gktune" db restore "$TMP/bad.db" --state "$TMP/two" >"$TMP/out" 2>"$TMP/err" && bad "garbage was restored under a daemon"
grep -q 'a daemon serves' "$TMP/err" || bad "restore under a daemon: $(cat "$TMP/err")"
# It ends when it sees that, before it acknowledges more that nobody would find, and leaves the log where it is.
kill -CONT "$daemon"
wait "$daemon"
rc=$?
[ $rc = 4 ] || bad "a daemon without its store ended with $rc: $(tail -n 3 "$TMP/daemon.log")"
grep -q 'event=store_error .*gktune.db was removed or moved' "$TMP/daemon.log" || bad "no word of a store that is gone: $(tail -n 3 "$TMP/daemon.log")"
mv "$TMP/gone.db" "$TMP/two/gktune.db"
run "$TMP/two" db check
finish "5 trips"
