#!/usr/bin/env bash
# Connections that say nothing, nonsense, or one message without end: they are closed, memory stays bounded, others are served.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
"$BIN/gktuned" >"$TMP/out" 2>"$TMP/err" &
daemon=$!
children+=("$daemon")
ready() { grep -q '^ready' "$TMP/out"; }
eventually 20 ready || bad "not ready: $(cat "$TMP/err")"
status() { timeout 5 "$BIN/gktune" jobs --connect "ipc://$GKTUNE_STATE/gktuned.sock" >/dev/null 2>"$TMP/why"; }
rss_kb() { sed -n 's/^VmRSS: *\([0-9]*\) kB/\1/p' "/proc/$daemon/status"; }
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
before=$(rss_kb)
python3 "$SRC/tests/support/strangers.py" "$GKTUNE_STATE/gktuned.sock" frames 512 >"$TMP/frames" 2>&1
status || bad "no answer after a message without end: $(cat "$TMP/why" "$TMP/frames")"
kill -0 "$daemon" || bad "the daemon is gone: $(cat "$TMP/err")"
grown=$(($(rss_kb) - before))
[ "$grown" -lt 400000 ] || bad "a message without end took $grown kB of memory: $(cat "$TMP/frames")"
finish "$opened strangers; endless frames: $(cat "$TMP/frames"), $grown kB"
