/*
 * Addresses to pointers, with every check a correct kernel passes. See emu_access.h.
 */
#include "worker/emu/emu_access.h"

#include <string.h>

/* Addresses below this are taken for a null pointer and an offset. */
#define NULL_ZONE 65536u

static const char *verb_of(enum emu_access_kind kind)
{
    return kind == EMU_LOAD ? "read" : kind == EMU_ATOMIC ? "atomic operation" : "write";
}

/* ------------------------------------------------------------------ counting */

static uint32_t count_sectors(const uint64_t *address, uint32_t mask)
{
    uint64_t table[64];
    uint64_t used = 0;
    uint32_t changes = 1, down = 0, count = 0;

    for (unsigned l = 1; l < EMU_LANES; l++) {
        changes += address[l] >> 5 != address[l - 1] >> 5;
        down += address[l] < address[l - 1];
    }
    if (!down) {
        return changes;
    }
    for (uint32_t left = mask; left; left &= left - 1) {
        uint64_t sector = address[__builtin_ctz(left)] >> 5;
        unsigned at = (unsigned)(sector * 0x9e3779b97f4a7c15ull >> 58);

        while (used >> at & 1 && table[at] != sector) {
            at = (at + 1) & 63;
        }
        if (!(used >> at & 1)) {
            used |= 1ull << at;
            table[at] = sector;
            count++;
        }
    }
    return count;
}

/* Lanes of one pass touch aligned units of 4, 8 or 16 bytes. Units that share banks are those that
 * are equal modulo the 128 bytes of all banks; each different unit of such a set is a pass. */
static uint32_t pass_wavefronts(const uint64_t *address, uint32_t mask, uint32_t unit)
{
    uint32_t held[32][32]; /* different units of each set */
    uint8_t count[32] = {0};
    uint32_t most = 0, sets = 128 / unit, shift = (uint32_t)__builtin_ctz(unit);

    for (uint32_t left = mask; left; left &= left - 1) {
        uint32_t at = (uint32_t)(address[__builtin_ctz(left)] >> shift), set = at & (sets - 1);
        uint32_t i = 0;

        while (i < count[set] && held[set][i] != at) {
            i++;
        }
        if (i == count[set]) {
            held[set][i] = at;
            count[set]++;
            most = count[set] > most ? count[set] : most;
        }
    }
    return most;
}

uint32_t emu_wavefronts(const uint64_t *address, uint32_t mask, uint32_t bytes)
{
    uint32_t lanes = bytes <= 4 ? 32 : bytes == 8 ? 16 : 8, total = 0;
    uint32_t group = lanes == 32 ? EMU_FULL : (1u << lanes) - 1;

    for (uint32_t first = 0; first < EMU_LANES; first += lanes) {
        uint32_t part = mask & group << first;

        if (part) {
            total += pass_wavefronts(address, part, bytes <= 4 ? 4 : bytes);
        }
    }
    return total;
}

static uint32_t wavefronts_of(const struct emu_reach *access, uint32_t mask, uint32_t bytes)
{
    if (access->uniform) {
        return 1;
    }
    if (access->contiguous) {
        return bytes <= 4 ? 1 : bytes / 4;
    }
    return emu_wavefronts(access->address, mask, bytes);
}

static void count_access(struct emu_warp *warp, const struct emu_reach *access, uint32_t mask,
                         uint32_t bytes, enum emu_access_kind kind)
{
    struct gk_emu_counts *counts = &warp->run->report->counts;

    if (warp->run->lines && (access->space == EMU_GLOBAL || access->space == EMU_SHARED)) {
        emu_lines_request(warp->run->lines, access->address, mask, bytes,
                          access->space == EMU_SHARED, kind != EMU_LOAD);
    }
    if (access->space == EMU_GLOBAL || access->space == EMU_CONST) {
        uint32_t sectors = access->uniform ? 1 : count_sectors(access->address, mask);

        if (access->space == EMU_CONST) {
            return; /* its own cache, not modelled */
        }
        if (kind == EMU_LOAD) {
            counts->global_load_requests++;
            counts->global_load_sectors += sectors;
        } else {
            counts->global_store_requests++;
            counts->global_store_sectors += sectors;
            counts->global_atomics += kind == EMU_ATOMIC ? (uint64_t)__builtin_popcount(mask) : 0;
        }
    } else if (access->space == EMU_SHARED) {
        counts->shared_requests++;
        counts->shared_wavefronts += wavefronts_of(access, mask, bytes);
        counts->shared_atomics += kind == EMU_ATOMIC ? (uint64_t)__builtin_popcount(mask) : 0;
    } else if (access->space == EMU_LOCAL) {
        counts->local_requests++;
    }
}

/* ------------------------------------------------------------------ written bytes */

/* Offsets are aligned to `bytes`, so the bits of one access lie in one byte, or in two for 16. */
static inline bool bits_all(const unsigned char *bits, uint64_t offset, uint32_t bytes)
{
    unsigned need = (1u << bytes) - 1;

    if (bytes == 16) {
        return (bits[offset >> 3] & bits[(offset >> 3) + 1]) == 255;
    }
    return ((unsigned)bits[offset >> 3] >> (offset & 7) & need) == need;
}

static inline bool bits_any(const unsigned char *bits, uint64_t offset, uint32_t bytes)
{
    if (bytes == 16) {
        return (bits[offset >> 3] | bits[(offset >> 3) + 1]) != 0;
    }
    return ((unsigned)bits[offset >> 3] >> (offset & 7) & ((1u << bytes) - 1)) != 0;
}

static inline void bits_put(unsigned char *bits, uint64_t offset, uint32_t bytes)
{
    if (bytes == 16) {
        bits[offset >> 3] = 255;
        bits[(offset >> 3) + 1] = 255;
    } else {
        bits[offset >> 3] =
            (unsigned char)(bits[offset >> 3] | ((1u << bytes) - 1) << (offset & 7));
    }
}

/* ------------------------------------------------------------------ pages */

/* A few pages between lanes may be counted although none is read. */
void emu_touch_pages(struct emu_run *run, struct emu_alloc *alloc, uint64_t first, uint64_t last)
{
    if (alloc->touched_in != run->emu->launches) {
        memset(alloc->touched, 0, (size_t)(alloc->size / EMU_PAGE_BYTES / 8) + 16);
        alloc->touched_in = run->emu->launches;
    }
    for (uint64_t page = first / EMU_PAGE_BYTES; page <= last / EMU_PAGE_BYTES; page++) {
        unsigned bit = 1u << (page & 7);

        if (!(alloc->touched[page >> 3] & bit)) {
            alloc->touched[page >> 3] = (unsigned char)(alloc->touched[page >> 3] | bit);
            run->pages_touched++;
        }
    }
}

#define SPAN_AS_ONE (16u * EMU_PAGE_BYTES)

/* ------------------------------------------------------------------ spaces */

static inline bool watched(const struct emu_warp *warp, enum emu_space space)
{
    return !warp->run->order.off && (space == EMU_GLOBAL || space == EMU_SHARED);
}

/* A missing edge says more than the bytes that are missing because of it. */
static int unwritten(struct emu_warp *warp, const struct emu_insn *insn, unsigned lane,
                     uint64_t address, uint32_t bytes, enum emu_access_kind kind,
                     const struct emu_reach *access)
{
    struct emu_reach lone = *access;

    if (watched(warp, access->space) &&
        emu_order_access(warp, insn, 1u << lane, bytes, kind, &lone) != EMU_NEXT) {
        return EMU_STOP;
    }
    return emu_fault_memory(warp, insn, lane, GK_EMU_FAULT_UNWRITTEN, access->space, address, bytes,
                            verb_of(kind));
}

static int check_lane_global(struct emu_warp *warp, const struct emu_insn *insn, unsigned lane,
                             uint32_t bytes, enum emu_access_kind kind, struct emu_reach *access,
                             struct emu_alloc *alloc)
{
    uint64_t offset = access->address[lane] - alloc->address;

    if (kind & EMU_STORE && alloc->is_const) {
        return emu_fault_memory(warp, insn, lane, GK_EMU_FAULT_CONST_WRITE, access->space,
                                access->address[lane], bytes, verb_of(kind));
    }
    if (!alloc->all_written) {
        if (kind & EMU_LOAD && !bits_all(alloc->written, offset, bytes)) {
            return unwritten(warp, insn, lane, access->address[lane], bytes, kind, access);
        }
        if (kind & EMU_STORE) {
            bits_put(alloc->written, offset, bytes);
        }
    }
    return EMU_NEXT;
}

static int bad_address(struct emu_warp *warp, const struct emu_insn *insn, unsigned lane,
                       uint32_t bytes, enum emu_access_kind kind, const struct emu_reach *access)
{
    enum gk_emu_fault fault =
        access->address[lane] < NULL_ZONE ? GK_EMU_FAULT_NULL_POINTER : GK_EMU_FAULT_OUT_OF_BOUNDS;

    return emu_fault_memory(warp, insn, lane, fault, access->space, access->address[lane], bytes,
                            verb_of(kind));
}

static int scattered_global(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask,
                            uint32_t bytes, enum emu_access_kind kind, struct emu_reach *access)
{
    for (uint32_t left = mask; left; left &= left - 1) {
        unsigned lane = (unsigned)__builtin_ctz(left);
        struct emu_alloc *alloc =
            emu_memory_find(&warp->run->emu->memory, access->address[lane], bytes);

        if (!alloc) {
            return bad_address(warp, insn, lane, bytes, kind, access);
        }
        access->ptr[lane] = alloc->bytes + (access->address[lane] - alloc->address);
        emu_touch_pages(warp->run, alloc, access->address[lane] - alloc->address,
                        access->address[lane] - alloc->address);
        if (check_lane_global(warp, insn, lane, bytes, kind, access, alloc) != EMU_NEXT) {
            return EMU_STOP;
        }
    }
    return EMU_NEXT;
}

static int access_global(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask,
                         uint32_t bytes, enum emu_access_kind kind, struct emu_reach *access)
{
    uint64_t low = UINT64_MAX, high = 0;
    struct emu_alloc *alloc;
    unsigned char *base;

    for (unsigned l = 0; l < EMU_LANES; l++) {
        low = access->address[l] < low ? access->address[l] : low;
        high = access->address[l] > high ? access->address[l] : high;
    }
    alloc = high - low > SPAN_AS_ONE
                ? NULL
                : emu_memory_find(&warp->run->emu->memory, low, high - low + bytes);
    if (!alloc) {
        return scattered_global(warp, insn, mask, bytes, kind, access);
    }
    emu_touch_pages(warp->run, alloc, low - alloc->address, high - alloc->address);
    base = alloc->bytes;
    for (unsigned l = 0; l < EMU_LANES; l++) {
        access->ptr[l] = base + (access->address[l] - alloc->address);
    }
    if (alloc->all_written && !(kind & EMU_STORE && alloc->is_const)) {
        return EMU_NEXT;
    }
    for (uint32_t left = mask; left; left &= left - 1) {
        if (check_lane_global(warp, insn, (unsigned)__builtin_ctz(left), bytes, kind, access,
                              alloc) != EMU_NEXT) {
            return EMU_STOP;
        }
    }
    return EMU_NEXT;
}

static int access_shared(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask,
                         uint32_t bytes, enum emu_access_kind kind, struct emu_reach *access)
{
    uint64_t size = warp->run->shared_bytes;

    for (uint32_t left = mask; left; left &= left - 1) {
        unsigned lane = (unsigned)__builtin_ctz(left);
        uint64_t at = access->address[lane];
        struct emu_block *block = at >> EMU_CTA_SHIFT ? emu_block_find(warp, at) : warp->block;

        at &= at >> 32 ? UINT64_MAX : EMU_CTA_MASK;
        if (!block || at >= size || size - at < bytes) {
            return emu_fault_memory(warp, insn, lane, GK_EMU_FAULT_OUT_OF_BOUNDS, EMU_SHARED,
                                    access->address[lane], bytes, verb_of(kind));
        }
        if (block->any_pending && bits_any(block->shared_pending, at, bytes)) {
            return emu_fault_memory(warp, insn, lane, GK_EMU_FAULT_PENDING, EMU_SHARED, at, bytes,
                                    verb_of(kind));
        }
        if (kind & EMU_LOAD && !bits_all(block->shared_written, at, bytes)) {
            return unwritten(warp, insn, lane, at, bytes, kind, access);
        }
        if (kind & EMU_STORE) {
            bits_put(block->shared_written, at, bytes);
        }
        access->ptr[lane] = block->shared + at;
    }
    return EMU_NEXT;
}

static int access_local(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask,
                        uint32_t bytes, enum emu_access_kind kind, struct emu_reach *access)
{
    uint64_t size = warp->run->local_bytes, stride = warp->run->local_stride;

    access->uniform = false; /* one address is another place in every lane */

    for (uint32_t left = mask; left; left &= left - 1) {
        unsigned lane = (unsigned)__builtin_ctz(left);
        uint64_t at = access->address[lane];

        if (at >= size || size - at < bytes) {
            return emu_fault_memory(warp, insn, lane, GK_EMU_FAULT_OUT_OF_BOUNDS, EMU_LOCAL, at,
                                    bytes, verb_of(kind));
        }
        at += lane * stride;
        if (kind & EMU_LOAD && !bits_all(warp->local_written, at, bytes)) {
            return emu_fault_memory(warp, insn, lane, GK_EMU_FAULT_UNWRITTEN, EMU_LOCAL,
                                    access->address[lane], bytes, verb_of(kind));
        }
        if (kind & EMU_STORE) {
            bits_put(warp->local_written, at, bytes);
        }
        access->ptr[lane] = warp->local + at;
    }
    return EMU_NEXT;
}

static int access_param(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask,
                        uint32_t bytes, enum emu_access_kind kind, struct emu_reach *access)
{
    uint64_t size = warp->run->kernel->params_size;

    for (uint32_t left = mask; left; left &= left - 1) {
        unsigned lane = (unsigned)__builtin_ctz(left);
        uint64_t at = access->address[lane];

        if (at >= size || size - at < bytes || kind & EMU_STORE) {
            return emu_fault_memory(warp, insn, lane,
                                    kind & EMU_STORE ? GK_EMU_FAULT_CONST_WRITE
                                                     : GK_EMU_FAULT_OUT_OF_BOUNDS,
                                    EMU_PARAM, at, bytes, verb_of(kind));
        }
        access->ptr[lane] = warp->run->params + at;
    }
    return EMU_NEXT;
}

static int access_in(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask,
                     uint32_t bytes, enum emu_access_kind kind, struct emu_reach *access)
{
    switch (access->space) {
    case EMU_SHARED:
        return access_shared(warp, insn, mask, bytes, kind, access);
    case EMU_LOCAL:
        return access_local(warp, insn, mask, bytes, kind, access);
    case EMU_PARAM:
        return access_param(warp, insn, mask, bytes, kind, access);
    default:
        return access_global(warp, insn, mask, bytes, kind, access);
    }
}

/* ------------------------------------------------------------------ generic addresses */

static enum emu_space window_of(uint64_t address)
{
    if (address - EMU_SHARED_BASE < EMU_WINDOW_BYTES) {
        return EMU_SHARED;
    }
    if (address - EMU_LOCAL_BASE < EMU_WINDOW_BYTES) {
        return EMU_LOCAL;
    }
    return address - EMU_PARAM_BASE < EMU_WINDOW_BYTES ? EMU_PARAM : EMU_GLOBAL;
}

static uint64_t window_base(enum emu_space space)
{
    return space == EMU_SHARED  ? EMU_SHARED_BASE
           : space == EMU_LOCAL ? EMU_LOCAL_BASE
           : space == EMU_PARAM ? EMU_PARAM_BASE
                                : 0;
}

/* Lanes of one warp may point into different spaces: one round a space. */
static int access_generic(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask,
                          uint32_t bytes, enum emu_access_kind kind, struct emu_reach *access)
{
    uint32_t left = mask;
    enum emu_space first = window_of(access->address[__builtin_ctz(mask)]);

    access->twins = 0;
    while (left) {
        enum emu_space space = window_of(access->address[__builtin_ctz(left)]);
        uint32_t part = 0;
        struct emu_reach some = *access;

        for (unsigned l = 0; l < EMU_LANES; l++) {
            if (left >> l & 1 && window_of(access->address[l]) == space) {
                part |= 1u << l;
            }
        }
        some.space = space;
        for (unsigned l = 0; l < EMU_LANES; l++) {
            some.address[l] = access->address[part >> l & 1 ? l : (unsigned)__builtin_ctz(part)] -
                              window_base(space);
        }
        if (part != EMU_FULL) {
            some.contiguous = false;
        }
        if (access_in(warp, insn, part, bytes, kind, &some) != EMU_NEXT) {
            return EMU_STOP;
        }
        if (watched(warp, space) &&
            emu_order_access(warp, insn, part, bytes, kind, &some) != EMU_NEXT) {
            return EMU_STOP;
        }
        count_access(warp, &some, part, bytes, kind);
        for (unsigned l = 0; l < EMU_LANES; l++) {
            if (part >> l & 1) {
                access->ptr[l] = some.ptr[l];
                access->twin[l] = some.twin[l];
            }
        }
        access->uniform = access->uniform && some.uniform && part == mask;
        access->twins |= some.twins;
        left &= ~part;
    }
    for (unsigned l = 0; l < EMU_LANES; l++) {
        access->address[l] -= window_base(first);
    }
    access->space = first;
    return EMU_NEXT;
}

/* ------------------------------------------------------------------ the gate */

static void compute_addresses(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask,
                              bool second, struct emu_reach *out)
{
    const void *base = emu_operand(warp, insn, (unsigned)(second ? insn->address2 : insn->address));
    const uint64_t offset = (uint64_t)(second ? insn->imm2 : insn->imm);
    uint64_t last;

    if ((second ? insn->address2_width : insn->address_width) == 4) {
        const uint32_t *narrow = base;

        for (unsigned l = 0; l < EMU_LANES; l++) {
            out->address[l] = (uint32_t)(narrow[l] + (uint32_t)offset);
        }
    } else {
        const uint64_t *wide = base;

        for (unsigned l = 0; l < EMU_LANES; l++) {
            out->address[l] = wide[l] + offset;
        }
    }
    if (mask != EMU_FULL) {
        last = out->address[__builtin_ctz(mask)];
        for (unsigned l = 0; l < EMU_LANES; l++) {
            last = mask >> l & 1 ? out->address[l] : last;
            out->address[l] = last;
        }
    }
}

int emu_access(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask,
               enum emu_space space, bool second, uint32_t bytes, enum emu_access_kind kind,
               struct emu_reach *out)
{
    uint64_t low_bits = 0, apart = 0, differ = 0;
    int step;

    compute_addresses(warp, insn, mask, second, out);
    for (unsigned l = 0; l < EMU_LANES; l++) {
        low_bits |= out->address[l];
        apart |= out->address[l] ^ (out->address[0] + l * (uint64_t)bytes);
        differ |= out->address[l] ^ out->address[0];
    }
    if (low_bits & (bytes - 1)) {
        for (uint32_t left = mask; left; left &= left - 1) {
            unsigned lane = (unsigned)__builtin_ctz(left);

            if (out->address[lane] & (bytes - 1)) {
                return emu_fault_memory(warp, insn, lane, GK_EMU_FAULT_MISALIGNED, space,
                                        out->address[lane], bytes, verb_of(kind));
            }
        }
    }
    out->space = space;
    out->twins = 0;
    out->contiguous = !apart && mask == EMU_FULL;
    out->uniform = !differ;
    if (space == EMU_GENERIC) {
        return access_generic(warp, insn, mask, bytes, kind, out);
    }
    step = access_in(warp, insn, mask, bytes, kind, out);
    if (step == EMU_NEXT && watched(warp, out->space)) {
        step = emu_order_access(warp, insn, mask, bytes, kind, out);
    }
    if (step == EMU_NEXT) {
        count_access(warp, out, mask, bytes, kind);
    }
    return step;
}
