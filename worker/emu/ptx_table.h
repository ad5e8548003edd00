/*
 * The instruction table: one row a form of an instruction, written as PTX writes it.
 *
 *   pattern   "add{.rn|.rz}{.ftz}.f32"   opcode, then its modifiers in order: {} may be absent,
 *             [] must be one of the choices; a choice that ends in '*' takes any rest.
 *   operands  one code an operand, separated by blanks, first letter what, second how wide:
 *             D destination register    S source: register, immediate, special, address of a
 * variable P destination predicate   Q predicate pair "p|q" (two operands, q may be absent) G
 * source predicate, '!' allowed (sub bit 0 then, see PTX_SUB_NEGATED) A address in brackets: one
 * operand (register or -1) and imm V vector of `vec` registers or one register: destinations, W:
 * the same, sources M{n} braces with exactly n registers: "M4t"; N{n} the same as sources R
 * destination register with an optional predicate, "d|p": two operands T a tensor address [map,
 * {coordinates}]: an address, then one operand a coordinate, counted in vec Z braces with the sums
 * of wgmma: kept in kernel->wide at imm, counted in vec E braces with four 32-bit registers, or one
 * 64-bit register: four operands, -1 for those that are not there I immediate integer into
 * imm, C one into vec X source size or "ignore" predicate of cp.async width: t = type, u = type2, v
 * = type3, 2 = twice type, b/h/w/d = 1/2/4/8 bytes, r = any width (kept in insn->width[operand]), x
 * = any width, whatever the type, a trailing '?' = may be absent
 *
 * Adding an instruction is adding a row and, where the semantics are new, a function.
 */
#ifndef GK_WORKER_EMU_PTX_TABLE_H
#define GK_WORKER_EMU_PTX_TABLE_H

#include "worker/emu/emu_inside.h"

enum ptx_type {
    PTX_NONE = 0,
    PTX_PRED,
    PTX_B8,
    PTX_S8,
    PTX_U8,
    PTX_B16,
    PTX_S16,
    PTX_U16,
    PTX_F16,
    PTX_BF16,
    PTX_B32,
    PTX_S32,
    PTX_U32,
    PTX_F32,
    PTX_TF32,
    PTX_F16X2,
    PTX_BF16X2,
    PTX_B64,
    PTX_S64,
    PTX_U64,
    PTX_F64,
    PTX_F32X2,
    PTX_E4M3,
    PTX_E5M2, /* in mma: bytes of a 32-bit register */
    PTX_E4M3X2,
    PTX_E5M2X2, /* in cvt: 16 bits */
    PTX_S4,
    PTX_U4,
    PTX_B1,
    PTX_TYPES
};

enum ptx_round {
    PTX_ROUND_DEFAULT = 0,
    PTX_RN,
    PTX_RZ,
    PTX_RM,
    PTX_RP,
    PTX_RNA,
    PTX_RNI,
    PTX_RZI,
    PTX_RMI,
    PTX_RPI
};

enum ptx_cmp {
    PTX_CMP_NONE = 0,
    PTX_EQ,
    PTX_NE,
    PTX_LT,
    PTX_LE,
    PTX_GT,
    PTX_GE,
    PTX_LO,
    PTX_LS,
    PTX_HI,
    PTX_HS,
    PTX_EQU,
    PTX_NEU,
    PTX_LTU,
    PTX_LEU,
    PTX_GTU,
    PTX_GEU,
    PTX_NUM,
    PTX_NAN
};

/* Operations of atom, red, redux and bar.red, and the boolean part of setp. */
enum ptx_atom {
    PTX_ATOM_NONE = 0,
    PTX_AND,
    PTX_OR,
    PTX_XOR,
    PTX_ADD,
    PTX_INC,
    PTX_DEC,
    PTX_MIN,
    PTX_MAX,
    PTX_EXCH,
    PTX_CAS,
    PTX_POPC
};

/* Memory semantics; volatile is relaxed for the whole system. */
enum ptx_sem {
    PTX_SEM_WEAK = 0,
    PTX_SEM_RELAXED,
    PTX_SEM_ACQUIRE,
    PTX_SEM_RELEASE,
    PTX_SEM_ACQ_REL,
    PTX_SEM_SC
};

#define PTX_M_FTZ        (1ull << 0)
#define PTX_M_SAT        (1ull << 1)
#define PTX_M_LO         (1ull << 2)
#define PTX_M_HI         (1ull << 3)
#define PTX_M_NAN        (1ull << 4)
#define PTX_M_XORSIGN    (1ull << 5)
#define PTX_M_ABS        (1ull << 6)
#define PTX_M_RELU       (1ull << 7)
#define PTX_M_SATFINITE  (1ull << 8)
#define PTX_M_VOLATILE   (1ull << 9)
#define PTX_M_NC         (1ull << 10)
#define PTX_M_TRANS      (1ull << 11)
#define PTX_M_CACHE_HINT (1ull << 12)
#define PTX_M_TO         (1ull << 13)
#define PTX_M_UP         (1ull << 14)
#define PTX_M_DOWN       (1ull << 15)
#define PTX_M_BFLY       (1ull << 16)
#define PTX_M_IDX        (1ull << 17)
#define PTX_M_ALL        (1ull << 18)
#define PTX_M_ANY        (1ull << 19)
#define PTX_M_UNI        (1ull << 20)
#define PTX_M_BALLOT     (1ull << 21)
#define PTX_M_LEFT       (1ull << 22)
#define PTX_M_RIGHT      (1ull << 23)
#define PTX_M_WRAP       (1ull << 24)
#define PTX_M_CLAMP      (1ull << 25)
#define PTX_M_SHIFTAMT   (1ull << 26)
#define PTX_M_CC         (1ull << 27)
#define PTX_M_APPROX     (1ull << 28)
#define PTX_M_FULL       (1ull << 29)
#define PTX_M_WIDE       (1ull << 30)
#define PTX_M_X1         (1ull << 31)
#define PTX_M_X2         (1ull << 32)
#define PTX_M_X4         (1ull << 33)
#define PTX_M_F4E        (1ull << 34)
#define PTX_M_B4E        (1ull << 35)
#define PTX_M_RC8        (1ull << 36)
#define PTX_M_ECL        (1ull << 37)
#define PTX_M_ECR        (1ull << 38)
#define PTX_M_RC16       (1ull << 39)
#define PTX_M_FINITE     (1ull << 40)
#define PTX_M_INFINITE   (1ull << 41)
#define PTX_M_NUMBER     (1ull << 42)
#define PTX_M_NOTANUMBER (1ull << 43)
#define PTX_M_NORMAL     (1ull << 44)
#define PTX_M_SUBNORMAL  (1ull << 45)
#define PTX_M_COL        (1ull << 46)
#define PTX_M_MULTICAST  (1ull << 47)

#define PTX_SUB_NEGATED 0x80 /* in insn->sub: the predicate source had a '!' */

/* Special registers that stand ready as lane arrays; the others are read by instructions. */
enum ptx_special {
    PTX_SP_TID_X,
    PTX_SP_TID_Y,
    PTX_SP_TID_Z,
    PTX_SP_NTID_X,
    PTX_SP_NTID_Y,
    PTX_SP_NTID_Z,
    PTX_SP_CTAID_X,
    PTX_SP_CTAID_Y,
    PTX_SP_CTAID_Z,
    PTX_SP_NCTAID_X,
    PTX_SP_NCTAID_Y,
    PTX_SP_NCTAID_Z,
    PTX_SP_LANEID,
    PTX_SP_WARPID,
    PTX_SP_NWARPID,
    PTX_SP_SMID,
    PTX_SP_NSMID,
    PTX_SP_GRIDID,
    PTX_SP_LANEMASK_EQ,
    PTX_SP_LANEMASK_LE,
    PTX_SP_LANEMASK_LT,
    PTX_SP_LANEMASK_GE,
    PTX_SP_LANEMASK_GT,
    PTX_SP_DYNAMIC_SMEM,
    PTX_SP_TOTAL_SMEM,
    PTX_SP_ONE,
    PTX_SP_ZERO,
    PTX_SP_CLUSTER_RANK,
    PTX_SP_CLUSTER_SIZE,
    PTX_SP_CLUSTER_ID,
    PTX_SP_CLUSTERS,
    PTX_SP_COUNT
};
#define PTX_SPECIAL_BYTES (PTX_SP_COUNT * EMU_LANES * 4)

/* Read at the moment of the instruction. */
enum ptx_clock {
    PTX_CLOCK_LO,
    PTX_CLOCK_HI,
    PTX_CLOCK_64,
    PTX_GLOBALTIMER,
    PTX_GLOBALTIMER_LO,
    PTX_GLOBALTIMER_HI
};

struct ptx_row {
    const char *pattern;
    const char *operands;
    emu_exec *exec;
    uint8_t class; /* enum emu_class */
    uint8_t sub;
};

struct ptx_rows {
    const struct ptx_row *rows;
    uint32_t count;
};

/* Rows by opcode: a hash over the name before the first modifier. */
struct ptx_index;
/* `set` as in gk_emu_options: NULL is the best of this host; GK_UNSUPPORTED if it lacks the set. */
enum gk_status ptx_index_create(const char *set, struct ptx_index **out, struct gk_err *err);
void ptx_index_destroy(struct ptx_index *index);
/* Row of an instruction given as opcode and modifiers, NULL if none fits; of several, the one that
 * takes `operands` operands. *known_out says whether the opcode itself is known. */
const struct ptx_row *ptx_index_find(const struct ptx_index *index, const char *opcode,
                                     char *const *modifiers, uint32_t count, uint32_t operands,
                                     bool *known_out);
/* The row of a conversion whose registers may be of any width; NULL: there is none. */
const struct ptx_row *ptx_index_find_wide(const struct ptx_index *index, char *const *modifiers,
                                          uint32_t count);
uint32_t ptx_index_count(const struct ptx_index *index);
const struct ptx_row *ptx_index_at(const struct ptx_index *index, uint32_t at);

/* Sets the field of insn that a modifier stands for; unknown names set nothing (the row's pattern
 * has already said that the modifier is allowed and needs no field). */
void ptx_modifier_apply(struct emu_insn *insn, const char *opcode, const char *name);
uint32_t ptx_type_bytes(uint8_t type); /* of a register lane: 2, 4 or 8; 1 for 8-bit memory types */
bool ptx_type_is_signed(uint8_t type);
bool ptx_type_is_float(uint8_t type);
const char *ptx_type_name(uint8_t type);

/* The exec files, one function each; the hot ones exist once an instruction set (GK_EMU_ISA). */
enum emu_isa { EMU_ISA_BASE, EMU_ISA_AVX2, EMU_ISA_AVX512 };
enum emu_isa emu_isa_of_this_cpu(void);

struct ptx_rows emu_rows_int_base(void);
struct ptx_rows emu_rows_float_base(void);
struct ptx_rows emu_rows_cvt_base(void);
struct ptx_rows emu_rows_mma_base(void);
struct ptx_rows emu_rows_memory_base(void);
struct ptx_rows emu_rows_atomic_base(void);
struct ptx_rows emu_rows_wmma_base(void);
struct ptx_rows emu_rows_hopper_base(void);
struct ptx_rows emu_rows_bulk_base(void);
struct ptx_rows emu_rows_wgmma_base(void);
struct ptx_rows emu_rows_int_avx2(void);
struct ptx_rows emu_rows_float_avx2(void);
struct ptx_rows emu_rows_cvt_avx2(void);
struct ptx_rows emu_rows_mma_avx2(void);
struct ptx_rows emu_rows_memory_avx2(void);
struct ptx_rows emu_rows_atomic_avx2(void);
struct ptx_rows emu_rows_wmma_avx2(void);
struct ptx_rows emu_rows_hopper_avx2(void);
struct ptx_rows emu_rows_bulk_avx2(void);
struct ptx_rows emu_rows_wgmma_avx2(void);
struct ptx_rows emu_rows_int_avx512(void);
struct ptx_rows emu_rows_float_avx512(void);
struct ptx_rows emu_rows_cvt_avx512(void);
struct ptx_rows emu_rows_mma_avx512(void);
struct ptx_rows emu_rows_memory_avx512(void);
struct ptx_rows emu_rows_atomic_avx512(void);
struct ptx_rows emu_rows_wmma_avx512(void);
struct ptx_rows emu_rows_hopper_avx512(void);
struct ptx_rows emu_rows_bulk_avx512(void);
struct ptx_rows emu_rows_wgmma_avx512(void);
struct ptx_rows emu_rows_half(void);
struct ptx_rows emu_rows_slow_cvt(void);
struct ptx_rows emu_rows_slow_float(void);
struct ptx_rows emu_rows_sync(void);
struct ptx_rows emu_rows_async(void);
struct ptx_rows emu_rows_control(void);

#endif
