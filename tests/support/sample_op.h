/*
 * Two small ops made by hand, so that tests and fuzz targets of core need no catalog: `gemm` has
 * every kind of field with one value, `attn` (family `attention`, with a sister `attn_decode`) has
 * values a request.
 */
#ifndef GK_TESTS_SUPPORT_SAMPLE_OP_H
#define GK_TESTS_SUPPORT_SAMPLE_OP_H

#include "core/shapes.h"

struct sample_ops {
    struct gk_op_fields gemm, attn, attn_decode;
    struct gk_op_lookup lookup; /* over the three */
};

void sample_ops_init(struct sample_ops *ops); /* aborts with a message if an expression is wrong */
void sample_ops_fini(struct sample_ops *ops);

#endif
