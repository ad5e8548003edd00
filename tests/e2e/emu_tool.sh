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

# A warpgroup's product counts once, not once a warp; TMA reads both operands once and stores the result.
emu 0 "wgmma" "$SRC/kernels/gemm/gemm_wgmma.kernel.json" --shape M=64,N=64,K=64 --config BM=64,BN=64 --schedule early --json
python3 - "$TMP/out" <<'PY' || bad "the counts of wgmma"
import json, sys
report = json.load(open(sys.argv[1]))
counts = report["launches"][0]["counts"]
assert report["arch"] == "emu-sm_90a", report["arch"]
assert counts["tensor_flops"] == 2 * 64 * 64 * 64, counts
assert counts["bulk_load_bytes"] == 2 * 64 * 64 * 2, counts
PY

# Recorded reports, which the golden texts are made of, hold to the schema too.
for report in "$SRC"/tests/data/emu/reports/*.json; do
  python3 -c 'import json, sys; print(json.dumps({"command": "emu", "output": json.load(open(sys.argv[1]))}))' "$report"
done >"$TMP/recorded.jsonl"
"$SRC/tests/support/validate.py" --lines "$SRC/schemas/cli.schema.json" "$TMP/recorded.jsonl" >"$TMP/why" || bad "recorded: $(head -n 5 "$TMP/why")"

# A user's own template: right, then with a race between two lines, which are shown with their text.
at() { grep -nF -- "$1" "$2" | cut -d: -f1; } # number of the line that holds the text
cp -r "$SRC/tests/data/worker/add" "$TMP/add"
emu 0 "a user's template" "$TMP/add/add_some.kernel.json" --shape n=64 --source
says "$TMP/out" 'float sum = number(a[i]) + number(b[i]);' ' | '
sed -i '/^    y\[i\] = element(sum);/i\
    __shared__ float passed[64];\
    passed[threadIdx.x % 64] = sum;\
    __syncthreads();\
    passed[threadIdx.x % 64] = 2.0f * sum;\
    sum = 0.0f * passed[(threadIdx.x + 32) % 64] + sum;' "$TMP/add/add_some.cu"
write=$(at '= 2.0f * sum;' "$TMP/add/add_some.cu") reads=$(at 'sum = 0.0f * passed' "$TMP/add/add_some.cu")
for schedule in late early random; do
  emu 1 "a race, $schedule" "$TMP/add/add_some.kernel.json" --shape n=64 --schedule $schedule
  says "$TMP/out" 'NOT VERIFIED: race' "schedule $schedule" 'data race' "add/add_some.cu:$write: passed[threadIdx.x % 64] = 2.0f * sum;" \
    "add/add_some.cu:$reads: sum = 0.0f * passed[(threadIdx.x + 32) % 64] + sum;" 'these are the counts until then'
  says "$TMP/err" 'not verified: race'
done
emu 1 "a wrong result" "$SRC/tests/data/worker/add/add_some.kernel.json" --shape n=64 --config BUG=wrong_place
says "$TMP/out" 'NOT VERIFIED: wrong_result, stage verify' '1 wrong' 'element 1, got'
emu 1 "no code" "$SRC/tests/data/worker/add/add_some.kernel.json" --shape n=64 --config BUG=syntax --json
says "$TMP/out" '"kind":"compile_error"' "add_some.cu($(at 'this is not C++' "$SRC/tests/data/worker/add/add_some.cu"))"
sed -i 's/__syncthreads();/asm volatile("bar.sync 1, 256;");/' "$TMP/add/add_some.cu"
emu 1 "a deadlock" "$TMP/add/add_some.kernel.json" --shape n=64 --schedule late
says "$TMP/out" 'NOT VERIFIED: deadlock' 'no thread can step' 'at barrier 1, where' "add/add_some.cu:$(at 'bar.sync 1, 256' "$TMP/add/add_some.cu"): asm volatile(\"bar.sync 1, 256;\");"

# Somebody's own CUDA C++, without a template: it is run and looked at.
cat >"$TMP/saxpy.cu" <<'CU'
#include "scale.cuh"
template <int N> __global__ void unused() {}
__global__ void saxpy(int n, float a, const float *x, float *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = scale(a, x[i]) + y[i];
    }
}
__global__ void sum(const float *x, float *y) { atomicAdd(y, x[blockIdx.x * 32 + threadIdx.x]); }
CU
echo '__device__ float scale(float a, float x) { return a * x; }' >"$TMP/scale.cuh"
emu 0 "saxpy" "$TMP/saxpy.cu" --entry saxpy --grid 2 --block 32 --arg i32=60 --arg f32=2 --arg 'f32[64]=iota' --arg 'f32[64]=1'
says "$TMP/out" 'ran, schedule late' 'ran, schedule early' 'argument 3, f32[64]: 1 3 5 7 9 11 13 15 ..; 1 to 119' 'saxpy.cu:7' 'y[i] = scale(a, x[i]) + y[i];'
emu 0 "saxpy as JSON" "$TMP/saxpy.cu" --entry saxpy --grid 2 --block 32 --arg i32=60 --arg f32=2 --arg 'f32[64]=iota' --arg 'f32[64]=1' --json
python3 -c 'import json, sys; print(json.dumps({"command": "emu", "output": json.load(sys.stdin)}))' <"$TMP/out" >"$TMP/plain.jsonl"
"$SRC/tests/support/validate.py" --lines "$SRC/schemas/cli.schema.json" "$TMP/plain.jsonl" >"$TMP/why" || bad "plain schema: $(head -n 5 "$TMP/why")"
emu 0 "an order of additions" "$TMP/saxpy.cu" --entry sum --grid 16 --block 32 --arg 'f32[512]=normal' --arg 'f32[1]=0'
says "$TMP/out" 'OTHER BYTES than under the first schedule'
emu 1 "beyond the end" "$TMP/saxpy.cu" --entry saxpy --grid 2 --block 32 --arg i32=64 --arg f32=2 --arg 'f32[64]=iota' --arg 'f32[60]=1'
says "$TMP/out" 'FAILED: out_of_bounds' 'saxpy.cu:7: y[i] = scale(a, x[i]) + y[i];'
emu 2 "too few arguments" "$TMP/saxpy.cu" --entry saxpy --grid 2 --block 32 --arg i32=64
says "$TMP/err" 'has 4 parameters, args lists 1'
emu 2 "which kernel" "$TMP/saxpy.cu" --grid 2 --block 32
says "$TMP/err" 'several kernels are meant' 'saxpy' 'sum'
emu 2 "no kernel" "$TMP/saxpy.cu" --entry daxpy --grid 2 --block 32
says "$TMP/err" 'there is no such kernel' 'saxpy'
emu 2 "no block" "$TMP/saxpy.cu" --entry sum --grid 2
says "$TMP/err" '--block X[,Y[,Z]] is missing'
emu 2 "no type" "$TMP/saxpy.cu" --entry sum --grid 2 --block 32 --arg 'f33[4]'
says "$TMP/err" "no type 'f33'" 'bf16'
emu 2 "no fill" "$TMP/saxpy.cu" --entry sum --grid 2 --block 32 --arg 'f32[4]=odd'
says "$TMP/err" 'no such fill' 'iota'
emu 2 "a size that wraps" "$TMP/saxpy.cu" --entry sum --grid 1 --block 32 --arg 'f32[4611686018427387904]=1' --arg 'f32[1]'
says "$TMP/err" '4611686018427387904 elements; 1 byte to 1 GiB'
emu 2 "too many options" "$TMP/saxpy.cu" --entry sum --grid 1 --block 32 $(printf -- '--option=-DX%d ' {1..33})
says "$TMP/err" '--option: more than'
mkdir -p "$TMP/odd/folder.h"
echo '__device__ int two = 2;' >"$TMP/odd/none.cu"
ln -s nowhere "$TMP/odd/.#lock.h"
mkfifo "$TMP/odd/pipe.h"
emu 2 "no kernel at all, beside headers that are no files" "$TMP/odd/none.cu" --grid 1 --block 32
says "$TMP/err" 'none.cu: there is no __global__ function in it'
emu 2 "of templates" "$TMP/saxpy.cu" --grid 2 --block 32 --shape M=1
says "$TMP/err" '--shape is for templates'
emu 2 "of plain files" gemm --shape M=32,N=32,K=32 --grid 2
says "$TMP/err" '--grid is for plain .cu files'

# Whoever asked is killed in the middle of a long launch: the worker ends too.
"$BIN/gktune" emu gemm --shape M=1024,N=1024,K=1024 >/dev/null 2>&1 &
asker=$!
children+=("$asker")
started() { worker=$(child_of "$asker" gktune-worker); }
ended() { ! kill -0 "$worker" 2>/dev/null; }
eventually 20 started || bad "no worker was started"
children+=("${worker:-}")
kill -9 "$asker"
wait "$asker" 2>/dev/null
eventually 20 ended || bad "the worker goes on without the one who asked"

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
