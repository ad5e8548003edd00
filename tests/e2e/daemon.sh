#!/usr/bin/env bash
# gktuned as a service manager and an operator meet it: notify protocol, signals, logs, config, endpoints, what it refuses.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
checks=0
touch "$TMP/heard" "$TMP/log"
has() { # file, part: a line with it
  checks=$((checks + 1))
  grep -qF -- "$2" "$1" || bad "'$2' is not in $(basename "$1"): $(tail -n 5 "$1")"
}
seen() { grep -qF -- "$2" "$1"; }
get() { python3 "$SRC/tests/support/http_get.py" "http://127.0.0.1:$port/$1"; }
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
gone() { ! kill -0 "$1" 2>/dev/null; }

# --- the service manager: READY after recovery, WATCHDOG from the loop, RELOADING, STOPPING
python3 "$SRC/tests/support/notify_listen.py" "$TMP/notify" "$TMP/heard" &
children+=($!)
eventually 10 seen "$TMP/heard" listening || bad "nobody listens"
printf '{"note": "of the test",\n "http": "127.0.0.1:%s",\n "log_format": "json", "ballast": "64KiB"}\n' "$port" >"$TMP/config.json"
shim=$BIN/../tests/libfail_io.so # not there under the sanitizers
[ -f "$shim" ] || shim=
LD_PRELOAD=$shim GK_FAIL_NAME=gktuned GK_FAIL_STAND=$TMP/stand NOTIFY_SOCKET=$TMP/notify WATCHDOG_USEC=1500000 "$BIN/gktuned" --config "$TMP/config.json" >"$TMP/out" 2>"$TMP/log" &
daemon=$!
children+=("$daemon")
eventually 20 seen "$TMP/heard" 'READY=1|STATUS=0 workers' || bad "not ready: $(cat "$TMP/heard" "$TMP/log")"
beats() { [ "$(grep -c '^WATCHDOG=1$' "$TMP/heard")" -ge "$1" ]; }
eventually 10 beats 3 || bad "the watchdog is not fed"
get healthz >"$TMP/healthz" || bad "healthz"
has "$TMP/healthz" '"healthy":true'
get readyz >"$TMP/readyz" || bad "readyz"
has "$TMP/readyz" '{"ready":true,"reasons":[]}'
get version >"$TMP/version" || bad "version"
has "$TMP/version" '"protocol":1'
get metrics >"$TMP/metrics" || bad "metrics"
python3 "$SRC/tests/support/exposition.py" "$TMP/metrics" >"$TMP/why" 2>&1 || bad "the page: $(cat "$TMP/why")"
has "$TMP/metrics" 'gktune_ready 1'
[ "$(stat -c %s "$GKTUNE_STATE/ballast")" = 65536 ] || bad "no ballast"

# --- a disk that stands: nothing is told before it is synced, the loop goes on, and both ways to look say that it does not serve
healthy() { get healthz 2>/dev/null | grep -q '"healthy":true'; }
sick() { ! healthy; }
if [ -n "$shim" ]; then
  touch "$TMP/stand"
  printf '{"op": "gemm", "shapes": [{"M": 16, "N": 16, "K": 16}]}\n' >"$TMP/stand.json"
  "$BIN/gktune" submit gemm --shapes "$TMP/stand.json" --arch mock-sm_80 --budget 1 >"$TMP/stood" 2>&1 &
  submit=$!
  children+=("$submit")
  eventually 15 sick || bad "healthz: a disk that stands is not seen"
  beaten=$(grep -c '^WATCHDOG=1$' "$TMP/heard")
  grep -q 'job' "$TMP/stood" && bad "a job was acknowledged that is not synced: $(cat "$TMP/stood")"
  read -r -t 1.2 -u "$idle" || true # two feedings
  [ "$(grep -c '^WATCHDOG=1$' "$TMP/heard")" = "$beaten" ] || bad "the watchdog is fed while the disk stands"
  rm "$TMP/stand"
  eventually 10 healthy || bad "healthz: the disk is back, and it does not say so"
  wait "$submit" || [ $? = 3 ] || bad "the submit: $(cat "$TMP/stood")" # 3: no answer within its 5 s
  "$BIN/gktune" cancel 1 >"$TMP/out4" 2>&1 || bad "the job is not there: $(cat "$TMP/out4")"
fi

# --- signals: USR1 switches debug on and off, HUP reads the config again or refuses it and goes on
kill -USR1 "$daemon" && eventually 5 seen "$TMP/log" '"event":"log_level","program":"gktuned","to":"debug"' || bad "USR1: $(tail -n 2 "$TMP/log")"
kill -USR1 "$daemon" && eventually 5 seen "$TMP/log" '"to":"info"' || bad "USR1 again"
printf '{"http": "127.0.0.1:1", "log_format": "json", "log_level": "warn",\n "ballast": "64KiB"}' >"$TMP/config.json"
kill -HUP "$daemon" && eventually 5 seen "$TMP/heard" RELOADING=1 || bad "HUP"
eventually 5 seen "$TMP/heard" MONOTONIC_USEC= || bad "no time of the reload"
printf '{"log_levle": "warn",\n\n "disk_low": 3}' >"$TMP/config.json"
kill -HUP "$daemon" && eventually 5 seen "$TMP/log" config_refused || bad "a bad config was not refused: $(tail -n 2 "$TMP/log")"
has "$TMP/log" "config.json:1: unknown member 'log_levle'"
has "$TMP/log" "config.json:3: disk_low: 3 is no text"
printf '{"log_level": "info"}' >"$TMP/config.json"
kill -HUP "$daemon" && eventually 5 seen "$TMP/log" '"needs_restart":"http, log_format, ballast"' || bad "what needs a restart is not named: $(tail -n 2 "$TMP/log")"

# --- the loop was away in the middle of a job: nothing expires because of it, and the log says so
"$BIN/gktune-worker" --connect "ipc://$GKTUNE_STATE/gktuned.sock" --device mock --spool "$TMP/spool" >"$TMP/worker.out" 2>"$TMP/worker.log" &
worker=$!
children+=("$worker")
eventually 20 seen "$TMP/log" '"event":"worker_came"' || bad "no worker: $(cat "$TMP/worker.log")"
printf '{"op":"gemm","shapes":[{"M":16,"N":64,"K":[32,64,96,128]}]}' >"$TMP/shapes.json"
"$BIN/gktune" submit gemm --shapes "$TMP/shapes.json" --arch mock-sm_80 --budget 150 >"$TMP/out3" 2>&1 || bad "submit: $(cat "$TMP/out3")"
metric() { get metrics >"$TMP/metrics" 2>/dev/null && grep -qE "$1" "$TMP/metrics"; }
eventually 20 metric '^gktune_results_received_total [1-9]' || bad "no result came"
kill -STOP "$daemon"
read -r -t 9 -u "$idle" || true # more than the six seconds after which a worker that is silent is lost
kill -CONT "$daemon"
eventually 5 seen "$TMP/log" '"event":"loop_stall"' || bad "the stall is not in the log: $(tail -n 2 "$TMP/log")"
eventually 60 seen "$TMP/log" '"state":"done"' || bad "the job did not end: $(tail -n 5 "$TMP/log")"
# What was on its way to a connection that the worker had given up is leased again; nothing that was begun is.
seen "$TMP/log" '"attempt_is":"counts"' && bad "a trial was lost by our own absence: $(grep lease_lost "$TMP/log" | head -n 3)"
# The page is made anew once a second: one that was made during the stall may still be served.
eventually 5 metric '^gktune_loop_stalls_total [1-9]' || bad "the stall is not counted"
eventually 5 metric '^gktune_jobs_ended_total.state="done". 1$' || bad "the job is not counted: $(grep ended "$TMP/metrics")"
python3 "$SRC/tests/support/exposition.py" "$TMP/metrics" >"$TMP/why" 2>&1 || bad "the page after a job: $(cat "$TMP/why")"
kill -KILL "$worker"
wait "$worker" 2>/dev/null
eventually 15 seen "$TMP/log" '"event":"worker_lost","program":"gktuned","worker":1' || bad "a dead worker is not in the log"
eventually 20 metric '^gktune_store_wal_bytes 0$' || bad "the log is not moved into the store when nothing happens: $(grep wal_bytes "$TMP/metrics")"

# --- a second daemon over the folder, then an orderly end
"$BIN/gktuned" >"$TMP/out2" 2>"$TMP/err2"
[ $? = 2 ] || bad "a second daemon did not exit 2"
has "$TMP/err2" "belongs to gktuned with pid $daemon"
grep -q "ERROR: AddressSanitizer" "$TMP/log" && bad "the sanitizer: $(cat "$TMP/log")"
kill -TERM "$daemon"
eventually 10 gone "$daemon" || bad "TERM did not end it"
wait "$daemon"
[ $? = 0 ] || bad "an orderly end is not 0"
has "$TMP/heard" STOPPING=1
has "$TMP/log" '"event":"ended"'
python3 - "$TMP/log" <<'PY' || bad "a line of the log is no JSON object with ts, level, event, program"
import json, re, sys
for line in open(sys.argv[1]):
    row = json.loads(line)
    assert all(key in row for key in ("ts", "level", "event", "program")), row
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$", row["ts"]), row
PY

# --- a log that cannot be written (a full disk) stops nothing, and is counted
"$BIN/gktuned" --http "127.0.0.1:$port" >"$TMP/out" 2>/dev/full &
daemon=$!
children+=("$daemon")
eventually 20 seen "$TMP/out" ready || bad "a log that is full stopped the start"
dropped() { get metrics >"$TMP/metrics" 2>/dev/null && grep -qE '^gktune_log_dropped_total\{reason="write"\} [1-9]' "$TMP/metrics"; }
eventually 10 dropped || bad "lost lines are not counted"
"$BIN/gktune" jobs >/dev/null || bad "no answer without a log"
kill -TERM "$daemon"
wait "$daemon" || bad "no orderly end without a log"

# --- doctor knocks at a daemon behind tcp with a key that nobody has admitted
"$BIN/gktuned" --state "$TMP/a tcp, so" --listen tcp://127.0.0.1:* --http "127.0.0.1:$port" >"$TMP/out" 2>"$TMP/log2" &
daemon=$!
children+=("$daemon")
eventually 20 seen "$TMP/log2" event=ready || bad "no start behind tcp: $(cat "$TMP/log2")"
"$BIN/gktune" jobs --state "$TMP/a tcp, so" >"$TMP/out" 2>&1 || bad "a folder with blanks and commas: $(cat "$TMP/out")"
"$BIN/gktune" doctor --state "$TMP/a tcp, so" >"$TMP/doctor" 2>&1
grep -qE '^ok +store ' "$TMP/doctor" || bad "doctor and a store that was made just now: $(grep store "$TMP/doctor")"
grep -qE '^ok +door +tcp://127.0.0.1:[0-9]+ refuses a key that it does not know' "$TMP/doctor" || bad "doctor and the door: $(cat "$TMP/doctor")"
grep -qE '^ok +keys ' "$TMP/doctor" || bad "doctor and the keys: $(grep keys "$TMP/doctor")"
secret=$(sed -n 's/^secret *//p' "$TMP/a tcp, so/server.key")
[ "${#secret}" = 40 ] || bad "no secret to look for"
grep -rqF -- "$secret" "$TMP/log2" "$TMP/out" "$TMP/doctor" "/proc/$daemon/cmdline" && bad "the daemon's secret is told"

# --- what an operator attaches to a report: all of it, and no key, even of a log that tells one
printf 'ts=1 event=start\nts=2 text="a fool logged %s here \033[31m"\n' "$secret" >"$TMP/d.log"
printf '{"http": "127.0.0.1:%s", "disk_low": "1MiB", "note": "password: swordfish"}' "$port" >"$TMP/gktuned.json"
rm -f "$TMP/bundle.json"
"$BIN/gktune" doctor --state "$TMP/a tcp, so" --bundle "$TMP/bundle.json" --log "$TMP/d.log" --log "$TMP/nothing" \
  --config "$TMP/gktuned.json" --json >"$TMP/out" 2>&1 || bad "doctor --bundle: $(cat "$TMP/out")"
[ "$(stat -c %a "$TMP/bundle.json")" = 600 ] || bad "others can read the bundle"
grep -qF -- "$secret" "$TMP/bundle.json" && bad "the bundle tells the daemon's secret"
grep -q swordfish "$TMP/bundle.json" && bad "the bundle tells what an operator noted"
python3 - "$TMP/bundle.json" "$TMP/out" "$TMP/page" <<'PY' || bad "what the bundle holds: $(cut -c1-2000 "$TMP/bundle.json")"
import json, os, sys
b, said = json.load(open(sys.argv[1])), json.load(open(sys.argv[2]))
assert said["bytes"] == os.stat(sys.argv[1]).st_size and b["format"] == "gktune-bundle"
assert b["version"]["version"] and b["machine"]["processors"] > 0
assert any(c["check"] == "store" and "schema" in c["text"] or "write-ahead" in c["text"] for c in b["checks"])
assert b["settings"]["members"] == {"http": b["metrics"]["from"], "disk_low": "1MiB"}, b["settings"]
first, second = b["logs"]
assert first["lines"][0] == "ts=1 event=start" and "#" * 40 in first["lines"][1] and "\x1b" not in first["lines"][1]
assert second["absent"] == "No such file or directory" and second["lines"] == []
assert b["store"]["ok"] is True and b["audit"]["ok"] is True, (b["store"], b["audit"])
assert b["workers"]["workers"] == [] and "absent" not in b["status"] and "letters" in b["dead"] and "jobs" in b["jobs"]
open(sys.argv[3], "w").write(b["metrics"]["page"])
PY
python3 "$SRC/tests/support/exposition.py" "$TMP/page" >"$TMP/why" 2>&1 || bad "the bundle's page: $(cat "$TMP/why")"
"$BIN/gktune" doctor --bundle "$TMP/bundle.json" >"$TMP/out" 2>&1 && bad "a bundle replaced a file"
"$BIN/gktune" doctor --log "$TMP/d.log" >"$TMP/out" 2>&1
[ $? = 2 ] || bad "--log without --bundle is taken"
kill -TERM "$daemon"
wait "$daemon" || bad "no orderly end behind tcp"
# Without a daemon: what cannot be had says why.
"$BIN/gktune" doctor --state "$TMP/a tcp, so" --bundle "$TMP/alone.json" --config "$TMP/nothing" >"$TMP/out" 2>&1 || bad "a bundle alone: $(cat "$TMP/out")"
python3 -c 'import json,sys; b=json.load(open(sys.argv[1])); sys.exit(not all("absent" in b[k] for k in ("store","workers","metrics","settings","audit")))' \
  "$TMP/alone.json" || bad "absent parts do not say so: $(cut -c1-2000 "$TMP/alone.json")"

# --- what is refused: configs, all mistakes at once; state folders that are not ours alone
printf '{"listen": "ipc://x",\n "htpp": "y"}' >"$TMP/config.json"
"$BIN/gktuned" --config "$TMP/config.json" --check-config >"$TMP/out" 2>"$TMP/err"
[ $? = 2 ] || bad "a bad config did not exit 2"
has "$TMP/err" "config.json:1: listen: 'ipc://x'"
has "$TMP/err" "config.json:2: unknown member 'htpp'"
printf '{"log_level": "warn", "state": "%s/other"}' "$TMP" >"$TMP/config.json"
"$BIN/gktuned" --config "$TMP/config.json" --check-config --disk-low 5MiB >"$TMP/out" 2>"$TMP/err" || bad "check-config: $(cat "$TMP/err")"
has "$TMP/out" "state        $TMP/other (line 1)"
has "$TMP/out" "disk_low     5MiB (--disk-low)"
has "$TMP/out" "log_level    warn (line 1)"
[ -e "$TMP/other" ] && bad "check-config made a folder"
for member in $("$BIN/gktuned" --help | sed -n 's/^  --\(no-\)\?\([a-z-]*\) .*/\2/p' | tr - _); do
  case "$member" in config | check_config | private | version) continue ;; esac
  has "$TMP/out" "$member "
done
refused() { # words, part of the message
  checks=$((checks + 1))
  "$BIN/gktuned" --state "$1" >"$TMP/out" 2>"$TMP/err" && bad "$1 was accepted"
  seen "$TMP/err" "$2" || bad "$1: '$2' is not in $(cat "$TMP/err")"
}
mkdir -m 755 "$TMP/open" && refused "$TMP/open" "chmod 700"
mkdir -m 700 "$TMP/real" && ln -s "$TMP/real" "$TMP/link" && refused "$TMP/link" "symbolic link to '$TMP/real'"
touch "$TMP/file" && refused "$TMP/file" "is not a folder"
if [ "$(id -u)" = 0 ]; then
  mkdir -m 700 "$TMP/theirs" && chown 65534 "$TMP/theirs" && refused "$TMP/theirs" "belongs to user 65534"
fi
mkdir -m 700 "$TMP/lost" "$TMP/lost/blobs" && touch "$TMP/lost/blobs/x" && refused "$TMP/lost" "gktune.db is missing"
(ulimit -n 100 && "$BIN/gktuned" --state "$TMP/few" >"$TMP/out" 2>"$TMP/err") && bad "100 descriptors were accepted"
has "$TMP/err" "100 descriptors are allowed, 128 are needed"
mkdir -m 700 "$TMP/damaged" && printf 'SQLite format 3 it is not' >"$TMP/damaged/gktune.db"
"$BIN/gktuned" --state "$TMP/damaged" >"$TMP/out" 2>"$TMP/err"
[ $? = 4 ] || bad "a damaged store did not exit 4"
has "$TMP/err" "restore the last backup"
finish "$checks checks"
