#!/usr/bin/env bash
# Workers over tcp with CURVE through a network that misbehaves: bytes of before sent again, noise, cuts, silence. Every trial
# is recorded once, no replayed byte becomes a message, and the store is sound.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
proxy_program=${3:?build folder}/tests/chaos_proxy
[ -x "$proxy_program" ] || { echo "no $proxy_program in this build"; exit 77; }
cd "$TMP" || exit 1
"$BIN/gktune" keys new farm --roles work --pool --out farm.key >told 2>&1 || bad "keys new: $(cat told)"
"$BIN/gktuned" --listen "ipc://$GKTUNE_STATE/gktuned.sock" --listen 'tcp://127.0.0.1:*' >daemon.out 2>daemon.log &
daemon=$!
children+=("$daemon")
eventually 20 grep -q '^ready' daemon.out || bad "gktuned did not start: $(cat daemon.log)"
port=$(grep -o 'endpoint=tcp://[0-9.:]*' daemon.log | head -n 1 | sed 's/.*://')
trials=40 tasks=4
printf '{"op":"gemm","shapes":[{"M":[16,32],"N":[32,64],"K":32}]}' >shapes.json
each=3 # faults of a kind
[ "${GKTUNE_TEST_ALL:-}" = 1 ] && each=6
"$BIN/gktune" submit gemm --shapes shapes.json --arch mock-sm_80 --budget $trials >out 2>&1 || bad "submit: $(cat out)"
: >counts
for kind in replay garbage truncate reset silence; do
  near=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  "$proxy_program" "tcp:$near" "tcp:$port" --seed 7 --faults $each --only $kind >proxy.$kind 2>&1 &
  proxy=$!
  children+=("$proxy")
  touch proxy.$kind
  eventually 10 grep -q '^ready' proxy.$kind || bad "the proxy did not start: $(cat proxy.$kind)"
  "$BIN/gktune-worker" --connect "tcp://127.0.0.1:$near" --key farm.key --device mock --spool "$TMP/spool.$kind" >worker.$kind 2>&1 &
  worker=$!
  children+=("$worker")
  eventually 60 grep -q ready worker.$kind || bad "$kind: the worker was never welcome: $(tail -n 3 worker.$kind)"
  before=$("$BIN/gktune" trials 1 --json 2>/dev/null | grep -o '"state":"recorded"' | wc -l)
  more() { [ "$("$BIN/gktune" trials 1 --json 2>/dev/null | grep -o '"state":"recorded"' | wc -l)" -ge $((before + 20 < trials * tasks ? before + 20 : trials * tasks)) ]; }
  eventually 60 more || bad "$kind: nothing is recorded: $(tail -n 3 worker.$kind)"
  [ "$kind" = silence ] && { timeout 90 "$BIN/gktune" watch 1 >out 2>&1 || bad "the job does not end: $(tail -n 3 out)"; }
  kill "$worker"
  wait "$worker" 2>/dev/null
  kill "$proxy"
  wait "$proxy" 2>/dev/null
  sed -n 's/.* \([0-9]*\) '"$kind"'.*/\1/p' proxy.$kind >>counts
done
faults=$(awk '{n += $1} END {print n + 0}' counts)
[ "$faults" -ge 5 ] || bad "only $faults faults happened: $(cat proxy.*)"
"$BIN/gktune" trials 1 --json >after || bad "trials"
"$BIN/gktune" db check >check 2>&1 || bad "the store is damaged: $(cat check)"
python3 - after $((trials * tasks)) <<'PY' || bad "trials were lost or came twice"
import json, sys
rows = json.load(open(sys.argv[1]))["trials"]
assert len(rows) == len({r["trial"] for r in rows}) == len({(r["task"], r["config"]) for r in rows}) == int(sys.argv[2]), len(rows)
assert all(r["state"] == "recorded" for r in rows)
PY
kill -0 "$daemon" || bad "the daemon is gone: $(tail -n 3 daemon.log)"
finish "$faults faults between worker and daemon"
