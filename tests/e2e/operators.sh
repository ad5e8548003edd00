#!/usr/bin/env bash
# What operators do to real processes: several jobs at once, drains of the daemon and of a worker, a fenced
# device, the audit trail, a restore under a live worker, a store that is gone, pruning.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
validate() { "$SRC/tests/support/validate.py" "$@" >"$TMP/why" 2>&1 || bad "$*: $(head -n 5 "$TMP/why")"; }
g() { "$BIN/gktune" "$@" >"$TMP/out" 2>"$TMP/err" || bad "gktune $*: $(cat "$TMP/err")"; }
says_no() { # text that the message must hold, words...
  local text=$1
  shift
  "$BIN/gktune" "$@" >"$TMP/out" 2>"$TMP/err" && bad "gktune $* was accepted"
  grep -q -- "$text" "$TMP/err" || bad "gktune $*: no '$text' in: $(cat "$TMP/err")"
}
printed() { # name in the schema, words...
  local name=$1
  shift
  "$BIN/gktune" "$@" --json >"$TMP/out" 2>"$TMP/err" || bad "gktune $* --json: $(cat "$TMP/err")"
  printf '{"command":"%s","output":%s}\n' "$name" "$(cat "$TMP/out")" | tr -d '\n' >"$TMP/line.jsonl"
  echo >>"$TMP/line.jsonl"
  validate --lines "$SRC/schemas/cli.schema.json" "$TMP/line.jsonl"
}
field() { # expression over the JSON of the last command
  python3 -c 'import json,sys; j=json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$TMP/out" "$1"
}
start_daemon() {
  "$BIN/gktuned" >"$TMP/ready" 2>>"$TMP/gktuned.log" &
  daemon=$!
  children+=("$daemon")
  eventually 60 grep -q '^ready' "$TMP/ready" || bad "gktuned does not start: $(cat "$TMP/gktuned.log")"
}
stop_daemon() {
  kill "$daemon"
  wait "$daemon" 2>/dev/null
}
is() { # value, expression, words of a command
  local want=$1 expression=$2
  shift 2
  "$BIN/gktune" "$@" --json >"$TMP/out" 2>/dev/null && [ "$(field "$expression")" = "$want" ]
}
printf '{"op":"gemm","shapes":[{"M":16,"N":[32,64],"K":32}]}' >"$TMP/shapes.json"
submit() { g submit gemm --shapes "$TMP/shapes.json" --arch mock-sm_80 --budget 8 --seed "$1" --fresh; }

start_daemon
# Several jobs at once, all or none, idempotent, with reasons.
submit 1 && submit 2
printed pause pause 1 2 --reason 'before the move'
[ "$(field '[x["changed"] for x in j["jobs"]]')" = "[True, True]" ] || bad "pause: $(cat "$TMP/out")"
printed pause pause 1
[ "$(field 'j["jobs"][0]["changed"]')" = False ] || bad "a second pause changed something"
says_no 'no job 9' resume 1 9
is paused 'j["jobs"][0]["state"]' jobs || bad "resume of 1 and 9 did half of it"
printed cancel cancel 2 --reason 'wrong shapes'
printed cancel cancel 2
says_no 'has ended' pause 1 2
says_no 'Submit it anew' retry 2
printed jobs jobs
printed resume resume 1
printed retry retry 1
# What somebody writes moves no cursor, and forges no line of a table or of the log (messages have several lines).
evil=$'x\e[31mred\nts=0 level=error event=forged\r\x9b2J'
g pause 1 --reason "$evil"
g audit
grep -qF 'x\x1b[31mred\x0ats=0' "$TMP/out" || bad "the table leaves the reason out: $(cat -v "$TMP/out")"
"$BIN/gktune" workers fence "$evil" --reason "$evil" >>"$TMP/out" 2>&1 && bad "a device of that name"
"$BIN/gktune" show "$evil" >>"$TMP/out" 2>&1 && bad "a job of that name"
cat "$TMP/gktuned.log" >>"$TMP/out"
LC_ALL=C grep -q $'[\x01-\x08\x0b-\x1f\x7f]' "$TMP/out" && bad "control bytes: $(cat -v "$TMP/out")"
g audit
grep -q '^ts=0' "$TMP/out" "$TMP/gktuned.log" && bad "a line is forged: $(cat -v "$TMP/out")"
g resume 1
# A device that is fenced before it ever works; then by nobody any more.
"$BIN/gktune-worker" --connect "ipc://$GKTUNE_STATE/gktuned.sock" --device mock --spool "$TMP/spool" \
  >"$TMP/worker.out" 2>"$TMP/worker.log" &
worker=$!
children+=("$worker")
eventually 60 is connected '(j["workers"] or [{"state": 0}])[0]["state"]' workers || bad "no worker: $(cat "$TMP/worker.log")"
eventually 60 is done 'j["jobs"][0]["state"]' jobs --all || bad "job 1 does not end"
key=$(field '0' >/dev/null; "$BIN/gktune" workers --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["workers"][0]["devices"][0]["key"])')
says_no 'needs --reason' workers fence "$key"
printed workers_change workers fence "$key" --reason 'wrong sums'
printed workers workers
[ "$(field 'j["workers"][0]["devices"][0]["fenced"]["cause"]')" = 'wrong sums' ] || bad "not fenced: $(cat "$TMP/out")"
submit 3
grep -q 'is fenced' "$TMP/err" || bad "submit does not tell that its device is fenced: $(cat "$TMP/err")"
kill "$worker"
wait "$worker" 2>/dev/null
kill -9 "$daemon"
wait "$daemon" 2>/dev/null
start_daemon # sticky: daemon and worker are other processes now
"$BIN/gktune-worker" --connect "ipc://$GKTUNE_STATE/gktuned.sock" --device mock --spool "$TMP/spool" \
  >"$TMP/worker.out" 2>>"$TMP/worker.log" &
worker=$!
children+=("$worker")
eventually 60 grep -q ready "$TMP/worker.out" || bad "the worker is not welcome: $(cat "$TMP/worker.log")"
is 0 '[x["trials"] for x in j["jobs"] if x["job"] == 3][0]' jobs || bad "a fenced device got a lease"
# The worker drains, its device is unfenced: still nothing; then both are undone.
printed workers_change workers drain 1 --reason 'new fan'
printed workers_change workers unfence "$key" --reason 'measured again'
is drained 'j["workers"][0]["state"]' workers || bad "the worker is not drained: $(cat "$TMP/out")"
is 0 '[x["trials"] for x in j["jobs"] if x["job"] == 3][0]' jobs || bad "a drained worker got a lease"
printed workers_change workers resume 1
eventually 60 is done '[x["state"] for x in j["jobs"] if x["job"] == 3][0]' jobs --all || bad "job 3 does not end"
# The daemon drains.
printed drain drain --wait --reason 'upgrade'
says_no 'takes no new work: upgrade' submit gemm --shapes "$TMP/shapes.json" --arch mock-sm_80 --budget 4 --seed 8
printed drain drain --off
# Dead letters: none here; the verbs answer all the same.
printed dead dead
printed dead_settle dead retry --all
says_no 'no dead letter 5' dead show 5
# The trail knows who, what and why, and cannot be changed.
printed audit audit
python3 - "$TMP/out" <<'PY' || bad "the audit trail lacks something: $(cat "$TMP/out")"
import json, sys
lines = json.load(open(sys.argv[1]))["lines"]
seen = {(l["what"], l["target"], l["reason"], l["outcome"]) for l in lines}
for want in [("pause", "job 1", "before the move", "paused"), ("cancel", "job 2", "wrong shapes", "cancelled"),
             ("cancel", "job 2", "", "unchanged"), ("drain", "worker 1", "new fan", "draining"),
             ("drain", "daemon", "upgrade", "draining"), ("submit", "job 3", "", "stored")]:
    assert want in seen, want
assert [l["line"] for l in lines] == list(range(1, len(lines) + 1))
PY
printed audit_verify audit --verify
lines=$(field 'j["audit_lines"]')
"$BIN/gktune" doctor >"$TMP/doctor" 2>&1
grep -q 'chain of hashes is whole' "$TMP/doctor" || bad "doctor does not look at the trail: $(cat "$TMP/doctor")"
# A backup while work goes on, then a restore under the live worker: it is told, works on, and nothing
# that was given out before counts.
g db backup "$TMP/backup.db"
submit 4
eventually 60 is done '[x["state"] for x in j["jobs"] if x["job"] == 4][0]' jobs --all || bad "job 4 does not end"
epoch=$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["epoch"])' "$GKTUNE_STATE/epoch")
stop_daemon
mkdir "$TMP/old" && mv "$GKTUNE_STATE"/gktune.db* "$TMP/old"
"$BIN/gktuned" >"$TMP/out" 2>"$TMP/err" && bad "a daemon made a new store in place of the lost one"
grep -q 'db restore' "$TMP/err" || bad "no advice for a lost store: $(cat "$TMP/err")"
[ -e "$GKTUNE_STATE/gktune.db" ] && bad "an empty store lies where one was lost"
g db restore "$TMP/backup.db"
start_daemon
later=$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["epoch"])' "$GKTUNE_STATE/epoch")
[ "$later" -gt $((epoch + 1000000)) ] || bad "the epoch did not jump: $epoch, $later"
printed audit audit
[ "$(field 'j["lines"][-1]["what"]')" = restore ] || bad "the restore is not in the trail: $(cat "$TMP/out")"
submit 5
eventually 60 is done '[x["state"] for x in j["jobs"]][-1]' jobs --all || bad "nothing works after the restore: $(tail -n 3 "$TMP/worker.log")"
printed db_check db check
# Pruning says what would go, then does it.
printed db_prune db prune --days 0 --dry-run
[ "$(field 'j["trials_deleted"] > 0 and j["dry_run"]')" = True ] || bad "prune --dry-run: $(cat "$TMP/out")"
printed db_prune db prune --days 0
printed db_check db check
[ "$(field 'j["ok"]')" = True ] || bad "after pruning: $(cat "$TMP/out")"
stop_daemon
# Somebody edits the trail: refused by the store itself, and seen when it was done beside it.
python3 - "$GKTUNE_STATE/gktune.db" <<'PY' || bad "the trail could be edited"
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
for text in ("UPDATE audit SET reason='x' WHERE line=2", "DELETE FROM audit WHERE line=2"):
    try:
        db.execute(text)
        sys.exit(1)
    except sqlite3.Error as error:
        assert "only added to" in str(error), error
db.execute("DROP TRIGGER audit_unchanged")
db.execute("UPDATE audit SET reason='nobody' WHERE line=2")
db.execute("UPDATE jobs SET what=? WHERE job=1", ("x" * 1100000,))
db.commit()
PY
start_daemon
says_no 'not what was written' audit --verify
says_no 'at most 1048576 are allowed' jobs --all # an answer that fits no message is not waited for
"$BIN/gktune" doctor >"$TMP/doctor" 2>&1
grep -q 'audit line 2' "$TMP/doctor" || bad "doctor does not see that the trail was edited"
"$BIN/gktune" db check >"$TMP/out" 2>"$TMP/err" && bad "db check does not see that the trail was edited"
grep -q 'audit line 2' "$TMP/out" || bad "db check does not name the line: $(cat "$TMP/out")"
finish "$lines lines of the trail"
