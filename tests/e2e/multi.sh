#!/usr/bin/env bash
# Several devices of one kind: a job is spread over them, each final round stays on one, a device or a worker that goes away
# costs no trial and stops nobody; the spread of a config over them is measured, shown, and a floor under later noise.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
mkdir -p "$TMP/k"
cp "$SRC"/tests/data/worker/add/{op.json,reference.cu,add_some.cu,add_some.kernel.json} "$TMP/k/"
printf '{"run_ms": 100, "rules": []}' >"$TMP/k/mock.json"
printf '{"op":"add","shapes":[{"n":[1024,2048]}]}' >"$TMP/k/shapes.json"
printf '{"op":"gemm","shapes":[{"M":[16,32],"N":64,"K":64}]}' >"$TMP/shapes.json"
field() { # expression over the JSON in a file
  python3 -c 'import json,sys; j=json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$@"
}

# ---- One command, one device and two: the same trials, both devices at work.
run() { # state, devices...
  local state=$1 words=() device
  shift
  for device in "$@"; do words+=(--device "$device"); done
  "$BIN/gktune" run "$TMP/k/add_some.kernel.json" --shapes "$TMP/k/shapes.json" --budget 10 --strategy random --seed 1 --json --state "$state" \
    "${words[@]}" >"$TMP/out" 2>"$TMP/err" || bad "run over $*: $(tail -n 5 "$TMP/err")"
}
run "$TMP/one" mock:sm_80
"$BIN/gktune" trials 1 --json --state "$TMP/one" >"$TMP/one.trials" || bad "trials"
field "$TMP/out" '[(p["problem"], p["config"]) for p in j["picks"]]' >"$TMP/one.picks"
one_s=$(field "$TMP/out" 'j["job"]["rates"]["search_s"]')
run "$TMP/two" 'mock:sm_80#0' 'mock:sm_80#1'
"$BIN/gktune" trials 1 --json --state "$TMP/two" >"$TMP/two.trials" || bad "trials"
field "$TMP/out" '[(p["problem"], p["config"]) for p in j["picks"]]' >"$TMP/two.picks"
two_s=$(field "$TMP/out" 'j["job"]["rates"]["search_s"]')
grep -q '^2 problems on 2 devices x 1 kind x 10 trials = at most 20 trials' "$TMP/err" || bad "the budget of two devices: $(head -n 1 "$TMP/err")"
cmp -s "$TMP/one.picks" "$TMP/two.picks" || bad "two devices pick otherwise: $(cat "$TMP/one.picks" "$TMP/two.picks")"
asked='sorted((t["problem"], t["seq"], t["config"]) for t in j["trials"])'
[ "$(field "$TMP/one.trials" "$asked")" = "$(field "$TMP/two.trials" "$asked")" ] || bad "two devices were asked for other trials"
python3 -c "import sys; sys.exit(not $two_s < 0.8 * $one_s)" || bad "two devices take $two_s s, one $one_s s"
echo "20 trials of 100 ms: $one_s s on one device, $two_s s on two"

# ---- A worker a device. One is killed, then a device fenced: the job ends, every trial is there once.
: >"$TMP/ready"
"$BIN/gktuned" >>"$TMP/ready" 2>"$TMP/log" &
daemon=$!
children+=("$daemon")
eventually 60 grep -q '^ready' "$TMP/ready" || bad "gktuned does not start: $(cat "$TMP/log")"
workers=()
for i in 0 1 2; do
  : >"$TMP/worker$i"
  "$BIN/gktune-worker" --connect "ipc://$GKTUNE_STATE/gktuned.sock" --device "mock:sm_80#$i" --spool "$TMP/spool$i" >>"$TMP/worker$i" 2>"$TMP/worker$i.log" &
  workers+=("$!")
  children+=("$!")
  eventually 60 grep -q ready "$TMP/worker$i" || bad "no worker: $(cat "$TMP/worker$i.log")"
done
"$BIN/gktune" submit "$TMP/k/add_some.kernel.json" --shapes "$TMP/k/shapes.json" --arch mock-sm_80 --budget 10 --strategy random --seed 2 >/dev/null 2>"$TMP/err" ||
  bad "submit: $(cat "$TMP/err")"
all_work() { # each has recorded a trial
  "$BIN/gktune" trials 1 --json >"$TMP/trials" 2>/dev/null &&
    [ "$(field "$TMP/trials" 'len({t["worker"] for t in j["trials"] if t["state"] == "recorded"})')" = 3 ]
}
eventually 60 all_work || bad "not every device has work: $(cat "$TMP/trials")"
kill -9 "${workers[0]}"
wait "${workers[0]}" 2>/dev/null
"$BIN/gktune" workers fence '2/mock:sm_80#1' --reason 'of this test' >/dev/null 2>"$TMP/err" || bad "fence: $(cat "$TMP/err")"
done_() { "$BIN/gktune" jobs --all --json 2>/dev/null | grep -qE '"job":1,[^}]*"state":"done"'; }
eventually 90 done_ || bad "the job does not end: $("$BIN/gktune" jobs --all 2>&1)"
"$BIN/gktune" trials 1 --json >"$TMP/trials" || bad "trials"
python3 - "$TMP/trials" <<'PY' || bad "trials were lost or repeated: $(cat "$TMP/trials")"
import json, sys
trials = json.load(open(sys.argv[1]))["trials"]
places = {(t["task"], t["seq"]) for t in trials}
assert len(trials) == len(places) == 20 and all(t["state"] == "recorded" for t in trials), trials
assert {t["worker"] for t in trials} == {1, 2, 3}, trials
PY
"$BIN/gktune" dead --json 2>/dev/null | grep -q '"letters":\[\]' || bad "a trial is dead: $("$BIN/gktune" dead)"
"$BIN/gktune" db check >"$TMP/check" 2>&1 || bad "the store is damaged: $(cat "$TMP/check")"

# ---- The spread. What it was before does not change what is judged; what it is does, later.
spread() { "$BIN/gktune" run gemm --shapes "$TMP/shapes.json" --budget 12 --seed 1 --json --spread --state "$TMP/spread" --device 'mock:sm_80#0' \
  --device 'mock:sm_80#1@1.03' --device 'mock:sm_80#2@0.99' >"$TMP/out" 2>"$TMP/err" || bad "run --spread: $(tail -n 5 "$TMP/err")"; }
spread
# Nothing is known when the first round ends; on a busy host the other one may end when that problem's spread is, over all
# three devices or the two that were first.
[ "$(field "$TMP/out" 'sorted(round(p["noise_floor"], 6) for p in j["picks"]) in ([0.0, of] for of in (0.0, 0.005025, 0.014778, 0.019802))')" = True ] ||
  bad "noise before a spread was known: $(field "$TMP/out" '[p["noise_floor"] for p in j["picks"]]')"
"$BIN/gktune" workers --spread --op gemm --json --state "$TMP/spread" >"$TMP/out" 2>"$TMP/err" || bad "workers --spread: $(cat "$TMP/err")"
python3 - "$TMP/out" <<'PY' || bad "the spread: $(cat "$TMP/out")"
import json, sys
groups = json.load(open(sys.argv[1]))["spreads"]
assert len(groups) == 2, groups
for group in groups:
    assert abs(group["spread"] - 0.04) < 1e-9 and abs(group["half_width"] - 0.04 / 2.02) < 1e-9, group
    ratios = {d["device"]: round(d["ratio"], 9) for d in group["devices"]}
    assert ratios == {"1/mock:sm_80#0": 1.0, "1/mock:sm_80#1@1.03": 1.03, "1/mock:sm_80#2@0.99": 0.99}, ratios
PY
"$BIN/gktune" workers --spread --state "$TMP/spread" >"$TMP/out" 2>"$TMP/err" || bad "workers --spread: $(cat "$TMP/err")"
[ "$(grep -c '4.00 %' "$TMP/out")" = 6 ] || bad "the table: $(cat "$TMP/out")"
"$BIN/gktune" workers --spread --op rope --state "$TMP/spread" 2>&1 | grep -q 'no config was measured' || bad "the spread of another op"
spread
[ "$(field "$TMP/out" '[round(p["noise_floor"], 6) for p in j["picks"]]')" = '[0.019802, 0.019802]' ] ||
  bad "the spread is no floor: $(field "$TMP/out" '[p["noise_floor"] for p in j["picks"]]')"
"$BIN/gktune" workers --op gemm >"$TMP/out" 2>&1
[ $? = 2 ] || bad "--op without --spread"
finish "several devices"
