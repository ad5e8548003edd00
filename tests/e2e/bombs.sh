#!/usr/bin/env bash
# Templates that eat memory or time, flood the log or read the host's files: each is a stored failure of its config, the worker
# lives, and the next kernel compiles.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
"$BIN/gktune" doctor 2>/dev/null | grep -q '^ok *nvrtc' || exit 77
# Without a sandbox nothing of strangers is compiled, unless it is allowed by name; doctor says so before.
GKTUNE_BWRAP='' "$BIN/gktune" doctor >"$TMP/out" 2>/dev/null
grep -q '^warn *bwrap .*a worker over tcp compiles nothing unless it has --allow-unsandboxed' "$TMP/out" || bad "doctor without a sandbox: $(grep bwrap "$TMP/out")"
"$BIN/gktune" keys new farm --roles work --out "$TMP/farm.key" >"$TMP/out" 2>&1 || bad "no key: $(cat "$TMP/out")"
naked() { GKTUNE_BWRAP='' timeout -k 5 60 "$BIN/gktune-worker" --device emu:sm_80 --spool "$TMP/naked" "$@" >"$TMP/out" 2>"$TMP/err"; }
naked --connect tcp://127.0.0.1:9 --key "$TMP/farm.key" && bad "a worker without a sandbox serves over tcp"
grep -q 'no sandbox: bubblewrap (bwrap) was not found.*--allow-unsandboxed' "$TMP/err" || bad "why it does not: $(cat "$TMP/err")"
goes_on() { grep -q event=sandbox "$TMP/err" && grep -q event=connecting "$TMP/err"; }
for words in "--connect tcp://127.0.0.1:9 --key $TMP/farm.key --allow-unsandboxed" "--connect ipc://$TMP/none"; do
  # shellcheck disable=SC2086
  GKTUNE_BWRAP='' "$BIN/gktune-worker" --device emu:sm_80 --spool "$TMP/naked" $words >"$TMP/out" 2>"$TMP/err" &
  worker=$!
  children+=("$worker")
  eventually 60 goes_on || bad "a worker that may go without a sandbox ($words): $(cat "$TMP/err")"
  kill -9 "$worker"
  wait "$worker" 2>/dev/null
done
# A compiler starts no other process: its system calls are filtered (test_child_alone shows what is refused).
nvrtc=$("$BIN/gktune" doctor 2>/dev/null | grep -oE '/[^ ,]*libnvrtc[^ ,]*' | head -n 1)
"$BIN/gktune-worker" --child=compile --nvrtc "$nvrtc" <>"$TMP/idle" >"$TMP/out" 2>"$TMP/err" &
compiler=$!
children+=("$compiler")
filtered() { grep -qE '^Seccomp:[[:space:]]+2$' "/proc/$compiler/status"; }
eventually 10 filtered || bad "a compiler without a filter: $(grep Seccomp "/proc/$compiler/status") $(cat "$TMP/err")"
kill -9 "$compiler"
wait "$compiler" 2>/dev/null
printf '{"op":"scale","shapes":[{"N":1024}]}' >"$TMP/shapes.json"
rows=0
# Doubled tokens (memory), a tree of template instances (time), messages (log), a file of the host.
bomb() { # name, text that goes before the kernel, the failures that are allowed
  local dir=$TMP/$1 start=$SECONDS failure message
  cp -r "$SRC/tests/data/kernels/toy" "$dir"
  printf '%s\n' "$2" | cat - "$SRC/tests/data/kernels/toy/scale/scale.cu" >"$dir/scale/scale.cu"
  timeout -k 5 200 "$BIN/gktune" run "$dir/scale/scale_plain.kernel.json" --shapes "$TMP/shapes.json" --device emu:sm_80 --budget 1 --seed 1 \
    --state "$TMP/state-$1" >"$TMP/out" 2>"$TMP/err"
  timeout 30 "$BIN/gktune" trials 1 --json --state "$TMP/state-$1" >"$TMP/trials.$1" 2>"$TMP/why" || bad "$1: $(cat "$TMP/err" "$TMP/why")"
  failure=$(python3 -c 'import json,sys; t=json.load(open(sys.argv[1]))["trials"][0]; print(t["failure"])' "$TMP/trials.$1" 2>/dev/null)
  message=$(python3 -c 'import json,sys; t=json.load(open(sys.argv[1]))["trials"][0]; print(len(t.get("message") or ""))' "$TMP/trials.$1" 2>/dev/null)
  [[ " $3 " == *" $failure "* ]] || bad "$1: '$failure', allowed: $3; $(tail -n 3 "$TMP/err")"
  [ "${message:-0}" -le 4096 ] || bad "$1: a message of $message bytes"
  printf '%s: %s after %d s, message of %s bytes\n' "$1" "$failure" $((SECONDS - start)) "$message" >&2
  rows=$((rows + 1))
}
double='#define D0(x) x x x x x x x x
'
for i in 1 2 3 4 5 6 7 8 9; do double+="#define D$i(x) D$((i - 1))(x) D$((i - 1))(x) D$((i - 1))(x) D$((i - 1))(x) D$((i - 1))(x) D$((i - 1))(x) D$((i - 1))(x) D$((i - 1))(x)
"; done
bomb memory "$double
__device__ int bomb[] = { D9(1,) };" "compile_memory compile_timeout compile_crash compile_error"
# The compiler's time limit once more: test_sandbox/template_bomb is the one that CI runs.
[ "${GKTUNE_TEST_ALL:-}" = 1 ] && bomb time 'template <int A, int B> struct T { static const int v = T<A - 1, 2 * B>::v + T<A - 1, 2 * B + 1>::v; };
template <int B> struct T<0, B> { static const int v = 1; };
__device__ int bomb = T<22, 0>::v;' "compile_memory compile_timeout compile_crash compile_error"
flood=''
for ((i = 0; i < 3000; i++)); do flood+="#warning flood number $i of a message that is long enough to fill what is kept
"; done
bomb log "$flood
#error the end of the flood" "compile_error"
# What is kept of it has both ends: the error stands behind the warnings.
grep -q 'flood number 0 .*bytes left out.*the end of the flood' "$TMP/trials.log" || bad "log: $(cut -c1-1500 "$TMP/trials.log")"
# Files of the host are refused before anything runs, by name or by a macro.
refused() { # name, line, words of the message
  mkdir "$TMP/$1" && cp -r "$SRC/tests/data/kernels/toy/scale" "$TMP/$1"
  printf '%s\n' "$2" | cat - "$SRC/tests/data/kernels/toy/scale/scale.cu" >"$TMP/$1/scale/scale.cu"
  timeout 60 "$BIN/gktune" run "$TMP/$1/scale/scale_plain.kernel.json" --shapes "$TMP/shapes.json" --device emu:sm_80 --budget 1 --state "$TMP/state-$1" >"$TMP/out" 2>"$TMP/err"
  [ $? = 2 ] && grep -q "$3" "$TMP/err" || bad "$1: $(cat "$TMP/err")"
  rows=$((rows + 1))
}
refused absolute '#include "/etc/passwd"' 'is no path inside the folder'
refused macro '#define HOST_FILE "/etc/passwd"
#include HOST_FILE' 'include of a macro'
bomb none '' "none"
finish "$rows sources"
