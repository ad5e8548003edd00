#!/usr/bin/env bash
# Two things that went wrong once. (1) Problems that share one binary: leases begin and end between two credits, and the
# worker must say its credit again, or the run stands still for ever. (2) The same command over the same store measures nothing again, holds
# no final round, and exports the same bytes; --fresh holds them.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
printf '{"op":"gemm","shapes":[{"M":16,"N":16,"K":16,"alpha":[1,2,3,4,5,6,7,8,9,10,11,12]}]}' >"$TMP/shapes.json"
tune() { timeout 150 "$BIN/gktune" run gemm --shapes "$TMP/shapes.json" --device emu --budget 3 --seed 3 --export "$TMP/$1" "${@:2}" >"$TMP/$1.out" 2>"$TMP/$1.err"; }
tune first || bad "the first run ended with $?: $(tail -n 3 "$TMP/first.err")"
tune second || bad "the second run ended with $?: $(tail -n 3 "$TMP/second.err")"
diff -r "$TMP/first" "$TMP/second" || bad "the second run exported other bytes"
"$BIN/gktune" trials 1 --json >"$TMP/one" && "$BIN/gktune" trials 2 --json >"$TMP/two" || bad "trials"
python3 - "$TMP/one" "$TMP/two" <<'PY' || bad "the second run measured something again"
import json, sys
one, two = (json.load(open(path))["trials"] for path in sys.argv[1:])
assert len(one) >= 24 and len(two) == len(one), (len(one), len(two))
assert not any(t.get("reused") for t in one)
assert all(t.get("reused") for t in two), [t["trial"] for t in two if not t.get("reused")]
PY
passes() { "$BIN/gktune" show "$1" --json | python3 -c 'import json,sys; print(sum(1 for t in json.load(sys.stdin)["tasks"] if t.get("verdict")))'; }
[ "$(passes 1)" = 12 ] || bad "the first run judged $(passes 1) of 12 problems"
[ "$(passes 2)" = 0 ] || bad "the second run held $(passes 2) final rounds"
grep -q '^12 picks stand: ' "$TMP/second.out" || bad "the second run does not say that picks stand: $(head -n 3 "$TMP/second.out")"
tune third --fresh || bad "the third run ended with $?: $(tail -n 3 "$TMP/third.err")"
[ "$(passes 3)" = 12 ] || bad "--fresh held $(passes 3) of 12 final rounds"
cmp "$TMP"/first/*.h "$TMP"/third/*.h || bad "the third run exported another header"
finish "two runs, one header"
