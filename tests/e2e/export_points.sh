#!/usr/bin/env bash
# An export dies, or its disk fails, at every write, sync and rename: a file stands under its name whole or not at all, and
# the same command afterwards makes all of them. A 67th of the points in CI, all with GKTUNE_TEST_ALL=1.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
shim=${3:?build folder}/tests/libfail_io.so
[ -r "$shim" ] || { echo "no $shim: a build with sanitizers preloads nothing"; exit 77; }
every=67
[ "${GKTUNE_TEST_ALL:-}" = 1 ] && every=1
printf '{"op":"gemm","shapes":[{"M":16,"N":[32,64],"K":32}]}' >"$TMP/shapes.json"
"$BIN/gktune" run gemm --shapes "$TMP/shapes.json" --device mock --budget 12 --seed 3 >"$TMP/out" 2>"$TMP/err" || bad "run: $(cat "$TMP/err")"
"$BIN/gktuned" >"$TMP/daemon.out" 2>"$TMP/daemon.err" &
children+=($!)
ready() { grep -q '^ready' "$TMP/daemon.out"; }
eventually 20 ready || bad "the daemon did not start: $(cat "$TMP/daemon.err")"
export_to() { timeout -k 5 60 "$BIN/gktune" export gemm --arch mock-sm_80 --out "$1" >"$TMP/out" 2>"$TMP/err"; }
fail_at() { # how, number, folder
  rm -f "$TMP/mark" "$TMP/count"
  GK_FAIL_NAME=gktune GK_FAIL_HOW=$1 GK_FAIL_AT=$2 GK_FAIL_ONCE=$TMP/mark GK_FAIL_COUNT=$TMP/count LD_PRELOAD=$shim export_to "$3"
}
# Of evidence the ages of picks are taken out, and of the list of hashes the hash of that file.
cat >"$TMP/same.py" <<'PY'
import json, re, sys
def read(path):
    data = open(path, "rb").read()
    if path.endswith(".json"):
        json.loads(data)
        return re.sub(rb'"age_ms": \d+', b"", data)
    return re.sub(rb"[0-9a-f]{64}(?=[^\n]*evidence)", b"", data)
sys.exit(0 if read(sys.argv[1]) == read(sys.argv[2]) else 1)
PY
same() { cmp -s "$1" "$2" || { case $1 in *.json | */CHECKSUMS) python3 "$TMP/same.py" "$1" "$2" 2>/dev/null ;; *) false ;; esac; }; }
export_to "$TMP/good" || bad "export: $(cat "$TMP/err")"
fail_at nothing 0 "$TMP/counted" || bad "export under the library: $(cat "$TMP/err")"
calls=$(sort -n "$TMP/count" | tail -n 1)
[ "${calls:-0}" -ge 10 ] || bad "only '${calls:-}' calls were counted: the library was not loaded"
points=0 cut=0
for how in kill half eio enospc; do
  for ((at = 1; at <= calls; at++)); do
    [ $(((at + ${#how}) % every)) = 0 ] || continue
    rm -rf "$TMP/x"
    fail_at "$how" "$at" "$TMP/x"
    rc=$?
    points=$((points + 1))
    [ "$rc" = 0 ] || cut=$((cut + 1))
    while IFS= read -r -d '' file; do
      name=${file#"$TMP/x/"}
      if [ -e "$TMP/good/$name" ]; then
        same "$file" "$TMP/good/$name" || bad "$how at $at: half of $name stands under its name"
      elif [ "$rc" = 0 ]; then
        bad "$how at $at: $name is left over, and the command said that it is done"
      fi
    done < <(find "$TMP/x" -type f -print0 2>/dev/null)
    if [ "$rc" = 0 ]; then
      diff <(cd "$TMP/good" && find . -type f | sort) <(cd "$TMP/x" && find . -type f | sort) >"$TMP/diff" ||
        bad "$how at $at: exit status 0, and not all is there: $(cat "$TMP/diff")"
    fi
    export_to "$TMP/x" || bad "$how at $at: the same command again: $(cat "$TMP/err")"
    for name in $(cd "$TMP/good" && find . -type f); do
      same "$TMP/x/$name" "$TMP/good/$name" || bad "$how at $at: $name differs after the same command again"
    done
  done
done
[ "$cut" -gt 0 ] || bad "no export was cut short"
finish "$points of $((4 * calls)) points, $cut exports cut short"
