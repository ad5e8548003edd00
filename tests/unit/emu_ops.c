/*
 * See emu_ops.h. Kinds: h w l are integers of 16, 32, 64 bits; f D are f32, f64; e b are f16, bf16;
 * E B are pairs of them; s is a shift amount or bit position; p is a predicate; q is a byte-like
 * small integer; y z are e4m3x2, e5m2x2; digits are exact values for matrices. A '~' at the end
 * says that the result is an approximation.
 */
#include "tests/unit/emu_ops.h"

#include <stdlib.h>
#include <string.h>

#include "core/buf.h"

static const struct emu_op OPS[] = {
    {"add.s16 %d, %a, %b;", "hhh"},
    {"add.s32 %d, %a, %b;", "www"},
    {"add.u64 %d, %a, %b;", "lll"},
    {"add.sat.s32 %d, %a, %b;", "www"},
    {"sub.s16 %d, %a, %b;", "hhh"},
    {"sub.u32 %d, %a, %b;", "www"},
    {"sub.s64 %d, %a, %b;", "lll"},
    {"sub.sat.s32 %d, %a, %b;", "www"},
    {"{ .reg .b32 x; add.cc.u32 x, %a, %b; addc.u32 %d, %b, %c; }", "wwww"},
    {"{ .reg .b32 x; sub.cc.u32 x, %a, %b; subc.u32 %d, %b, %c; }", "wwww"},
    {"{ .reg .b64 x; add.cc.u64 x, %a, %b; addc.u64 %d, %b, %c; }", "llll"},
    {"{ .reg .b32 x; mad.lo.cc.u32 x, %a, %b, %c; madc.hi.u32 %d, %a, %b, %c; }", "wwww"},
    {"mul.lo.s16 %d, %a, %b;", "hhh"},
    {"mul.lo.s32 %d, %a, %b;", "www"},
    {"mul.lo.u64 %d, %a, %b;", "lll"},
    {"mul.hi.s16 %d, %a, %b;", "hhh"},
    {"mul.hi.u16 %d, %a, %b;", "hhh"},
    {"mul.hi.s32 %d, %a, %b;", "www"},
    {"mul.hi.u32 %d, %a, %b;", "www"},
    {"mul.hi.s64 %d, %a, %b;", "lll"},
    {"mul.hi.u64 %d, %a, %b;", "lll"},
    {"mul.wide.s16 %d, %a, %b;", "whh"},
    {"mul.wide.u16 %d, %a, %b;", "whh"},
    {"mul.wide.s32 %d, %a, %b;", "lww"},
    {"mul.wide.u32 %d, %a, %b;", "lww"},
    {"mad.lo.s16 %d, %a, %b, %c;", "hhhh"},
    {"mad.lo.u32 %d, %a, %b, %c;", "wwww"},
    {"mad.lo.s64 %d, %a, %b, %c;", "llll"},
    {"mad.hi.s16 %d, %a, %b, %c;", "hhhh"},
    {"mad.hi.u16 %d, %a, %b, %c;", "hhhh"},
    {"mad.hi.s32 %d, %a, %b, %c;", "wwww"},
    {"mad.hi.sat.s32 %d, %a, %b, %c;", "wwww"},
    {"mad.hi.u32 %d, %a, %b, %c;", "wwww"},
    {"mad.hi.s64 %d, %a, %b, %c;", "llll"},
    {"mad.hi.u64 %d, %a, %b, %c;", "llll"},
    {"mad.wide.s16 %d, %a, %b, %c;", "whhw"},
    {"mad.wide.u16 %d, %a, %b, %c;", "whhw"},
    {"mad.wide.s32 %d, %a, %b, %c;", "lwwl"},
    {"mad.wide.u32 %d, %a, %b, %c;", "lwwl"},
    {"mul24.lo.s32 %d, %a, %b;", "www"},
    {"mul24.hi.s32 %d, %a, %b;", "www"},
    {"mul24.lo.u32 %d, %a, %b;", "www"},
    {"mul24.hi.u32 %d, %a, %b;", "www"},
    {"mad24.lo.s32 %d, %a, %b, %c;", "wwww"},
    {"mad24.lo.u32 %d, %a, %b, %c;", "wwww"},
    {"{ .reg .b32 x; or.b32 x, %b, 1; div.s32 %d, %a, x; }", "www"},
    {"{ .reg .b32 x; or.b32 x, %b, 1; div.u32 %d, %a, x; }", "www"},
    {"{ .reg .b64 x; or.b64 x, %b, 1; div.s64 %d, %a, x; }", "lll"},
    {"{ .reg .b64 x; or.b64 x, %b, 1; div.u64 %d, %a, x; }", "lll"},
    {"{ .reg .b16 x; or.b16 x, %b, 1; div.s16 %d, %a, x; }", "hhh"},
    {"{ .reg .b16 x; or.b16 x, %b, 1; div.u16 %d, %a, x; }", "hhh"},
    {"{ .reg .b32 x; or.b32 x, %b, 1; rem.s32 %d, %a, x; }", "www"},
    {"{ .reg .b32 x; or.b32 x, %b, 1; rem.u32 %d, %a, x; }", "www"},
    {"{ .reg .b64 x; or.b64 x, %b, 1; rem.s64 %d, %a, x; }", "lll"},
    {"{ .reg .b64 x; or.b64 x, %b, 1; rem.u64 %d, %a, x; }", "lll"},
    {"{ .reg .b16 x; or.b16 x, %b, 1; rem.s16 %d, %a, x; }", "hhh"},
    {"{ .reg .b16 x; or.b16 x, %b, 1; rem.u16 %d, %a, x; }", "hhh"},
    {"abs.s16 %d, %a;", "hh"},
    {"abs.s32 %d, %a;", "ww"},
    {"abs.s64 %d, %a;", "ll"},
    {"neg.s16 %d, %a;", "hh"},
    {"neg.s32 %d, %a;", "ww"},
    {"neg.s64 %d, %a;", "ll"},
    {"min.s16 %d, %a, %b;", "hhh"},
    {"min.u16 %d, %a, %b;", "hhh"},
    {"min.s32 %d, %a, %b;", "www"},
    {"min.u32 %d, %a, %b;", "www"},
    {"min.s64 %d, %a, %b;", "lll"},
    {"min.u64 %d, %a, %b;", "lll"},
    {"max.s16 %d, %a, %b;", "hhh"},
    {"max.u16 %d, %a, %b;", "hhh"},
    {"max.s32 %d, %a, %b;", "www"},
    {"max.u32 %d, %a, %b;", "www"},
    {"max.s64 %d, %a, %b;", "lll"},
    {"max.u64 %d, %a, %b;", "lll"},
    {"min.relu.s32 %d, %a, %b;", "www"},
    {"max.relu.s32 %d, %a, %b;", "www"},
    {"add.s16x2 %d, %a, %b;", "www"},
    {"min.s16x2 %d, %a, %b;", "www"},
    {"max.s16x2 %d, %a, %b;", "www"},
    {"min.u16x2 %d, %a, %b;", "www"},
    {"max.u16x2 %d, %a, %b;", "www"},
    {"sad.s32 %d, %a, %b, %c;", "wwww"},
    {"sad.u32 %d, %a, %b, %c;", "wwww"},
    {"sad.s16 %d, %a, %b, %c;", "hhhh"},
    {"sad.u16 %d, %a, %b, %c;", "hhhh"},
    {"sad.s64 %d, %a, %b, %c;", "llll"},
    {"sad.u64 %d, %a, %b, %c;", "llll"},
    {"and.b16 %d, %a, %b;", "hhh"},
    {"and.b32 %d, %a, %b;", "www"},
    {"or.b64 %d, %a, %b;", "lll"},
    {"xor.b32 %d, %a, %b;", "www"},
    {"not.b32 %d, %a;", "ww"},
    {"not.b64 %d, %a;", "ll"},
    {"cnot.b16 %d, %a;", "hh"},
    {"cnot.b32 %d, %a;", "ww"},
    {"cnot.b64 %d, %a;", "ll"},
    {"shl.b16 %d, %a, %b;", "hhs"},
    {"shl.b32 %d, %a, %b;", "wws"},
    {"shl.b64 %d, %a, %b;", "lls"},
    {"shr.u16 %d, %a, %b;", "hhs"},
    {"shr.s16 %d, %a, %b;", "hhs"},
    {"shr.u32 %d, %a, %b;", "wws"},
    {"shr.s32 %d, %a, %b;", "wws"},
    {"shr.b64 %d, %a, %b;", "lls"},
    {"shr.s64 %d, %a, %b;", "lls"},
    {"shf.l.wrap.b32 %d, %a, %b, %c;", "wwws"},
    {"shf.l.clamp.b32 %d, %a, %b, %c;", "wwws"},
    {"shf.r.wrap.b32 %d, %a, %b, %c;", "wwws"},
    {"shf.r.clamp.b32 %d, %a, %b, %c;", "wwws"},
    {"popc.b32 %d, %a;", "ww"},
    {"popc.b64 %d, %a;", "wl"},
    {"clz.b32 %d, %a;", "ww"},
    {"clz.b64 %d, %a;", "wl"},
    {"brev.b32 %d, %a;", "ww"},
    {"brev.b64 %d, %a;", "ll"},
    {"bfind.u32 %d, %a;", "ww"},
    {"bfind.s32 %d, %a;", "ww"},
    {"bfind.u64 %d, %a;", "wl"},
    {"bfind.s64 %d, %a;", "wl"},
    {"bfind.shiftamt.u32 %d, %a;", "ww"},
    {"bfind.shiftamt.s32 %d, %a;", "ww"},
    {"bfind.shiftamt.u64 %d, %a;", "wl"},
    {"bfind.shiftamt.s64 %d, %a;", "wl"},
    {"bfe.u32 %d, %a, %b, %c;", "wwss"},
    {"bfe.s32 %d, %a, %b, %c;", "wwss"},
    {"bfe.u64 %d, %a, %b, %c;", "llss"},
    {"bfe.s64 %d, %a, %b, %c;", "llss"},
    {"bfi.b32 %d, %a, %b, %c, 5;", "wwws"},
    {"bfi.b32 %d, %a, %b, 3, %c;", "wwws"},
    {"bfi.b64 %d, %a, %b, %c, 9;", "llls"},
    {"bfi.b64 %d, %a, %b, 7, %c;", "llls"},
    {"bmsk.clamp.b32 %d, %a, %b;", "wss"},
    {"bmsk.wrap.b32 %d, %a, %b;", "wss"},
    {"{ .reg .b32 x; and.b32 x, %b, 31; fns.b32 %d, %a, x, 2; }", "wws"},
    {"{ .reg .b32 x; and.b32 x, %b, 31; fns.b32 %d, %a, x, -1; }", "wws"},
    {"{ .reg .b32 x; and.b32 x, %b, 31; fns.b32 %d, %a, x, 0; }", "wws"},
    {"lop3.b32 %d, %a, %b, %c, 0x96;", "wwww"},
    {"lop3.b32 %d, %a, %b, %c, 0xe8;", "wwww"},
    {"lop3.b32 %d, %a, %b, %c, 0x2d;", "wwww"},
    {"prmt.b32 %d, %a, %b, %c;", "wwww"},
    {"prmt.b32.f4e %d, %a, %b, %c;", "wwws"},
    {"prmt.b32.b4e %d, %a, %b, %c;", "wwws"},
    {"prmt.b32.rc8 %d, %a, %b, %c;", "wwws"},
    {"prmt.b32.ecl %d, %a, %b, %c;", "wwws"},
    {"prmt.b32.ecr %d, %a, %b, %c;", "wwws"},
    {"prmt.b32.rc16 %d, %a, %b, %c;", "wwws"},
    {"dp4a.u32.u32 %d, %a, %b, %c;", "wwww"},
    {"dp4a.s32.s32 %d, %a, %b, %c;", "wwww"},
    {"dp4a.u32.s32 %d, %a, %b, %c;", "wwww"},
    {"dp4a.s32.u32 %d, %a, %b, %c;", "wwww"},
    {"dp2a.lo.s32.u32 %d, %a, %b, %c;", "wwww"},
    {"dp2a.hi.s32.s32 %d, %a, %b, %c;", "wwww"},
    {"dp2a.lo.u32.u32 %d, %a, %b, %c;", "wwww"},
    {"setp.eq.s32 %d, %a, %b;", "pww"},
    {"setp.ne.u16 %d, %a, %b;", "phh"},
    {"setp.lt.s16 %d, %a, %b;", "phh"},
    {"setp.lt.u16 %d, %a, %b;", "phh"},
    {"setp.le.s32 %d, %a, %b;", "pww"},
    {"setp.gt.u32 %d, %a, %b;", "pww"},
    {"setp.ge.s64 %d, %a, %b;", "pll"},
    {"setp.lo.u64 %d, %a, %b;", "pll"},
    {"setp.ls.u32 %d, %a, %b;", "pww"},
    {"setp.hi.u32 %d, %a, %b;", "pww"},
    {"setp.hs.u64 %d, %a, %b;", "pll"},
    {"setp.lt.and.s32 %d, %a, %b, %c;", "pwwp"},
    {"setp.lt.or.s32 %d, %a, %b, !%c;", "pwwp"},
    {"setp.lt.xor.u32 %d, %a, %b, %c;", "pwwp"},
    {"{ .reg .pred x; setp.lt.s32 x|%d, %a, %b; }", "pww"},
    {"{ .reg .pred x; setp.lt.and.f32 x|%d, %a, %b, %c; }", "pffp"},
    {"setp.eq.f32 %d, %a, %b;", "pff"},
    {"setp.ne.f32 %d, %a, %b;", "pff"},
    {"setp.lt.f32 %d, %a, %b;", "pff"},
    {"setp.le.ftz.f32 %d, %a, %b;", "pff"},
    {"setp.gt.f32 %d, %a, %b;", "pff"},
    {"setp.ge.f32 %d, %a, %b;", "pff"},
    {"setp.equ.f32 %d, %a, %b;", "pff"},
    {"setp.neu.f32 %d, %a, %b;", "pff"},
    {"setp.ltu.f32 %d, %a, %b;", "pff"},
    {"setp.leu.f32 %d, %a, %b;", "pff"},
    {"setp.gtu.f32 %d, %a, %b;", "pff"},
    {"setp.geu.f32 %d, %a, %b;", "pff"},
    {"setp.num.f32 %d, %a, %b;", "pff"},
    {"setp.nan.f32 %d, %a, %b;", "pff"},
    {"setp.lt.f64 %d, %a, %b;", "pDD"},
    {"setp.neu.f64 %d, %a, %b;", "pDD"},
    {"setp.lt.f16 %d, %a, %b;", "pee"},
    {"setp.gtu.f16 %d, %a, %b;", "pee"},
    {"setp.ge.bf16 %d, %a, %b;", "pbb"},
    {"{ .reg .pred x; setp.lt.f16x2 x|%d, %a, %b; }", "pEE"},
    {"{ .reg .pred x; setp.lt.f16x2 %d|x, %a, %b; }", "pEE"},
    {"set.lt.u32.s32 %d, %a, %b;", "www"},
    {"set.gt.f32.f32 %d, %a, %b;", "wff"},
    {"set.lt.and.u32.u64 %d, %a, %b, %c;", "wllp"},
    {"set.neu.s32.f64 %d, %a, %b;", "wDD"},
    {"set.lt.f16.f16 %d, %a, %b;", "eee"},
    {"set.gt.f16x2.f16x2 %d, %a, %b;", "EEE"},
    {"set.ge.bf16x2.bf16x2 %d, %a, %b;", "BBB"},
    {"selp.b16 %d, %a, %b, %c;", "hhhp"},
    {"selp.b32 %d, %a, %b, %c;", "wwwp"},
    {"selp.f64 %d, %a, %b, %c;", "DDDp"},
    {"slct.b32.s32 %d, %a, %b, %c;", "wwww"},
    {"slct.u64.s32 %d, %a, %b, %c;", "lllw"},
    {"slct.f32.f32 %d, %a, %b, %c;", "ffff"},
    {"slct.ftz.b32.f32 %d, %a, %b, %c;", "wwwf"},
    {"{ .reg .pred x; and.pred x, %a, %b; xor.pred %d, x, %c; }", "pppp"},
    {"{ .reg .pred x; or.pred x, %a, %b; not.pred %d, x; }", "ppp"},
    {"{ .reg .b16 x, y; mov.b32 {x, y}, %a; mov.b32 %d, {y, x}; }", "ww"},
    {"mov.b64 %d, {%a, %b};", "lww"},
    {"{ .reg .b16 x<4>; mov.b64 {x0,x1,x2,x3}, %a; mov.b64 %d, {x3,x0,x2,x1}; }", "ll"},
    /* single precision */
    {"add.f32 %d, %a, %b;", "fff"},
    {"add.rz.f32 %d, %a, %b;", "fff"},
    {"add.rm.f32 %d, %a, %b;", "fff"},
    {"add.rp.f32 %d, %a, %b;", "fff"},
    {"add.ftz.f32 %d, %a, %b;", "fff"},
    {"add.sat.f32 %d, %a, %b;", "fff"},
    {"add.rz.ftz.sat.f32 %d, %a, %b;", "fff"},
    {"sub.f32 %d, %a, %b;", "fff"},
    {"sub.rm.f32 %d, %a, %b;", "fff"},
    {"sub.ftz.f32 %d, %a, %b;", "fff"},
    {"mul.f32 %d, %a, %b;", "fff"},
    {"mul.rz.f32 %d, %a, %b;", "fff"},
    {"mul.rp.f32 %d, %a, %b;", "fff"},
    {"mul.ftz.f32 %d, %a, %b;", "fff"},
    {"mul.sat.f32 %d, %a, %b;", "fff"},
    {"fma.rn.f32 %d, %a, %b, %c;", "ffff"},
    {"fma.rz.f32 %d, %a, %b, %c;", "ffff"},
    {"fma.rm.f32 %d, %a, %b, %c;", "ffff"},
    {"fma.rp.f32 %d, %a, %b, %c;", "ffff"},
    {"fma.rn.ftz.f32 %d, %a, %b, %c;", "ffff"},
    {"fma.rn.sat.f32 %d, %a, %b, %c;", "ffff"},
    {"div.rn.f32 %d, %a, %b;", "fff"},
    {"div.rz.f32 %d, %a, %b;", "fff"},
    {"div.rm.f32 %d, %a, %b;", "fff"},
    {"div.rn.ftz.f32 %d, %a, %b;", "fff"},
    {"rcp.rn.f32 %d, %a;", "ff"},
    {"rcp.rz.f32 %d, %a;", "ff"},
    {"rcp.rp.f32 %d, %a;", "ff"},
    {"rcp.rn.ftz.f32 %d, %a;", "ff"},
    {"sqrt.rn.f32 %d, %a;", "ff"},
    {"sqrt.rz.f32 %d, %a;", "ff"},
    {"sqrt.rp.f32 %d, %a;", "ff"},
    {"abs.f32 %d, %a;", "ff"},
    {"neg.f32 %d, %a;", "ff"},
    {"abs.ftz.f32 %d, %a;", "ff"},
    {"neg.ftz.f32 %d, %a;", "ff"},
    {"copysign.f32 %d, %a, %b;", "fff"},
    {"min.f32 %d, %a, %b;", "fff"},
    {"max.f32 %d, %a, %b;", "fff"},
    {"min.ftz.f32 %d, %a, %b;", "fff"},
    {"min.NaN.f32 %d, %a, %b;", "fff"},
    {"max.NaN.f32 %d, %a, %b;", "fff"},
    {"min.xorsign.abs.f32 %d, %a, %b;", "fff"},
    {"max.NaN.xorsign.abs.f32 %d, %a, %b;", "fff"},
    {"testp.finite.f32 %d, %a;", "pf"},
    {"testp.infinite.f32 %d, %a;", "pf"},
    {"testp.number.f32 %d, %a;", "pf"},
    {"testp.notanumber.f32 %d, %a;", "pf"},
    {"testp.normal.f32 %d, %a;", "pf"},
    {"testp.subnormal.f64 %d, %a;", "pD"},
    {"testp.normal.f64 %d, %a;", "pD"},
    /* double precision */
    {"add.f64 %d, %a, %b;", "DDD"},
    {"add.rz.f64 %d, %a, %b;", "DDD"},
    {"sub.rp.f64 %d, %a, %b;", "DDD"},
    {"mul.f64 %d, %a, %b;", "DDD"},
    {"mul.rm.f64 %d, %a, %b;", "DDD"},
    {"fma.rn.f64 %d, %a, %b, %c;", "DDDD"},
    {"fma.rz.f64 %d, %a, %b, %c;", "DDDD"},
    {"div.rn.f64 %d, %a, %b;", "DDD"},
    {"rcp.rn.f64 %d, %a;", "DD"},
    {"sqrt.rn.f64 %d, %a;", "DD"},
    {"abs.f64 %d, %a;", "DD"},
    {"neg.f64 %d, %a;", "DD"},
    {"copysign.f64 %d, %a, %b;", "DDD"},
    {"min.f64 %d, %a, %b;", "DDD"},
    {"max.f64 %d, %a, %b;", "DDD"},
    /* halves */
    {"add.f16 %d, %a, %b;", "eee"},
    {"add.rn.ftz.sat.f16 %d, %a, %b;", "eee"},
    {"sub.f16x2 %d, %a, %b;", "EEE"},
    {"mul.f16 %d, %a, %b;", "eee"},
    {"mul.ftz.f16x2 %d, %a, %b;", "EEE"},
    {"fma.rn.f16 %d, %a, %b, %c;", "eeee"},
    {"fma.rn.ftz.f16x2 %d, %a, %b, %c;", "EEEE"},
    {"fma.rn.sat.f16x2 %d, %a, %b, %c;", "EEEE"},
    {"fma.rn.relu.f16 %d, %a, %b, %c;", "eeee"},
    {"fma.rn.bf16 %d, %a, %b, %c;", "bbbb"},
    {"fma.rn.bf16x2 %d, %a, %b, %c;", "BBBB"},
    {"fma.rn.relu.bf16x2 %d, %a, %b, %c;", "BBBB"},
    {"add.bf16 %d, %a, %b;", "bbb"},
    {"mul.bf16x2 %d, %a, %b;", "BBB"},
    {"sub.bf16x2 %d, %a, %b;", "BBB"},
    {"neg.f16 %d, %a;", "ee"},
    {"neg.bf16x2 %d, %a;", "BB"},
    {"abs.f16x2 %d, %a;", "EE"},
    {"abs.bf16 %d, %a;", "bb"},
    {"min.f16 %d, %a, %b;", "eee"},
    {"max.NaN.f16x2 %d, %a, %b;", "EEE"},
    {"min.xorsign.abs.f16 %d, %a, %b;", "eee"},
    {"max.bf16x2 %d, %a, %b;", "BBB"},
    {"min.NaN.bf16 %d, %a, %b;", "bbb"},
    {"max.xorsign.abs.bf16x2 %d, %a, %b;", "BBB"},
    /* conversions */
    {"cvt.s32.s16 %d, %a;", "wh"},
    {"cvt.u32.u16 %d, %a;", "wh"},
    {"cvt.u32.s16 %d, %a;", "wh"},
    {"cvt.s32.s8 %d, %a;", "ww"},
    {"cvt.u32.u8 %d, %a;", "ww"},
    {"cvt.u16.u32 %d, %a;", "hw"},
    {"cvt.s16.s8 %d, %a;", "hh"},
    {"cvt.u8.u32 %d, %a;", "hw"},
    {"cvt.s64.s32 %d, %a;", "lw"},
    {"cvt.u64.u32 %d, %a;", "lw"},
    {"cvt.u64.s32 %d, %a;", "lw"},
    {"cvt.s64.s16 %d, %a;", "lh"},
    {"cvt.u32.u64 %d, %a;", "wl"},
    {"cvt.sat.s16.s32 %d, %a;", "hw"},
    {"cvt.sat.u8.s32 %d, %a;", "ww"},
    {"cvt.sat.s8.s32 %d, %a;", "ww"},
    {"cvt.sat.u16.s32 %d, %a;", "hw"},
    {"cvt.sat.s32.u32 %d, %a;", "ww"},
    {"cvt.sat.u32.s32 %d, %a;", "ww"},
    {"cvt.sat.s32.s64 %d, %a;", "wl"},
    {"cvt.sat.u32.s64 %d, %a;", "wl"},
    {"cvt.pack.sat.s16.s32 %d, %a, %b;", "www"},
    {"cvt.pack.sat.u16.s32 %d, %a, %b;", "www"},
    {"cvt.pack.sat.u8.s32.b32 %d, %a, %b, %c;", "wwww"},
    {"cvt.pack.sat.s8.s32.b32 %d, %a, %b, %c;", "wwww"},
    {"cvt.rn.f32.s32 %d, %a;", "fw"},
    {"cvt.rz.f32.s32 %d, %a;", "fw"},
    {"cvt.rm.f32.u32 %d, %a;", "fw"},
    {"cvt.rp.f32.s64 %d, %a;", "fl"},
    {"cvt.rn.f32.u64 %d, %a;", "fl"},
    {"cvt.rn.f32.s64 %d, %a;", "fl"},
    {"cvt.rn.f32.s16 %d, %a;", "fh"},
    {"cvt.rn.f32.u8 %d, %a;", "fw"},
    {"cvt.rn.f64.s32 %d, %a;", "Dw"},
    {"cvt.rn.f64.u32 %d, %a;", "Dw"},
    {"cvt.rn.f64.s64 %d, %a;", "Dl"},
    {"cvt.rz.f64.u64 %d, %a;", "Dl"},
    {"cvt.rn.f16.s32 %d, %a;", "ew"},
    {"cvt.rz.f16.u16 %d, %a;", "eh"},
    {"cvt.rn.f16.s64 %d, %a;", "el"},
    {"cvt.rn.bf16.s32 %d, %a;", "bw"},
    {"cvt.rn.bf16.u64 %d, %a;", "bl"},
    {"cvt.rzi.s32.f32 %d, %a;", "wf"},
    {"cvt.rni.s32.f32 %d, %a;", "wf"},
    {"cvt.rmi.s32.f32 %d, %a;", "wf"},
    {"cvt.rpi.s32.f32 %d, %a;", "wf"},
    {"cvt.rzi.u32.f32 %d, %a;", "wf"},
    {"cvt.rni.u32.f32 %d, %a;", "wf"},
    {"cvt.rzi.ftz.s32.f32 %d, %a;", "wf"},
    {"cvt.rpi.ftz.s32.f32 %d, %a;", "wf"},
    {"cvt.rzi.s64.f32 %d, %a;", "lf"},
    {"cvt.rzi.u64.f32 %d, %a;", "lf"},
    {"cvt.rzi.s16.f32 %d, %a;", "hf"},
    {"cvt.rzi.u16.f32 %d, %a;", "hf"},
    {"cvt.rzi.u8.f32 %d, %a;", "wf"},
    {"cvt.rzi.s8.f32 %d, %a;", "wf"},
    {"cvt.rni.s32.f64 %d, %a;", "wD"},
    {"cvt.rzi.u32.f64 %d, %a;", "wD"},
    {"cvt.rzi.s64.f64 %d, %a;", "lD"},
    {"cvt.rpi.u64.f64 %d, %a;", "lD"},
    {"cvt.rzi.s32.f16 %d, %a;", "we"},
    {"cvt.rni.u16.f16 %d, %a;", "he"},
    {"cvt.rni.f32.f32 %d, %a;", "ff"},
    {"cvt.rzi.f32.f32 %d, %a;", "ff"},
    {"cvt.rmi.f32.f32 %d, %a;", "ff"},
    {"cvt.rpi.f32.f32 %d, %a;", "ff"},
    {"cvt.rni.f64.f64 %d, %a;", "DD"},
    {"cvt.rmi.f64.f64 %d, %a;", "DD"},
    {"cvt.rni.f16.f16 %d, %a;", "ee"},
    {"cvt.sat.f32.f32 %d, %a;", "ff"},
    {"cvt.ftz.f32.f32 %d, %a;", "ff"},
    {"cvt.f64.f32 %d, %a;", "Df"},
    {"cvt.rn.f32.f64 %d, %a;", "fD"},
    {"cvt.rz.f32.f64 %d, %a;", "fD"},
    {"cvt.rm.f32.f64 %d, %a;", "fD"},
    {"cvt.rp.f32.f64 %d, %a;", "fD"},
    {"cvt.f32.f16 %d, %a;", "fe"},
    {"cvt.f64.f16 %d, %a;", "De"},
    {"cvt.f32.bf16 %d, %a;", "fb"},
    {"cvt.rn.f16.f32 %d, %a;", "ef"},
    {"cvt.rz.f16.f32 %d, %a;", "ef"},
    {"cvt.rm.f16.f32 %d, %a;", "ef"},
    {"cvt.rp.f16.f32 %d, %a;", "ef"},
    {"cvt.rn.sat.f16.f32 %d, %a;", "ef"},
    {"cvt.rn.relu.f16.f32 %d, %a;", "ef"},
    {"cvt.rn.f16.f64 %d, %a;", "eD"},
    {"cvt.rn.bf16.f32 %d, %a;", "bf"},
    {"cvt.rz.bf16.f32 %d, %a;", "bf"},
    {"cvt.rn.relu.bf16.f32 %d, %a;", "bf"},
    {"cvt.rna.tf32.f32 %d, %a;", "wf"},
    {"cvt.rn.tf32.f32 %d, %a;", "wf"},
    {"cvt.rz.tf32.f32 %d, %a;", "wf"},
    {"cvt.rn.bf16x2.f32 %d, %a, %b;", "Bff"},
    {"cvt.rz.bf16x2.f32 %d, %a, %b;", "Bff"},
    {"cvt.rn.relu.bf16x2.f32 %d, %a, %b;", "Bff"},
    {"cvt.rn.f16x2.f32 %d, %a, %b;", "Eff"},
    {"cvt.rz.f16x2.f32 %d, %a, %b;", "Eff"},
    {"cvt.rn.satfinite.e4m3x2.f32 %d, %a, %b;", "yff"},
    {"cvt.rn.satfinite.e5m2x2.f32 %d, %a, %b;", "zff"},
    {"cvt.rn.satfinite.relu.e4m3x2.f32 %d, %a, %b;", "yff"},
    {"cvt.rn.satfinite.e4m3x2.f16x2 %d, %a;", "yE"},
    {"cvt.rn.satfinite.e5m2x2.f16x2 %d, %a;", "zE"},
    {"cvt.rn.f16x2.e4m3x2 %d, %a;", "Ey"},
    {"cvt.rn.f16x2.e5m2x2 %d, %a;", "Ez"},
    {"cvt.rn.relu.f16x2.e5m2x2 %d, %a;", "Ez"},
    {"cvt.rzi.s16.f64 %d, %a;", "hD"},
    {"cvt.rzi.u8.f64 %d, %a;", "wD"},
    {"cvt.f64.bf16 %d, %a;", "Db"},
    {"cvt.f16.bf16 %d, %a;", "eb"},
    {"cvt.rn.bf16.f64 %d, %a;", "bD"},
    {"cvt.rn.f32.u16 %d, %a;", "fh"},
    {"cvt.rn.f64.u64 %d, %a;", "Dl"},
    {"cvt.sat.f16.f16 %d, %a;", "ee"},
    {"cvt.rni.sat.f32.f32 %d, %a;", "ff"},
    {"cvt.rmi.ftz.f32.f32 %d, %a;", "ff"},
    {"cvt.u16.u8 %d, %a;", "hh"},
    {"cvt.s8.s32 %d, %a;", "hw"},
    {"cvt.u64.u8 %d, %a;", "lw"},
    {"cvt.s64.s8 %d, %a;", "lw"},
    /* across the warp */
    {"shfl.sync.idx.b32 %d, %a, %b, 31, -1;", "wws"},
    {"shfl.sync.up.b32 %d, %a, %b, 0, -1;", "wws"},
    {"shfl.sync.down.b32 %d, %a, %b, 31, -1;", "wws"},
    {"shfl.sync.bfly.b32 %d, %a, %b, 31, -1;", "wws"},
    {"shfl.sync.idx.b32 %d, %a, %b, 0x181f, -1;", "wws"},
    {"shfl.sync.bfly.b32 %d, %a, 5, 0x181f, -1;", "ww"},
    {"{ .reg .b32 x; shfl.sync.down.b32 x|%d, %a, %b, 0x1c1f, -1; }", "pws"},
    {"{ .reg .b32 x; shfl.sync.up.b32 x|%d, %a, %b, 0x1800, -1; }", "pws"},
    {"{ .reg .b32 x; shfl.sync.idx.b32 x|%d, %a, %b, 0x000f, -1; }", "pws"},
    {"vote.sync.ballot.b32 %d, %a, -1;", "wp"},
    {"vote.sync.any.pred %d, !%a, -1;", "pp"},
    {"vote.sync.all.pred %d, %a, -1;", "pp"},
    {"vote.sync.uni.pred %d, %a, -1;", "pp"},
    {"match.any.sync.b32 %d, %a, -1;", "wq"},
    {"match.any.sync.b64 %d, %a, -1;", "wl"},
    {"{ .reg .b32 x; match.all.sync.b32 x|%d, %a, -1; }", "pq"},
    {"redux.sync.add.s32 %d, %a, -1;", "ww"},
    {"redux.sync.min.s32 %d, %a, -1;", "ww"},
    {"redux.sync.max.u32 %d, %a, -1;", "ww"},
    {"redux.sync.and.b32 %d, %a, -1;", "ww"},
    {"redux.sync.xor.b32 %d, %a, -1;", "ww"},
    {"movmatrix.sync.aligned.m8n8.trans.b16 %d, %a;", "ww"},
    {"bar.red.popc.u32 %d, 0, %a;", "wp"},
    {"bar.red.and.pred %d, 1, !%a;", "pp"},
    {"bar.red.or.pred %d, 2, 256, %a;", "pp"},
    {"mov.u32 %d, %laneid;", "w"},
    {"mov.u32 %d, %lanemask_eq;", "w"},
    {"mov.u32 %d, %lanemask_le;", "w"},
    {"mov.u32 %d, %lanemask_lt;", "w"},
    {"mov.u32 %d, %lanemask_ge;", "w"},
    {"mov.u32 %d, %lanemask_gt;", "w"},
    /* matrices: the accumulator's word 0 or 3, from small exact values */
    {"{ .reg .b32 x<4>; mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%d,x1,x2,x3}, "
     "{%a,%b}, {%c}, {0f3f800000,0f3f800000,0f3f800000,0f3f800000}; }",
     "f222"},
    {"{ .reg .b32 x<4>; mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
     "{x1,%d,x2,x3}, {%a,%b,%c,%a}, {%c,%b}, "
     "{0f00000000,0f3f800000,0f40000000,0f00000000}; }",
     "f222"},
    {"{ .reg .b32 x<4>; mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {x1,x2,x3,%d}, "
     "{%a,%b,%c,%a}, {%c,%b}, {0f00000000,0f00000000,0f40000000,0f3f800000}; }",
     "f333"},
    {"{ .reg .b32 x<4>; mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {x1,%d}, "
     "{%a,%b,%c,%a}, {%c,%b}, {%a,%b}; }",
     "w333"},
    {"{ .reg .b32 x<4>; mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {x1,%d,x2,x3}, "
     "{%a,%b,%c,%a}, {%c,%b}, {0f00000000,0f3f800000,0f40000000,0f00000000}; }",
     "f444"},
    {"{ .reg .b32 x<4>; mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {x1,x2,%d,x3}, "
     "{%a,%b}, {%c}, {0f00000000,0f3f800000,0f40000000,0f00000000}; }",
     "f444"},
    {"{ .reg .b32 x<4>; mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {x1,x2,%d,x3}, "
     "{%a,%b,%c,%a}, {%c,%b}, {%a,%b,%c,%a}; }",
     "wwww"},
    {"{ .reg .b32 x<4>; mma.sync.aligned.m16n8k32.row.col.satfinite.s32.u8.s8.s32 "
     "{%d,x1,x2,x3}, {%a,%b,%c,%a}, {%c,%b}, {%a,%b,%c,%a}; }",
     "wwww"},
    {"{ .reg .b32 x<4>; mma.sync.aligned.m16n8k16.row.col.s32.s8.u8.s32 {x1,%d,x2,x3}, "
     "{%a,%b}, {%c}, {%a,%b,%c,%a}; }",
     "wwww"},
    {"{ .reg .b32 x<4>; mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
     "{x1,x2,x3,%d}, {%a,%b,%c,%a}, {%c,%b}, "
     "{0f00000000,0f00000000,0f40000000,0f3f800000}; }",
     "f555"},
    {"{ .reg .b32 x<4>; mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e4m3.f32 "
     "{x1,x2,x3,%d}, {%a,%b,%c,%a}, {%c,%b}, "
     "{0f00000000,0f00000000,0f40000000,0f3f800000}; }",
     "f655"},
    {"{ .reg .b64 x; mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {x,%d}, {%a}, {%b}, {%c,%c}; "
     "}",
     "D777"},
    /* approximations: special values are the hardware's, the rest within a few units */
    {"ex2.approx.f32 %d, %a;", "ff~"},
    {"ex2.approx.ftz.f32 %d, %a;", "ff~"},
    {"lg2.approx.f32 %d, %a;", "ff~"},
    {"lg2.approx.ftz.f32 %d, %a;", "ff~"},
    {"rcp.approx.ftz.f32 %d, %a;", "ff~"},
    {"rcp.approx.f32 %d, %a;", "ff~"},
    {"sqrt.approx.f32 %d, %a;", "ff~"},
    {"sqrt.approx.ftz.f32 %d, %a;", "ff~"},
    {"rsqrt.approx.f32 %d, %a;", "ff~"},
    {"rsqrt.approx.ftz.f32 %d, %a;", "ff~"},
    {"sin.approx.f32 %d, %a;", "ff~"},
    {"cos.approx.ftz.f32 %d, %a;", "ff~"},
    {"tanh.approx.f32 %d, %a;", "ff~"},
    {"div.approx.f32 %d, %a, %b;", "fff~"},
    {"div.full.f32 %d, %a, %b;", "fff~"},
    {"rcp.approx.ftz.f64 %d, %a;", "DD~"},
    {"rsqrt.approx.f64 %d, %a;", "DD~"},
    {"rsqrt.approx.ftz.f64 %d, %a;", "DD~"},
    {"ex2.approx.f16 %d, %a;", "ee~"},
    {"ex2.approx.ftz.bf16x2 %d, %a;", "BB~"},
    {"tanh.approx.f16x2 %d, %a;", "EE~"},
    {"tanh.approx.bf16 %d, %a;", "bb~"},
};

uint32_t emu_ops_count(void)
{
    return (uint32_t)(sizeof(OPS) / sizeof(OPS[0]));
}

const struct emu_op *emu_ops_at(uint32_t index)
{
    return &OPS[index];
}

/* ------------------------------------------------------------------ kernels */

static uint32_t kind_bytes(char kind)
{
    if (strchr("heb", kind) || strchr("yz", kind)) {
        return 2;
    }
    return strchr("lD7", kind) ? 8 : 4;
}

static uint32_t kind_index(char kind)
{
    static const char KINDS[] = "hwlfDebEBspqyz";
    const char *at = strchr(KINDS, kind);

    return at ? (uint32_t)(at - KINDS) : 15; /* digits: exact values for matrices */
}

static void put_operand(struct gk_buf *text, char name, char kind, uint32_t step, uint32_t shift)
{
    uint32_t bytes = kind_bytes(kind);
    uint64_t base = (uint64_t)kind_index(kind) * 2048;

    gk_buf_printf(text,
                  "  mad.lo.u32 %%i, %%t, %u, %u;\n  and.b32 %%i, %%i, 255;\n"
                  "  mad.wide.u32 %%p, %%i, 8, %%in;\n",
                  step, shift);
    if (kind != 'p') {
        gk_buf_printf(text, "  .reg .b%u %%%c;\n", bytes * 8, name);
    }
    if (kind >= '2' && kind <= '7') {
        gk_buf_printf(text, "  ld.global.u32 %%i, [%%p+%llu];\n  and.b32 %%i, %%i, 3;\n",
                      (unsigned long long)base);
    }
    switch (kind) {
    case '2': /* pairs of bf16 in {0, 1, 2, 4} */
        gk_buf_printf(text, "  mad.lo.u32 %%%c, %%i, 0x00800080, 0x3f003f00;\n", name);
        break;
    case '3': /* pairs of f16 */
        gk_buf_printf(text, "  mad.lo.u32 %%%c, %%i, 0x04000400, 0x38003800;\n", name);
        break;
    case '4': /* tf32 */
        gk_buf_printf(text, "  mad.lo.u32 %%%c, %%i, 0x00800000, 0x3f000000;\n", name);
        break;
    case '5': /* e4m3: four of 0.5 1 2 4 */
        gk_buf_printf(text, "  mad.lo.u32 %%%c, %%i, 0x08080808, 0x30303030;\n", name);
        break;
    case '6': /* e5m2 */
        gk_buf_printf(text, "  mad.lo.u32 %%%c, %%i, 0x04040404, 0x38383838;\n", name);
        break;
    case '7':
        gk_buf_printf(text, "  cvt.rn.f64.u32 %%%c, %%i;\n", name);
        break;
    case 'p':
        gk_buf_printf(text,
                      "  ld.global.u32 %%i, [%%p+%llu];\n  .reg .pred %%%c;\n"
                      "  and.b32 %%i, %%i, 1;\n  setp.ne.u32 %%%c, %%i, 0;\n",
                      (unsigned long long)base, name, name);
        break;
    default:
        gk_buf_printf(text, "  ld.global.b%u %%%c, [%%p+%llu];\n", bytes * 8, name,
                      (unsigned long long)base);
        break;
    }
}

static void put_kernel(struct gk_buf *text, uint32_t index)
{
    static const uint32_t STEP[] = {1, 7, 11}, SHIFT[] = {0, 3, 5};
    const struct emu_op *op = &OPS[index];
    uint32_t bytes = kind_bytes(op->kinds[0]);

    gk_buf_printf(text,
                  ".visible .entry op_%u(.param .u64 input, .param .u64 output)\n{\n"
                  "  .reg .b32 %%t, %%i;\n  .reg .b64 %%in, %%out, %%p, %%long;\n"
                  "  ld.param.u64 %%in, [input];\n  ld.param.u64 %%out, [output];\n"
                  "  mov.u32 %%t, %%tid.x;\n  mad.wide.u32 %%out, %%t, 8, %%out;\n",
                  index);
    for (uint32_t i = 1; op->kinds[i] && op->kinds[i] != '~'; i++) {
        char name = (char)('a' + (i - 1));

        put_operand(text, name, op->kinds[i], STEP[i - 1], SHIFT[i - 1]);
    }
    if (op->kinds[0] == 'p') {
        gk_buf_printf(text, "  .reg .pred %%d;\n  %s\n  selp.b64 %%long, 1, 0, %%d;\n", op->text);
    } else {
        gk_buf_printf(text, "  .reg .b%u %%d;\n  %s\n", bytes * 8, op->text);
        gk_buf_printf(text,
                      bytes == 8 ? "  mov.b64 %%long, %%d;\n" : "  cvt.u64.u%u %%long, %%d;\n",
                      bytes * 8);
    }
    gk_buf_printf(text, "  st.global.u64 [%%out], %%long;\n  ret;\n}\n");
}

char *emu_ops_ptx(const char *target)
{
    struct gk_buf text = {0};

    gk_buf_printf(&text, ".version 8.4\n.target %s\n.address_size 64\n", target);
    for (uint32_t i = 0; i < emu_ops_count(); i++) {
        put_kernel(&text, i);
    }
    return gk_buf_detach(&text);
}

/* ------------------------------------------------------------------ inputs */

static uint64_t next_random(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15ull;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

static uint64_t integer_value(uint32_t i, uint64_t random, uint32_t bits)
{
    uint64_t all = bits == 64 ? ~0ull : (1ull << bits) - 1, top = 1ull << (bits - 1);
    const uint64_t edges[] = {0,    1,       2,   3,   all, all - 1, top,    top - 1, top + 1,
                              0x55, all / 3, 255, 256, 127, 128,     0x8000, 0x7fff,  0xffff};

    return (i < GK_ARRAY_COUNT(edges) ? edges[i] : random >> random % bits) & all;
}

/* sign, exponent and fraction edges of a format, then random bits, half of them near one. */
static uint64_t real_value(uint32_t i, uint64_t random, uint32_t exponent_bits,
                           uint32_t fraction_bits)
{
    uint64_t exponents = (1ull << exponent_bits) - 1, fractions = (1ull << fraction_bits) - 1;
    uint64_t sign = random >> 63, bias = exponents / 2, exponent, fraction;
    const uint64_t edges[][2] = {{0, 0},
                                 {exponents, 0},
                                 {exponents, fractions / 2 + 1},
                                 {0, 1},
                                 {0, fractions},
                                 {1, 0},
                                 {exponents - 1, fractions},
                                 {bias, 0},
                                 {bias - 1, 0},
                                 {bias, fractions / 2 + 1},
                                 {bias + 1, fractions / 4 + 1},
                                 {bias, 1},
                                 {bias - 1, fractions},
                                 {bias + 7, 0},
                                 {bias + 8, fractions}};

    if (i < 2 * GK_ARRAY_COUNT(edges)) {
        sign = i & 1;
        exponent = edges[i / 2][0];
        fraction = edges[i / 2][1];
    } else {
        exponent = i % 2 ? random >> 40 & exponents : bias - 4 + (random >> 40) % 9;
        fraction = random & fractions;
    }
    /* One NaN: what becomes of other payloads is not asked here. */
    if (exponent == exponents && fraction) {
        sign = 0;
        fraction = fractions;
    }
    return (sign << exponent_bits | exponent) << fraction_bits | fraction;
}

static uint64_t input_value(char kind, uint32_t i, uint64_t random, uint64_t other)
{
    switch (kind) {
    case 'h':
        return integer_value(i, random, 16);
    case 'w':
        return integer_value(i, random, 32);
    case 'l':
        return integer_value(i, random, 64);
    case 'f':
        return real_value(i, random, 8, 23);
    case 'D':
        return real_value(i, random, 11, 52);
    case 'e':
        return real_value(i, random, 5, 10);
    case 'b':
        return real_value(i, random, 8, 7);
    case 'E':
        return real_value(i, random, 5, 10) | real_value(i + 40, other, 5, 10) << 16;
    case 'B':
        return real_value(i, random, 8, 7) | real_value(i + 40, other, 8, 7) << 16;
    case 's':
        return i < 80 ? i : i < 90 ? 160 + i : random % 64;
    case 'q':
        return random % 5;
    case 'y':
    case 'z':
        return random & 0xffff;
    default:
        return random & 0xffffffff;
    }
}

void emu_ops_inputs(unsigned char *input)
{
    static const char KINDS[] = "hwlfDebEBspqyz##";
    uint64_t state = 7;

    for (uint32_t kind = 0; kind < 16; kind++) {
        for (uint32_t i = 0; i < EMU_OPS_THREADS; i++) {
            uint64_t random = next_random(&state), other = next_random(&state);
            uint64_t value = input_value(KINDS[kind], i, random, other);

            memcpy(input + (kind * EMU_OPS_THREADS + i) * 8, &value, 8);
        }
    }
}

uint64_t emu_ops_hash(const uint64_t *results)
{
    const unsigned char *bytes = (const unsigned char *)results;
    uint64_t hash = 14695981039346656037ull;

    for (size_t i = 0; i < EMU_OPS_THREADS * 8; i++) {
        hash = (hash ^ bytes[i]) * 1099511628211ull;
    }
    return hash;
}
