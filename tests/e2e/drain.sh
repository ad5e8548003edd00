#!/usr/bin/env bash
# A worker that is told to end: the trial that runs ends and is stored, the others go back and count against nobody; its
# exit status says whether it is to come again; the daemon shows the scheduler's job.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
mkdir -p "$TMP/k"
cp "$SRC"/tests/data/worker/add/{op.json,reference.cu,add_some.cu,add_some.kernel.json} "$TMP/k/"
printf '{"run_ms": 1000, "rules": []}' >"$TMP/k/mock.json"
printf '{"op":"add","shapes":[{"n":[1024,2048]}]}' >"$TMP/k/shapes.json"
: >"$TMP/daemon.out"
"$BIN/gktuned" --state "$GKTUNE_STATE" >>"$TMP/daemon.out" 2>"$TMP/daemon.err" &
daemon=$!
children+=("$daemon")
eventually 20 grep -q ready "$TMP/daemon.out" || bad "no daemon: $(cat "$TMP/daemon.err")"
start() { # name, options...
  local name=$1
  shift
  : >"$TMP/$name.out"
  "$BIN/gktune-worker" --connect "ipc://$GKTUNE_STATE/gktuned.sock" --device mock:sm_80 --compile-processes 2 --spool "$TMP/spool" "$@" >>"$TMP/$name.out" 2>"$TMP/$name.err" &
  worker=$!
  children+=("$worker")
}
ended() { ! kill -0 "$worker" 2>/dev/null; }
waited() { # name, exit status wanted
  eventually 20 ended || bad "$1 did not end: $(cat "$TMP/$1.err")"
  wait "$worker"
  local rc=$?
  [ $rc = "$2" ] || bad "$1: exit status $rc, wanted $2: $(cat "$TMP/$1.err")"
}
recorded() { "$BIN/gktune" trials 1 --json >"$TMP/trials" 2>/dev/null && [ "$(grep -o '"state":"recorded"' "$TMP/trials" | wc -l)" -ge "$1" ]; }
no_attempt() { # nothing was counted against a config
  python3 - "$TMP/trials" <<'PY' || bad "$1: a lease that was given back counts"
import json, sys
trials = json.load(open(sys.argv[1]))["trials"]
assert trials and all(t["attempt"] == 0 for t in trials), [(t["trial"], t["attempt"]) for t in trials if t["attempt"]]
PY
}
"$BIN/gktune" submit "$TMP/k/add_some.kernel.json" --shapes "$TMP/k/shapes.json" --arch mock-sm_80 --budget 12 --strategy random >/dev/null 2>"$TMP/err" || bad "submit: $(cat "$TMP/err")"

# ---- SIGTERM, while a trial runs and others wait. Its executor gets the signal too, as from a scheduler.
SLURM_JOB_ID=77 SLURM_ARRAY_JOB_ID=70 SLURM_ARRAY_TASK_ID=3 SLURM_RESTART_COUNT=1 start one
eventually 20 recorded 1 || bad "no trial: $(cat "$TMP/one.err")"
"$BIN/gktune" workers --json | grep -q '"job":"slurm:70_3 restart 1"' || bad "the scheduler's job: $("$BIN/gktune" workers --json)"
"$BIN/gktune" workers | grep -q 'slurm:70_3' || bad "the scheduler's job in the table"
executor=$(child_of "$worker" gktune-worker)
kill -TERM "$executor" "$worker"
waited one 0
grep -Eq 'draining: SIGTERM; [1-9][0-9]* leases given back, 1 run to their end' "$TMP/one.err" || bad "what it said: $(cat "$TMP/one.err")"
[ -z "$(ls "$TMP/spool/results")" ] || bad "a result was left in the spool: $(ls "$TMP/spool/results")"
recorded 2 || bad "the trial that ran was not stored"
before=$(grep -o '"state":"recorded"' "$TMP/trials" | wc -l)
no_attempt SIGTERM
"$BIN/gktune" workers --json | grep -q '"leases":0' || bad "leases of a worker that has gone"

# ---- SIGUSR1: come again
start two
eventually 20 recorded $((before + 1)) || bad "no trial after the restart: $(cat "$TMP/two.err")"
kill -USR1 "$worker"
waited two 75
grep -q 'draining: SIGUSR1' "$TMP/two.err" || bad "what it said: $(cat "$TMP/two.err")"
recorded 1
no_attempt SIGUSR1

# ---- a time limit: half of a short one is for draining
start three --time-limit 6s
waited three 75
grep -q 'draining: its time limit is near' "$TMP/three.err" || bad "what it said: $(cat "$TMP/three.err")"
recorded 1
no_attempt 'the time limit'

# ---- no daemon: what runs ends, its result waits in the spool, and counts when both are back
start four
before=$(grep -o '"state":"recorded"' "$TMP/trials" | wc -l)
eventually 20 recorded $((before + 1)) || bad "no trial: $(cat "$TMP/four.err")"
kill -STOP "$daemon"
kill -TERM "$worker"
waited four 0
[ -n "$(ls "$TMP/spool/results")" ] || bad "nothing is in the spool of a worker that was not acknowledged"
kill -CONT "$daemon"
start five
eventually 60 recorded 24 || bad "the job did not end: $(cat "$TMP/five.err")"
emptied() { [ -z "$(ls "$TMP/spool/results")" ]; }
eventually 20 emptied || bad "the spool was not emptied"
kill -TERM "$worker"
waited five 0
"$BIN/gktune-worker" --connect ipc:///x --time-limit 5 >/dev/null 2>"$TMP/err"
[ $? = 2 ] && grep -q "time-limit '5': allowed are 90s, 45m, 4h" "$TMP/err" || bad "a limit without a unit: $(cat "$TMP/err")"
"$BIN/gktune" db check >/dev/null || bad "the store is damaged"
finish "5 ends"
