#!/usr/bin/env bash
# gktune replay over recordings made here: both formats, gzip, torn; the same for any number of threads; what it refuses.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
checks=0
ok() { # name, command...
  local name=$1
  shift
  checks=$((checks + 1))
  "$@" || bad "$name"
}
refused() { # part of the message, words...
  local part=$1 got
  shift
  checks=$((checks + 1))
  "$BIN/gktune" replay "$@" >"$TMP/out" 2>"$TMP/err"
  got=$?
  [ "$got" = 2 ] || bad "$*: exit status $got, not 2"
  grep -qF -- "$part" "$TMP/err" || bad "$*: '$part' is not in: $(head -c 300 "$TMP/err")"
}
# A space of 600 configs with a valley, failures, and costs; the same twice, as a cache and as T4.
python3 - "$TMP" <<'PY'
import gzip, json, sys
folder = sys.argv[1]
cache, results = {}, []
for a in range(10):
    for b in range(10):
        for c in range(6):
            time = 1 + 0.1 * ((a - 7) ** 2 + (b - 2) ** 2) + 0.3 * (c ^ 3) + 0.01 * ((a * 31 + b * 17 + c * 7) % 11)
            config = {"A": 2 ** a, "B": b, "MODE": "m%d" % c}
            row = dict(config, time=time, times=[time * 0.99, time * 1.01], compile_time=500.0 + 90 * a,
                       verification_time=3.0, benchmark_time=20 * time, strategy_time=0, framework_time=0.5)
            result = {"configuration": config, "invalidity": "correct", "correctness": 1,
                      "times": {"compilation": 500.0 + 90 * a, "benchmark": 20 * time, "framework": 0.5, "validation": 3.0,
                                "runtimes": [time * 0.99, time * 1.01]},
                      "measurements": [{"name": "time", "value": time, "unit": ""}], "objectives": ["time"]}
            if (a + b + c) % 13 == 0:
                row.update(time="RuntimeFailedConfig", times=[])
                del row["times"], result["times"]["runtimes"]
                result.update(invalidity="runtime", correctness=0,
                              measurements=[{"name": "time", "value": "RuntimeFailedConfig", "unit": ""}])
            cache["%d,%d,m%d" % (2 ** a, b, c)] = row
            results.append(result)
head = {"device_name": "Toy", "kernel_name": "toy", "problem_size": [1], "tune_params_keys": ["A", "B", "MODE"],
        "tune_params": {}, "objective": "time"}
text = json.dumps(head)[:-1] + ', "cache": {\n' + ",\n".join(
    "%s: %s" % (json.dumps(k), json.dumps(v)) for k, v in cache.items()) + "}\n}\n"
open(folder + "/toy.json", "w").write(text)
open(folder + "/toy.json.gz", "wb").write(gzip.compress(text.encode()))
open(folder + "/torn.json", "w").write(text[: len(text) * 2 // 3])
packed = gzip.compress(text.encode())
open(folder + "/torn.json.gz", "wb").write(packed[: len(packed) * 2 // 3])
open(folder + "/toy.t4.json", "w").write(json.dumps(
    {"schema_version": "1.0.0", "metadata": {"timeunit": "milliseconds"}, "results": results}, indent=1))
PY
replay() { "$BIN/gktune" replay "$@" --seeds 6 --evals 60 2>"$TMP/err"; }
replay "$TMP/toy.json" "$TMP/toy.t4.json" --jobs 1 --json >"$TMP/one.json" || bad "replay: $(cat "$TMP/err")"
replay "$TMP/toy.json" "$TMP/toy.t4.json" --jobs 7 --json >"$TMP/seven.json" || bad "replay: $(cat "$TMP/err")"
ok "one thread and seven print the same" cmp -s "$TMP/one.json" "$TMP/seven.json"
printf '{"command":"replay","output":%s}\n' "$(cat "$TMP/one.json")" >"$TMP/lines.jsonl"
ok "the JSON is what the schema says" "$SRC/tests/support/validate.py" --lines "$SRC/schemas/cli.schema.json" "$TMP/lines.jsonl"
ok "both formats give the same space and the same searches" python3 - "$TMP/one.json" <<'PY'
import json, sys
spaces = json.load(open(sys.argv[1]))["spaces"]
assert spaces[0]["configs"] == spaces[1]["configs"] == 600 and spaces[0]["outcomes"] == spaces[1]["outcomes"]
assert spaces[0]["strategies"] == spaces[1]["strategies"]
assert spaces[0]["outcomes"]["runtime"] > 0
for space in spaces:
    by_name = {one["strategy"]: one for one in space["strategies"]}
    for one in space["strategies"]:
        means = [point["fraction"]["mean"] for point in one["points"]]
        assert means == sorted(means) and 0 < means[0] <= means[-1] <= 1, means
    assert by_name["local"]["score"]["mean"] > by_name["random"]["score"]["mean"]
PY
replay "$TMP/toy.json" --jobs 3 >"$TMP/plain.txt"
replay "$TMP/toy.json.gz" --jobs 3 | sed 's/toy\.json\.gz/toy.json/' >"$TMP/gz.txt"
ok "gzip changes nothing" cmp -s "$TMP/plain.txt" "$TMP/gz.txt"
mkdir -p "$TMP/data"
cp "$TMP/toy.json" "$TMP/data/"
# Expectation, cutoff and score of this file were checked once against sums over whole binomials.
replay "$TMP/data/toy.json" --strategy exhaustive,random >"$TMP/golden.txt"
ok "the numbers are those that were worked out before" diff "$SRC/tests/data/replay/toy.txt" "$TMP/golden.txt"
replay "$TMP/torn.json" --strategy random >"$TMP/torn.txt"
ok "a torn file says what it lost" grep -q 'dropped: 1 rows that the file ends in; the first in line' "$TMP/torn.txt"
replay "$TMP/torn.json.gz" --strategy random >"$TMP/torn.txt"
ok "a torn gzip file too" grep -q 'dropped: 1 damages of the compressed stream' "$TMP/torn.txt"
replay "$TMP/toy.json" --svg "$TMP/toy.svg" --credit 8 --samples 1 --warm "$TMP/toy.t4.json" >"$TMP/out" || bad "$(cat "$TMP/err")"
ok "the drawing is XML with a curve for each strategy in both panels" python3 - "$TMP/toy.svg" "$TMP/one.json" <<'PY'
import json, sys, xml.etree.ElementTree as tree
paths = [p.get("class") for p in tree.parse(sys.argv[1]).iter("{http://www.w3.org/2000/svg}path")]
strategies = len(json.load(open(sys.argv[2]))["spaces"][0]["strategies"])
assert paths.count("curve") == 3 * strategies and paths.count("random") == 3, paths
PY
ok "a warm start from the same data begins at the best" grep -Eq '^  random +100.0' "$TMP/out"
ok "whole files keep their rules" "$BIN/gktune" replay --check "$TMP/toy.json" "$TMP/toy.json.gz" "$TMP/toy.t4.json" >"$TMP/out"
"$BIN/gktune" replay "$TMP/toy.json" --seeds 3 --budget 2m --strategy random --no-score >"$TMP/out" || bad "a budget of time"
ok "a budget of time is looked at in halves" grep -Eq 'after +7.5 s +15 s +30 s +60 s +2 min' "$TMP/out"
refused 'give one of them' "$TMP/toy.json" --budget 2m --evals 3
refused 'breaks the rules of its format' --check "$TMP/toy.json" "$TMP/torn.json"
refused "$TMP/none.json" "$TMP/none.json"
refused 'not a regular file' "$TMP"
refused 'neither a cache' "$SRC/kernels/gemm/op.json"
refused "--strategy 'best'" "$TMP/toy.json" --strategy random,best
refused '--seeds' "$TMP/toy.json" --seeds 0
# Numbers whose sums overflow are no costs and no samples: nothing in the tables is infinite.
sed 's/"compile_time": 500.0,/"compile_time": 1e308, "benchmark_time": 1e308,/' "$TMP/toy.json" >"$TMP/costly.json"
ok "costs that overflow" replay "$TMP/costly.json" --json >"$TMP/out"
ok "costs that overflow are left out" python3 -c 'import json, sys; json.load(open(sys.argv[1], encoding="utf-8"))' "$TMP/out"
sed -E 's/"time": [0-9.]+,//; s/"times": \[[0-9., e-]+\]/"times": [1e308, 1e308]/' "$TMP/toy.json" >"$TMP/slow.json"
refused 'samples that are no positive number' "$TMP/slow.json"
refused 'a recorded space is missing'
mkfifo "$TMP/pipe.svg"
refused 'is a FIFO, it is not replaced by a file' "$TMP/toy.json" --seeds 1 --evals 5 --strategy random --svg "$TMP/pipe.svg"
ok "the FIFO is still there" test -p "$TMP/pipe.svg"
[ -e "$GKTUNE_STATE" ] && bad "a state folder was made"
finish "$checks checks"
