/*
 * Loads, stores, asynchronous copies and address conversions. Compiled once an instruction set.
 * Cache operators and eviction hints change no value: they are read and have no effect.
 */
#include "worker/emu/emu_access.h"

#include <stdlib.h>
#include <string.h>

/* Moves one element of every lane from memory into a register array, `at` bytes behind the lane's
 * pointer. */
#define LOAD_LANES(memory, target)                                                                 \
    do {                                                                                           \
        target *d = to;                                                                            \
                                                                                                   \
        if (access->uniform) {                                                                     \
            memory value;                                                                          \
                                                                                                   \
            memcpy(&value, access->ptr[__builtin_ctz(mask)] + at, sizeof(value));                  \
            EMU_FOR_LANES(mask, d[l] = (target)value);                                             \
        } else {                                                                                   \
            for (uint32_t left = mask; left; left &= left - 1) {                                   \
                unsigned l = (unsigned)__builtin_ctz(left);                                        \
                memory value;                                                                      \
                                                                                                   \
                memcpy(&value, access->ptr[l] + at, sizeof(value));                                \
                d[l] = (target)value;                                                              \
            }                                                                                      \
        }                                                                                          \
    } while (0)

static void load_contiguous(const struct emu_reach *access, uint32_t bytes, void *to)
{
    memcpy(to, access->ptr[0], (size_t)bytes * EMU_LANES);
}

/* memory bytes, register bytes and sign, as one number. */
#define SHAPE(memory, target, is_signed) ((memory) << 8 | (target) << 4 | (is_signed))

static void load_element(const struct emu_reach *access, uint32_t mask, uint32_t at, uint32_t shape,
                         void *to)
{
    switch (shape) {
    case SHAPE(1, 2, 0):
        LOAD_LANES(uint8_t, uint16_t);
        break;
    case SHAPE(1, 4, 0):
        LOAD_LANES(uint8_t, uint32_t);
        break;
    case SHAPE(1, 8, 0):
        LOAD_LANES(uint8_t, uint64_t);
        break;
    case SHAPE(1, 2, 1):
        LOAD_LANES(int8_t, int16_t);
        break;
    case SHAPE(1, 4, 1):
        LOAD_LANES(int8_t, int32_t);
        break;
    case SHAPE(1, 8, 1):
        LOAD_LANES(int8_t, int64_t);
        break;
    case SHAPE(2, 2, 0):
    case SHAPE(2, 2, 1):
        LOAD_LANES(uint16_t, uint16_t);
        break;
    case SHAPE(2, 4, 0):
        LOAD_LANES(uint16_t, uint32_t);
        break;
    case SHAPE(2, 8, 0):
        LOAD_LANES(uint16_t, uint64_t);
        break;
    case SHAPE(2, 4, 1):
        LOAD_LANES(int16_t, int32_t);
        break;
    case SHAPE(2, 8, 1):
        LOAD_LANES(int16_t, int64_t);
        break;
    case SHAPE(4, 4, 0):
    case SHAPE(4, 4, 1):
        LOAD_LANES(uint32_t, uint32_t);
        break;
    case SHAPE(4, 8, 0):
        LOAD_LANES(uint32_t, uint64_t);
        break;
    case SHAPE(4, 8, 1):
        LOAD_LANES(int32_t, int64_t);
        break;
    default:
        LOAD_LANES(uint64_t, uint64_t);
        break;
    }
}

#define STORE_LANES(type)                                                                          \
    do {                                                                                           \
        for (uint32_t left = mask; left; left &= left - 1) {                                       \
            unsigned l = (unsigned)__builtin_ctz(left);                                            \
                                                                                                   \
            memcpy(access->ptr[l] + at, (const unsigned char *)from + l * lane_bytes,              \
                   sizeof(type));                                                                  \
        }                                                                                          \
    } while (0)

static void store_element(const struct emu_reach *access, uint32_t mask, uint32_t at,
                          uint32_t bytes, uint32_t lane_bytes, const void *from)
{
    switch (bytes) {
    case 1:
        STORE_LANES(uint8_t);
        break;
    case 2:
        STORE_LANES(uint16_t);
        break;
    case 4:
        STORE_LANES(uint32_t);
        break;
    default:
        STORE_LANES(uint64_t);
        break;
    }
}

/* .param variables of device functions: private to the lane, checked when decoded. */
static void lane_params(struct emu_warp *warp, const struct emu_insn *insn,
                        struct emu_reach *access)
{
    access->uniform = access->contiguous = false;
    access->twins = 0;
    for (unsigned l = 0; l < EMU_LANES; l++) {
        access->ptr[l] = warp->base[0] + insn->imm + (int64_t)l * insn->imm2;
    }
}

static int load(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    uint32_t vec = insn->vec ? insn->vec : 1, bytes = ptx_type_bytes(insn->type);
    uint32_t shape =
        SHAPE(bytes, (uint32_t)insn->width[0], (uint32_t)ptx_type_is_signed(insn->type));
    struct emu_reach access;

    if (insn->space == EMU_PARAM_LOCAL) {
        lane_params(warp, insn, &access);
    } else if (emu_access(warp, insn, mask, (enum emu_space)insn->space, false, bytes * vec,
                          EMU_LOAD, &access) != EMU_NEXT) {
        return EMU_STOP;
    }
    if (access.contiguous && vec == 1 && bytes == insn->width[0] && access.space == EMU_GLOBAL &&
        access.ptr[31] - access.ptr[0] == 31 * (int64_t)bytes) {
        load_contiguous(&access, bytes, emu_operand(warp, insn, 0));
        return EMU_NEXT;
    }
    for (uint32_t i = 0; i < vec; i++) {
        load_element(&access, mask, i * bytes, shape, emu_operand(warp, insn, i));
    }
    return EMU_NEXT;
}

/* Lanes that write different bytes to one place. Equal ones are a well-known way to set a flag, and
 * the place holds them whichever lane stays. */
static int compare_twins(struct emu_warp *warp, const struct emu_insn *insn,
                         const struct emu_reach *access, uint32_t vec, uint32_t bytes)
{
    for (uint32_t left = access->twins; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left), other = access->twin[l];

        for (uint32_t i = 0; i < vec; i++) {
            const unsigned char *from = emu_operand(warp, insn, 1 + i);

            if (memcmp(from + l * insn->width[1], from + other * insn->width[1], bytes) != 0) {
                return emu_fault(warp, insn, l, GK_EMU_FAULT_RACE, access->address[l],
                                 "lanes %u and %u of this write have different values for address "
                                 "0x%llx, and which of them stays is not defined",
                                 other, l, (unsigned long long)access->address[l]);
            }
        }
    }
    return EMU_NEXT;
}

static int store(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    uint32_t vec = insn->vec ? insn->vec : 1, bytes = ptx_type_bytes(insn->type);
    struct emu_reach access;

    if (insn->space == EMU_PARAM_LOCAL) {
        lane_params(warp, insn, &access);
    } else if (emu_access(warp, insn, mask, (enum emu_space)insn->space, false, bytes * vec,
                          EMU_STORE, &access) != EMU_NEXT) {
        return EMU_STOP;
    }
    if (access.twins && compare_twins(warp, insn, &access, vec, bytes) != EMU_NEXT) {
        return EMU_STOP;
    }
    for (uint32_t i = 0; i < vec; i++) {
        store_element(&access, mask, i * bytes, bytes, insn->width[1],
                      emu_operand(warp, insn, 1 + i));
    }
    return EMU_NEXT;
}

static int no_effect(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    (void)warp;
    (void)insn;
    (void)mask;
    return EMU_NEXT;
}

/* A policy is an opaque number: any will do. */
static int create_policy(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    uint64_t *d = emu_operand(warp, insn, 0);

    EMU_FOR_LANES(mask, d[l] = 0x10f0000000000000ull);
    return EMU_NEXT;
}

/* ------------------------------------------------------------------ address conversions */

static uint64_t base_of(uint8_t space)
{
    return space == EMU_SHARED  ? EMU_SHARED_BASE
           : space == EMU_LOCAL ? EMU_LOCAL_BASE
           : space == EMU_PARAM ? EMU_PARAM_BASE
                                : 0;
}

static int cvta_64(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    uint64_t *d = emu_operand(warp, insn, 0);
    const uint64_t *a = emu_operand(warp, insn, 1);
    const uint64_t base = base_of(insn->space);
    const uint64_t delta = insn->mods & PTX_M_TO ? 0 - base : base;

    EMU_FOR_LANES(mask, d[l] = a[l] + delta);
    return EMU_NEXT;
}

static int cvta_32(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    uint32_t *d = emu_operand(warp, insn, 0);
    const uint32_t *a = emu_operand(warp, insn, 1);

    EMU_FOR_LANES(mask, d[l] = a[l]); /* the windows begin at multiples of 2^32 */
    return EMU_NEXT;
}

static int is_space(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    uint32_t *p = emu_operand(warp, insn, 0), word = 0;
    const uint64_t *a = emu_operand(warp, insn, 1);
    const uint64_t base = base_of(insn->space);

    for (uint32_t left = mask; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);
        bool hit;

        if (base) {
            hit = a[l] - base < EMU_WINDOW_BYTES;
        } else {
            const struct emu_alloc *alloc = emu_memory_find(&warp->run->emu->memory, a[l], 1);
            bool window = a[l] - EMU_SHARED_BASE < EMU_WINDOW_BYTES ||
                          a[l] - EMU_LOCAL_BASE < EMU_WINDOW_BYTES ||
                          a[l] - EMU_PARAM_BASE < EMU_WINDOW_BYTES;

            hit = insn->space == EMU_CONST ? alloc && alloc->is_const : !window;
        }
        word |= (uint32_t)hit << l;
    }
    *p = (*p & ~mask) | (word & mask);
    return EMU_NEXT;
}

/* ------------------------------------------------------------------ cp.async */

/* Lanes that read nothing (src-size 0, or ignore-src) must not have their source checked. */
static uint32_t reading_lanes(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask,
                              uint32_t *sizes)
{
    uint32_t reading = 0;

    if (insn->sub & 1 && insn->op[2] >= 0) { /* a register or constant with the source size */
        const uint32_t *given = emu_operand(warp, insn, 2);

        for (unsigned l = 0; l < EMU_LANES; l++) {
            sizes[l] = given[l];
        }
    } else if (insn->sub & 2 && insn->op[2] >= 0) { /* a predicate: ignore the source */
        const uint32_t *p = emu_operand(warp, insn, 2);
        uint32_t ignore = insn->sub & PTX_SUB_NEGATED ? ~*p : *p;

        for (unsigned l = 0; l < EMU_LANES; l++) {
            sizes[l] = ignore >> l & 1 ? 0 : sizes[l];
        }
    }
    for (unsigned l = 0; l < EMU_LANES; l++) {
        reading |= (uint32_t)(mask >> l & 1 && sizes[l]) << l;
    }
    return reading;
}

/* The source is checked byte by byte when only a part of it is asked for: bytes behind src-size
 * need not exist. */
static int check_sources(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask,
                         const uint32_t *sizes, uint32_t bytes, struct emu_flight_lanes *lanes)
{
    struct emu_reach access;
    uint32_t whole = 0;

    for (unsigned l = 0; l < EMU_LANES; l++) {
        whole |= (uint32_t)(mask >> l & 1 && sizes[l] == bytes) << l;
    }
    if (whole &&
        emu_access(warp, insn, whole, EMU_GLOBAL, true, bytes, EMU_LOAD, &access) != EMU_NEXT) {
        return EMU_STOP;
    }
    for (uint32_t left = whole; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);

        lanes->from[l] = access.ptr[l];
    }
    for (uint32_t left = mask & ~whole; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);
        struct emu_insn part = *insn;

        for (uint32_t at = 0; at < sizes[l]; at++) {
            part.imm2 = insn->imm2 + at;
            if (emu_access(warp, &part, 1u << l, EMU_GLOBAL, true, 1, EMU_LOAD, &access) !=
                EMU_NEXT) {
                return EMU_STOP;
            }
            lanes->from[l] = at ? lanes->from[l] : access.ptr[l];
        }
    }
    return EMU_NEXT;
}

/* Lanes that have closed different numbers of groups get flights of their own. */
static int start_copies(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask,
                        uint32_t bytes, const struct emu_flight_lanes *lanes)
{
    for (uint32_t left = mask; left;) {
        uint32_t batch = warp->batches[__builtin_ctz(left)], same = 0;
        struct emu_flight *one = emu_flights_room(&warp->flights);

        for (unsigned l = 0; l < EMU_LANES; l++) {
            same |= (uint32_t)(left >> l & 1 && warp->batches[l] == batch) << l;
        }
        if (!one) {
            return emu_fault(warp, insn, (unsigned)__builtin_ctz(left), GK_EMU_FAULT_UNSUPPORTED, 0,
                             "the host has no memory for more copies in flight");
        }
        one->kind = EMU_FLIGHT_LANES;
        one->warp = warp;
        one->insn = insn;
        one->block = warp->block;
        one->mask = same;
        one->batch = batch;
        one->bytes = bytes;
        one->number = warp->copies++;
        one->lanes = *lanes;
        if (!emu_flight_start(warp->run, warp->block, &warp->flights)) {
            return EMU_STOP;
        }
        left &= ~same;
    }
    return EMU_NEXT;
}

/* ptxas before 13.4.59 loses the register of the policy when it encodes such a copy for sm_90: the
 * kernel ends with an illegal instruction (an H200 with 13.0.88; disassembled, the copy names UR0
 * whatever holds the policy). What passes here must run there. */
static bool is_miscompiled(const struct emu_warp *warp, const struct emu_insn *insn)
{
    return (insn->mods & PTX_M_CACHE_HINT) && warp->run->emu->props.sm_major >= 9;
}

static int copy_async(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    struct emu_block *block = warp->block;
    struct emu_flight_lanes lanes = {0};
    struct emu_reach access;
    uint32_t sizes[EMU_LANES], bytes = insn->vec, reading;

    if (is_miscompiled(warp, insn)) {
        return emu_fault(
            warp, insn, (unsigned)__builtin_ctz(mask), GK_EMU_FAULT_TRAP, 0,
            "cp.async with a cache policy on sm_90 and newer: compilers before 13.4.59 "
            "make an illegal instruction of it; allowed: cp.async.bulk with a policy, "
            "or .ca, .cg and a prefetch size");
    }
    for (unsigned l = 0; l < EMU_LANES; l++) {
        sizes[l] = bytes;
    }
    reading = insn->sub & 3 ? reading_lanes(warp, insn, mask, sizes) : mask;
    for (uint32_t left = mask; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);

        if (sizes[l] > bytes) {
            return emu_fault(warp, insn, l, GK_EMU_FAULT_BAD_OPERAND, 0,
                             "source size %u of a copy of %u bytes", sizes[l], bytes);
        }
        lanes.sizes[l] = (uint8_t)sizes[l];
    }
    if (bytes != 4 && bytes != 8 && bytes != 16) {
        return emu_fault(warp, insn, (unsigned)__builtin_ctz(mask), GK_EMU_FAULT_BAD_OPERAND, 0,
                         "cp.async of %u bytes, 4, 8 and 16 are allowed", bytes);
    }
    if (reading && check_sources(warp, insn, reading, sizes, bytes, &lanes) != EMU_NEXT) {
        return EMU_STOP;
    }
    if (emu_access(warp, insn, mask, EMU_SHARED, false, bytes, EMU_PLACE, &access) != EMU_NEXT) {
        return EMU_STOP;
    }
    warp->run->report->counts.cp_async_bytes +=
        (uint64_t)bytes * (uint64_t)__builtin_popcount(mask);
    for (unsigned l = 0; l < EMU_LANES; l++) {
        lanes.address[l] = (uint32_t)access.address[l];
        if (mask >> l & 1) {
            emu_bits_clear(block->shared_written, access.address[l], bytes);
            emu_bits_set(block->shared_pending, access.address[l], bytes);
        }
    }
    block->any_pending = true; /* nobody may look before the wait, in any schedule */
    return start_copies(warp, insn, mask, bytes, &lanes);
}

static int copy_commit(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    (void)insn;
    EMU_FOR_LANES(mask, warp->batches[l]++);
    return EMU_NEXT;
}

/* sub 0: wait_group n (imm): all but the n youngest closed groups; 1: wait_all. */
static int copy_wait(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    uint32_t threshold[EMU_LANES]; /* batches below this number are complete */
    const uint32_t keep = (uint32_t)insn->imm;

    for (unsigned l = 0; l < EMU_LANES; l++) {
        threshold[l] = warp->batches[l] > keep ? warp->batches[l] - keep : 0;
        if (insn->sub) {
            threshold[l] = UINT32_MAX;
        }
    }
    emu_flights_wait_lanes(warp, threshold, mask);
    warp->run->report->counts.cp_async_waits++;
    warp->run->report->counts.cp_async_left += emu_flights_groups(warp);
    return EMU_NEXT;
}

#define MEM EMU_CLASS_MEMORY
#define SEM "{.weak|.relaxed|.acquire|.release|.volatile|.mmio}{.cta|.cluster|.gpu|.sys}"
#define HINTS                                                                                      \
    "{.L1::*}{.L2::evict_*}{.L2::cache_hint}{.L2::64B|.L2::128B|.L2::256B}{.L2::cache_hint}"
#define MEM_TYPE "[.b8|.u8|.s8|.b16|.u16|.s16|.f16|.bf16|.b32|.u32|.s32|.f32|.b64|.u64|.s64|.f64]"
#define LD_SPACE                                                                                   \
    "{.global|.shared|.shared::cta|.shared::cluster|.local|.const|.param|.param::entry|.param::"   \
    "func}"
#define ST_SPACE "{.global|.shared|.shared::cta|.shared::cluster|.local|.param|.param::func}"
#define CP_HINTS "{.L2::cache_hint}{.L2::64B|.L2::128B|.L2::256B}"

static const struct ptx_row ROWS[] = {
    {"ld" SEM LD_SPACE "{.ca|.cg|.cs|.lu|.cv}{.nc}" HINTS "{.v2|.v4}" MEM_TYPE, "Vr A Sd?", load,
     MEM, 0},
    {"ldu.global{.v2|.v4}" MEM_TYPE, "Vr A", load, MEM, 0},
    {"st" SEM ST_SPACE "{.wb|.cg|.cs|.wt}" HINTS "{.v2|.v4}" MEM_TYPE, "A Wr Sd?", store, MEM, 0},
    {"prefetch{.global|.local}[.L1|.L2|.L2::evict_last|.L2::evict_normal]", "A", no_effect, MEM, 0},
    {"prefetchu.L1", "A", no_effect, MEM, 0},
    {"applypriority{.global}.L2::evict_normal", "A I", no_effect, MEM, 0},
    {"createpolicy.fractional[.L2::*]{.L2::*}.b64", "Dd Sw?", create_policy, MEM, 0},
    {"createpolicy.range{.global}[.L2::*]{.L2::*}.b64", "Dd A Sw Sw", create_policy, MEM, 0},
    {"createpolicy.cvt.L2.b64", "Dd Sd", create_policy, MEM, 0},
    {"cvta{.to}[.global|.shared|.shared::cta|.shared::cluster|.local|.const|.param|.param::entry][."
     "u64]",
     "Dt St", cvta_64, EMU_CLASS_INT, 0},
    {"cvta{.to}[.global|.shared|.shared::cta|.shared::cluster|.local|.const|.param][.u32]", "Dt St",
     cvta_32, EMU_CLASS_INT, 0},
    {"isspacep[.global|.shared|.shared::cta|.shared::cluster|.local|.const|.param|.param::entry]",
     "P Sd", is_space, EMU_CLASS_INT, 0},
    /* sub: bit 0, a source size is given; bit 1, a predicate says "ignore the source" */
    {"cp.async[.ca|.cg][.shared|.shared::cta].global" CP_HINTS, "A A C X? Sd?", copy_async, MEM, 0},
    {"cp.async.commit_group", "", copy_commit, EMU_CLASS_CONTROL, 0},
    {"cp.async.wait_group", "I", copy_wait, EMU_CLASS_CONTROL, 0},
    {"cp.async.wait_all", "", copy_wait, EMU_CLASS_CONTROL, 1},
};

EMU_ROWS_FUNCTION(EMU_ISA_NAME(emu_rows_memory), ROWS)
