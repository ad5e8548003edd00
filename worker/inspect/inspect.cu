// The inspector's kernels: inputs made, outputs compared, guards looked at where the memory is.
//
// inspect.c launches them and says what each is for. All walk their work with a stride of the whole
// grid, neighbouring threads at neighbouring bytes, and are bound by memory. Grids are chosen by
// the host; only the sums of check_outputs depend on the grid's size, so its grid depends on
// nothing but the number of elements.
//
// Self-contained: the only include is the acceptance rule, which the host compiles too. Compiled
// with -fmad=false: a product fused with a sum would round once where the host rounds twice.
#include "worker/inspect/accept_rule.h"

#define GK_DEVICE __device__ __forceinline__
// What every type and kind takes part in is one function that is called: inlined into loops of
// eight it took NVRTC seconds, and every fresh GPU machine waits for that.
#define GK_DEVICE_CALLED __device__ __noinline__

namespace
{

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using i32 = int;
using u64 = unsigned long long;
using i64 = long long;

constexpr u32 kThreads = 256;        // of every kernel here
constexpr u32 kSegmentBlocks = 4;    // of audit and paint on an SM: at most 64 registers a thread
constexpr u32 kCheckBlocks = 3;      // of check: at most 84; four made ptxas spill
constexpr u32 kRankMax = 6;          // GK_TENSOR_RANK_MAX
constexpr u32 kUnroll = 4;           // loads of a thread before it looks at any
constexpr u32 kGroup = 8;            // elements of one Philox block of 16-bit numbers
constexpr u32 kClassEdges = 4;       // GK_CLASS_EDGES
constexpr u32 kSpikeEnds = 8;        // GK_SPIKE_ENDS
constexpr u64 kNone = ~u64(0);       // no offset
constexpr u64 kChunkBytes = 1 << 15; // a block's piece of a segment: 8 loads a thread
constexpr u64 kVectorBytes = 16;     // widest access of one thread

struct alignas(16) Vector {
    u64 low, high;
};

struct alignas(16) Pair {
    double value, magnitude;
};

// enum gk_dtype
enum : i32 { kBf16, kF16, kE4m3, kF32, kF64, kI8, kI32, kI64, kU8, kU32 };

// enum gk_generator_kind, those that are functions of the element's number alone
enum : i32 {
    kNormal = 1,
    kUniform = 2,
    kTernary = 3,
    kSmallInt = 4,
    kConstant = 5,
    kClassIndex = 9,
    kBytes = 10
};

GK_DEVICE u64 thread_index()
{
    return u64(blockIdx.x) * kThreads + threadIdx.x;
}

GK_DEVICE u64 thread_count()
{
    return u64(gridDim.x) * kThreads;
}

// ------------------------------------------------------------------ elements

GK_DEVICE u32 element_bytes(i32 dtype)
{
    switch (dtype) {
    case kBf16:
    case kF16:
        return 2;
    case kF32:
    case kI32:
    case kU32:
        return 4;
    case kF64:
    case kI64:
        return 8;
    default:
        return 1;
    }
}

GK_DEVICE u64 load_bits(const u8 *at, u32 bytes)
{
    switch (bytes) {
    case 1:
        return *at;
    case 2:
        return *reinterpret_cast<const u16 *>(at);
    case 4:
        return *reinterpret_cast<const u32 *>(at);
    default:
        return *reinterpret_cast<const u64 *>(at);
    }
}

GK_DEVICE void store_bits(u8 *at, u32 bytes, u64 bits)
{
    switch (bytes) {
    case 1:
        *at = u8(bits);
        break;
    case 2:
        *reinterpret_cast<u16 *>(at) = u16(bits);
        break;
    case 4:
        *reinterpret_cast<u32 *>(at) = u32(bits);
        break;
    default:
        *reinterpret_cast<u64 *>(at) = bits;
    }
}

constexpr u32 kDoubleFraction = 52; // bits
constexpr i32 kDoubleBias = 1023;
constexpr u32 kDoubleSpecial = 0x7ff; // exponent field of infinity and NaN
constexpr u64 kDoubleOne = u64(1) << kDoubleFraction;

// A float of 8 or 16 bits, by the bits of its fraction and the bias of its exponent.
template <u32 kFraction, i32 kBias, u32 kSign, bool kHasInfinity> struct Small {
    static constexpr u32 kMask = kSign - 1;
    static constexpr i32 kExponentMin = 1 - kBias;
    static constexpr u32 kExponentMax = kMask >> kFraction;
    static constexpr u32 kLargest =
        kHasInfinity ? (kExponentMax << kFraction) - 1 : kMask - 1; // bits of it

    // All values are normal doubles or 0, so this is a matter of moving fields.
    static GK_DEVICE double decode(u32 bits)
    {
        const u32 size = bits & kMask, exponent = size >> kFraction;
        const u64 fraction = size & ((1u << kFraction) - 1);
        const u64 sign = bits & kSign ? u64(1) << 63 : 0;
        const bool special = kHasInfinity ? exponent == kExponentMax : size == kMask;
        if (special) {
            const u64 quiet = !kHasInfinity || fraction ? kDoubleOne >> 1 : 0;
            return __longlong_as_double(i64(sign | u64(kDoubleSpecial) << kDoubleFraction | quiet));
        }
        if (exponent == 0) {
            const double unit = __longlong_as_double(
                i64(kDoubleBias + kExponentMin - i32(kFraction)) << kDoubleFraction);
            const double value = double(u32(fraction)) * unit;
            return sign ? -value : value;
        }
        const u64 field = u64(i32(exponent) - kBias + kDoubleBias);
        return __longlong_as_double(
            i64(sign | field << kDoubleFraction | fraction << (kDoubleFraction - kFraction)));
    }

    // To nearest, ties to even, once. A carry out of the fraction moves the exponent by itself.
    static GK_DEVICE u32 encode(double value)
    {
        const u64 bits = u64(__double_as_longlong(value));
        const u32 sign = bits >> 63 ? kSign : 0;
        const u32 field = u32(bits >> kDoubleFraction) & kDoubleSpecial;
        const u64 fraction = bits & (kDoubleOne - 1);
        if (field == kDoubleSpecial && fraction) {
            return kMask;
        }
        const u32 infinity = sign | (kHasInfinity ? kLargest + 1 : kLargest);
        if (field == kDoubleSpecial) {
            return infinity;
        }
        const i32 exponent = i32(field) - kDoubleBias;
        const bool normal = exponent >= kExponentMin;
        const i32 shift = i32(kDoubleFraction - kFraction) + (normal ? 0 : kExponentMin - exponent);
        if (field == 0 || shift > i32(kDoubleFraction) + 1) {
            return sign; // under half of the smallest
        }
        const u64 digits = fraction | kDoubleOne;
        const u64 rest = digits & ((u64(1) << shift) - 1), half = u64(1) << (shift - 1);
        u64 rounded = digits >> shift;
        rounded += rest > half || (rest == half && (rounded & 1)) ? 1 : 0;
        if (normal) {
            rounded += u64(exponent - kExponentMin) << kFraction;
        }
        return rounded > kLargest ? infinity : sign | u32(rounded);
    }
};

using Bf16 = Small<7, 127, 0x8000, true>;
using F16 = Small<10, 15, 0x8000, true>;
using E4m3 = Small<3, 7, 0x80, false>;

GK_DEVICE_CALLED double decode(i32 dtype, u64 bits)
{
    switch (dtype) {
    case kBf16:
        return Bf16::decode(u32(bits));
    case kF16:
        return F16::decode(u32(bits));
    case kE4m3:
        return E4m3::decode(u32(bits));
    case kF32:
        return double(__int_as_float(i32(bits)));
    case kF64:
        return __longlong_as_double(i64(bits));
    case kI8:
        return double(i32(static_cast<signed char>(bits)));
    case kI32:
        return double(i32(bits));
    case kI64:
        return double(i64(bits));
    default:
        return double(u32(bits)); // U8, U32
    }
}

// Saturates; NaN becomes 0. high is 2^63 for I64, whose largest value no double holds.
GK_DEVICE i64 to_integer(double value, double low, double high)
{
    if (value != value) {
        return 0;
    }
    if (value <= low) {
        return i64(low);
    }
    if (value >= high) {
        return high >= 0x1p63 ? i64(~u64(0) >> 1) : i64(high);
    }
    return __double2ll_rn(value);
}

GK_DEVICE_CALLED u64 encode(i32 dtype, double value)
{
    switch (dtype) {
    case kBf16:
        return Bf16::encode(value);
    case kF16:
        return F16::encode(value);
    case kE4m3:
        return E4m3::encode(value);
    case kF32:
        return u32(__float_as_int(__double2float_rn(value)));
    case kF64:
        return u64(__double_as_longlong(value));
    case kI8:
        return u64(to_integer(value, -128, 127)) & 0xff;
    case kI32:
        return u64(to_integer(value, -0x1p31, 0x1p31 - 1)) & 0xffffffff;
    case kI64:
        return u64(to_integer(value, -0x1p63, 0x1p63));
    case kU8:
        return u64(to_integer(value, 0, 255));
    default:
        return u64(to_integer(value, 0, 0x1p32 - 1));
    }
}

// The same where bf16 is known to be meant: in line. Any other type by a call, which costs a check
// of 16 million elements a tenth of a millisecond.
constexpr i32 kAny = -1;

template <i32 kDtype> GK_DEVICE double decode_as(i32 dtype, u64 bits)
{
    if constexpr (kDtype == kBf16) {
        return Bf16::decode(u32(bits));
    } else {
        return decode(dtype, bits);
    }
}

template <i32 kDtype> GK_DEVICE u64 encode_as(i32 dtype, double value)
{
    if constexpr (kDtype == kBf16) {
        return Bf16::encode(value);
    } else {
        return encode(dtype, value);
    }
}

// ------------------------------------------------------------------ places

// A tensor in its buffer; dimensions that lie behind each other without a gap are one.
struct View {
    i64 offset; // elements
    i64 extents[kRankMax];
    i64 strides[kRankMax]; // elements; [0] is 0 where rank is
    i32 rank;
    i32 narrow; // all element numbers fit 32 bits: the divisions are cheap ones
};

// To shared memory, whole blocks: place_of() takes dimensions by number, and unrolled over all six
// of them with a division each it was most of what ptxas had to compile.
GK_DEVICE void share(View &shared, const View &view)
{
    if (threadIdx.x == 0) {
        shared = view;
    }
    __syncthreads();
}

GK_DEVICE i64 place_of(const View &view, u64 element)
{
    i64 place = view.offset;
    u64 rest = element;
#pragma unroll 1
    for (i32 d = view.rank - 1; d > 0; d--) {
        const u64 extent = u64(view.extents[d]);
        const u64 above = view.narrow ? u64(u32(rest) / u32(extent)) : rest / extent;
        place += i64(rest - above * extent) * view.strides[d];
        rest = above;
    }
    return place + i64(rest) * view.strides[0];
}

// ------------------------------------------------------------------ segments

// struct gk_segment as the host lays it out for the device.
struct Segment {
    u64 address, bytes;
    u64 same_as;     // 0: the pattern
    u64 pattern;     // repeated to eight bytes, first byte lowest
    u64 first_chunk; // number of its first chunk among all; increasing
};

struct Audit {
    u64 changed, first;
};

// The segment that a chunk belongs to: the last one that begins at or before it and has chunks.
GK_DEVICE u32 segment_of(const Segment *segments, u32 count, u64 chunk)
{
    u32 low = 0, high = count; // segments[low].first_chunk <= chunk < segments[high].first_chunk
    while (high - low > 1) {
        const u32 middle = low + (high - low) / 2;
        if (segments[middle].first_chunk <= chunk) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

GK_DEVICE u64 turned(u64 pattern, u64 bytes)
{
    const u32 bits = u32(bytes % 8) * 8;
    return bits ? pattern >> bits | pattern << (64 - bits) : pattern;
}

// A chunk: unaligned bytes, vectors of 16 bytes, bytes behind them. Where the two sides of a
// segment are aligned differently there are no vectors.
struct Chunk {
    u64 to, from; // addresses; from 0: the pattern
    u64 pattern;  // turned to begin at `to`
    u64 begin;    // offset of `to` in its segment
    u64 bytes, head, vectors;

    GK_DEVICE Chunk(const Segment &segment, u64 number)
    {
        begin = (number - segment.first_chunk) * kChunkBytes;
        bytes = segment.bytes - begin < kChunkBytes ? segment.bytes - begin : kChunkBytes;
        to = segment.address + begin;
        from = segment.same_as ? segment.same_as + begin : 0;
        pattern = segment.pattern; // chunks begin at multiples of 8
        head = (kVectorBytes - to % kVectorBytes) % kVectorBytes;
        if (head > bytes || (from && (to - from) % kVectorBytes != 0)) {
            head = bytes;
        }
        vectors = (bytes - head) / kVectorBytes;
    }

    GK_DEVICE u64 tail() const
    {
        return head + vectors * kVectorBytes;
    }

    // Offset of vector i + u * kThreads, or of vector i where there is none: then a load needs no
    // condition.
    GK_DEVICE u64 vector(u64 i, u32 u) const
    {
        const u64 number = i + u * kThreads;
        return head + (number < vectors ? number : i) * kVectorBytes;
    }

    GK_DEVICE u8 want(u64 at) const
    {
        return from ? *reinterpret_cast<const u8 *>(from + at) : u8(pattern >> (at % 8 * 8));
    }

    GK_DEVICE Vector want_vector(u64 at) const
    {
        if (from) {
            return *reinterpret_cast<const Vector *>(from + at);
        }
        const u64 word = turned(pattern, at);
        return {word, word};
    }
};

// Bytes that differ, and the offset of the first, for one thread and one chunk.
struct Finding {
    u64 changed, first;

    GK_DEVICE void byte(u64 offset, u8 got, u8 want)
    {
        if (got != want) {
            changed++;
            first = offset < first ? offset : first;
        }
    }

    GK_DEVICE void word(u64 offset, u64 got, u64 want)
    {
        if (got != want) {
            for (u32 i = 0; i < 8; i++) {
                byte(offset + i, u8(got >> (8 * i)), u8(want >> (8 * i)));
            }
        }
    }
};

} // namespace

// Counts the bytes of each segment that are not what they ought to be. audits[] begins as {0, ~0}.
extern "C" __global__ void __launch_bounds__(kThreads, kSegmentBlocks)
    gk_audit_segments(const Segment *segments, u32 count, u64 chunks, Audit *audits)
{
    for (u64 number = blockIdx.x; number < chunks; number += gridDim.x) {
        const u32 index = segment_of(segments, count, number);
        const Chunk chunk(segments[index], number);
        Finding found = {0, kNone};
        for (u64 i = threadIdx.x; i < chunk.head; i += kThreads) {
            found.byte(i, *reinterpret_cast<const u8 *>(chunk.to + i), chunk.want(i));
        }
        for (u64 i = threadIdx.x; i < chunk.vectors; i += kUnroll * kThreads) {
            u64 difference = 0;
            Vector got[kUnroll], want[kUnroll];
#pragma unroll
            for (u32 u = 0; u < kUnroll; u++) { // all loads are on their way before any is used
                got[u] = *reinterpret_cast<const Vector *>(chunk.to + chunk.vector(i, u));
                want[u] = chunk.want_vector(chunk.vector(i, u));
            }
#pragma unroll
            for (u32 u = 0; u < kUnroll; u++) {
                difference |= (got[u].low ^ want[u].low) | (got[u].high ^ want[u].high);
            }
            if (difference) {
                for (u32 u = 0; u < kUnroll && i + u * kThreads < chunk.vectors; u++) {
                    found.word(chunk.vector(i, u), got[u].low, want[u].low);
                    found.word(chunk.vector(i, u) + 8, got[u].high, want[u].high);
                }
            }
        }
        for (u64 i = chunk.tail() + threadIdx.x; i < chunk.bytes; i += kThreads) {
            found.byte(i, *reinterpret_cast<const u8 *>(chunk.to + i), chunk.want(i));
        }
        if (found.changed) {
            atomicAdd(&audits[index].changed, found.changed);
            atomicMin(&audits[index].first, chunk.begin + found.first);
        }
    }
}

// Makes each segment what it ought to be.
extern "C" __global__ void __launch_bounds__(kThreads, kSegmentBlocks)
    gk_paint_segments(const Segment *segments, u32 count, u64 chunks)
{
    for (u64 number = blockIdx.x; number < chunks; number += gridDim.x) {
        const Chunk chunk(segments[segment_of(segments, count, number)], number);
        for (u64 i = threadIdx.x; i < chunk.head; i += kThreads) {
            *reinterpret_cast<u8 *>(chunk.to + i) = chunk.want(i);
        }
        for (u64 i = threadIdx.x; i < chunk.vectors; i += kUnroll * kThreads) {
            Vector want[kUnroll];
#pragma unroll
            for (u32 u = 0; u < kUnroll; u++) {
                want[u] = chunk.want_vector(chunk.vector(i, u));
            }
#pragma unroll
            for (u32 u = 0; u < kUnroll; u++) { // past the last: the same bytes once more
                *reinterpret_cast<Vector *>(chunk.to + chunk.vector(i, u)) = want[u];
            }
        }
        for (u64 i = chunk.tail() + threadIdx.x; i < chunk.bytes; i += kThreads) {
            *reinterpret_cast<u8 *>(chunk.to + i) = chunk.want(i);
        }
    }
}

// ------------------------------------------------------------------ inputs

namespace
{

struct Generator {
    u32 key[2];
    u32 tensor;
    i32 kind, dtype;
    i32 has_class; // CLASS_INDEX: args[1] is drawn with probability args[2]
    double args[3];
    double round; // reals are multiples of it; 0: they are not
    const float *quantiles;
};

// struct gk_spike_use
struct Spike {
    u32 key[2];
    u32 tensor;
    i32 dtype;
    double size, share;
    i64 row, places, edge_inside, edge_extent;
};

struct Block {
    u32 word[4];
};

// Philox 4x32 with ten rounds, as in core/prng.c. Purpose: 0 an element, 1 the spike of a row.
GK_DEVICE Block philox(const u32 key[2], u32 tensor, u32 purpose, u64 number)
{
    constexpr u32 kMultiply0 = 0xD2511F53u, kMultiply1 = 0xCD9E8D57u;
    constexpr u32 kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
    constexpr u32 kRounds = 10;
    u32 c0 = u32(number), c1 = u32(number >> 32), c2 = tensor, c3 = purpose;
    u32 k0 = key[0], k1 = key[1];
#pragma unroll
    for (u32 round = 0; round < kRounds; round++) {
        const u64 p0 = u64(kMultiply0) * c0, p1 = u64(kMultiply1) * c2;
        c0 = u32(p1 >> 32) ^ c1 ^ k0;
        c1 = u32(p1);
        c2 = u32(p0 >> 32) ^ c3 ^ k1;
        c3 = u32(p0);
        k0 += kWeyl0;
        k1 += kWeyl1;
    }
    return {{c0, c1, c2, c3}};
}

GK_DEVICE double unit(u32 bits)
{
    return (double(bits) + 0.5) * 0x1p-32;
}

GK_DEVICE double rounded(const Generator &gen, double value)
{
    return gen.round != 0 ? gen.round * rint(value / gen.round) : value;
}

// Bits of an element from the block of its number: every kind but NORMAL.
GK_DEVICE_CALLED u64 draw(const Generator &gen, u64 number)
{
    const Block block = philox(gen.key, gen.tensor, 0, number);
    const u64 raw = u64(block.word[1]) << 32 | block.word[0];
    double value = 0;
    switch (gen.kind) {
    case kUniform:
        value = rounded(gen, gen.args[0] + (gen.args[1] - gen.args[0]) * unit(block.word[0]));
        break;
    case kTernary:
        if (unit(block.word[0]) < gen.args[0] * (2.0 / 3.0)) {
            value = rounded(gen, block.word[1] & 1 ? gen.args[1] : -gen.args[1]);
        }
        break;
    case kConstant:
        value = rounded(gen, gen.args[0]);
        break;
    case kSmallInt:
        value = double(i64(raw % (u64(2.0 * gen.args[0]) + 1)) - i64(gen.args[0]));
        break;
    case kClassIndex:
        if (number < kClassEdges && gen.args[0] >= 1.0) {
            const u32 edge = u32(number + gen.key[0]) % kClassEdges;
            if (edge < 2) {
                value = edge == 0 ? double(i64(gen.args[0]) - 1) : 0.0;
                break;
            }
            if (edge == 2 && gen.has_class && gen.args[2] > 0.0) {
                value = double(i64(gen.args[1]));
                break;
            }
        }
        if (gen.has_class && unit(block.word[2]) < gen.args[2]) {
            value = double(i64(gen.args[1]));
        } else if (gen.args[0] >= 1.0) {
            value = double(i64(raw % u64(gen.args[0])));
        }
        break;
    default: { // kBytes
        const u32 bytes = element_bytes(gen.dtype);
        return bytes == 8 ? raw : raw & ((u64(1) << (8 * bytes)) - 1);
    }
    }
    return encode(gen.dtype, value);
}

// Eight elements share a block of eight 16-bit numbers.
GK_DEVICE void draw_group(const Generator &gen, u64 group, u64 bits[kGroup])
{
    if (gen.kind == kNormal) {
        const Block block = philox(gen.key, gen.tensor, 0, group);
#pragma unroll
        for (u32 i = 0; i < kGroup; i++) {
            const u32 word = block.word[i / 2];
            const float quantile = gen.quantiles[i % 2 ? word >> 16 : word & 0xffff];
            bits[i] = encode(gen.dtype, rounded(gen, double(quantile) * gen.args[0]));
        }
        return;
    }
#pragma unroll
    for (u32 i = 0; i < kGroup; i++) {
        bits[i] = draw(gen, group * kGroup + i);
    }
}

// A whole group, behind each other in memory, at an address that is a multiple of its size or of a
// vector's.
template <u32 kBytes> GK_DEVICE void store_group(u8 *at, const u64 bits[kGroup])
{
    constexpr u32 kInWord = 8 / kBytes; // elements
    u64 words[kBytes];                  // kGroup elements are kBytes words of 8
#pragma unroll
    for (u32 w = 0; w < kBytes; w++) {
        words[w] = 0;
#pragma unroll
        for (u32 i = 0; i < kInWord; i++) {
            words[w] |= bits[w * kInWord + i] << (8 * kBytes * i);
        }
    }
    if constexpr (kBytes == 1) {
        *reinterpret_cast<u64 *>(at) = words[0];
    } else {
#pragma unroll
        for (u32 w = 0; w < kBytes; w += 2) {
            *reinterpret_cast<Vector *>(at + 8 * w) = {words[w], words[w + 1]};
        }
    }
}

GK_DEVICE void store_packed(u8 *at, u32 bytes, const u64 bits[kGroup])
{
    switch (bytes) {
    case 1:
        store_group<1>(at, bits);
        break;
    case 2:
        store_group<2>(at, bits);
        break;
    case 4:
        store_group<4>(at, bits);
        break;
    default:
        store_group<8>(at, bits);
    }
}

} // namespace

// The first `count` logical elements of an input; `out` is its buffer.
extern "C" __global__ void __launch_bounds__(kThreads)
    gk_generate_input(Generator gen, View all, u8 *out, u64 count)
{
    __shared__ View view;
    share(view, all);
    const u32 bytes = element_bytes(gen.dtype);
    const u64 whole = kGroup * bytes < kVectorBytes ? kGroup * bytes : kVectorBytes;
    const bool packed = view.rank <= 1 && view.strides[0] == 1;
    for (u64 group = thread_index(); group * kGroup < count; group += thread_count()) {
        const u64 first = group * kGroup;
        u64 bits[kGroup];
        draw_group(gen, group, bits);
        u8 *at = out + u64(view.offset + i64(first)) * bytes;
        if (packed && first + kGroup <= count && reinterpret_cast<u64>(at) % whole == 0) {
            store_packed(at, bytes, bits);
            continue;
        }
#pragma unroll
        for (u32 i = 0; i < kGroup; i++) {
            if (first + i < count) {
                store_bits(out + u64(place_of(view, first + i)) * bytes, bytes, bits[i]);
            }
        }
    }
}

namespace
{

// gk_spike_column() of generate.c.
GK_DEVICE i64 spike_column(const Spike &spike, u64 row)
{
    const Block block = philox(spike.key, spike.tensor, 1, row);
    bool edge = false;
    if (spike.edge_extent > 0) {
        const i64 at = i64(row / u64(spike.edge_inside)) % spike.edge_extent;
        edge = at == 0 || at == spike.edge_extent - 1;
    }
    if (!edge && !(unit(block.word[0]) < spike.share)) {
        return -1;
    }
    const u32 which = block.word[1] % kSpikeEnds;
    const i64 place = which == 0   ? 0
                      : which == 1 ? spike.places - 1
                                   : i64(block.word[2] % u64(spike.places));
    return place * (spike.row / spike.places);
}

} // namespace

// Over elements that are drawn, a thread a row.
extern "C" __global__ void __launch_bounds__(kThreads)
    gk_write_spikes(Spike spike, View all, u8 *out, u64 rows)
{
    __shared__ View view;
    share(view, all);
    const u32 bytes = element_bytes(spike.dtype);
    for (u64 row = thread_index(); row < rows; row += thread_count()) {
        const i64 column = spike_column(spike, row);
        if (column >= 0) {
            u8 *at = out + u64(place_of(view, row * u64(spike.row) + u64(column))) * bytes;
            const double drawn = decode(spike.dtype, load_bits(at, bytes));
            store_bits(at, bytes, encode(spike.dtype, copysign(spike.size, drawn)));
        }
    }
}

// ------------------------------------------------------------------ outputs

namespace
{

struct Output {
    gk_accept_rule rule;
    u64 poison;
    i32 dtype;
};

// What a block found. Written by thread 0, folded by the host in the blocks' order.
struct Partial {
    u32 failed, nonfinite, poisoned, too_large; // a block sees fewer than 2^32 elements
    double error_squares, want_squares;
    double excess; // of the worst element; the lowest number wins ties
    u64 worst;     // its number; kNone: this block saw no element
};

GK_DEVICE void note(Partial &sum, u64 index, double want, const gk_judgement &it)
{
    sum.failed += it.good ? 0 : 1;
    sum.nonfinite += it.nonfinite ? 1 : 0;
    sum.poisoned += it.poisoned ? 1 : 0;
    sum.too_large += it.too_large ? 1 : 0;
    if (it.summed) {
        sum.error_squares += it.norm_error * it.norm_error;
        sum.want_squares += want * want;
    }
    if (sum.worst == kNone || it.excess > sum.excess) {
        sum.excess = it.excess;
        sum.worst = index;
    }
}

GK_DEVICE void merge(Partial &sum, const Partial &other)
{
    sum.failed += other.failed;
    sum.nonfinite += other.nonfinite;
    sum.poisoned += other.poisoned;
    sum.too_large += other.too_large;
    sum.error_squares += other.error_squares;
    sum.want_squares += other.want_squares;
    const bool worse =
        other.worst != kNone && (sum.worst == kNone || other.excess > sum.excess ||
                                 (other.excess == sum.excess && other.worst < sum.worst));
    if (worse) {
        sum.excess = other.excess;
        sum.worst = other.worst;
    }
}

template <i32 kDtype>
GK_DEVICE gk_judgement judge(const Output &output, u64 got_bits, const Pair &pair)
{
    const u64 want_bits = encode_as<kDtype>(output.dtype, pair.value);
    gk_accept_element element;
    element.got = decode_as<kDtype>(output.dtype, got_bits);
    element.want = pair.value;
    element.magnitude = pair.magnitude;
    element.rounded = decode_as<kDtype>(output.dtype, want_bits);
    element.same_bits = got_bits == want_bits;
    element.is_poison = got_bits == output.poison;
    return gk_accept_judge(&output.rule, &element);
}

// One thread's elements in increasing order. bf16 has code of its own; kAny asks for the type at
// every element.
template <i32 kDtype>
GK_DEVICE Partial judge_mine(const Output &output, const View &view, const u8 *got,
                             const Pair *pairs, u64 count)
{
    const i32 dtype = kDtype == kAny ? output.dtype : kDtype;
    const u32 bytes = element_bytes(dtype);
    const u64 stride = thread_count();
    Partial sum = {0, 0, 0, 0, 0, 0, 0, kNone};
    for (u64 first = thread_index(); first < count; first += kUnroll * stride) {
        u64 index[kUnroll], bits[kUnroll];
        const u8 *at[kUnroll];
        Pair pair[kUnroll];
#pragma unroll
        for (u32 u = 0; u < kUnroll; u++) { // past the last: the first once more, not looked at
            index[u] = first + u * stride < count ? first + u * stride : first;
            at[u] = got + u64(place_of(view, index[u])) * bytes;
        }
#pragma unroll
        for (u32 u = 0; u < kUnroll; u++) { // as in gk_audit_segments; no branch lies between
            bits[u] = load_bits(at[u], bytes);
            pair[u] = pairs[index[u]];
        }
#pragma unroll
        for (u32 u = 0; u < kUnroll; u++) {
            const u64 i = first + u * stride;
            if (i < count) {
                note(sum, i, pair[u].value, judge<kDtype>(output, bits[u], pair[u]));
            }
        }
    }
    return sum;
}

GK_DEVICE Partial judge_mine(const Output &output, const View &view, const u8 *got,
                             const Pair *pairs, u64 count)
{
    return output.dtype == kBf16 ? judge_mine<kBf16>(output, view, got, pairs, count)
                                 : judge_mine<kAny>(output, view, got, pairs, count);
}

} // namespace

// The first `count` logical elements of an output against their pairs. A thread judges its elements
// in increasing order, a block adds its threads up in a fixed tree: the same sums on every run.
extern "C" __global__ void __launch_bounds__(kThreads, kCheckBlocks)
    gk_check_output(Output output, View all, const u8 *got, const Pair *pairs, u64 count,
                    Partial *partials)
{
    __shared__ View view;
    share(view, all);
    __shared__ Partial shared[kThreads];
    shared[threadIdx.x] = judge_mine(output, view, got, pairs, count);
    __syncthreads();
    for (u32 half = kThreads / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            merge(shared[threadIdx.x], shared[threadIdx.x + half]);
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        partials[blockIdx.x] = shared[0];
    }
}

// used[place] = 1 for every logical element; used[] begins as zeros.
extern "C" __global__ void __launch_bounds__(kThreads)
    gk_mark_elements(View all, u64 count, u8 *used)
{
    __shared__ View view;
    share(view, all);
    for (u64 i = thread_index(); i < count; i += thread_count()) {
        used[place_of(view, i)] = 1;
    }
}

// Elements of the buffer that are no logical element and not poison any more, added to *changed.
extern "C" __global__ void __launch_bounds__(kThreads)
    gk_count_padding(const u8 *got, u32 bytes, u64 poison, u64 span, const u8 *used, u64 *changed)
{
    u64 sum = 0;
    for (u64 i = thread_index(); i < span; i += thread_count()) {
        sum += !used[i] && load_bits(got + i * bytes, bytes) != poison ? 1 : 0;
    }
    if (sum) {
        atomicAdd(changed, sum);
    }
}
