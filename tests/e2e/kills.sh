#!/usr/bin/env bash
# kill -9 of worker, its children and the daemon while a run works: it goes on, loses no recorded trial, repeats none.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
printf '{"op":"gemm","shapes":[{"M":[16,32,64],"N":64,"K":[64,96]}]}' >"$TMP/shapes.json"
budget=40 tasks=6
device=${GK_E2E_DEVICE:-mock}
timeout -k 5 150 "$BIN/gktune" run gemm --shapes "$TMP/shapes.json" --device "$device" --budget $budget --seed 3 --json >"$TMP/out" 2>"$TMP/err" &
run=$!
children+=("$run")
gktune_pid() { child_of "$run" gktune; }
# --connect: a look must not start a daemon of its own in the moment when there is none
recorded() { "$BIN/gktune" trials 1 --json --connect "ipc://$GKTUNE_STATE/gktuned.sock" 2>/dev/null >"$TMP/trials.$1" && [ "$(grep -o '"state":"recorded"' "$TMP/trials.$1" | wc -l)" -ge "$2" ]; }
over() { ! kill -0 "$run" 2>/dev/null; }
eventually 20 gktune_pid >/dev/null || bad "the run did not start: $(cat "$TMP/err")"
cli=$(gktune_pid)
killed=0
for victim in gktune-worker gktuned gktune-worker gktuned; do
  eventually 30 recorded before $((10 + 20 * killed)) || { over && break; }
  pid=$(child_of "$cli" "$victim") || continue
  children+=("$(child_of "$pid" gktune-worker)")
  kill -9 "$pid" && killed=$((killed + 1))
  eventually 20 child_of "$cli" "$victim" >/dev/null || { over || bad "$victim was not started again"; }
done
wait "$run"
rc=$?
[ "$rc" = 0 ] || bad "exit status $rc: $(tail -n 20 "$TMP/err")"
[ "$killed" -ge 2 ] || bad "only $killed processes were killed"
"$BIN/gktune" trials 1 --json >"$TMP/after" || bad "trials"
"$BIN/gktune" db check >"$TMP/check" || bad "the store is damaged: $(cat "$TMP/check")"
python3 - "$TMP/after" "$TMP/trials.before" $budget $tasks <<'PY' || bad "trials were lost or repeated"
import json, sys
after = json.load(open(sys.argv[1]))["trials"]
before = json.load(open(sys.argv[2]))["trials"] if len(open(sys.argv[2]).read()) else []
final = {t["trial"]: t for t in after}
assert len(final) == len(after), "a trial number twice"
assert len({(t["task"], t["config"]) for t in after}) == len(after), "a config twice in one task"
assert len(after) == int(sys.argv[3]) * int(sys.argv[4]), len(after)
for t in before:
    if t["state"] == "recorded":
        now = final[t["trial"]]
        for key in ("state", "config", "time_ns", "recorded_ms", "stage", "failure"):
            assert now[key] == t[key], (key, t, now)
assert all(t["state"] == "recorded" for t in after), [t for t in after if t["state"] != "recorded"][:3]
print(len(after), "trials, each recorded once")
PY
finish "$killed kills"
