#!/usr/bin/env bash
# What every command prints with --json, and what an export writes, is what schemas/ says.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
validate() { "$SRC/tests/support/validate.py" "$@" >"$TMP/why" 2>&1 || bad "$*: $(head -n 5 "$TMP/why")"; }
printed() { # name in the schema, words of the command...
  local name=$1
  shift
  "$BIN/gktune" "$@" --json >"$TMP/out" 2>"$TMP/err" || bad "$*: $(cat "$TMP/err")"
  python3 - "$name" "$TMP/out" >"$TMP/$name.jsonl" <<'PY' || bad "$* --json is no JSON"
import json, sys
name, path = sys.argv[1:]
text = open(path).read()
outputs = [json.loads(line) for line in text.splitlines()] if name == "watch" else [json.loads(text)]
for output in outputs:
    print(json.dumps({"command": name, "output": output}))
PY
  [ -s "$TMP/$name.jsonl" ] || bad "$* --json printed nothing"
  validate --lines "$SRC/schemas/cli.schema.json" "$TMP/$name.jsonl"
  commands=$((commands + 1))
}
commands=0
printf '{"op":"gemm","shapes":[{"M":16,"N":[32,64],"K":32}]}' >"$TMP/shapes.json"
printed run run gemm --shapes "$TMP/shapes.json" --device mock --budget 4 --seed 1 --export "$TMP/x"
printed submit submit gemm --shapes "$TMP/shapes.json" --arch mock-sm_80 --budget 2
printed jobs jobs --all
printed show show 1
printed watch watch 1
printed best best gemm
printed trials trials 1
printed workers workers
"$BIN/gktune" run gemm --shapes "$TMP/shapes.json" --device 'mock:sm_80' --device 'mock:sm_80#1@1.02' --budget 4 --spread --state "$TMP/two" >"$TMP/out" 2>&1 || bad "a run over two devices: $(cat "$TMP/out")"
printed workers_spread workers --spread --state "$TMP/two"
printed kernels kernels gemm
printed pause pause 2
printed resume resume 2
printed cancel cancel 2
printed space space gemm --shape M=16,N=32,K=32 --arch mock-sm_80 --count
printed space space gemm --shape M=16,N=32,K=32 --arch mock-sm_80 --list
printed space space gemm --shape M=16,N=32,K=32 --arch mock-sm_80 --why "$("$BIN/gktune" space gemm --shape M=16,N=32,K=32 --arch mock-sm_80 --list | head -n 1)"
printed doctor doctor
printed doctor doctor --bundle "$TMP/bundle.json"
printed version version
printed keys keys new farm --roles work --pool --out "$TMP/farm.key"
printed keys keys revoke farm --reason "of this test"
printed keys_list keys list
printed db_check db check
printed export export gemm --arch mock-sm_80 --format json --out "$TMP/j"
printed export export --arch all --job 1 --format header --out "$TMP/n"
printed diff diff - "$TMP/n"
printed diff diff "$TMP/x" "$TMP/n"
printf '{"suite":"s","sets":[{"name":"a","op":"gemm","shapes":"shapes.json","archs":["mock-sm_80"],"budget":4}]}' >"$TMP/s.suite.json"
printed submit submit --suite "$TMP/s.suite.json" --if-changed --until 2h
printed submit submit gemm --shapes "$TMP/shapes.json" --arch mock-sm_80 --if-changed
printed export export gemm --arch mock-sm_80 --format t4 --out "$TMP/t"
"$BIN/gktune" replay --check "$TMP"/t/*.t4.json >"$TMP/out" 2>&1 || bad "T4 of our own trials: $(cat "$TMP/out")"
validate "$SRC/schemas/suite.schema.json" "$TMP/s.suite.json"
validate "$SRC/schemas/export.schema.json" "$TMP"/n/jobs.json "$TMP"/x/*.evidence.json "$TMP"/j/gk_gemm_mock_sm_80.json
# The schema can say no: a member too many, a kind that there is not.
printf '{"command":"version","output":{"version":"1","protocol":1,"protocol_min":1,"more":1}}\n{"command":"jobs","output":{"jobs":[{}]}}\n{"command":"nothing","output":{}}\n' >"$TMP/bad.jsonl"
validate --lines --invalid "$SRC/schemas/cli.schema.json" "$TMP/bad.jsonl"
finish "$commands commands"
