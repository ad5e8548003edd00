#!/usr/bin/env bash
# Connections that say nothing, nonsense, or one message without end: they are closed, others are served, nothing is lost.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
"$BIN/gktuned" >"$TMP/out" 2>"$TMP/err" &
daemon=$!
children+=("$daemon")
ready() { grep -q '^ready' "$TMP/out"; }
eventually 20 ready || bad "not ready: $(cat "$TMP/err")"
status() { timeout 5 "$BIN/gktune" jobs --connect "ipc://$GKTUNE_STATE/gktuned.sock" >/dev/null 2>"$TMP/why"; }
status || bad "no answer before: $(cat "$TMP/why")"
python3 "$SRC/tests/support/strangers.py" "$GKTUNE_STATE/gktuned.sock" silent 200 25 >"$TMP/silent" 2>&1 &
strangers=$!
children+=("$strangers")
served=0
while kill -0 "$strangers" 2>/dev/null; do
  if status; then served=$((served + 1)); else bad "no answer among 200 strangers: $(cat "$TMP/why")"; break; fi
  read -r -t 0.5 -u "$idle" || true
done
wait "$strangers"
read -r opened closed <"$TMP/silent"
[ "${opened:-0}" -ge 150 ] || bad "only '${opened:-}' strangers came: $(cat "$TMP/silent")"
[ "${closed:-0}" = "${opened:-1}" ] || bad "of $opened strangers $closed were sent away"
[ "$served" -ge 3 ] || bad "only $served commands were served"

# libzmq limits a frame, not a message: what bounds it is the memory of the process (MemoryMax of the unit; here a limit of
# address space). The daemon may die of it; it comes back by itself, with all that it had.
kill "$daemon"
wait "$daemon" 2>/dev/null
printf '{"op":"gemm","shapes":[{"M":16,"N":32,"K":32}]}' >"$TMP/shapes.json"
"$BIN/gktune" submit gemm --shapes "$TMP/shapes.json" --arch mock-sm_80 --budget 5 >"$TMP/submit" 2>"$TMP/why" || bad "submit: $(cat "$TMP/why")"
(ulimit -v 900000 && exec "$BIN/gktuned") >"$TMP/out" 2>"$TMP/err" &
daemon=$!
children+=("$daemon")
eventually 20 ready || bad "not ready under a limit: $(cat "$TMP/err")"
python3 "$SRC/tests/support/strangers.py" "$GKTUNE_STATE/gktuned.sock" frames 2000 >"$TMP/frames" 2>&1
grep -q '^cut' "$TMP/frames" || bad "2 GB of one message went in: $(cat "$TMP/frames")"
if ! kill -0 "$daemon" 2>/dev/null; then
  : >"$TMP/out"
  "$BIN/gktuned" >"$TMP/out" 2>"$TMP/err" &
  daemon=$!
  children+=("$daemon")
  eventually 20 ready || bad "it did not come back: $(cat "$TMP/err")"
fi
status || bad "no answer after a message without end: $(cat "$TMP/why" "$TMP/frames")"
timeout 20 "$BIN/gktune" jobs --json --connect "ipc://$GKTUNE_STATE/gktuned.sock" >"$TMP/jobs" 2>"$TMP/why"
grep -q '"job":1' "$TMP/jobs" || bad "the job is gone: $(cat "$TMP/jobs" "$TMP/why")"
finish "$opened strangers, $served commands served; endless frames: $(cat "$TMP/frames")"
