#!/usr/bin/env bash
# Ctrl-C: once judges and exports what is there; twice stops, and the same command then has its whole budget.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
printf '{"op":"gemm","shapes":[{"M":[32,64],"N":64,"K":64}]}' >"$TMP/shapes.json"
start() { # state, export
  "$BIN/gktune" run gemm --shapes "$TMP/shapes.json" --device emu --budget 40 --seed 3 --state "$1" --export "$2" >"$TMP/out" 2>"$TMP/err" &
  run=$!
  children+=("$run")
}
recorded() { [ "$("$BIN/gktune" trials 1 --state "$1" --json 2>/dev/null | grep -o '"state":"recorded"' | wc -l)" -ge "$2" ]; }
waited() { # 0 when the run has ended with the status wanted
  wait "$run"
  local rc=$?
  [ "$rc" = "$1" ] || bad "exit status $rc, wanted $1: $(tail -n 3 "$TMP/err")"
}

start "$TMP/once" "$TMP/x"
eventually 60 recorded "$TMP/once" 10 || bad "no trials: $(cat "$TMP/err")"
kill -INT "$run"
waited 0
grep -q 'interrupted' "$TMP/err" || bad "nothing was said of the interrupt"
ls "$TMP"/x/*.h >/dev/null || bad "nothing was exported"

start "$TMP/twice" "$TMP/y"
eventually 60 recorded "$TMP/twice" 10 || bad "no trials: $(cat "$TMP/err")"
kill -INT "$run"
eventually 10 grep -q interrupted "$TMP/err" || bad "nothing was said of the first interrupt"
kill -INT "$run"
wait "$run"
start "$TMP/twice" "$TMP/y"
waited 0
grep -q 'at most 80 trials' "$TMP/err" || bad "another budget: $(head -n 1 "$TMP/err")"
grep -Eq 'job [0-9]+: gemm, done; 2 problems x devices, 80 trials' "$TMP/out" || bad "not the whole budget: $(head -n 1 "$TMP/out")"
"$BIN/gktune" db check --state "$TMP/twice" >/dev/null || bad "the store is damaged"
finish "interrupts"
