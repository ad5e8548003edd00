/*
 * Inputs of a problem: a pure function of (seed, tensor, logical element), so that every device and
 * every layout of the same problem meets the same values.
 *
 * Normal values come from a table of 65,536 quantiles at the middles of equal parts of probability,
 * computed with nothing but + - * / of IEEE doubles (no libm: its last digits differ between
 * systems) and rounded to float.
 */
#ifndef GK_WORKER_GENERATE_H
#define GK_WORKER_GENERATE_H

#include "kernels/render.h"

#define GK_QUANTILES  65536
#define GK_INPUT_SETS 4
/* Of class_index: the first elements are the last class, the first one and, where labels may be
 * ignored, one that is, each input set beginning with another of them; one is drawn as the others
 * are. In a large vocabulary, or of few rows, chance would bring none. */
#define GK_CLASS_EDGES 4
/* One spike in so many lies in the first place of its row, and one in the last: whoever leaves an
 * end out is seen. */
#define GK_SPIKE_ENDS 8

/* Made once a process (some 30 ms); any thread. */
const float *gk_normal_quantiles(void);

/* Which generators of an op: those of its input sets, or of a rung that has its own. */
enum gk_input_kind { GK_INPUTS_DRAWN, GK_INPUTS_EXACT, GK_INPUTS_EXTREME };

/* The inputs that a problem has beside its sets: those of the exact rung and of the extreme one, as
 * far as they apply, in this order. Neither shows what the other does: equal scores never make a
 * maximum grow, and large ones hide a key that is missing. */
#define GK_BESIDES_MAX 2u
struct gk_besides {
    enum gk_input_kind kinds[GK_BESIDES_MAX];
    uint32_t count;
};
bool gk_besides_have(const struct gk_besides *beside, enum gk_input_kind inputs);
enum gk_status gk_inputs_beside(const struct gk_plan *plan, struct gk_besides *beside_out,
                                struct gk_err *err);

/* The seed of an input set; generators of such a rung have seeds of their own. */
uint64_t gk_input_seed(uint32_t input_set, enum gk_input_kind inputs);

/* Writes the whole buffer of an input: plan->tensors[tensor].span elements. Padding between rows,
 * and rows that no request owns, are NaN (integers: a pattern that is no sensible index). A tensor
 * that has no generator of the rung that `inputs` names has that of its sets. Errors: arithmetic in
 * a generator's arguments, named with the tensor; GK_NOMEM. */
enum gk_status gk_generate(const struct gk_plan *plan, uint32_t tensor, uint64_t seed,
                           enum gk_input_kind inputs, unsigned char *bytes, struct gk_err *err);

/* A tensor's spikes for a problem. A row is what lies along the last dimension. */
struct gk_spike_use {
    double size;    /* the spike has it, with the sign that was drawn; 0: there are no spikes */
    double share;   /* of rows that have one */
    int64_t row;    /* elements of a row */
    int64_t places; /* 1 to row: a spike's column is one of so many multiples of row / places */
    /* Row r is row r / edge_inside % edge_extent of its request, or of the tensor: the first and
     * the last one have a spike in any case. 0: which one that is, is not known. */
    int64_t edge_inside, edge_extent;
};

/* Column of the spike of row `row` (row-major number), or -1: it has none. */
int64_t gk_spike_column(const struct gk_spike_use *spike, uint64_t seed, uint32_t tensor,
                        uint64_t row);

/* A tensor's generator for a problem, its arguments evaluated. */
struct gk_generator_use {
    const struct gk_generator *gen; /* borrowed from the op */
    double args[3];
    bool has[3];  /* false: args[i] is the default */
    double round; /* 0: not rounded */
    struct gk_spike_use spike;
    const struct gk_series *series; /* NULL: none; borrowed from the plan */
    int64_t owned_rows;             /* rows of the outermost dimension from here on are padding */
};
enum gk_status gk_generator_resolve(const struct gk_plan *plan, uint32_t tensor,
                                    enum gk_input_kind inputs, struct gk_generator_use *use_out,
                                    struct gk_err *err);

/* Of a tensor whose rows are owned along another axis than 0: for each index of the outermost
 * dimension how many rows along that axis somebody owns; the caller frees it. NULL of any other
 * tensor. It follows from the page table where there is one, so from the seed. */
enum gk_status gk_rows_owned(const struct gk_plan *plan, uint32_t tensor, uint64_t seed,
                             enum gk_input_kind inputs, int64_t **owned_out, struct gk_err *err);

/* Walks the logical elements of a tensor in row-major order: offset_out is the element's place in
 * the buffer. Start with index[] all 0; returns false behind the last. */
bool gk_tensor_step(const struct gk_plan_tensor *tensor, int64_t index[GK_TENSOR_RANK_MAX]);
int64_t gk_tensor_place(const struct gk_plan_tensor *tensor,
                        const int64_t index[GK_TENSOR_RANK_MAX]);
/* The place of logical element `element` (row-major number), and its coordinates as "[3, 17]" for
 * messages. */
int64_t gk_tensor_position(const struct gk_plan_tensor *tensor, int64_t element);
void gk_tensor_coordinates(const struct gk_plan_tensor *tensor, int64_t element, char *text_out,
                           size_t size);

#endif
