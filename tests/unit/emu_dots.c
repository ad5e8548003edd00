/*
 * See emu_dots.h. A block's input: registers of A as mma takes them (4 x 32 words, twice for
 * wgmma), registers of B (2 x 32 words), sums (4 x 32 words, four times for wgmma).
 */
#include "tests/unit/emu_dots.h"

#include <stdbool.h>
#include <string.h>

struct format {
    uint32_t exponent, fraction, width; /* bits */
};

static const struct format BF16 = {8, 7, 16}, F16 = {5, 10, 16}, TF32 = {8, 23, 32};
static const struct format E4M3 = {4, 3, 8}, E5M2 = {5, 2, 8}, F32 = {8, 23, 32};

struct form {
    const char *name;
    const struct format *a, *b, *c;
    bool wide;
};

static const struct form FORMS[] = {
    {"bf16_k16", &BF16, &BF16, &F32, false}, {"f16_k16", &F16, &F16, &F32, false},
    {"bf16_k8", &BF16, &BF16, &F32, false},  {"f16_k8", &F16, &F16, &F32, false},
    {"tf32_k8", &TF32, &TF32, &F32, false},  {"tf32_k4", &TF32, &TF32, &F32, false},
    {"e4m3_k32", &E4M3, &E4M3, &F32, false}, {"e5m2_k32", &E5M2, &E5M2, &F32, false},
    {"h16_k16", &F16, &F16, &F16, false},    {"h16_k8", &F16, &F16, &F16, false},
    {"w_bf16", &BF16, &BF16, &F32, true},    {"w_f16", &F16, &F16, &F32, true},
    {"w_e4m3", &E4M3, &E4M3, &F32, true},    {"w_e5m2", &E5M2, &E5M2, &F32, true},
    {"w_e4e5", &E4M3, &E5M2, &F32, true},
};

#define FORM_COUNT (sizeof(FORMS) / sizeof(FORMS[0]))

/* Exponents lie within this of 1; 5: subnormal numbers among them; 6: infinities and NaN; 8: the
 * ends of the range; 9: zeros of both signs; 10: ones and zeros of both signs. */
static const int32_t SPREAD[EMU_DOTS_KINDS] = {0, 2, 6, 14, 40, 3, 4, 8, 126, 0, 0};

static const char SOURCE[] =
    "typedef unsigned u32; typedef unsigned long long u64;\n"
    "#define MMA(NAME, INSTRUCTION) extern \"C\" __global__ void __launch_bounds__(128) \\\n"
    "NAME(const u32 *in, u32 *out) { \\\n"
    "  const u32 *p = in + blockIdx.x * 1024, t = threadIdx.x; u32 a[4], b[2], h[2]; \\\n"
    "  float c[4], d[4] = {}; if (t >= 32) return; \\\n"
    "  for (int i = 0; i < 4; i++) a[i] = p[i * 32 + t]; \\\n"
    "  for (int i = 0; i < 2; i++) { b[i] = p[128 + i * 32 + t]; h[i] = p[192 + i * 32 + t]; } \\\n"
    "  for (int i = 0; i < 4; i++) c[i] = __uint_as_float(p[192 + i * 32 + t]); \\\n"
    "  INSTRUCTION; \\\n"
    "  for (int i = 0; i < 4; i++) out[blockIdx.x * 512 + i * 32 + t] = __float_as_uint(d[i]); \\\n"
    "  (void)c; (void)h; }\n"
    "#define D4 \"=f\"(d[0]), \"=f\"(d[1]), \"=f\"(d[2]), \"=f\"(d[3])\n"
    "#define C4 \"f\"(c[0]), \"f\"(c[1]), \"f\"(c[2]), \"f\"(c[3])\n"
    "#define A4 \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3])\n"
    "#define A2 \"r\"(a[0]), \"r\"(a[1])\n"
    "#define B2 \"r\"(b[0]), \"r\"(b[1])\n"
    "#define LONG(S) asm volatile(\"mma.sync.aligned.\" S \" {%0,%1,%2,%3}, {%4,%5,%6,%7}, \" \\\n"
    "  \"{%8,%9}, {%10,%11,%12,%13};\" : D4 : A4, B2, C4)\n"
    "#define SHORT(S) asm volatile(\"mma.sync.aligned.\" S \" {%0,%1,%2,%3}, {%4,%5}, {%6}, \" \\\n"
    "  \"{%7,%8,%9,%10};\" : D4 : A2, \"r\"(b[0]), C4)\n"
    "#define HALF(X, R, ...) u32 r0, r1; asm volatile(\"mma.sync.aligned.\" X R \\\n"
    "  : \"=r\"(r0), \"=r\"(r1) : __VA_ARGS__, \"r\"(h[0]), \"r\"(h[1])); \\\n"
    "  d[0] = __uint_as_float(r0); d[1] = __uint_as_float(r1)\n"
    "MMA(bf16_k16, LONG(\"m16n8k16.row.col.f32.bf16.bf16.f32\"))\n"
    "MMA(f16_k16, LONG(\"m16n8k16.row.col.f32.f16.f16.f32\"))\n"
    "MMA(bf16_k8, SHORT(\"m16n8k8.row.col.f32.bf16.bf16.f32\"))\n"
    "MMA(f16_k8, SHORT(\"m16n8k8.row.col.f32.f16.f16.f32\"))\n"
    "MMA(tf32_k8, LONG(\"m16n8k8.row.col.f32.tf32.tf32.f32\"))\n"
    "MMA(tf32_k4, SHORT(\"m16n8k4.row.col.f32.tf32.tf32.f32\"))\n"
    "MMA(e4m3_k32, LONG(\"m16n8k32.row.col.f32.e4m3.e4m3.f32\"))\n"
    "MMA(e5m2_k32, LONG(\"m16n8k32.row.col.f32.e5m2.e5m2.f32\"))\n"
    "MMA(h16_k16, HALF(\"m16n8k16.row.col.f16.f16.f16.f16\", \" {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, "
    "{%8,%9};\", A4, B2))\n"
    "MMA(h16_k8, HALF(\"m16n8k8.row.col.f16.f16.f16.f16\", \" {%0,%1}, {%2,%3}, {%4}, {%5,%6};\", "
    "A2, \"r\"(b[0])))\n"
    "#define WGMMA(NAME, S, TAIL) extern \"C\" __global__ void __launch_bounds__(128) \\\n"
    "NAME(const u32 *in, u32 *out) { \\\n"
    "  __shared__ __align__(128) u32 s[64]; u32 a[4]; float d[4]; \\\n"
    "  const u32 *p = in + blockIdx.x * 1024, t = threadIdx.x, l = t % 32, w = t / 32; \\\n"
    "  for (int i = 0; i < 4; i++) a[i] = p[((w & 1) * 4 + i) * 32 + l]; \\\n"
    "  for (int i = 0; i < 4; i++) d[i] = __uint_as_float(p[320 + (w * 4 + i) * 32 + l]); \\\n"
    "  if (t < 64) s[t] = p[256 + t]; \\\n"
    "  asm volatile(\"fence.proxy.async;\" ::: \"memory\"); __syncthreads(); \\\n"
    "  u64 b = ((u32)__cvta_generic_to_shared(s) >> 4 & 0x3fff) | 8ull << 16 | 16ull << 32; \\\n"
    "  asm volatile(\"wgmma.fence.sync.aligned;\" ::: \"memory\"); \\\n"
    "  asm volatile(\"{ .reg .pred p; setp.ne.b32 p, 1, 0; \" \\\n"
    "    \"wgmma.mma_async.sync.aligned.\" S \" {%0,%1,%2,%3}, {%4,%5,%6,%7}, %8, p, 1, 1\" TAIL "
    "\\\n"
    "    \"; }\" : \"+f\"(d[0]), \"+f\"(d[1]), \"+f\"(d[2]), \"+f\"(d[3]) : A4, \"l\"(b)); \\\n"
    "  asm volatile(\"wgmma.commit_group.sync.aligned;\\n wgmma.wait_group.sync.aligned 0;\" \\\n"
    "    : \"+f\"(d[0]), \"+f\"(d[1]), \"+f\"(d[2]), \"+f\"(d[3]) :: \"memory\"); \\\n"
    "  for (int i = 0; i < 4; i++) \\\n"
    "    out[blockIdx.x * 512 + (w * 4 + i) * 32 + l] = __float_as_uint(d[i]); }\n"
    "WGMMA(w_bf16, \"m64n8k16.f32.bf16.bf16\", \", 0\")\n"
    "WGMMA(w_f16, \"m64n8k16.f32.f16.f16\", \", 0\")\n"
    "WGMMA(w_e4m3, \"m64n8k32.f32.e4m3.e4m3\", \"\")\n"
    "WGMMA(w_e5m2, \"m64n8k32.f32.e5m2.e5m2\", \"\")\n"
    "WGMMA(w_e4e5, \"m64n8k32.f32.e4m3.e5m2\", \"\")\n";

uint32_t emu_dots_count(void)
{
    return (uint32_t)FORM_COUNT;
}

const char *emu_dots_name(uint32_t index)
{
    return FORMS[index].name;
}

const char *emu_dots_source(void)
{
    return SOURCE;
}

static uint32_t draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return (uint32_t)((z ^ z >> 31) >> 32);
}

static uint32_t element(uint64_t *state, const struct format *format, uint32_t kind, int32_t spread)
{
    uint32_t fraction = draw(state) & ((1u << format->fraction) - 1);
    uint32_t sign = (draw(state) & 1) << (format->exponent + format->fraction);
    int32_t bias = (1 << (format->exponent - 1)) - 1, most = (1 << format->exponent) - 2;
    int32_t exponent = bias - spread + (int32_t)(draw(state) % (uint32_t)(2 * spread + 1));

    if (kind == 9 || (kind == 10 && draw(state) % 2)) {
        return sign;
    }
    if (kind == 5 && draw(state) % 4 == 0) {
        return sign | fraction >> draw(state) % (format->fraction + 1);
    }
    if (kind == 6 && format != &E4M3 && draw(state) % 24 == 0) {
        return sign | ((1u << format->exponent) - 1) << format->fraction |
               (draw(state) % 3 ? 0 : fraction);
    }
    if (kind == 10 || draw(state) % 16 == 0) {
        fraction = 0;
    }
    exponent = exponent < 1 ? 1 : exponent > most ? most : exponent;
    return sign | (uint32_t)exponent << format->fraction | fraction;
}

static void fill_words(uint64_t *state, const struct format *format, uint32_t kind, int32_t spread,
                       uint32_t *to, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        to[i] = 0;
        for (uint32_t at = 0; at < 32; at += format->width) {
            to[i] |= element(state, format, kind, spread) << at;
        }
    }
}

void emu_dots_fill(uint32_t index, uint32_t in[EMU_DOTS_BLOCKS * EMU_DOTS_IN])
{
    const struct form *form = &FORMS[index];
    uint64_t state = index + 1;

    memset(in, 0, EMU_DOTS_BLOCKS * EMU_DOTS_IN * sizeof(in[0]));
    for (uint32_t b = 0; b < EMU_DOTS_BLOCKS; b++) {
        uint32_t kind = b % EMU_DOTS_KINDS, *words = in + b * EMU_DOTS_IN;
        int32_t spread = SPREAD[kind];

        fill_words(&state, form->a, kind, spread, words, form->wide ? 256 : 128);
        fill_words(&state, form->b, kind, spread, words + (form->wide ? 256 : 128), 64);
        if (kind) { /* 0: no sums to begin with */
            fill_words(&state, form->c, kind, kind == 8 ? spread : 2 * spread,
                       words + (form->wide ? 320 : 192), form->wide ? 512 : 128);
        }
    }
}

uint64_t emu_dots_hash(const uint32_t out[EMU_DOTS_BLOCKS * EMU_DOTS_OUT], uint32_t kind)
{
    uint64_t hash = 0xcbf29ce484222325ull;

    for (uint32_t b = kind; b < EMU_DOTS_BLOCKS; b += EMU_DOTS_KINDS) {
        for (uint32_t i = 0; i < EMU_DOTS_OUT; i++) {
            hash = (hash ^ out[b * EMU_DOTS_OUT + i]) * 0x100000001b3ull;
        }
    }
    return hash;
}
