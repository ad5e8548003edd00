#!/usr/bin/env bash
# Fault 63: the memory limit of a control group kills the compiler. What is stored says so, with limit and peak; the worker
# lives, and the next kernel compiles. Skipped where no group can be made (no root, no delegation) or NVRTC is missing.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
"$BIN/gktune" doctor 2>/dev/null | grep -q '^ok *nvrtc' || exit 77
limit=$((400 << 20))
make_group() { # prints its folder, with the limit set
  local root=/sys/fs/cgroup own folder
  if [ -f $root/cgroup.controllers ]; then
    own=$(sed -n 's/^0:://p' /proc/self/cgroup)
    folder=$root${own%/}/gk-e2e-$$
    mkdir "$folder" && echo $limit >"$folder/memory.max" && echo 0 >"$folder/memory.swap.max"
  else
    own=$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)
    folder=$root/memory${own%/}/gk-e2e-$$
    mkdir "$folder" && echo $limit >"$folder/memory.limit_in_bytes"
  fi 2>/dev/null && printf '%s\n' "$folder"
}
group=$(make_group) || exit 77
drop_group() {
  local pid
  for pid in $(cat "$group/cgroup.procs" 2>/dev/null); do kill -9 "$pid" 2>/dev/null; done
  eventually 5 rmdir "$group" 2>/dev/null
  cleanup
}
trap drop_group EXIT
in_group() { (echo "$BASHPID" >"$group/cgroup.procs" && exec "$@"); }
in_group true 2>/dev/null || exit 77

printf '{"op":"scale","shapes":[{"N":1024}]}' >"$TMP/shapes.json"
field() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["trials"][0].get(sys.argv[2], ""))' "$TMP/trials" "$1"; }
run_one() { # source folder, state
  in_group timeout -k 5 200 "$BIN/gktune" run "$1/scale/scale_plain.kernel.json" --shapes "$TMP/shapes.json" --device emu:sm_80 --budget 1 --seed 1 \
    --state "$2" >"$TMP/out" 2>"$TMP/err"
  timeout 30 "$BIN/gktune" trials 1 --json --state "$2" >"$TMP/trials" 2>"$TMP/why" || bad "trials: $(cat "$TMP/err" "$TMP/why")"
}
cp -r "$SRC/tests/data/kernels/toy" "$TMP/bomb"
printf '__device__ int bomb[1 << 26] = {1};\n' | # every element stands in the PTX
  cat - "$SRC/tests/data/kernels/toy/scale/scale.cu" >"$TMP/bomb/scale/scale.cu"
run_one "$TMP/bomb" "$TMP/state-bomb"
[ "$(field failure)" = compile_memory ] || bad "the bomb is '$(field failure)': $(field message)"
field message | grep -qE 'the kernel killed it for the memory of the worker.s control group \(limit 400\.0 MiB, peak [0-9]+\.[0-9] MiB\)' ||
  bad "the message: $(field message)"
run_one "$SRC/tests/data/kernels/toy" "$TMP/state-good"
[ "$(field failure)" = none ] || bad "an ordinary kernel under the same limit is '$(field failure)': $(field message)"
# An executor that is killed for memory is the host's fault: tried three times, then parked, and no config is held guilty.
cp -r "$SRC/tests/data/kernels/toy" "$TMP/hungry"
printf '{"rules": [{"when": "1 == 1", "outcome": "hungry"}]}' >"$TMP/hungry/scale/mock.json"
in_group timeout -k 5 200 "$BIN/gktune" run "$TMP/hungry/scale/scale_plain.kernel.json" --shapes "$TMP/shapes.json" --device mock:sm_80 --budget 1 --seed 1 \
  --state "$TMP/state-hungry" >"$TMP/out" 2>"$TMP/err"
timeout 30 "$BIN/gktune" trials 1 --json --state "$TMP/state-hungry" >"$TMP/trials" 2>"$TMP/why" || bad "trials: $(cat "$TMP/err" "$TMP/why")"
[ "$(field state)" = parked ] || bad "the hungry one is '$(field state)': $(field message)"
field message | grep -qE 'the kernel killed the executor for the memory .*limit 400\.0 MiB, peak' || bad "the message: $(field message)"
finish "a bomb and a hungry executor under a limit"
