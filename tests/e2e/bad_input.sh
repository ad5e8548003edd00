#!/usr/bin/env bash
# Every kind of bad input: exit status 2, the file or thing named, and nothing stored.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cases=0
# status, part of the message, name, command...
expect() {
  local want=$1 part=$2 name=$3 got
  shift 3
  timeout 60 "$@" >"$TMP/out" 2>"$TMP/err"
  got=$?
  cases=$((cases + 1))
  [ "$got" = "$want" ] || bad "$name: exit status $got, not $want: $(head -c 300 "$TMP/err")"
  grep -qF -- "$part" "$TMP/err" || bad "$name: '$part' is not in: $(head -c 400 "$TMP/err")"
  [ -e "$GKTUNE_STATE" ] && [ "${keep_state:-0}" = 0 ] && bad "$name: a state folder was made"
}
shapes() { # name, text: expects 2 from run and submit alike, the file named
  printf '%b' "$2" >"$TMP/$1.json"
  expect 2 "$TMP/$1.json" "run $1" "$BIN/gktune" run gemm --device mock --shapes "$TMP/$1.json"
  expect 2 "$TMP/$1.json" "submit $1" "$BIN/gktune" submit gemm --arch emu-sm_80 --shapes "$TMP/$1.json"
  [ $# -lt 3 ] || grep -qF -- "$3" "$TMP/err" || bad "$1: '$3' is not in: $(head -c 400 "$TMP/err")"
}
row() { printf '{"op":"gemm","shapes":[%s]}' "$1"; }

shapes malformed '{"op":"gemm",\n "shapes":[{"M":16,]}' 'line 2, column'
shapes truncated '{"op":"gemm","shapes":[{"M":16' 'line 1'
shapes empty ''
shapes not_object '7'
shapes unknown_op '{"op":"gem","shapes":[{"M":16,"N":16,"K":16}]}' 'gemm'
shapes unknown_field "$(row '{"M":16,"N":16,"K":16,"Q":1}')" "Q"
shapes unknown_dtype "$(row '{"M":16,"N":16,"K":16,"dtype":"bf17"}')" 'bf16'
shapes missing_field "$(row '{"M":16,"N":16}')" 'K'
shapes negative "$(row '{"M":-16,"N":16,"K":16}')" '-16'
shapes zero "$(row '{"M":0,"N":16,"K":16}')" '1'
shapes huge "$(row '{"M":99999999999,"N":16,"K":16}')" '1073741824'
shapes overflow "$(row '{"M":99999999999999999999999,"N":16,"K":16}')"
shapes fraction "$(row '{"M":16.5,"N":16,"K":16}')" '16.5'
shapes text_extent "$(row '{"M":"16","N":16,"K":16}')"
shapes null_extent "$(row '{"M":null,"N":16,"K":16}')"
shapes empty_list '{"op":"gemm","shapes":[]}'
shapes empty_value "$(row '{"M":[],"N":16,"K":16}')"
shapes duplicate_key "$(row '{"M":16,"M":17,"N":16,"K":16}')"
shapes not_utf8 '{"op":"gemm","shapes":[{"M":16,"N":16,"K":16,"dtype":"\xff\xfe"}]}' 'UTF-8'
shapes unserved "$(row '{"M":16,"N":16,"K":16,"dtype":"e4m3"}')" 'dtype_16_bit'
shapes too_big "$(row '{"M":1073741824,"N":1073741824,"K":1073741824}')" 'constraint grid_x'
shapes bad_constraint "$(row '{"M":16,"N":16,"K":16,"lda":3}')" 'lda_row'
list=$(seq -s, 1 200)
shapes product "$(row "{\"M\":[$list],\"N\":[$list],\"K\":16}")" '10,000'

# all mistakes of a file in one pass
printf '{"op":"gemm","shapes":[{"M":-1,"N":16,"K":16},{"M":16,"N":16,"K":16,"trans":"XX"},{"M":16,"N":16}]}' >"$TMP/many.json"
expect 2 "$TMP/many.json" "many mistakes" "$BIN/gktune" run gemm --device mock --shapes "$TMP/many.json"
for part in '-1' 'XX' 'row 3'; do
  grep -qF -- "$part" "$TMP/err" || bad "many mistakes: '$part' is missing: $(cat "$TMP/err")"
done

file() { # name, path
  expect 2 "$2" "$1" "$BIN/gktune" run gemm --device mock --shapes "$2"
}
file missing "$TMP/nothing.json"
mkdir "$TMP/folder.json" && file directory "$TMP/folder.json"
mkfifo "$TMP/fifo.json" && file fifo "$TMP/fifo.json"
truncate -s 1G "$TMP/sparse.json" && file sparse "$TMP/sparse.json"
file device /dev/zero
head -c 200000 /dev/zero | tr '\0' '[' >"$TMP/deep.json" && file deep "$TMP/deep.json"
printf 'M,N,K\n16,x,16\n' >"$TMP/bad.csv" && file csv "$TMP/bad.csv"

good=$TMP/good.json
row '{"M":16,"N":16,"K":16}' >"$good"
expect 2 "--budget" "budget" "$BIN/gktune" run gemm --device mock --shapes "$good" --budget 10x
expect 2 "--budget" "zero budget" "$BIN/gktune" run gemm --device mock --shapes "$good" --budget 0
expect 2 "--seed" "seed" "$BIN/gktune" run gemm --device mock --shapes "$good" --seed -1
expect 2 "--strategy" "strategy" "$BIN/gktune" run gemm --device mock --shapes "$good" --strategy annealing
expect 2 "cold-graph-pdl, warm, eager" "policy" "$BIN/gktune" run gemm --device mock --shapes "$good" --policy hot
expect 2 "times of device mock" "policy of a model" "$BIN/gktune" run gemm --device mock --shapes "$good" --policy warm
expect 2 "emu" "device" "$BIN/gktune" run gemm --device gpu --shapes "$good"
expect 2 "sm_80" "target" "$BIN/gktune" run gemm --device emu:sm_10 --shapes "$good"
expect 2 "'--shape'; did you mean '--shapes'" "near option" "$BIN/gktune" run gemm --shape "$good"
expect 2 "did you mean 'run'" "near command" "$BIN/gktune" rum
expect 2 "gemm" "near op" "$BIN/gktune" run gemn --shapes "$good"
expect 2 "--shapes" "no shapes" "$BIN/gktune" run gemm
expect 2 "needs a value" "no value" "$BIN/gktune" run gemm --shapes
expect 2 "beside --suite" "suite" "$BIN/gktune" submit gemm --suite "$good"
expect 2 "$TMP/no.kernel.json" "no kernel" "$BIN/gktune" run "$TMP/no.kernel.json" --shapes "$good"
expect 2 "not an export" "from" "$BIN/gktune" run gemm --device mock --shapes "$good" --from "$TMP"
expect 2 "'$good' is not a folder" "export to a file" "$BIN/gktune" run gemm --device mock --shapes "$good" --export "$good"
expect 2 "$good" "export below a file" "$BIN/gktune" run gemm --device mock --shapes "$good" --export "$good/x"
expect 2 "/proc" "export to proc" "$BIN/gktune" run gemm --device mock --shapes "$good" --export /proc/x
expect 2 "'x'" "job" "$BIN/gktune" show x
expect 2 "--out" "export" "$BIN/gktune" export gemm --arch emu-sm_80
expect 2 "header, json and t4" "format" "$BIN/gktune" export gemm --arch emu-sm_80 --out "$TMP/o" --format pdf

# a kernel.json of the user's own, broken in the ways that a first try is broken
kernel() { # name, what to replace, by what, part
  mkdir -p "$TMP/$1"
  cp "$SRC"/tests/data/export/kernels/pick/* "$TMP/$1/"
  sed -i "s|$2|$3|" "$TMP/$1/pick_vec.kernel.json"
  sed -i '/"template": "pick_map"/d' "$TMP/$1/op.json" # its other template is not asked for here
  cp -r "$SRC/tests/data/export/kernels/include" "$TMP/" 2>/dev/null
  printf '{"op":"pick","shapes":[{"n":4096}]}' >"$TMP/pick.json"
  expect 2 "$4" "kernel.json $1" "$BIN/gktune" run "$TMP/$1/pick_vec.kernel.json" --kernels "$SRC/tests/data/export/kernels" --device mock --shapes "$TMP/pick.json"
  grep -qF -- "$1/pick_vec.kernel.json" "$TMP/err" || bad "kernel.json $1: the file is not named: $(head -c 400 "$TMP/err")"
}
kernel unknown_name 'BLOCK \* VEC' 'BLOK * VEC' 'BLOK'
kernel unbalanced 'BLOCK \* VEC' '(BLOCK * VEC' 'pick_vec.kernel.json'
kernel zero_divisor 'BLOCK \* VEC' 'BLOCK / (VEC - VEC)' 'division by zero'
kernel overflow 'BLOCK \* VEC' 'BLOCK * 9223372036854775807' 'overflow'
kernel never 'BLOCK <= dev.threads_block_max' 'BLOCK < 1' 'block_fits'
kernel fields_overflow 'BLOCK <= dev.threads_block_max' 'n * 9223372036854775807 > 0' 'overflow'
kernel unknown_key '"options"' '"optoins"' 'optoins'

for action in check prune "backup $TMP/copy.db"; do
  # shellcheck disable=SC2086  # words on purpose
  expect 2 "does not exist" "db $action" "$BIN/gktune" db $action
done
expect 2 "line 1, column" "why that does not parse" "$BIN/gktune" space gemm --shape M=16,N=16,K=16 --arch emu:sm_80 --why '{bad'
expect 2 "gemm_mma" "why without a template" "$BIN/gktune" space gemm --shape M=16,N=16,K=16 --arch emu:sm_80 --why '{}'

# the state folder
keep_state=1
if [ "$(id -u)" != 0 ]; then
  mkdir "$TMP/locked" && chmod 500 "$TMP/locked"
  expect 2 "$TMP/locked" "unwritable state" "$BIN/gktune" jobs --state "$TMP/locked/state"
fi
printf 'x' >"$TMP/afile"
expect 2 "$TMP/afile" "state is a file" "$BIN/gktune" jobs --state "$TMP/afile"
expect 2 "$TMP/afile" "state below a file" "$BIN/gktune" jobs --state "$TMP/afile/state"
expect 2 "/proc" "state in proc" "$BIN/gktune" jobs --state /proc/gktune
long=$TMP/$(printf 'd%.0s' $(seq 1 120))
expect 2 "allows 107" "long socket path" "$BIN/gktune" jobs --state "$long"
: >"$TMP/theirs" && chmod 000 "$TMP/theirs" # as a socket of another user
other=()
[ "$(id -u)" = 0 ] && other=(setpriv --reuid 65534 --clear-groups)
if "${other[@]}" test -x "$BIN/gktune"; then # another user may not reach the build
  expect 2 "a local socket is its daemon's user's alone" "the socket of another user" "${other[@]}" "$BIN/gktune" jobs --connect "ipc://$TMP/theirs"
fi
expect 3 "does not answer" "nobody at --connect" "$BIN/gktune" jobs --connect "ipc://$TMP/nobody"
expect 2 "tcp://host:port" "endpoint" "$BIN/gktune" jobs --connect "http://x"

# a second daemon of one state folder
"$BIN/gktuned" --state "$TMP/two" >/dev/null 2>"$TMP/first.log" &
first=$!
children+=("$first")
eventually 10 test -S "$TMP/two/gktuned.sock" || bad "the first daemon did not come up: $(cat "$TMP/first.log")"
expect 2 "$TMP/two" "second daemon" "$BIN/gktuned" --state "$TMP/two"
expect 0 "no open jobs" "the first one still serves" "$BIN/gktune" jobs --state "$TMP/two"
kill "$first" 2>/dev/null
wait "$first" 2>/dev/null

expect 2 "gemm" "best of an unknown op" "$BIN/gktune" best nope --state "$TMP/two"
expect 0 "no picks yet" "best of a known op" "$BIN/gktune" best gemm --state "$TMP/two"
"$BIN/gktune" db check --state "$TMP/two" >"$TMP/out" || bad "db check: exit status $?"
grep -q '^0 trials, 0 lines of the audit trail checked: the store is whole$' "$TMP/out" || bad "db check prints $(cat "$TMP/out")"
expect 2 'r\x1b[31m' "control characters" "$BIN/gktune" $'r\x1b[31m'

# duplicates are merged and said
row '{"M":[16,16,32],"N":16,"K":16}' >"$TMP/dup.json"
expect 0 "merged" "duplicates" "$BIN/gktune" submit gemm --arch emu-sm_80 --shapes "$TMP/dup.json" --state "$TMP/dup"
finish "$cases cases"
