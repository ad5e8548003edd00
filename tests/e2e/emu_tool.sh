#!/usr/bin/env bash
# gktune emu: a right kernel, broken ones with their source lines, mistakes of its command line, and JSON that holds to the schema.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cases=0
emu() { # wanted exit status, name, words...
  local want=$1 name=$2 got
  shift 2
  timeout 120 "$BIN/gktune" emu "$@" >"$TMP/out" 2>"$TMP/err"
  got=$?
  cases=$((cases + 1))
  [ "$got" = "$want" ] || bad "$name: exit status $got, not $want: $(head -c 400 "$TMP/err")"
}
says() { # file, parts...
  local file=$1 part
  shift
  for part in "$@"; do
    grep -qF -- "$part" "$file" || bad "'$part' is not in: $(head -c 1500 "$file")"
  done
}
config='BM=32,BN=32,BK=16,WM=2,WN=1,STAGES=2'
emu 0 "a right kernel" gemm --shape M=32,N=32,K=32,align=128 --config "$config" --top 5
if grep -q 'NVRTC (libnvrtc.so) was not found' "$TMP/err"; then
  exit 77
fi
says "$TMP/out" 'verified, schedule late' 'verified, schedule random' 'verified, schedule early' 'exact       passed: 1024 elements of C' \
  'modelled: tensor' 'gemm/gemm_mma.cuh:' 'mma_m16n8k16(' 'more lines; --top 0 shows all of them'

# JSON: the schema, and sums that follow from the problem: one block reads A and B once.
emu 0 "JSON" gemm --shape M=32,N=32,K=32,align=128 --config "$config" --schedule early --json
python3 - "$TMP/out" >"$TMP/emu.jsonl" <<'PY' || bad "the JSON of emu"
import json, sys
report = json.load(open(sys.argv[1]))
print(json.dumps({"command": "emu", "output": report}))
launch, = report["launches"]
assert report["verified"] and [run["schedule"] for run in report["runs"]] == ["early"], report["runs"]
assert launch["counts"]["tensor_flops"] == 2 * 32 * 32 * 32, launch["counts"]
assert launch["counts"]["cp_async_bytes"] == 2 * 32 * 32 * 2, launch["counts"]
assert launch["model"]["total_ns"] > 0 and launch["model"]["binds"]
for name, whole in launch["counts"].items():
    assert sum(line["counts"].get(name, 0) for line in launch["lines"]) == whole, name
texts = [line["text"] for line in launch["lines"] if line["counts"].get("tensor_flops")]
assert len(texts) == 1 and "mma_m16n8k16" in texts[0], texts
PY
"$SRC/tests/support/validate.py" --lines "$SRC/schemas/cli.schema.json" "$TMP/emu.jsonl" >"$TMP/why" || bad "schema: $(head -n 5 "$TMP/why")"
cp "$TMP/out" "$TMP/first"
emu 0 "JSON again" gemm --shape M=32,N=32,K=32,align=128 --config "$config" --schedule early --json
cmp -s "$TMP/first" "$TMP/out" || bad "two reports of one seed differ"

# Recorded reports, which the golden texts are made of, hold to the schema too.
for report in "$SRC"/tests/data/emu/reports/*.json; do
  python3 -c 'import json, sys; print(json.dumps({"command": "emu", "output": json.load(open(sys.argv[1]))}))' "$report"
done >"$TMP/recorded.jsonl"
"$SRC/tests/support/validate.py" --lines "$SRC/schemas/cli.schema.json" "$TMP/recorded.jsonl" >"$TMP/why" || bad "recorded: $(head -n 5 "$TMP/why")"

# A user's own template: right, then with a race between lines 102 and 103, which are shown with their text.
cp -r "$SRC/tests/data/worker/add" "$TMP/add"
emu 0 "a user's template" "$TMP/add/add_some.kernel.json" --shape n=64 --source
says "$TMP/out" 'float sum = number(a[i]) + number(b[i]);' ' | '
sed -i '/^    y\[i\] = element(sum);/i\
    __shared__ float passed[64];\
    passed[threadIdx.x % 64] = sum;\
    __syncthreads();\
    passed[threadIdx.x % 64] = 2.0f * sum;\
    sum = 0.0f * passed[(threadIdx.x + 32) % 64] + sum;' "$TMP/add/add_some.cu"
for schedule in late early random; do
  emu 1 "a race, $schedule" "$TMP/add/add_some.kernel.json" --shape n=64 --schedule $schedule
  says "$TMP/out" 'NOT VERIFIED: race' "schedule $schedule" 'data race' 'add/add_some.cu:102: passed[threadIdx.x % 64] = 2.0f * sum;' \
    'add/add_some.cu:103: sum = 0.0f * passed[(threadIdx.x + 32) % 64] + sum;' 'these are the counts until then'
  says "$TMP/err" 'not verified: race'
done
emu 1 "a wrong result" "$SRC/tests/data/worker/add/add_some.kernel.json" --shape n=64 --config BUG=wrong_place
says "$TMP/out" 'NOT VERIFIED: wrong_result, stage verify' '1 wrong' 'element 1, got'
emu 1 "no code" "$SRC/tests/data/worker/add/add_some.kernel.json" --shape n=64 --config BUG=syntax --json
says "$TMP/out" '"kind":"compile_error"' 'add_some.cu(66)'
sed -i 's/__syncthreads();/asm volatile("bar.sync 1, 256;");/' "$TMP/add/add_some.cu"
emu 1 "a deadlock" "$TMP/add/add_some.kernel.json" --shape n=64 --schedule late
says "$TMP/out" 'NOT VERIFIED: deadlock' 'no thread can step' 'at barrier 1, where' 'add/add_some.cu:101: asm volatile("bar.sync 1, 256;");'

# Mistakes of the command line: exit status 2, everything named at once.
emu 2 "mistakes of a config" gemm --shape M=64,N=64,K=64 --config BMM=3,STAGES=77,EPILOGUE=foo
says "$TMP/err" "no parameter 'BMM'; did you mean 'BM'" 'STAGES = 77: gemm_mma has 2, 3, 4, 5' 'EPILOGUE = "foo": gemm_mma has direct, staged'
emu 2 "an illegal config" gemm --shape M=64,N=64,K=64 --config BM=192
says "$TMP/err" 'tile_m_used'
emu 2 "a missing file" "$TMP/nothing.kernel.json" --shape M=64
says "$TMP/err" "$TMP/nothing.kernel.json: no such file"
emu 2 "a missing field" gemm --shape M=64,N=64
says "$TMP/err" 'field K is missing'
emu 2 "no shape" gemm
says "$TMP/err" '--shape FIELD=VALUE,.. is missing'
emu 2 "an unknown target" gemm --shape M=64,N=64,K=64 --arch sm_70
says "$TMP/err" 'sm_70' 'sm_80'
emu 2 "a GPU" gemm --shape M=64,N=64,K=64 --arch h200
says "$TMP/err" 'an emulated target is needed'
emu 2 "an unknown schedule" gemm --shape M=64,N=64,K=64 --schedule soon
says "$TMP/err" 'late, early, random and all are allowed'
export GKTUNE_NVRTC=$TMP/none
emu 2 "no compiler" gemm --shape M=64,N=64,K=64
says "$TMP/err" 'NVRTC (libnvrtc.so) was not found' "$TMP/none"
[ ! -e "$GKTUNE_STATE" ] || bad "a state folder was made"
finish "$cases cases"
