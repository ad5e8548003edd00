#!/usr/bin/env bash
# scripts/gpu-figures on the mock device: cut off by its time limit, gone on with from its own output, never measured twice.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
printf '{"op":"gemm","shapes":[{"M":[16,48],"N":64,"K":64},{"M":16,"N":[32,64],"K":[32,64],"dtype":"bf16"}]}' >"$TMP/shapes.json"
mkdir -p "$TMP/peers" "$TMP/out0"
# Stand-ins for the programs that time peers: what matters here is what becomes of their lines.
printf '%s\n' '#include <stdio.h>' '#include <cublasLt.h>' 'int main(void) { char name[64], dtype[16]; long m, n, k;' \
  'while (scanf("%63s %ld %ld %ld %15s", name, &m, &n, &k, dtype) == 5) {' \
  'printf("{\"op\": \"gemm_%s_nt\", \"impl\": \"x\", \"M\": %ld, \"N\": %ld, \"K\": %ld, \"ms\": 0.0125}\n", dtype, m, n, k); } return 0; }' >"$TMP/peers/lt_best.c"
printf 'print("""{"op": "gemm_bf16_nt", "M": 48, "N": 64, "K": 64, "ms": 0.5, "impl": "cublas"}""")\n' >"$TMP/peers/peers_kernels.py"
call() { # number, seconds, more
  rm -rf "$TMP/state" # as on a machine that begins bare
  timeout -k 5 120 "$SRC/scripts/gpu-figures" "$(dirname "$BIN")" "$TMP/state" "$TMP/out$1" "$2" "${@:3}" --from "$TMP/out$(($1 - 1))" \
    --device mock --budget 12 --speed-budget 20 --chunk 2 --peers "$TMP/peers" --shapes "speed=$TMP/shapes.json" --shapes "decode=$TMP/shapes.json" \
    --shapes "table=$TMP/shapes.json" --shapes "twice=$TMP/shapes.json" >"$TMP/said" 2>&1
}
count() { grep -c "\"kind\": \"$2\"" "$TMP/out$1/figures.jsonl"; }
call 1 12.5 decode twice # half a second
rc=$?
[ "$rc" = 3 ] || bad "a call without time ended with $rc: $(tail -n 5 "$TMP/said")"
grep -q 'partial' "$TMP/out1/figures.md" || bad "what is not all there is not marked"
call 2 90 speed decode table twice
rc=$?
[ "$rc" = 0 ] || bad "call 2 ended with $rc: $(tail -n 20 "$TMP/said")"
[ "$(count 2 twice)" = 5 ] || bad "twice: $(count 2 twice) of 5 problems"
grep -q '^A verified config' "$TMP/out2/figures.md" || bad "no table of speeds"
grep -q 'the same byte for byte' "$TMP/out2/figures.md" || bad "the second export differs: $(grep 'same command' "$TMP/out2/figures.md")"
before=$(count 2 chunk)
# What an export needs travels too: the comparison of exports is done again over restored stores.
sed -i '/"kind": "again"/d' "$TMP/out2/figures.jsonl"
call 3 90 speed decode table twice
rc=$?
[ "$rc" = 0 ] || bad "call 3 ended with $rc: $(tail -n 20 "$TMP/said")"
[ "$(count 3 chunk)" = "$before" ] && [ "$(count 3 speed)" = 2 ] || bad "something was measured again"
[ "$(count 3 again)" = 1 ] || bad "no comparison over restored stores"
if [ -n "${CUDA_HOME:-}" ] || [ -e /usr/local/cuda/include/cublasLt.h ]; then
  call 4 90 peers
  rc=$?
  [ "$rc" = 0 ] || bad "peers ended with $rc: $(tail -n 20 "$TMP/said")"
  grep -qE '^\| 48 \| 64 \| 64 \|.* 12\.5 \| 500 \|' "$TMP/out4/figures.md" || bad "peers are not beside ours: $(grep '^| 48' "$TMP/out4/figures.md")"
fi
# The vendor's time, as a GPU's store gives it, and why there is none.
sed -e '/"kind": "pick"/s/"vendor": null/"vendor": {"template": "vendor:cublaslt", "time_ns": 9000.0, "of_vendor": 1.1, "of_vendor_low": 1.05, "of_vendor_high": 1.2}/' \
  -e '/"M": 48/s/"vendor": {[^}]*}/"vendor": {"template": "vendor:cublaslt", "reason": "load_error"}/' "$TMP/out3/figures.jsonl" >"$TMP/vendor.jsonl"
"$SRC/scripts/results-table" "$TMP/vendor.jsonl" >"$TMP/vendor.md" || bad "results-table"
grep -q '1\.100 (1\.050 to 1\.200)' "$TMP/vendor.md" || bad "the vendor's time is not in the table"
grep -q '^| 48 .*none: load_error' "$TMP/vendor.md" || bad "why there is no vendor's time is not in the table"
grep -q '^| \*\*all\*\* | 4 | 1\.100 | 1\.100 |' "$TMP/vendor.md" || bad "no mean: $(grep 'all' "$TMP/vendor.md")"
"$SRC/scripts/gpu-figures" "$(dirname "$BIN")" "$TMP/state" "$TMP/o" 60 nothing >/dev/null 2>&1
[ $? = 2 ] || bad "a part that there is not was accepted"
mkdir "$TMP/out8"
call 9 60 faults # kernels do not run there
[ $? = 1 ] || bad "a part that failed did not fail the call"
# Broken sources, where there is NVRTC: the emulated device rejects them too.
mkdir "$TMP/out9a"
timeout -k 5 120 "$SRC/scripts/gpu-figures" "$(dirname "$BIN")" "$TMP/state" "$TMP/out9a" 90 twins --device emu:sm_90a --twins "a split rmsnorm begins before" >"$TMP/said" 2>&1
rc=$?
if ! grep -q 'NVRTC (libnvrtc.so) was not found' "$TMP/said"; then
  [ "$rc" = 0 ] || bad "twins ended with $rc: $(tail -n 5 "$TMP/said")"
  "$SRC/scripts/results-table" --twins "$TMP/out9a/figures.jsonl" >"$TMP/twins.md" || bad "results-table --twins"
  grep -q '^## Twins: 1 of 1 rejected' "$TMP/twins.md" || bad "twins: $(grep '^##' "$TMP/twins.md")"
  grep -qE '^\| a split rmsnorm begins before h is there \| race ' "$TMP/twins.md" || bad "how a twin ended is not in the table"
fi
finish "six calls"
