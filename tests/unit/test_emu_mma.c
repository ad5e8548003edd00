/*
 * mma.sync: whole products against sums in C, with fragments laid out here from the PTX ISA's
 * tables written another way than in emu_exec_mma.c (element by element). One launch multiplies 16
 * random tiles, one a warp.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/check.h"
#include "tests/unit/emu_for_tests.h"

#define TILES     16
#define DEPTH_MAX 32

struct form {
    const char *text;   /* after "mma.sync.aligned." */
    const char *braces; /* with registers a0.., b0.., c0.., d0.. */
    char element;       /* b bf16, h f16, t tf32, s int8, u uint8, 4 e4m3, 5 e5m2 */
    char element_b;
    unsigned depth, a_words, b_words, c_words;
    char sum; /* f f32, h f16, i s32 */
};

#define BRACES_421 "{%d0,%d1,%d2,%d3}, {%a0,%a1,%a2,%a3}, {%b0,%b1}, {%c0,%c1,%c2,%c3}"
#define BRACES_211 "{%d0,%d1,%d2,%d3}, {%a0,%a1}, {%b0}, {%c0,%c1,%c2,%c3}"

static const struct form FORMS[] = {
    {"m16n8k16.row.col.f32.bf16.bf16.f32", BRACES_421, 'b', 'b', 16, 4, 2, 4, 'f'},
    {"m16n8k8.row.col.f32.bf16.bf16.f32", BRACES_211, 'b', 'b', 8, 2, 1, 4, 'f'},
    {"m16n8k16.row.col.f32.f16.f16.f32", BRACES_421, 'h', 'h', 16, 4, 2, 4, 'f'},
    {"m16n8k8.row.col.f32.f16.f16.f32", BRACES_211, 'h', 'h', 8, 2, 1, 4, 'f'},
    {"m16n8k16.row.col.f16.f16.f16.f16", "{%d0,%d1}, {%a0,%a1,%a2,%a3}, {%b0,%b1}, {%c0,%c1}", 'h',
     'h', 16, 4, 2, 2, 'h'},
    {"m16n8k8.row.col.f32.tf32.tf32.f32", BRACES_421, 't', 't', 8, 4, 2, 4, 'f'},
    {"m16n8k4.row.col.f32.tf32.tf32.f32", BRACES_211, 't', 't', 4, 2, 1, 4, 'f'},
    {"m16n8k32.row.col.f32.e4m3.e5m2.f32", BRACES_421, '4', '5', 32, 4, 2, 4, 'f'},
    {"m16n8k32.row.col.s32.s8.u8.s32", BRACES_421, 's', 'u', 32, 4, 2, 4, 'i'},
    {"m16n8k16.row.col.s32.u8.s8.s32", BRACES_211, 'u', 's', 16, 2, 1, 4, 'i'},
};

/* ------------------------------------------------------------------ elements */

static unsigned element_bits(char element)
{
    return element == 't' ? 32 : strchr("bh", element) ? 16 : 8;
}

/* Small multiples of 1/8 up to 1 7/8: exact in every format used, and so are the sums. */
static double draw(char element, uint32_t *seed, uint32_t *bits)
{
    static const uint8_t E4M3[] = {0x00, 0x30, 0x38, 0x3c, 0xb8, 0x40, 0x20, 0xc4};
    static const double E4M3_VALUE[] = {0, 0.5, 1, 1.5, -1, 2, 0.125, -3};
    static const uint8_t E5M2[] = {0x00, 0x38, 0x3c, 0x3e, 0xbc, 0x40, 0x30, 0xc2};
    static const double E5M2_VALUE[] = {0, 0.5, 1, 1.5, -1, 2, 0.125, -3};
    int32_t whole;
    uint32_t word;
    float x;

    *seed = *seed * 1664525u + 1013904223u;
    whole = (int32_t)(*seed >> 27) - 16;
    x = (float)whole / 8;
    memcpy(&word, &x, sizeof(word));
    switch (element) {
    case 'b':
        *bits = word >> 16;
        return (double)x;
    case 'h': /* sign, rebiased exponent, fraction: all these values are normal halves or zero */
        *bits = x == 0 ? 0 : (word >> 16 & 0x8000u) | ((word & 0x7fffffffu) - 0x38000000u) >> 13;
        return (double)x;
    case 't':
        *bits = word | 0x1234; /* the low bits are not looked at */
        return (double)x;
    case 's':
        *bits = *seed >> 24;
        return (double)(int8_t)*bits;
    case 'u':
        *bits = *seed >> 24;
        return (double)*bits;
    case '4':
        *bits = E4M3[*seed >> 29];
        return E4M3_VALUE[*seed >> 29];
    default:
        *bits = E5M2[*seed >> 29];
        return E5M2_VALUE[*seed >> 29];
    }
}

static void put(uint32_t *words, unsigned word, unsigned slot, unsigned bits, uint32_t value)
{
    words[word] |= bits == 32 ? value : value << slot * bits;
}

/* Where the ISA keeps element (row, column) of A: which lane, which register, which part of it. */
static void put_a(uint32_t (*lanes)[4], char element, unsigned row, unsigned column, uint32_t value)
{
    unsigned bits = element_bits(element), per = 32 / bits;
    unsigned lane = row % 8 * 4 + column / per % 4;
    unsigned word = row / 8 + (column >= 4 * per ? 2 : 0);

    put(lanes[lane], word, column % per, bits, value);
}

static void put_b(uint32_t (*lanes)[2], char element, unsigned row, unsigned column, uint32_t value)
{
    unsigned bits = element_bits(element), per = 32 / bits;
    unsigned lane = column * 4 + row / per % 4;

    put(lanes[lane], row >= 4 * per ? 1 : 0, row % per, bits, value);
}

/* ------------------------------------------------------------------ one form */

struct tile {
    uint32_t a[32][4], b[32][2], c[32][4], d[32][4];
};

static void make_tile(const struct form *form, uint32_t *seed, struct tile *tile, double (*want)[8])
{
    double a[16][DEPTH_MAX], b[DEPTH_MAX][8];
    uint32_t bits;

    memset(tile, 0, sizeof(*tile));
    for (unsigned row = 0; row < 16; row++) {
        for (unsigned k = 0; k < form->depth; k++) {
            a[row][k] = draw(form->element, seed, &bits);
            put_a(tile->a, form->element, row, k, bits);
        }
    }
    for (unsigned k = 0; k < form->depth; k++) {
        for (unsigned column = 0; column < 8; column++) {
            b[k][column] = draw(form->element_b, seed, &bits);
            put_b(tile->b, form->element_b, k, column, bits);
        }
    }
    for (unsigned row = 0; row < 16; row++) {
        for (unsigned column = 0; column < 8; column++) {
            unsigned lane = row % 8 * 4 + column / 2, i = row / 8 * 2 + column % 2;
            double sum = draw(form->sum == 'h' ? 'h' : form->sum == 'i' ? 's' : 't', seed, &bits);

            if (form->sum == 'h') {
                put(tile->c[lane], i / 2, i % 2, 16, bits);
            } else if (form->sum == 'i') {
                tile->c[lane][i] = (uint32_t)(int32_t)sum;
            } else {
                tile->c[lane][i] = bits & ~0x1234u;
            }
            for (unsigned k = 0; k < form->depth; k++) {
                sum += a[row][k] * b[k][column];
            }
            want[row][column] = sum;
        }
    }
}

static double half_value(uint32_t bits)
{
    uint32_t exponent = bits >> 10 & 31, fraction = bits & 1023;
    double x = exponent ? ldexp(1.0 + fraction / 1024.0, (int)exponent - 15)
                        : ldexp(fraction / 1024.0, -14);

    return bits & 0x8000 ? -x : x;
}

static double result(const struct form *form, const struct tile *tile, unsigned row,
                     unsigned column)
{
    unsigned lane = row % 8 * 4 + column / 2, i = row / 8 * 2 + column % 2;
    float x;

    if (form->sum == 'h') {
        return half_value(tile->d[lane][i / 2] >> i % 2 * 16 & 0xffff);
    }
    if (form->sum == 'i') {
        return (double)(int32_t)tile->d[lane][i];
    }
    memcpy(&x, &tile->d[lane][i], sizeof(x));
    return (double)x;
}

static void form_text(const struct form *form, char *text, size_t size)
{
    (void)snprintf(
        text, size,
        ".entry k(.param .u64 where) {\n .reg .b32 %%t, %%a<4>, %%b<2>, %%c<4>, %%d<4>;\n"
        " .reg .b64 %%p; ld.param.u64 %%p, [where]; mov.u32 %%t, %%tid.x;\n"
        " .reg .b32 %%w, %%l; shr.u32 %%w, %%t, 5; mov.u32 %%l, %%laneid;\n"
        " mad.wide.u32 %%p, %%w, 1792, %%p; .reg .b64 %%x;\n"
        " mad.wide.u32 %%x, %%l, 16, %%p;\n"
        " ld.global.v4.u32 {%%a0,%%a1,%%a2,%%a3}, [%%x];\n"
        " ld.global.v4.u32 {%%c0,%%c1,%%c2,%%c3}, [%%x+768];\n"
        " mad.wide.u32 %%x, %%l, 8, %%p; ld.global.v2.u32 {%%b0,%%b1}, [%%x+512];\n"
        " mov.u32 %%d2, 0; mov.u32 %%d3, 0;\n mma.sync.aligned.%s %s;\n"
        " mad.wide.u32 %%x, %%l, 16, %%p;\n"
        " st.global.v4.u32 [%%x+1280], {%%d0,%%d1,%%d2,%%d3};\n}\n",
        form->text, form->braces);
}

static void check_form(const struct form *form)
{
    static double want[TILES][16][8];
    static struct tile tiles[TILES];
    struct rig rig;
    uint32_t seed = 99;
    char text[2000];
    uint64_t at;

    for (unsigned t = 0; t < TILES; t++) {
        make_tile(form, &seed, &tiles[t], want[t]);
    }
    rig_init(&rig, "sm_89");
    form_text(form, text, sizeof(text));
    rig_ptx(&rig, text);
    rig.block[0] = 32 * TILES;
    at = rig_upload(&rig, "tiles", tiles, sizeof(tiles));
    RIG_OK(&rig, "k", at);
    rig_download(&rig, at, tiles, sizeof(tiles));
    assert_int_equal(rig.report.counts.tensor_flops, TILES * 2 * 16 * 8 * form->depth);
    for (unsigned t = 0; t < TILES; t++) {
        for (unsigned i = 0; i < 128; i++) {
            double got = result(form, &tiles[t], i / 8, i % 8), sum = want[t][i / 8][i % 8];

            if (form->sum == 'h' ? fabs(got - sum) > fabs(sum) * 0x1p-11 : got != sum) {
                fail_msg("%s: tile %u, row %u, column %u is %g, wanted %g", form->text, t, i / 8,
                         i % 8, got, sum);
            }
        }
    }
    rig_fini(&rig);
}

static void whole_products(void **state)
{
    (void)state;
    assert_int_equal(sizeof(struct tile), 1792);
    for (size_t i = 0; i < GK_ARRAY_COUNT(FORMS); i++) {
        check_form(&FORMS[i]);
    }
}

/* The sum of one instruction is rounded once: 1 + 15 times 2^-24 is 1 + 2^-20, not 1. */
static void sums_are_rounded_once(void **state)
{
    struct rig rig;
    float out[4];
    uint64_t at;

    (void)state;
    rig_init(&rig, "sm_80");
    rig_ptx(&rig, ".entry k(.param .u64 where) {\n .reg .b64 %p; .reg .b32 %a, %b, %d<4>;\n"
                  " ld.param.u64 %p, [where]; mov.u32 %a, 0x39803980; mov.u32 %b, 0x39803980;\n"
                  " mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%d0,%d1,%d2,%d3},\n"
                  " {%a,%a,%a,%a}, {%b,%b}, {0f3f800000,0f3f800000,0f3f800000,0f3f800000};\n"
                  " st.global.v4.b32 [%p], {%d0,%d1,%d2,%d3};\n}");
    at = rig_alloc(&rig, "out", sizeof(out));
    RIG_OK(&rig, "k", at);
    rig_download(&rig, at, out, sizeof(out));
    assert_true(out[0] == 1.0f + 0x1p-20f);
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_products),
        cmocka_unit_test(sums_are_rounded_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
