#!/usr/bin/env bash
# Exported headers of all ops compile as C and as C++; where requests have lengths, a problem whose requests all have one length
# is set up by the defaults of its fields.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$TMP" || exit 1
headers=0
header() { # op, fields of a shape, statements that make the problem p, what has to hold then
  headers=$((headers + 1))
  printf '{"op":"%s","shapes":[{%s}]}' "$1" "$2" >shapes.json
  "$BIN/gktune" run "$1" --shapes shapes.json --device emu --budget 1 --export "out.$1" >out 2>&1 || bad "$1: $(tail -n 3 out)"
  cat >use.c <<USE
#include "gk_$1_emu_sm_80.h"
int main(void)
{
    struct gk_$1_problem p;
    $3
    return $4 ? 0 : 1;
}
USE
  cp use.c use.cc
  cc -std=c11 -Wall -Wextra -Werror -I "out.$1" use.c -o use_c -lm 2>log || bad "$1 as C: $(head -n 5 log)"
  c++ -std=c++17 -Wall -Wextra -Werror -I "out.$1" use.cc -o use_cc 2>log || bad "$1 as C++: $(head -n 5 log)"
  ./use_c || bad "$1 as C: not so: $4"
  ./use_cc || bad "$1 as C++: not so: $4"
}
header attention '"q_heads":2,"kv_heads":1,"head_dim":64,"seq_q":17' \
  'gk_attention_problem_init(&p, 2); p.batch = 3; p.seq_q = 40; gk_attention_problem_derive(&p);' \
  'p.q_len.count == 3 && p.q_len.min == 40 && p.q_len.max == 40 && p.q_len.sum == 120'
header attention_decode '"batch":1,"q_heads":2,"kv_heads":1,"head_dim":64,"kv_len":20' 'gk_attention_decode_problem_init(&p, 3, 2, 40);' \
  'p.kv_lens.count == 3 && p.kv_lens.min == 40 && p.kv_lens.max == 40 && p.kv_lens.sum == 120'
header mla_decode '"batch":1,"q_heads":16,"kv_len":70' 'gk_mla_decode_problem_init(&p, 3, 16, 40);' 'p.kv_lens.sum == 120'
header swiglu_gateup '"M":16,"N":64,"K":64' 'gk_swiglu_gateup_problem_init(&p, 16, 64, 64);' 'p.K == 64'
header linear_cross_entropy '"rows":16,"cols":64,"K":64' 'gk_linear_cross_entropy_problem_init(&p, 16, 64, 64);' 'p.K == 64'
header rope '"tokens":4,"q_heads":2,"kv_heads":1,"head_dim":64' 'gk_rope_problem_init(&p, 4, 2, 1, 64);' 'p.head_dim == 64'
for op in rmsnorm_residual layernorm_dropout_residual silu_mul gelu_mul softmax cross_entropy; do
  header $op '"rows":4,"cols":64' "gk_${op}_problem_init(&p, 4, 64);" 'p.cols == 64'
done
finish "$headers headers"
