#!/usr/bin/env bash
# The units that are shipped: hardened as promised, and what they start understands what they say.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
command -v systemd-analyze >/dev/null || { echo "no systemd-analyze here"; exit 77; }
units=$SRC/deploy/systemd
score() { systemd-analyze security --offline=true --threshold="$1" "$2" >"$TMP/score" 2>&1; }
for unit in "$units"/*.service "$SRC"/deploy/nightly/*.service; do
  score 20 "$unit" || bad "$(basename "$unit"): $(tail -n 1 "$TMP/score")"
done
printf '[Service]\nExecStart=/bin/true\n' >"$TMP/bare.service"
score 20 "$TMP/bare.service" && bad "a bare unit passes: the score says nothing"
sed '/^SystemCallFilter=\|^RestrictNamespaces=\|^CapabilityBoundingSet=\|^PrivateUsers=/d' "$units/gktuned.service" >"$TMP/gktuned.service"
score 20 "$TMP/gktuned.service" && bad "a unit without its filters passes"
# What systemd cannot read is a line without effect: unknown names, typing errors.
for unit in gktuned.service gktune-backup.service gktune-backup.timer; do
  SYSTEMD_LOG_LEVEL=warning systemd-analyze verify "$units/$unit" 2>&1 | grep -E "$unit:[0-9]+:" >"$TMP/verify" && bad "$unit: $(cat "$TMP/verify")"
done
cp "$units/gktune-worker@.service" "$TMP/gktune-worker@.service"
systemd-analyze verify "$TMP/gktune-worker@.service" 2>&1 | grep -E 'service:[0-9]+:' >"$TMP/verify" && bad "gktune-worker@.service: $(cat "$TMP/verify")"
# The config that the unit names is one, and every option that a unit passes exists.
"$BIN/gktuned" --config "$units/gktuned.json" --check-config >"$TMP/out" 2>"$TMP/err" || bad "gktuned.json: $(cat "$TMP/err")"
grep -q '^state        /var/lib/gktune (line' "$TMP/out" || bad "gktuned.json: $(cat "$TMP/out")"
"$BIN/gktune-worker" --help >"$TMP/worker.help"
"$BIN/gktune" db --help >"$TMP/db.help"
for option in $(grep -h '^ExecStart=.*gktune-worker' "$units"/*.service | grep -o -- '--[a-z-]*'); do
  grep -q -- "$option " "$TMP/worker.help" || bad "gktune-worker knows no $option"
done
grep -q '"state"' "$units/gktuned.json" && grep -q '^StateDirectory=gktune$' "$units/gktuned.service" || bad "the state folder of config and unit differ"
grep -q 'backup' "$TMP/db.help" || bad "there is no db backup"
for signal in Type=notify WatchdogSec= 'ExecReload=/bin/kill -HUP' LimitCORE=0 StateDirectoryMode=0700; do
  grep -qF -- "$signal" "$units/gktuned.service" || bad "gktuned.service: no $signal"
done
# Processes without end are the unit's to bound, and one that is killed for memory must not take the worker along.
for unit in gktuned.service gktune-worker@.service; do
  grep -qE '^TasksMax=[0-9]+$' "$units/$unit" || bad "$unit: no TasksMax"
done
grep -qx 'OOMPolicy=continue' "$units/gktune-worker@.service" || bad "gktune-worker@.service: no OOMPolicy=continue"
# The worker as its unit starts it: READY with a daemon that is away, WATCHDOG from its loop, STOPPING at its end.
seen() { grep -qF -- "$2" "$1"; }
touch "$TMP/heard"
python3 "$SRC/tests/support/notify_listen.py" "$TMP/notify" "$TMP/heard" &
children+=($!)
eventually 10 seen "$TMP/heard" listening || bad "nobody listens"
NOTIFY_SOCKET=$TMP/notify WATCHDOG_USEC=1500000 "$BIN/gktune-worker" --device mock --spool "$TMP/spool" --connect "ipc://$TMP/nobody.sock" --log-format json >"$TMP/out" 2>"$TMP/log" &
worker=$!
children+=("$worker")
eventually 20 seen "$TMP/heard" 'READY=1|STATUS=no connection to the daemon yet' || bad "no READY: $(cat "$TMP/heard" "$TMP/log")"
beats() { [ "$(grep -c '^WATCHDOG=1$' "$TMP/heard")" -ge 3 ]; }
eventually 10 beats || bad "the watchdog is not fed"
kill -TERM "$worker"
wait "$worker" || bad "TERM is no orderly end"
seen "$TMP/heard" STOPPING=1 || bad "no STOPPING"
seen "$TMP/log" '"event":"ended","program":"gktune-worker"' || bad "no last line: $(cat "$TMP/log")"
finish units
