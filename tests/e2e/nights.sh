#!/usr/bin/env bash
# Two nights with workers of two archs: in the first one's worker is lost half-way, in the second it is absent. The
# morning reports say what got faster, slower, wrong, and what was not run and why.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
nightly=$SRC/deploy/nightly/gktune-nightly
export GKTUNE=$BIN/gktune
mkdir -p "$TMP/k" "$TMP/out"
cp "$SRC"/tests/data/worker/add/{op.json,reference.cu,add_some.cu,add_some.kernel.json} "$TMP/k/"
python3 - "$TMP/k" <<'PY'
import json, sys
k = sys.argv[1]
t = json.load(open(f"{k}/add_some.kernel.json"))
t["params"] = [{"name": "BLOCK", "values": [32, 64, 128, 256]}, {"name": "BUG", "values": ["none"]}]
json.dump(t, open(f"{k}/add_some.kernel.json", "w"))
PY
script() { # rules... : what the mock device answers, by config and arch
  python3 - "$TMP/k/mock.json" "$@" <<'PY'
import json, sys
rules = [dict(zip(("when", "outcome", "time_ns"), r.split("|"))) for r in sys.argv[2:]]
json.dump({"run_ms": 5, "rules": rules}, open(sys.argv[1], "w"))
PY
}
usual=("BLOCK == 256|ok|1000.0" "BLOCK == 128|ok|2000.0" "1 == 1|ok|4000.0")
suite() { # sizes of the problems
  local list
  list=$(IFS=, && printf '%s' "$*")
  printf '{"op":"add","shapes":[{"n":[%s]}]}' "$list" >"$TMP/k/shapes.json"
  printf '{"suite":"adds","sets":[{"name":"old","kernel":"add_some.kernel.json","shapes":"shapes.json","archs":["mock-sm_80"],"budget":8},
    {"name":"new","kernel":"add_some.kernel.json","shapes":"shapes.json","archs":["mock-sm_90a"],"budget":8}]}' >"$TMP/k/adds.suite.json"
}
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$BIN/gktune" keys new platform --roles submit --out "$TMP/platform.key" >/dev/null 2>"$TMP/err" || bad "keys: $(cat "$TMP/err")"
daemon() { # its socket is not in the state folder, as with the shipped config: a night finds it all the same
  : >"$TMP/daemon.out"
  "$BIN/gktuned" --state "$GKTUNE_STATE" --listen "ipc://$TMP/run.sock" --listen "tcp://127.0.0.1:$port" >>"$TMP/daemon.out" 2>>"$TMP/daemon.err" &
  daemon=$!
  children+=("$daemon")
  eventually 20 grep -q ready "$TMP/daemon.out" || bad "no daemon: $(cat "$TMP/daemon.err")"
}
daemon
worker() { # arch
  "$BIN/gktune-worker" --connect "ipc://$TMP/run.sock" --device "mock:$1" --spool "$TMP/spool.$1" >"$TMP/worker.$1" 2>&1 &
  pid=$!
  children+=("$pid")
}
worker sm_80
worker sm_90a
lost=$pid

# ---- the first night
script "dev.sm == 90 && n >= 4096|slow|2000.0" "${usual[@]}"
python3 - "$TMP/k/mock.json" <<'PY'
import json, sys
m = json.load(open(sys.argv[1]))
m["run_ms"] = 60
json.dump(m, open(sys.argv[1], "w"))
PY
suite 1024 2048 4096 8192 16384 65536 131072 262144
(cd "$TMP/out" && "$nightly" --suite "$TMP/k/adds.suite.json" --until 25s --dir nights) >"$TMP/one.out" 2>"$TMP/one.err" &
night=$!
children+=("$night")
judged() { "$BIN/gktune" show 2 --json 2>/dev/null | grep -q '"state":"judged"'; }
eventually 20 judged || bad "nothing was judged on the arch that is lost: $(cat "$TMP/one.err")"
kill -9 "$lost"
# The timer fires twice.
"$nightly" --suite "$TMP/k/adds.suite.json" --until 25s --dir "$TMP/out/nights" >/dev/null 2>"$TMP/twice.err"
[ $? = 2 ] || bad "a second night of a slot that runs was not refused"
grep -q "suite 'adds', slot 'night': job [12] of night .* has not ended" "$TMP/twice.err" || bad "why it was refused: $(cat "$TMP/twice.err")"
wait "$night"
rc=$?
[ $rc = 0 ] || bad "the first night ended with $rc: $(cat "$TMP/one.err")"
first=$TMP/out/nights/adds/latest
report=$first/report.md
grep -q '^\*\*.*NOT-RUN.*NEW' "$report" || bad "the first report: $(head -n 5 "$report")"
grep -Eq '^\| NOT-RUN \| add \| n=262144 \| mock-sm.*90a .*\| no worker: nothing was left of arch mock-sm_90a' <(sed 's/\\_/_/g' "$report") || bad "what was lost: $(cat "$report")"
[ "$(grep -c '^| NEW | add | .* | mock-sm\\_80 ' "$report")" = 8 ] || bad "not all of the arch that stayed: $(cat "$report")"
grep -q '^| NEW | add | n=1024 | mock-sm\\_90a ' "$report" || bad "what was judged before the loss has no pick"
[ -e "$first/export/gk_add_mock_sm_80.h" ] || bad "no header"

"$BIN/gktune" db backup "$TMP/before.db" --no-samples >/dev/null || bad "a backup"

# ---- the second night, from another host: another source, other times, one config wrong; the other arch is absent
sed -i 's/^\(extern "C"\)/static const int another_night = 2;\n\1/' "$TMP/k/add_some.cu"
grep -q another_night "$TMP/k/add_some.cu" || printf '\n#define ANOTHER_NIGHT 2\n' >>"$TMP/k/add_some.cu"
script "n == 1024 && BLOCK == 256|ok|1500.0" "n == 2048 && BLOCK == 64|ok|700.0" "n == 8192 && BLOCK == 256|wrong|1.0" "${usual[@]}"
suite 1024 2048 4096 8192 32768
(cd "$TMP/out" && "$nightly" --suite "$TMP/k/adds.suite.json" --until 20s --dir nights -- --connect "tcp://127.0.0.1:$port" --key "$TMP/platform.key") >"$TMP/two.out" 2>"$TMP/two.err" &
night=$!
children+=("$night")
# In the middle of it the daemon dies and is started again: the night goes on.
begun() { "$BIN/gktune" jobs --all --connect "ipc://$TMP/run.sock" 2>/dev/null | grep -q '^ *4 '; }
eventually 20 begun || bad "the second night did not begin: $(cat "$TMP/two.err")"
kill -9 "$daemon"
daemon
wait "$night"
rc=$?
[ $rc = 1 ] || bad "the second night ended with $rc: $(cat "$TMP/two.err")"
second=$TMP/out/nights/adds/latest
"$SRC/tests/support/validate.py" "$SRC/schemas/export.schema.json" "$second"/export/jobs.json "$second"/export/*.evidence.json 2>"$TMP/why" ||
  bad "the export and its schema: $(head -n 3 "$TMP/why")"
report=$TMP/report.plain
sed 's/\\_/_/g' "$second/report.md" >"$report"
says() { grep -Eq "$1" "$report" || bad "the morning report lacks: $1"; }
says '^\| SLOWER \| add \| n=1024 \| mock-sm_80 \|.* 1\.0+ us \| 1\.50* us \| \+50\.0%.*template changed'
says '^\| FASTER \| add \| n=2048 \| mock-sm_80 \|.*-30\.0%.*another config'
says '^\| SAME \| add \| n=4096 \| mock-sm_80 \|.*\+0\.0%.*template changed'
says '^\| WRONG \| add \| n=8192 \| mock-sm_80 \|.*what was shipped fails now: wrong_result'
says '^\| NEW \| add \| n=32768 \| mock-sm_80 \|'
says '^\| SAME \| add \| n=16384 \| mock-sm_80 \|.*not measured again'
says '^\| NOT-RUN \| add \| n=1024 \| mock-sm_90a \|.*no worker: none with a device of this arch was there in time'
says '^\| NOT-RUN \| add \| n=32768 \| mock-sm_90a \| - \|'
says '^\| job \| job 3: '
metrics=$TMP/out/nights/adds/metrics.prom
grep -q 'gktune_night_rows{suite="adds",slot="night",verdict="NOT-RUN"} 5' "$metrics" && grep -Eq 'last_success_timestamp_seconds.* [0-9]+$' "$metrics" || bad "metrics: $(cat "$metrics")"
python3 - "$second/report.json" <<'PY' || bad "the report as JSON"
import json, sys
report = json.load(open(sys.argv[1]))
diff, = report["diffs"]
rows = {(r["problem"], r["arch"]): r for r in diff["rows"]}
row = lambda n, arch="mock-sm_80": rows['add{"n":%d}' % n, arch]
assert report["exit"] == 1 and report["jobs"] == [3, 4] and diff["regressed"] == 2, report
assert row(1024)["verdict"] == "SLOWER" and row(1024)["regressed"] and abs(row(1024)["ratio"] - 1.5) < 1e-9
assert row(2048)["verdict"] == "FASTER" and row(4096)["verdict"] == "SAME" and row(8192)["verdict"] == "WRONG"
lost = [r for r in diff["rows"] if r["arch"] == "mock-sm_90a" and r["verdict"] == "NOT-RUN"]
assert len(lost) == 5 and {r["not_run"] for r in lost} == {"no_worker"}, lost
PY
for one in "$second"/report.json; do
  python3 -c 'import json,sys; [print(json.dumps({"command": "diff", "output": d})) for d in json.load(open(sys.argv[1]))["diffs"]]' "$one" >"$TMP/diffs.jsonl"
  "$SRC/tests/support/validate.py" --lines "$SRC/schemas/cli.schema.json" "$TMP/diffs.jsonl" 2>"$TMP/why" || bad "the schema: $(head -n 3 "$TMP/why")"
done
"$SRC/tests/support/validate.py" "$SRC/schemas/suite.schema.json" "$TMP/k/adds.suite.json" "$SRC"/deploy/nightly/suites/*.json || bad "suites and their schema"

# ---- the same of stores: a backup from between the nights, and the folder of the daemon that runs
"$BIN/gktune" diff "$TMP/before.db" "$GKTUNE_STATE" >"$TMP/stores" 2>"$TMP/stores.err"
rc=$?
[ $rc = 1 ] || bad "a diff of stores ended with $rc: $(cat "$TMP/stores.err")"
grep -Eq '^SLOWER +add +n=1024 +mock-sm_80' "$TMP/stores" && grep -Eq '^NOT-RUN +add +n=2048 +mock-sm_90a.*no worker' "$TMP/stores" ||
  bad "the stores: $(cat "$TMP/stores")"
grep -q '^gktune: 1 slower, 1 wrong' "$TMP/stores.err" || bad "what the stores say in a line: $(cat "$TMP/stores.err")"

# ---- nothing has changed since: nothing is asked for on the arch that was there
"$BIN/gktune" submit --suite "$TMP/k/adds.suite.json" --if-changed --json >"$TMP/three" 2>/dev/null || bad "the third submission"
grep -q '"job":0,"set":"old","tasks":0,"unchanged":5' "$TMP/three" || bad "what has not changed was asked for: $(cat "$TMP/three")"
"$BIN/gktune" db check >/dev/null || bad "the store is damaged"
finish "two nights"
