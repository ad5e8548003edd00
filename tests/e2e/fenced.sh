#!/usr/bin/env bash
# A GPU that its executor cannot open, over doubles of the driver and of NVML: five failures fence it, with the reason;
# the worker goes on with its other device; an operator's unfence, and an opening that works, let it back.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
BUILD=${3:?build folder}
export GKTUNE_CUDA=$BUILD/tests/fake_gpu/libfake_cuda.so GKTUNE_NVML=$BUILD/tests/fake_gpu/libfake_nvml.so
export FAKE_CUDA_BROKEN=$TMP/broken
[ -e "$GKTUNE_CUDA" ] || { bad "no double of the driver at $GKTUNE_CUDA"; finish fences; }
"$BIN/gktune" doctor 2>/dev/null | grep -q '^ok *nvrtc' || exit 77
uuid=GPU-00112233-4455-6677-8899-aabbccddee00
start_daemon() {
  "$BIN/gktuned" >"$TMP/ready" 2>>"$TMP/log" &
  daemon=$!
  children+=("$daemon")
  eventually 60 grep -q '^ready' "$TMP/ready" || bad "gktuned does not start: $(cat "$TMP/log")"
}
count() { grep -c -- "$1" "$2"; }
more() { [ "$(count "$1" "$2")" -gt "$3" ]; } # text, file, so many times before
note() { "$BIN/gktune" workers 2>/dev/null | grep -F "cuda:$uuid" | grep -o 'fenced: .*'; }
fenced() { note | grep -q 'fenced: its executor could not open the device five times in a row'; }
open() { "$BIN/gktune" workers 2>/dev/null | grep -qF "cuda:$uuid" && ! note >/dev/null; }
trials() { "$BIN/gktune" show "$1" --json 2>/dev/null | python3 -c 'import json,sys; print(json.load(sys.stdin)["job"]["trials"])'; }
ended() { "$BIN/gktune" jobs --all --json 2>/dev/null | grep -qE "\"job\":$1,[^}]*\"state\":\"$2\""; }

start_daemon
printf 0 >"$FAKE_CUDA_BROKEN"
"$BIN/gktune-worker" --connect "ipc://$GKTUNE_STATE/gktuned.sock" --device cuda:0 --device mock --spool "$TMP/spool" \
  >"$TMP/worker.out" 2>"$TMP/worker.log" &
worker=$!
children+=("$worker")
eventually 60 grep -q ready "$TMP/worker.out" || bad "no worker: $(cat "$TMP/worker.log")"
printf '{"op":"gemm","shapes":[{"M":16,"N":64,"K":64}]}' >"$TMP/shapes.json"
"$BIN/gktune" submit gemm --shapes "$TMP/shapes.json" --arch sm_90a --budget 4 --seed 1 >"$TMP/out" 2>&1 || bad "submit: $(cat "$TMP/out")"
eventually 60 fenced || bad "no fence after five openings that failed: $("$BIN/gktune" workers 2>&1) $(tail -n 5 "$TMP/worker.log")"
eventually 10 grep -q "device cuda:$uuid is fenced" "$TMP/worker.log" || bad "the worker's log tells nothing: $(cat "$TMP/worker.log")"
eventually 10 grep -q 'event=device_fenced.*could not open the device' "$TMP/log" || bad "the daemon's log tells nothing: $(tail -n 5 "$TMP/log")"
"$BIN/gktune" doctor 2>/dev/null | grep -qE '^warn +operator .*1 fenced devices' || bad "doctor does not tell of the fence"
[ "$(trials 1)" = 0 ] || bad "a device that does not open answered a trial"

# The other device of the same worker goes on.
"$BIN/gktune" submit gemm --shapes "$TMP/shapes.json" --arch mock-sm_80 --budget 4 --seed 1 >"$TMP/out" 2>&1 || bad "submit: $(cat "$TMP/out")"
eventually 60 ended 2 done || bad "the other device does not work: $("$BIN/gktune" jobs --all 2>&1) $(tail -n 5 "$TMP/worker.log")"
kill -0 "$worker" || bad "the worker ended"

# Unfenced while it is still broken: its worker tries it, and it is fenced again.
fences=$(count event=device_fenced "$TMP/log")
"$BIN/gktune" workers unfence "$uuid" --reason 'looked at it' >"$TMP/out" 2>&1 || bad "unfence: $(cat "$TMP/out")"
eventually 60 more event=device_fenced "$TMP/log" "$fences" || bad "a device that still fails is not fenced again: $(tail -n 5 "$TMP/log")"
eventually 10 fenced || bad "the second fence is not shown: $("$BIN/gktune" workers 2>&1)"

# Repaired, and unfenced: it opens and gets leases. The double computes nothing, so the daemon fences it for that now.
: >"$FAKE_CUDA_BROKEN"
"$BIN/gktune" workers unfence "$uuid" --reason 'another GPU' >"$TMP/out" 2>&1 || bad "unfence: $(cat "$TMP/out")"
unusable() { note | grep -q 'fenced: 5 failures of the infrastructure in a row'; }
eventually 60 unusable || bad "an unfenced device that opens gets no lease: $("$BIN/gktune" workers 2>&1) $(tail -n 5 "$TMP/worker.log")"

# A fence that no operator raised: at the next session its executor opens the device, and that lifts it.
"$BIN/gktune" cancel 1 --reason 'nothing more for it' >"$TMP/out" 2>&1 || bad "cancel: $(cat "$TMP/out")"
kill -9 "$daemon"
wait "$daemon" 2>/dev/null
start_daemon
eventually 60 grep -q 'event=device_ok.*self-test: its executor' "$TMP/log" || bad "no self-test lifted the fence: $(tail -n 5 "$TMP/log")"
eventually 10 open || bad "the fence is still shown: $("$BIN/gktune" workers 2>&1)"
kill -0 "$worker" || bad "the worker ended"
kill "$worker"
wait "$worker" 2>/dev/null
finish "fences"
