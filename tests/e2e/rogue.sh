#!/usr/bin/env bash
# Clients that mean harm, with keys that are admitted and without: the daemon bears them, honest peers do not notice, and
# who keeps erring is suspended.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
ROGUE=${3:?build folder}/tests/gk_rogue
cd "$TMP" || exit 1
for name in frames oversize multipart liar deaf honest; do
  roles=submit,work
  [ "$name" = honest ] && roles=submit
  "$BIN/gktune" keys new "$name" --roles "$roles" --out "$name.key" >/dev/null || bad "keys new $name"
done
"$BIN/gktune" keys new farm --roles work --pool --out farm.key >/dev/null || bad "keys new farm"
"$BIN/gktuned" --listen 'tcp://127.0.0.1:*' >daemon.out 2>daemon.log &
daemon=$!
children+=("$daemon")
eventually 20 grep -q '^ready' daemon.out || bad "gktuned did not start: $(cat daemon.log)"
tcp=$(grep -o 'endpoint=tcp://[0-9.:]*' daemon.log | cut -d= -f2)
"$BIN/gktune-worker" --connect "$tcp" --key farm.key --device mock --spool "$TMP/spool" >worker.out 2>worker.log &
children+=("$!")
printf '{"op":"gemm","shapes":[{"M":[16,32,48,64],"N":[32,64],"K":32}]}' >shapes.json
"$BIN/gktune" submit gemm --shapes shapes.json --arch mock-sm_80 --budget 40 --connect "$tcp" --key honest.key >/dev/null 2>out || bad "submit: $(cat out)"
rss_kb() { awk '/VmRSS/ { print $2 }' "/proc/$daemon/status"; }
fds() { find "/proc/$daemon/fd" -mindepth 1 2>/dev/null | wc -l; }
slowest=0
honest() { # an honest peer is served, in a time that nobody minds
  local start took_ms
  start=$(date +%s%N)
  timeout 20 "$BIN/gktune" jobs --connect "$tcp" --key honest.key >/dev/null 2>out || bad "after $1: an honest peer is not served: $(cat out)"
  took_ms=$((($(date +%s%N) - start) / 1000000))
  [ "$took_ms" -gt "$slowest" ] && slowest=$took_ms
  kill -0 "$daemon" 2>/dev/null || bad "after $1: the daemon is gone: $(tail -n 5 daemon.log)"
}
rogue() { "$ROGUE" "$tcp" "$@" >rogue.out 2>&1 || bad "$*: $(cat rogue.out)"; }
logged() { grep -q "$1" daemon.log; }

rogue frames.key frames
eventually 10 logged 'event=key_suspended .*key=frames from=127.0.0.1 ' || bad "who sends rubbish is not suspended: $(tail -n 3 daemon.log)"
honest frames
"$BIN/gktune" jobs --connect "$tcp" --key frames.key >out 2>&1 && bad "a suspended key is served"
grep -q "is suspended" out || bad "a suspended key is not told: $(cat out)"
rogue oversize.key oversize
honest oversize
before=$(rss_kb) # with sanitizers freed memory is kept for a while
rogue multipart.key multipart 300
eventually 20 logged 'event=malformed .*300 frames' || bad "a message of 300 frames was not counted: $(tail -n 3 daemon.log)"
honest multipart
rogue liar.key worker
eventually 10 logged 'event=key_suspended .*key=liar from=127.0.0.1 ' || bad "who lies about leases is not suspended: $(tail -n 5 daemon.log)"
honest worker
"$ROGUE" "$tcp" deaf.key deaf 3000 >rogue.out 2>&1 &
deaf=$!
children+=("$deaf")
honest deaf
honest deaf
wait "$deaf"
idle_fds=$(fds)
"$ROGUE" "$tcp" - silent 200 >silent.out 2>&1 &
silent=$!
children+=("$silent")
crowded() { [ "$(fds)" -ge $((idle_fds + 150)) ]; }
eventually 5 crowded || bad "200 connections are $(($(fds) - idle_fds)) descriptors"
honest "200 silent connections"
wait "$silent"
[ "$(cat silent.out)" = 200 ] || bad "of 200 silent connections $(cat silent.out) were closed"
rogue - garbage 100
[ "$(cat rogue.out)" = 100 ] || bad "of 100 connections with rubbish $(cat rogue.out) were closed"
honest garbage
calm() { [ "$(fds)" -le $((idle_fds + 5)) ]; }
eventually 10 calm || bad "descriptors stay: $(fds), $idle_fds before"
# The work of the honest ones went on, and nothing of it was touched.
timeout 90 "$BIN/gktune" watch 1 >out 2>&1 || bad "the job did not end well: $(tail -n 3 out)"
[ "$("$BIN/gktune" trials 1 --json | grep -o '"state":"recorded"' | wc -l)" = 320 ] || bad "not every trial was recorded once"
"$BIN/gktune" db check >out 2>&1 || bad "the store is damaged: $(cat out)"
after=$(rss_kb)
[ "$after" -lt $((before + 300000)) ] || bad "the daemon has grown from $before to $after kB"
kill "$daemon"
wait "$daemon"
rc=$?
[ "$rc" = 0 ] || bad "gktuned ended with $rc: $(tail -n 3 daemon.log)"
[ "$slowest" -lt 5000 ] || bad "an honest peer waited $slowest ms"
finish "7 rogues, an honest peer waited $slowest ms at most, resident memory $before to $after kB"
