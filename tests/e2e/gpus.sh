#!/usr/bin/env bash
# GPUs as programs see them, over doubles of the driver and of NVML: listed, shown, locked, looked for; and a compiler
# in a Python package's folder.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
BUILD=${3:?build folder}
export GKTUNE_CUDA=$BUILD/tests/fake_gpu/libfake_cuda.so GKTUNE_NVML=$BUILD/tests/fake_gpu/libfake_nvml.so
[ -e "$GKTUNE_CUDA" ] || bad "no double of the driver at $GKTUNE_CUDA"
uuid=GPU-00112233-4455-6677-8899-aabbccddee00
other=${uuid%0}1

FAKE_CUDA_DEVICES=2 "$BIN/gktune-worker" --list-devices >"$TMP/list" 2>"$TMP/err" || bad "list: $(cat "$TMP/err")"
python3 - "$TMP/list" $uuid <<'PY' || bad "what the list holds: $(cat "$TMP/list")"
import json, sys
what = json.load(open(sys.argv[1]))
one, two = what["devices"]
assert what["cuda"] == "13.0" and what["nvml"] == "580.65.06" and what["why"] is None, what
assert one["uuid"] == sys.argv[2] and one["device"] == "cuda:" + one["uuid"] and two["uuid"] != one["uuid"], what
assert one["gpu"] == "h200-132sm" and one["target"] == "sm_90a" and not one["modelled"], one
assert one["power_limit_w"] == 700 and one["processes"] == [4242] and one["holder"] == 0, one
PY
FAKE_NVML_LIMIT_MW=450000 "$BIN/gktune-worker" --list-devices | grep -q '"gpu":"h200-132sm-450w"' ||
  bad "another power limit is another key"
GKTUNE_NVML=/nowhere "$BIN/gktune-worker" --list-devices | grep -q '"processes":null' || bad "nothing known is not none"
# NVML never returns: whoever only looks is not kept.
FAKE_NVML_HANG=1 timeout -k 5 100 "$BIN/gktune" doctor >"$TMP/out" 2>"$TMP/err"
[ $? -lt 124 ] || bad "doctor waits for NVML for ever"
grep -q '^warn *cuda .*--list-devices' "$TMP/out" || bad "doctor does not say that no list came: $(cat "$TMP/out")"

# What CUDA_VISIBLE_DEVICES leaves, as a user, Slurm or a container sets it: by number in its order, by UUID, by its beginning.
visible() { # what it is, what is to be listed: last digits of UUIDs
  local got
  got=$(CUDA_VISIBLE_DEVICES=$1 "$BIN/gktune-worker" --list-devices 2>"$TMP/err" | python3 -c '
import json, sys
print(" ".join(d["uuid"][:4] + d["uuid"][-2:] for d in json.load(sys.stdin)["devices"]))')
  [ "$got" = "$2" ] || bad "CUDA_VISIBLE_DEVICES=$1 gives '$got', not '$2': $(cat "$TMP/err")"
}
export FAKE_CUDA_DEVICES=4
visible 2,0 'GPU-02 GPU-00'
visible "${uuid%00}03" 'GPU-03'
visible 3,9,1 'GPU-03'
visible '' ''
SLURM_JOB_ID=7 SLURM_JOB_GPUS=1,2 visible 1,2 'GPU-01 GPU-02'
# A GPU in parts: the driver shows a process one part and nothing beside it; each is a device with a key of its own.
export FAKE_CUDA_DEVICES=2 FAKE_CUDA_MIG=1g.18gb,1g.18gb,3g.71gb
part=MIG-${uuid#GPU-}
part=${part%00}
"$BIN/gktune-worker" --list-devices >"$TMP/list" 2>"$TMP/err" || bad "parts: $(cat "$TMP/err")"
python3 - "$TMP/list" <<'PY' || bad "parts of a GPU: $(cat "$TMP/list" "$TMP/err")"
import json, sys
devices = json.load(open(sys.argv[1]))["devices"]
assert [d["uuid"][:4] + d["uuid"][-2:] for d in devices] == ["MIG-10", "MIG-11", "MIG-12", "GPU-01"], devices
assert [d["gpu"] for d in devices] == ["h200-16sm-mig-1g18gb"] * 2 + ["h200-48sm-mig-3g71gb", "h200-132sm"], devices
assert [d["sms"] for d in devices] == [16, 16, 48, 132], devices
PY
visible "${part}12,${part}10" 'MIG-12 MIG-10'
visible 1 'GPU-01'
visible 0 'MIG-10'
CUDA_VISIBLE_DEVICES=1 "$BIN/gktune-worker" --connect "ipc://$TMP/none" --device "cuda:${part}11" >"$TMP/out" 2>"$TMP/err" &&
  bad "a part that is not ours was taken"
grep -q "none of this machine's 1 CUDA device has that UUID" "$TMP/err" || bad "a part that is not ours: $(cat "$TMP/err")"
# Without --device a worker takes all that it sees, each by its UUID.
mkfifo "$TMP/all"
exec {all}<>"$TMP/all"
CUDA_VISIBLE_DEVICES=${part}11,${part}12 "$BIN/gktune-worker" --private --connect "ipc://$TMP/none" --spool "$TMP/c" <"$TMP/all" 2>"$TMP/parts" &
worker=$!
children+=("$worker")
holds() { "$BIN/gktune-worker" --list-devices | python3 -c '
import json, sys
print([d["holder"] for d in json.load(sys.stdin)["devices"]] == [0, int(sys.argv[1]), int(sys.argv[1]), 0])' "$worker" | grep -q True; }
eventually 20 holds || bad "a worker takes what it sees: $("$BIN/gktune-worker" --list-devices) $(cat "$TMP/parts")"
kill -9 "$worker"
wait "$worker" 2>/dev/null
unset FAKE_CUDA_DEVICES FAKE_CUDA_MIG

# None: every command that wants one says why.
FAKE_CUDA_DEVICES=0 "$BIN/gktune-worker" --connect "ipc://$TMP/none" >"$TMP/out" 2>"$TMP/err" && bad "a worker without a GPU"
grep -q 'CUDA_ERROR_NO_DEVICE' "$TMP/err" || bad "why there is no GPU: $(cat "$TMP/err")"
GKTUNE_CUDA=/nowhere/libcuda.so.1 "$BIN/gktune" doctor >"$TMP/out" 2>/dev/null
grep -q '^warn *cuda driver.*/nowhere/libcuda.so.1' "$TMP/out" || bad "doctor without a driver: $(cat "$TMP/out")"
printf '{"op":"gemm","shapes":[{"M":16,"N":64,"K":64}]}' >"$TMP/shapes.json"
"$BIN/gktune" run gemm --shapes "$TMP/shapes.json" --device cuda:1 >"$TMP/out" 2>"$TMP/err"
[ $? = 2 ] || bad "a device that is not there"
grep -q "cuda:0 to cuda:0 (cuda:0 is cuda:$uuid)" "$TMP/err" || bad "which devices there are: $(cat "$TMP/err")"
[ -e "$GKTUNE_STATE/store.db" ] && bad "a refused device left a store"

# One worker a GPU, until it is gone.
mkfifo "$TMP/stdin"
exec {hold}<>"$TMP/stdin"
"$BIN/gktune-worker" --private --connect "ipc://$TMP/none" --spool "$TMP/a" --device cuda:0 <"$TMP/stdin" 2>"$TMP/first" &
first=$!
children+=("$first")
held() { "$BIN/gktune" doctor 2>/dev/null | grep -q "^ok *cuda:0 .*held by a gktune-worker, process $first"; }
beside() { FAKE_NVML_PROCESSES=2 "$BIN/gktune" doctor 2>/dev/null | grep -q "^warn *cuda:0 .*process $first; in use by process 4242, 4243"; }
eventually 20 held && beside || bad "doctor does not warn of who computes beside a worker: $(FAKE_NVML_PROCESSES=2 "$BIN/gktune" doctor 2>/dev/null | grep cuda:0)"
eventually 20 held || bad "doctor does not name the holder: $("$BIN/gktune" doctor 2>/dev/null | grep cuda:0) $(cat "$TMP/first")"
"$BIN/gktune-worker" --connect "ipc://$TMP/none" --spool "$TMP/b" --device "cuda:$uuid" >"$TMP/out" 2>"$TMP/err" && bad "two workers on one GPU"
grep -q "$uuid is held by process $first" "$TMP/err" || bad "who holds it: $(cat "$TMP/err")"
FAKE_CUDA_DEVICES=2 "$BIN/gktune-worker" --list-devices | grep -q "\"device\":\"cuda:$other\".*\"holder\":0" || bad "the other GPU is free"
"$BIN/gktune" run gemm --shapes "$TMP/shapes.json" >"$TMP/out" 2>"$TMP/err" && bad "a run on a held GPU"
grep -q "is held by process $first" "$TMP/err" || bad "a run on a held GPU says so: $(cat "$TMP/err")"
"$BIN/gktune" jobs --all 2>/dev/null | grep -q gemm && bad "a run that had no GPU left a job"
kill -9 "$first"
wait "$first" 2>/dev/null
free() { "$BIN/gktune-worker" --list-devices | grep -q '"holder":0'; }
eventually 20 free || bad "a worker that was killed holds its GPU"
# The worker of a command that was killed is still ending: the next command's waits for it. Whoever holds the GPU here lets it
# go when he is asked who he is, which the second worker does when it finds it held.
python3 - "$BIN/gktune-worker" "$TMP" "$uuid" <<'PY' || bad "a worker does not wait for one that is ending: $(cat "$TMP/waits")"
import json, socket, subprocess, sys
program, folder, uuid = sys.argv[1:]
holder = socket.socket(socket.AF_UNIX)
holder.bind("\0gktune-gpu-" + uuid)
holder.listen(8)
holder.settimeout(30)
with open(folder + "/waits", "w") as said:
    worker = subprocess.Popen([program, "--private", "--connect", "ipc://%s/none" % folder, "--spool", folder + "/d", "--device", "cuda:0"],
                              stdin=subprocess.PIPE, stderr=said)
    holder.accept()[0].close()
    holder.close()
    try:
        while worker.poll() is None:
            device = json.loads(subprocess.run([program, "--list-devices"], stdout=subprocess.PIPE).stdout)["devices"][0]
            if device["holder"] == worker.pid:
                sys.exit(0)
        sys.exit(1)
    finally:
        worker.kill()
        worker.wait()
PY

# NVRTC: a folder of a Python package, or the folder of all of them; every place is listed.
nvrtc=$("$BIN/gktune" doctor 2>/dev/null | sed -n 's/^ok *nvrtc *[0-9.]*, //p')
if [ -n "$nvrtc" ]; then
  mkdir -p "$TMP/site/nvidia/cu13/lib"
  ln -s "$nvrtc" "$(dirname "$nvrtc")"/libnvrtc-builtins.so.* "$TMP/site/nvidia/cu13/lib/"
  for folder in "$TMP/site" "$TMP/site/nvidia" "$TMP/site/nvidia/cu13" "$TMP/site/nvidia/cu13/lib"; do
    GKTUNE_NVRTC=$folder "$BIN/gktune" doctor 2>/dev/null | grep -q '^ok *nvrtc' || bad "NVRTC in $folder"
  done
fi
# Variables that are set to nothing are not set.
GKTUNE_NVRTC='' GKTUNE_NVML='' CUDA_HOME="${CUDA_HOME:-}" "$BIN/gktune-worker" --list-devices | python3 -c '
import json, sys
what = json.load(sys.stdin)
sys.exit("version" not in what["nvrtc"] and "lacks functions" in what["nvrtc"]["why"])' || bad "an empty GKTUNE_NVRTC is taken for a library"
GKTUNE_CUDA='' "$BIN/gktune-worker" --list-devices 2>/dev/null | grep -q 'has no cu' && bad "an empty GKTUNE_CUDA is taken for a library"
mkdir "$TMP/empty"
GKTUNE_NVRTC=$TMP/empty "$BIN/gktune" doctor 2>/dev/null | grep '^missing *nvrtc' | grep -q "$TMP/empty/nvidia/cuda_nvrtc/lib" ||
  bad "the places that were tried are not listed"
finish "GPUs"
