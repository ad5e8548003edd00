/*
 * What a config keeps in device memory, and what op.json's "avoids" says that a composition of
 * plain ops would keep there beside it. Nobody decides anything by it, and it is no part of any
 * identity: it answers what a fused op is worth where memory is what runs out.
 */
#include "kernels/catalog_internal.h"

#include <inttypes.h>
#include <string.h>

void gk_op_read_avoided(struct gk_reader *r, const struct gk_json *json, struct gk_op *op)
{
    static const char *const keys[] = {"name", "bytes", NULL};
    const struct gk_json *list = gk_read_list(r, json, "avoids", 1, GK_AVOIDED_MAX, false);
    for (uint32_t i = 0; i < gk_json_count(list); i++) {
        const struct gk_json *entry = gk_json_at(list, i);
        struct gk_avoided *avoided = &op->avoided[op->avoided_count];
        size_t mark = gk_reader_enter(r, "avoids[%" PRIu32 "]", i);
        if (gk_read_keys(r, entry, keys) &&
            gk_read_name(r, entry, "name", sizeof avoided->name, avoided->name)) {
            avoided->bytes = gk_read_expr(r, entry, "bytes", op->fields.scope, GK_WANT_REAL, true);
            op->avoided_count++;
        }
        gk_reader_leave(r, mark);
    }
}

void gk_avoided_fini(struct gk_avoided *avoided)
{
    gk_expr_destroy(avoided->bytes);
    avoided->bytes = NULL;
}

/* A value that may be absent, for what exists. */
static enum gk_status value_of(const struct gk_expr *expr, const union gk_value *slots,
                               int64_t otherwise, int64_t *value_out, struct gk_err *err)
{
    *value_out = otherwise;
    return expr ? gk_expr_eval_int(expr, slots, value_out, err) : GK_OK;
}

/* Of a dtype field the value's own type. */
static uint32_t element_bytes(const struct gk_op *op, const struct gk_dtype_ref *ref,
                              const union gk_value *slots)
{
    enum gk_dtype dtype = ref->dtype;
    if (ref->from_field) {
        const struct gk_field *field = &op->fields.fields[ref->field];
        GK_ASSERT(gk_dtype_from_name(field->values[slots[field->slot].i], &dtype));
    }
    return gk_dtype_bytes(dtype);
}

/* From the first to the last element, padding between rows too: that is what lies in memory. */
static enum gk_status tensor_bytes(const struct gk_op *op, const struct gk_tensor *tensor,
                                   const union gk_value *slots, double *bytes_out,
                                   struct gk_err *err)
{
    int64_t present = 0, extent = 0, stride = 0;
    double last = 0.0, packed = 1.0; /* reals: an address space has fewer bytes than they count */
    bool empty = false;
    enum gk_status status = value_of(tensor->when, slots, 1, &present, err);
    for (uint32_t i = tensor->rank; i-- > 0 && present && status == GK_OK;) {
        status = value_of(tensor->extents[i], slots, 1, &extent, err);
        if (status == GK_OK) {
            status = value_of(tensor->strides[i], slots, 0, &stride, err);
        }
        empty = empty || extent <= 0;
        last += (double)(extent - 1) * (tensor->strides[i] ? (double)stride : packed);
        packed *= (double)extent;
    }
    if (status != GK_OK) {
        return gk_fail_in(err, status, "tensor %s", tensor->name);
    }
    *bytes_out = present && !empty ? (last + 1.0) * element_bytes(op, &tensor->dtype, slots) : 0.0;
    return GK_OK;
}

static enum gk_status workspace_bytes(const struct gk_workspace *workspace,
                                      const union gk_value *slots, double *bytes_out,
                                      struct gk_err *err)
{
    int64_t present = 0, extent = 0;
    enum gk_status status = value_of(workspace->when, slots, 1, &present, err);
    if (status == GK_OK && present) {
        status = value_of(workspace->extent, slots, 0, &extent, err);
    }
    if (status != GK_OK) {
        return gk_fail_in(err, status, "workspace %s", workspace->name);
    }
    *bytes_out = (double)extent * gk_dtype_bytes(workspace->dtype);
    return GK_OK;
}

enum gk_status gk_catalog_memory(const struct gk_op *op, const struct gk_tree *tree,
                                 const struct gk_config *config, struct gk_memory_need *need_out,
                                 struct gk_err *err)
{
    const struct gk_template *t = gk_op_template(op, tree->template_name);
    union gk_value slots[GK_SCOPE_SYMBOLS_MAX];
    struct gk_memory_need need = {0};
    double bytes = 0.0;
    enum gk_status status = t ? gk_tree_slots(tree, config, slots, err)
                              : gk_fail(err, GK_NOT_FOUND, "no template %s", tree->template_name);
    for (uint32_t i = 0; i < op->tensor_count && status == GK_OK; i++) {
        status = tensor_bytes(op, &op->tensors[i], slots, &bytes, err);
        need.tensor_bytes += status == GK_OK ? bytes : 0.0;
    }
    for (uint32_t i = 0; status == GK_OK && i < t->workspace_count; i++) {
        status = workspace_bytes(&t->workspaces[i], slots, &bytes, err);
        need.workspace_bytes += status == GK_OK ? bytes : 0.0;
    }
    for (uint32_t i = 0; i < op->avoided_count && status == GK_OK; i++) {
        status = gk_expr_eval_real(op->avoided[i].bytes, slots, &need.avoided_bytes[i], err);
        if (status != GK_OK) {
            return gk_fail_in(err, status, "avoids: %s", op->avoided[i].name);
        }
    }
    if (status == GK_OK) {
        *need_out = need;
    }
    return status;
}
