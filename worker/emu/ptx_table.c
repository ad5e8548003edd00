/*
 * Names of types and modifiers, matching of row patterns, and the index over all rows.
 */
#include "worker/emu/ptx_table.h"

#include <stdlib.h>
#include <string.h>

enum modifier_kind {
    KIND_TYPE,
    KIND_ROUND,
    KIND_CMP,
    KIND_ATOM,
    KIND_SPACE,
    KIND_VEC,
    KIND_SEM,
    KIND_SCOPE,
    KIND_FLAG
};

struct modifier {
    const char *name;
    enum modifier_kind kind;
    uint64_t value;
};

static const struct modifier MODIFIERS[] = {
    {"pred", KIND_TYPE, PTX_PRED},
    {"b8", KIND_TYPE, PTX_B8},
    {"s8", KIND_TYPE, PTX_S8},
    {"u8", KIND_TYPE, PTX_U8},
    {"b16", KIND_TYPE, PTX_B16},
    {"s16", KIND_TYPE, PTX_S16},
    {"u16", KIND_TYPE, PTX_U16},
    {"f16", KIND_TYPE, PTX_F16},
    {"bf16", KIND_TYPE, PTX_BF16},
    {"b32", KIND_TYPE, PTX_B32},
    {"s32", KIND_TYPE, PTX_S32},
    {"u32", KIND_TYPE, PTX_U32},
    {"f32", KIND_TYPE, PTX_F32},
    {"tf32", KIND_TYPE, PTX_TF32},
    {"f16x2", KIND_TYPE, PTX_F16X2},
    {"bf16x2", KIND_TYPE, PTX_BF16X2},
    {"b64", KIND_TYPE, PTX_B64},
    {"s64", KIND_TYPE, PTX_S64},
    {"u64", KIND_TYPE, PTX_U64},
    {"f64", KIND_TYPE, PTX_F64},
    {"f32x2", KIND_TYPE, PTX_F32X2},
    {"e4m3", KIND_TYPE, PTX_E4M3},
    {"e5m2", KIND_TYPE, PTX_E5M2},
    {"e4m3x2", KIND_TYPE, PTX_E4M3X2},
    {"e5m2x2", KIND_TYPE, PTX_E5M2X2},
    {"s4", KIND_TYPE, PTX_S4},
    {"u4", KIND_TYPE, PTX_U4},
    {"b1", KIND_TYPE, PTX_B1},
    {"rn", KIND_ROUND, PTX_RN},
    {"rz", KIND_ROUND, PTX_RZ},
    {"rm", KIND_ROUND, PTX_RM},
    {"rp", KIND_ROUND, PTX_RP},
    {"rna", KIND_ROUND, PTX_RNA},
    {"rni", KIND_ROUND, PTX_RNI},
    {"rzi", KIND_ROUND, PTX_RZI},
    {"rmi", KIND_ROUND, PTX_RMI},
    {"rpi", KIND_ROUND, PTX_RPI},
    {"eq", KIND_CMP, PTX_EQ},
    {"ne", KIND_CMP, PTX_NE},
    {"lt", KIND_CMP, PTX_LT},
    {"le", KIND_CMP, PTX_LE},
    {"gt", KIND_CMP, PTX_GT},
    {"ge", KIND_CMP, PTX_GE},
    {"ls", KIND_CMP, PTX_LS},
    {"hs", KIND_CMP, PTX_HS},
    {"equ", KIND_CMP, PTX_EQU},
    {"neu", KIND_CMP, PTX_NEU},
    {"ltu", KIND_CMP, PTX_LTU},
    {"leu", KIND_CMP, PTX_LEU},
    {"gtu", KIND_CMP, PTX_GTU},
    {"geu", KIND_CMP, PTX_GEU},
    {"num", KIND_CMP, PTX_NUM},
    {"nan", KIND_CMP, PTX_NAN},
    {"and", KIND_ATOM, PTX_AND},
    {"or", KIND_ATOM, PTX_OR},
    {"xor", KIND_ATOM, PTX_XOR},
    {"add", KIND_ATOM, PTX_ADD},
    {"inc", KIND_ATOM, PTX_INC},
    {"dec", KIND_ATOM, PTX_DEC},
    {"min", KIND_ATOM, PTX_MIN},
    {"max", KIND_ATOM, PTX_MAX},
    {"exch", KIND_ATOM, PTX_EXCH},
    {"cas", KIND_ATOM, PTX_CAS},
    {"popc", KIND_ATOM, PTX_POPC},
    {"global", KIND_SPACE, EMU_GLOBAL},
    {"shared", KIND_SPACE, EMU_SHARED},
    {"shared::cta", KIND_SPACE, EMU_SHARED},
    {"shared::cluster", KIND_SPACE, EMU_SHARED},
    {"local", KIND_SPACE, EMU_LOCAL},
    {"const", KIND_SPACE, EMU_CONST},
    {"param", KIND_SPACE, EMU_PARAM},
    {"param::entry", KIND_SPACE, EMU_PARAM},
    {"param::func", KIND_SPACE, EMU_PARAM},
    {"v2", KIND_VEC, 2},
    {"v4", KIND_VEC, 4},
    {"v8", KIND_VEC, 8},
    {"relaxed", KIND_SEM, PTX_SEM_RELAXED},
    {"volatile", KIND_SEM, PTX_SEM_RELAXED},
    {"mmio", KIND_SEM, PTX_SEM_RELAXED},
    {"acquire", KIND_SEM, PTX_SEM_ACQUIRE},
    {"release", KIND_SEM, PTX_SEM_RELEASE},
    {"acq_rel", KIND_SEM, PTX_SEM_ACQ_REL},
    {"sc", KIND_SEM, PTX_SEM_SC},
    {"cta", KIND_SCOPE, EMU_SCOPE_CTA},
    {"cluster", KIND_SCOPE, EMU_SCOPE_CLUSTER},
    {"gpu", KIND_SCOPE, EMU_SCOPE_GPU},
    {"gl", KIND_SCOPE, EMU_SCOPE_GPU},
    {"sys", KIND_SCOPE, EMU_SCOPE_GPU},
    {"ftz", KIND_FLAG, PTX_M_FTZ},
    {"sat", KIND_FLAG, PTX_M_SAT},
    {"lo", KIND_FLAG, PTX_M_LO},
    {"hi", KIND_FLAG, PTX_M_HI},
    {"NaN", KIND_FLAG, PTX_M_NAN},
    {"xorsign", KIND_FLAG, PTX_M_XORSIGN},
    {"abs", KIND_FLAG, PTX_M_ABS},
    {"relu", KIND_FLAG, PTX_M_RELU},
    {"satfinite", KIND_FLAG, PTX_M_SATFINITE},
    {"nc", KIND_FLAG, PTX_M_NC},
    {"trans", KIND_FLAG, PTX_M_TRANS},
    {"L2::cache_hint", KIND_FLAG, PTX_M_CACHE_HINT},
    {"to", KIND_FLAG, PTX_M_TO},
    {"up", KIND_FLAG, PTX_M_UP},
    {"down", KIND_FLAG, PTX_M_DOWN},
    {"bfly", KIND_FLAG, PTX_M_BFLY},
    {"idx", KIND_FLAG, PTX_M_IDX},
    {"all", KIND_FLAG, PTX_M_ALL},
    {"any", KIND_FLAG, PTX_M_ANY},
    {"uni", KIND_FLAG, PTX_M_UNI},
    {"ballot", KIND_FLAG, PTX_M_BALLOT},
    {"l", KIND_FLAG, PTX_M_LEFT},
    {"r", KIND_FLAG, PTX_M_RIGHT},
    {"wrap", KIND_FLAG, PTX_M_WRAP},
    {"clamp", KIND_FLAG, PTX_M_CLAMP},
    {"shiftamt", KIND_FLAG, PTX_M_SHIFTAMT},
    {"cc", KIND_FLAG, PTX_M_CC},
    {"approx", KIND_FLAG, PTX_M_APPROX},
    {"full", KIND_FLAG, PTX_M_FULL},
    {"wide", KIND_FLAG, PTX_M_WIDE},
    {"x1", KIND_FLAG, PTX_M_X1},
    {"x2", KIND_FLAG, PTX_M_X2},
    {"x4", KIND_FLAG, PTX_M_X4},
    {"col", KIND_FLAG, PTX_M_COL},
    {"multicast::cluster", KIND_FLAG, PTX_M_MULTICAST},
    {"f4e", KIND_FLAG, PTX_M_F4E},
    {"b4e", KIND_FLAG, PTX_M_B4E},
    {"rc8", KIND_FLAG, PTX_M_RC8},
    {"ecl", KIND_FLAG, PTX_M_ECL},
    {"ecr", KIND_FLAG, PTX_M_ECR},
    {"rc16", KIND_FLAG, PTX_M_RC16},
    {"finite", KIND_FLAG, PTX_M_FINITE},
    {"infinite", KIND_FLAG, PTX_M_INFINITE},
    {"number", KIND_FLAG, PTX_M_NUMBER},
    {"notanumber", KIND_FLAG, PTX_M_NOTANUMBER},
    {"normal", KIND_FLAG, PTX_M_NORMAL},
    {"subnormal", KIND_FLAG, PTX_M_SUBNORMAL},
};

uint32_t ptx_type_bytes(uint8_t type)
{
    switch (type) {
    case PTX_B8:
    case PTX_S8:
    case PTX_U8:
    case PTX_E4M3:
    case PTX_E5M2:
        return 1;
    case PTX_B16:
    case PTX_S16:
    case PTX_U16:
    case PTX_F16:
    case PTX_BF16:
    case PTX_E4M3X2:
    case PTX_E5M2X2:
        return 2;
    case PTX_B64:
    case PTX_S64:
    case PTX_U64:
    case PTX_F64:
    case PTX_F32X2:
        return 8;
    default:
        return 4;
    }
}

bool ptx_type_is_signed(uint8_t type)
{
    return type == PTX_S8 || type == PTX_S16 || type == PTX_S32 || type == PTX_S64;
}

bool ptx_type_is_float(uint8_t type)
{
    return type == PTX_F16 || type == PTX_BF16 || type == PTX_F32 || type == PTX_F64 ||
           type == PTX_TF32;
}

const char *ptx_type_name(uint8_t type)
{
    for (size_t i = 0; i < GK_ARRAY_COUNT(MODIFIERS); i++) {
        if (MODIFIERS[i].kind == KIND_TYPE && MODIFIERS[i].value == type) {
            return MODIFIERS[i].name;
        }
    }
    return "none";
}

static void apply_type(struct emu_insn *insn, uint8_t type)
{
    if (!insn->type) {
        insn->type = type;
    } else if (!insn->type2) {
        insn->type2 = type;
    } else if (!insn->type3) {
        insn->type3 = type;
    }
}

void ptx_modifier_apply(struct emu_insn *insn, const char *opcode, const char *name)
{
    bool compares = strcmp(opcode, "setp") == 0 || strcmp(opcode, "set") == 0;
    const struct modifier *found = NULL;

    for (size_t i = 0; i < GK_ARRAY_COUNT(MODIFIERS); i++) {
        if (strcmp(MODIFIERS[i].name, name) == 0) {
            found = &MODIFIERS[i];
            break;
        }
    }
    if (!found) {
        return;
    }
    switch (found->kind) {
    case KIND_TYPE:
        apply_type(insn, (uint8_t)found->value);
        break;
    case KIND_ROUND:
        insn->round = (uint8_t)found->value;
        break;
    case KIND_CMP:
        insn->cmp = (uint8_t)found->value;
        break;
    case KIND_ATOM:
        insn->atom = (uint8_t)found->value;
        break;
    case KIND_SPACE:
        insn->space = (uint8_t)found->value;
        break;
    case KIND_VEC:
        insn->vec = (uint8_t)found->value;
        break;
    case KIND_SEM:
        insn->sem = (uint8_t)found->value;
        break;
    case KIND_SCOPE:
        insn->scope = (uint8_t)found->value;
        break;
    case KIND_FLAG:
        insn->mods |= found->value;
        /* "lo" and "hi" are halves of a product, but comparisons in setp and set. */
        if (compares && found->value == PTX_M_LO) {
            insn->cmp = PTX_LO;
        } else if (compares && found->value == PTX_M_HI) {
            insn->cmp = PTX_HI;
        }
        break;
    }
}

/* ------------------------------------------------------------------ patterns */

/* Whether `name` is one of the choices in [at, end): ".a|.b|.c*". */
static bool choice_matches(const char *at, const char *end, const char *name)
{
    while (at < end) {
        const char *stop = memchr(at, '|', (size_t)(end - at));
        size_t size;

        stop = stop ? stop : end;
        at++; /* the dot */
        size = (size_t)(stop - at);
        if (size && at[size - 1] == '*') {
            if (strncmp(at, name, size - 1) == 0) {
                return true;
            }
        } else if (strlen(name) == size && memcmp(at, name, size) == 0) {
            return true;
        }
        at = stop + 1;
    }
    return false;
}

static bool pattern_matches(const char *at, char *const *modifiers, uint32_t count)
{
    uint32_t next = 0;

    while (*at) {
        bool optional = *at == '{';
        const char *first = at;
        const char *end;

        if (*at == '{' || *at == '[') {
            first = at + 1;
            end = strchr(at, optional ? '}' : ']');
            at = end + 1;
        } else {
            end = at + 1;
            while (*end && *end != '.' && *end != '{' && *end != '[') {
                end++;
            }
            at = end;
        }
        if (next < count && choice_matches(first, end, modifiers[next])) {
            next++;
        } else if (!optional) {
            return false;
        }
    }
    return next == count;
}

/* ------------------------------------------------------------------ index */

#define BUCKETS 512

struct ptx_index {
    const struct ptx_row **rows; /* in table order */
    uint32_t count;
    uint32_t *next; /* chain: index + 1 of the next row of the bucket, table order */
    uint32_t head[BUCKETS], tail[BUCKETS];
};

static size_t opcode_size(const char *pattern)
{
    return strcspn(pattern, ".{[");
}

static uint32_t opcode_hash(const char *text, size_t size)
{
    uint32_t hash = 2166136261u;

    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ (unsigned char)text[i]) * 16777619u;
    }
    return hash % BUCKETS;
}

enum emu_isa emu_isa_of_this_cpu(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("fma")) {
        return EMU_ISA_AVX512;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        return EMU_ISA_AVX2;
    }
#endif
    return EMU_ISA_BASE;
}

#if defined(__x86_64__)
#define ROWS_BY_ISA(name)                                                                          \
    (isa == EMU_ISA_AVX512 ? name##_avx512() : isa == EMU_ISA_AVX2 ? name##_avx2() : name##_base())
#else
#define ROWS_BY_ISA(name) name##_base()
#endif

static enum gk_status choose_isa(const char *set, enum emu_isa *isa_out, struct gk_err *err)
{
    static const char *const NAMES[] = {"base", "avx2", "avx512"};
    enum emu_isa best = emu_isa_of_this_cpu();

    *isa_out = best;
    for (unsigned i = 0; set && i < GK_ARRAY_COUNT(NAMES); i++) {
        if (strcmp(NAMES[i], set) == 0 && i <= (unsigned)best) {
            *isa_out = (enum emu_isa)i;
            return GK_OK;
        }
    }
    return set ? gk_fail(err, GK_UNSUPPORTED, "instruction set '%s': this host has base%s%s", set,
                         best >= EMU_ISA_AVX2 ? ", avx2" : "",
                         best >= EMU_ISA_AVX512 ? ", avx512" : "")
               : GK_OK;
}

static enum gk_status index_of(enum emu_isa isa, struct ptx_index **out, struct gk_err *err)
{
    const struct ptx_rows all[] = {
        ROWS_BY_ISA(emu_rows_int),
        ROWS_BY_ISA(emu_rows_float),
        ROWS_BY_ISA(emu_rows_cvt),
        ROWS_BY_ISA(emu_rows_mma),
        ROWS_BY_ISA(emu_rows_memory),
        ROWS_BY_ISA(emu_rows_atomic),
        ROWS_BY_ISA(emu_rows_wmma),
        ROWS_BY_ISA(emu_rows_hopper),
        ROWS_BY_ISA(emu_rows_bulk),
        ROWS_BY_ISA(emu_rows_wgmma),
        emu_rows_half(),
        emu_rows_slow_cvt(),
        emu_rows_slow_float(),
        emu_rows_sync(),
        emu_rows_async(),
        emu_rows_control(),
    };
    struct ptx_index *index = calloc(1, sizeof(*index));
    uint32_t total = 0;

    (void)isa; /* one table only on other machines */
    for (size_t i = 0; i < GK_ARRAY_COUNT(all); i++) {
        total += all[i].count;
    }
    if (index) {
        index->rows = calloc(total, sizeof(*index->rows));
        index->next = calloc(total, sizeof(*index->next));
    }
    if (!index || !index->rows || !index->next) {
        ptx_index_destroy(index);
        return gk_fail(err, GK_NOMEM, "index of %u instruction rows", total);
    }
    for (size_t i = 0; i < GK_ARRAY_COUNT(all); i++) {
        for (uint32_t r = 0; r < all[i].count; r++) {
            const struct ptx_row *row = &all[i].rows[r];
            uint32_t hash = opcode_hash(row->pattern, opcode_size(row->pattern));
            uint32_t at = index->count++;

            index->rows[at] = row;
            if (index->head[hash]) {
                index->next[index->tail[hash] - 1] = at + 1;
            } else {
                index->head[hash] = at + 1;
            }
            index->tail[hash] = at + 1;
        }
    }
    *out = index;
    return GK_OK;
}

enum gk_status ptx_index_create(const char *set, struct ptx_index **out, struct gk_err *err)
{
    enum emu_isa isa = EMU_ISA_BASE;
    enum gk_status status = choose_isa(set, &isa, err);

    return status == GK_OK ? index_of(isa, out, err) : status;
}

void ptx_index_destroy(struct ptx_index *index)
{
    if (!index) {
        return;
    }
    free(index->rows);
    free(index->next);
    free(index);
}

static bool operands_fit(const char *codes, uint32_t operands)
{
    uint32_t most = 0, optional = 0;

    while (*codes) {
        size_t size = strcspn(codes, " ");

        most++;
        optional += codes[size - 1] == '?';
        codes += size;
        codes += strspn(codes, " ");
    }
    return operands <= most && operands >= most - optional;
}

const struct ptx_row *ptx_index_find(const struct ptx_index *index, const char *opcode,
                                     char *const *modifiers, uint32_t count, uint32_t operands,
                                     bool *known_out)
{
    const struct ptx_row *found = NULL;
    size_t size = strlen(opcode);

    *known_out = false;
    for (uint32_t at = index->head[opcode_hash(opcode, size)]; at; at = index->next[at - 1]) {
        const struct ptx_row *row = index->rows[at - 1];

        if (opcode_size(row->pattern) != size || memcmp(row->pattern, opcode, size) != 0) {
            continue;
        }
        *known_out = true;
        if (pattern_matches(row->pattern + size, modifiers, count)) {
            if (operands_fit(row->operands, operands)) {
                return row;
            }
            found = found ? found : row; /* for a message about its operands */
        }
    }
    return found;
}

const struct ptx_row *ptx_index_find_wide(const struct ptx_index *index, char *const *modifiers,
                                          uint32_t count)
{
    static const char name[] = "cvt";
    size_t size = sizeof name - 1;

    for (uint32_t at = index->head[opcode_hash(name, size)]; at; at = index->next[at - 1]) {
        const struct ptx_row *row = index->rows[at - 1];

        if (opcode_size(row->pattern) == size && memcmp(row->pattern, name, size) == 0 &&
            strcmp(row->operands, "Dr Sr") == 0 &&
            pattern_matches(row->pattern + size, modifiers, count)) {
            return row;
        }
    }
    return NULL;
}

uint32_t ptx_index_count(const struct ptx_index *index)
{
    return index->count;
}

const struct ptx_row *ptx_index_at(const struct ptx_index *index, uint32_t at)
{
    return index->rows[at];
}
