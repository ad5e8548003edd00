#!/usr/bin/env bash
# From a shapes file to an exported header on the emulated device: same seed, same bytes; the folder alone is enough.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
BUILD=${3:?build folder}
printf '{"op":"gemm","shapes":[{"M":[16,48],"N":64,"K":64},{"M":33,"N":40,"K":50,"dtype":"f16","trans":"TN","bias":true}]}' >"$TMP/shapes.json"
run() { # state, export, more
  timeout -k 5 280 "$BIN/gktune" run gemm --shapes "$TMP/shapes.json" --device emu --budget 6 --seed 7 --state "$1" --export "$2" "${@:3}" >"$TMP/out" 2>"$TMP/err"
}
run "$TMP/a" "$TMP/x"
rc=$?
if [ "$rc" != 0 ]; then
  grep -q 'NVRTC' "$TMP/err" "$TMP/a/worker.log" && ! "$BIN/gktune" doctor | grep -q '^ok *nvrtc' && exit 77
  bad "run: exit status $rc: $(cat "$TMP/err"; tail -n 5 "$TMP/a/worker.log")"
  finish "one run"
fi
grep -q 'times are modelled' "$TMP/out" || bad "the winners do not say that times are modelled"
grep -q "exported header: $TMP/x/gk_" "$TMP/out" || bad "the export's path is not printed: $(cat "$TMP/out")"
grep -q '^M=16 N=64 K=64' "$TMP/out" || bad "fields are not in declared order: $(cat "$TMP/out")"
grep -q 'at most 18 trials' "$TMP/err" || bad "the total budget is not printed first: $(head -n 1 "$TMP/err")"
(cd "$TMP/x" && b2sum --quiet -l 256 -c CHECKSUMS) || bad "checksums"

run "$TMP/b" "$TMP/y" --json || bad "second run: $(cat "$TMP/err")"
cmp "$TMP/x/gk_gemm_emu_sm_80.h" "$TMP/y/gk_gemm_emu_sm_80.h" || bad "two runs of one seed differ"
python3 - "$TMP/out" <<'PY' || bad "the JSON of run"
import json, sys
result = json.load(open(sys.argv[1]))
assert len(result["tasks"]) == 3 and len(result["picks"]) == 3, result
assert result["job"]["state"] == "done" and result["export"], result
for pick in result["picks"]: # the final round verifies on all sets, a trial of the search on one
    names = {rung["name"] for rung in pick["ladder"] if rung["passed"]}
    assert {"reference", "reference_1", "reference_2", "reference_3"} <= names, pick["ladder"]
PY

cc -std=c17 -O1 -D_GNU_SOURCE -I"$TMP/x" -I"$SRC" "$SRC/tests/e2e/use_export.c" "$BUILD/worker/emu/libgk_emu.a" \
  "$BUILD/core/libgk_core.a" -ljansson -lsodium -lm -ldl ${GK_LINK_FLAGS:-} -o "$TMP/use" || bad "use_export does not compile"
mv "$TMP/x" "$TMP/moved" # nothing may hang on where it was written
(cd / && ASAN_OPTIONS=detect_leaks=0 "$TMP/use" "$TMP/moved") || bad "the exported folder alone"

for command in "jobs --all" "show 1" "trials 1" "best gemm" "workers" "db check"; do
  # shellcheck disable=SC2086  # words on purpose
  "$BIN/gktune" $command --json --state "$TMP/a" >"$TMP/json" 2>"$TMP/err" || bad "$command: $(cat "$TMP/err")"
  python3 -c 'import json,sys; json.load(open(sys.argv[1]))' "$TMP/json" || bad "$command --json is no JSON"
done
"$BIN/gktune" export gemm --arch emu-sm_80 --format json --out "$TMP/j" --state "$TMP/a" >/dev/null || bad "export json"
test -s "$TMP/j/gk_gemm_emu_sm_80.json" || bad "the json export"
"$BIN/gktune" run gemm --shapes "$TMP/shapes.json" --device emu --budget 2 --state "$TMP/c" --from "$TMP/moved" --json >"$TMP/out" 2>"$TMP/err" || bad "--from: $(cat "$TMP/err")"
finish "two runs, their exports and listings"
