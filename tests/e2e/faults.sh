#!/usr/bin/env bash
# Kernels that go wrong on purpose: each is stored as the failure that it is, and the kernel after it is clean.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
"$BIN/gktune" doctor | grep -q '^ok *nvrtc' || exit 77
faults() { timeout -k 5 120 "$1/scripts/gpu-faults" "$(dirname "$BIN")" --timeout 100 "${@:2}" >"$TMP/out" 2>"$TMP/err"; }
for device in emu:sm_80 emu:sm_90a; do
  faults "$SRC" --device "$device" --jsonl "$TMP/rows" || bad "$device: $(cat "$TMP/out" "$TMP/err")"
done
grep -c '"ok": true' "$TMP/rows" >"$TMP/count"
# The script can say no: another expectation, a kernel that fails where it should be clean, a device without kernels.
mkdir -p "$TMP/tree/scripts" "$TMP/tree/tests/gpu"
cp "$SRC/scripts/gpu-faults" "$TMP/tree/scripts"
cp -r "$SRC/tests/gpu/faults" "$TMP/tree/tests/gpu"
sed -i 's/^nan  *nonfinite_result/nan none/' "$TMP/tree/tests/gpu/faults/expected.txt"
sed -i 's/^    float sum = at < n/#if GK_FAULT == GK_FAULT_SLOW \&\& GK_STEP == GK_STEP_CLEAN\n    __trap();\n#endif\n&/' "$TMP/tree/tests/gpu/faults/faults.cu"
faults "$TMP/tree" --device emu:sm_80
[ $? = 1 ] || bad "a wrong expectation passed: $(cat "$TMP/out" "$TMP/err")"
grep -q '^nan .*DIFFERS' "$TMP/out" || bad "the fault that differs is not named: $(cat "$TMP/out")"
grep -q '^a clean kernel failed: .*slow.*clean.*trap' "$TMP/out" || bad "the clean kernel that failed is not named: $(cat "$TMP/out")"
faults "$SRC" --device mock
[ $? = 2 ] || bad "the mock device was accepted"
finish "$(cat "$TMP/count") faults"
