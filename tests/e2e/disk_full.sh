#!/usr/bin/env bash
# The disk of the store fills up in the middle of a job: nothing that was acknowledged is lost, reads and metrics work, work is
# refused by name, results stay with their workers, and everything goes on by itself when there is room. On a tmpfs of its own.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
disk=$TMP/disk
mkdir "$disk"
mount -t tmpfs -o size=24m,mode=700 gk-disk-full "$disk" 2>"$TMP/mount" || {
  echo "no tmpfs can be mounted here: $(cat "$TMP/mount")"
  exit 77
}
trap 'for pid in "${children[@]:-}"; do [ -n "$pid" ] && kill -9 "$pid" 2>/dev/null; done; umount -l "$disk"; cleanup' EXIT
export GKTUNE_STATE=$disk/state
socket=ipc://$GKTUNE_STATE/gktuned.sock
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
get() { python3 "$SRC/tests/support/http_get.py" "http://127.0.0.1:$port/$1"; }
seen() { grep -qF -- "$2" "$1"; }
metric() { get metrics >"$TMP/metrics" 2>/dev/null && grep -qE "$1" "$TMP/metrics"; }
not_ready() { get readyz >"$TMP/readyz" 2>/dev/null; [ $? = 1 ] && seen "$TMP/readyz" "\"$1\""; }
ready() { get readyz >"$TMP/readyz" 2>/dev/null; }
fill() { dd if=/dev/zero of="$disk/fill" bs=64k oflag=append conv=notrunc status=none 2>/dev/null; dd if=/dev/zero of="$disk/fill" bs=512 oflag=append conv=notrunc status=none 2>/dev/null; }
touch "$TMP/log"
"$BIN/gktuned" --http "127.0.0.1:$port" --disk-low 2MiB --disk-resume 3MiB --ballast 4MiB >"$TMP/out" 2>"$TMP/log" &
daemon=$!
children+=("$daemon")
eventually 20 seen "$TMP/log" event=ready || bad "no start: $(cat "$TMP/log")"
[ "$(stat -c %s "$GKTUNE_STATE/ballast")" = 4194304 ] || bad "no ballast"
"$BIN/gktune-worker" --connect "$socket" --device mock --spool "$TMP/spool" >"$TMP/worker.out" 2>"$TMP/worker.log" &
worker=$!
children+=("$worker")
eventually 20 seen "$TMP/log" event=worker_came || bad "no worker: $(cat "$TMP/worker.log")"
budget=150 tasks=16 # so many that the write-ahead log has to grow again, however fast the mock is
printf '{"op":"gemm","shapes":[{"M":[16,32,48,64],"N":64,"K":[32,64,96,128]}]}' >"$TMP/shapes.json"
submit() { "$BIN/gktune" submit gemm --shapes "$TMP/shapes.json" --arch mock-sm_80 --budget "$1" >"$TMP/out" 2>&1; }
submit $budget || bad "submit: $(cat "$TMP/out")"
eventually 30 metric '^gktune_results_received_total [1-9][0-9]' || bad "no results came"

# --- full. The worker stands still while the disk fills: a mock is so fast that the job could end before.
kill -STOP "$worker"
fill
kill -CONT "$worker"
provoke() { # what is out may have come before: an order is what finds no room then
  fill # a log that was truncated has left room
  "$BIN/gktune" pause 1 --reason "the disk" >"$TMP/out" 2>&1 || "$BIN/gktune" pause 1 >"$TMP/out" 2>&1
  "$BIN/gktune" resume 1 --reason "the disk" >"$TMP/out" 2>&1 || "$BIN/gktune" resume 1 >"$TMP/out" 2>&1
  seen "$TMP/log" event=store_full
}
eventually 20 provoke || bad "no commit met the full disk: $(tail -n 3 "$TMP/log")"
eventually 10 not_ready disk_full || bad "readyz: $(cat "$TMP/readyz")"
"$BIN/gktune" trials 1 --json >"$TMP/before" || bad "reads do not work"
"$BIN/gktune" jobs >/dev/null || bad "jobs does not work"
get metrics >"$TMP/metrics" || bad "metrics do not work"
seen "$TMP/metrics" 'gktune_degraded{reason="disk_full"} 1' || bad "the metric does not say it"
submit 7 && bad "a job was accepted by a full disk"
seen "$TMP/out" full || bad "the refusal does not say why: $(cat "$TMP/out")"
"$BIN/gktune" cancel 1 >"$TMP/out" 2>&1 && bad "a cancel was acknowledged that cannot be stored"
eventually 40 seen "$TMP/worker.log" "refuses this worker" || bad "the worker was not told to wait: $(tail -n 3 "$TMP/worker.log")"
kill -0 "$daemon" 2>/dev/null || bad "the daemon ended"

# --- between the marks: results are stored, nothing new goes out; the ballast is what makes the room
"$BIN/gktune" doctor --free-ballast >"$TMP/doctor" 2>&1 || bad "free-ballast: $(cat "$TMP/doctor")"
[ -e "$GKTUNE_STATE/ballast" ] && bad "the ballast is still there"
eventually 20 seen "$TMP/log" event=store_back || bad "the ballast did not help: $(tail -n 3 "$TMP/log")"
rm "$disk/fill"
eventually 20 ready || bad "not ready with room: $(cat "$TMP/readyz")"
"$BIN/gktune" resume 1 >"$TMP/out" 2>&1 # where the pause was stored and the resume was not
eventually 90 seen "$TMP/log" 'state=done' || bad "the job did not end: $(tail -n 5 "$TMP/log")"
"$BIN/gktune" trials 1 --json >"$TMP/after" || bad "trials"
"$BIN/gktune" db check >"$TMP/check" 2>&1 || bad "the store is damaged: $(cat "$TMP/check")"
python3 - "$TMP/before" "$TMP/after" $((budget * tasks)) <<'PY' || bad "a result was lost or repeated"
import json, sys
before, after = (json.load(open(path))["trials"] for path in sys.argv[1:3])
final = {t["trial"]: t for t in after}
assert len(final) == len(after) == int(sys.argv[3]), len(after)
assert len({(t["task"], t["config"]) for t in after}) == len(after), "a config twice in one task"
kept = [t for t in before if t["state"] == "recorded"]
for t in kept:
    for key in ("state", "config", "time_ns", "recorded_ms", "stage", "failure"):
        assert final[t["trial"]][key] == t[key], (key, t, final[t["trial"]])
assert all(t["state"] == "recorded" for t in after)
print(len(kept), "results before,", len(after), "after")
PY
eventually 10 test -e "$GKTUNE_STATE/ballast" || bad "the ballast was not made again"

# --- low: no new work, and what is stored is served
squeeze() { # until a megabyte is left: the write-ahead log gives room back while it is idle
  local more=$(($(df -B1 --output=avail "$disk" | tail -n 1) - 1048576))
  [ "$more" -gt 0 ] && head -c "$more" /dev/zero >>"$disk/fill"
  not_ready disk_low
}
refused() { squeeze && ! submit 9; } # between the two the log may have given room back: then it is full once more
eventually 20 refused || bad "a job is accepted below the mark: $(cat "$TMP/readyz" "$TMP/out")"
rm "$disk/fill"
eventually 10 ready || bad "not ready again"
submit 9 || bad "no job is accepted again: $(cat "$TMP/out")"
kill -TERM "$daemon"
wait "$daemon" || bad "no orderly end"

# --- a start on a full disk is refused, says what helps, and the next one goes on
fill
"$BIN/gktuned" >"$TMP/out" 2>"$TMP/log2"
[ $? = 4 ] || bad "a start on a full disk did not exit 4: $(cat "$TMP/log2")"
seen "$TMP/log2" "free-ballast" || bad "no advice: $(cat "$TMP/log2")"
"$BIN/gktune" doctor --free-ballast >"$TMP/doctor" 2>&1 || bad "free-ballast without a daemon: $(cat "$TMP/doctor")"
"$BIN/gktuned" --disk-low 2MiB >"$TMP/out" 2>"$TMP/log2" &
daemon=$!
children+=("$daemon")
eventually 20 seen "$TMP/log2" event=ready || bad "no start after the ballast was freed: $(cat "$TMP/log2")"
kill -TERM "$daemon"
wait "$daemon" || bad "no orderly end after the ballast"
finish "a full disk"
