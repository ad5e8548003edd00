/* See sample_op.h. */
#include "tests/support/sample_op.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(enum gk_status status, const struct gk_err *err)
{
    if (status != GK_OK) {
        fprintf(stderr, "sample op: %s\n", err->text);
        abort();
    }
}

static struct gk_field *add_field(struct gk_op_fields *op, const char *name,
                                  enum gk_field_type type, const char *values,
                                  const char *default_text)
{
    struct gk_err err;
    struct gk_field *field = &op->fields[op->field_count++];
    memcpy(field->name, name, strlen(name) + 1);
    field->type = type;
    field->min = 1;
    field->max = GK_EXTENT_MAX;
    field->real_min = -1e30;
    field->real_max = 1e30;
    char *copy = gk_strdup(values ? values : ""), *rest = NULL;
    field->values = calloc(8, sizeof *field->values);
    for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        field->values[field->value_count++] = gk_strdup(word);
    }
    free(copy);
    if (default_text) {
        field->default_text = gk_strdup(default_text);
        check(type == GK_FIELD_ENUM
                  ? gk_expr_compile_enum(default_text, op->scope,
                                         (const char *const *)field->values, field->value_count,
                                         &field->default_expr, &err)
                  : gk_expr_compile(default_text, op->scope, &field->default_expr, &err),
              &err);
    }
    enum gk_value_type value_type = type == GK_FIELD_REAL   ? GK_VALUE_REAL
                                    : type == GK_FIELD_INTS ? GK_VALUE_SERIES
                                                            : GK_VALUE_INT;
    check(gk_scope_add(op->scope, name, value_type,
                       type == GK_FIELD_ENUM ? (const char *const *)field->values : NULL,
                       field->value_count, &field->slot, &err),
          &err);
    return field;
}

static void add_rule(struct gk_op_fields *op, const char *name, const char *text, const char *doc,
                     bool is_constraint)
{
    struct gk_err err;
    struct gk_rule *rule = &op->rules[op->rule_count++];
    memcpy(rule->name, name, strlen(name) + 1);
    rule->doc = doc ? gk_strdup(doc) : NULL;
    rule->is_constraint = is_constraint;
    check(gk_expr_compile(text, op->scope, &rule->expr, &err), &err);
    if (!is_constraint) {
        check(gk_scope_add(op->scope, name, gk_expr_type(rule->expr), NULL, 0, &rule->slot, &err),
              &err);
    }
}

static void begin(struct gk_op_fields *op, const char *name, const char *family)
{
    memset(op, 0, sizeof *op);
    memcpy(op->op, name, strlen(name) + 1);
    memcpy(op->family, family, strlen(family) + 1);
    op->scope = gk_scope_create();
    op->rules = calloc(8, sizeof *op->rules);
}

static void make_gemm(struct gk_op_fields *op)
{
    begin(op, "gemm", "gemm");
    add_field(op, "M", GK_FIELD_INT, NULL, NULL);
    add_field(op, "N", GK_FIELD_INT, NULL, NULL);
    add_field(op, "K", GK_FIELD_INT, NULL, NULL);
    add_field(op, "batch", GK_FIELD_INT, NULL, "1");
    add_field(op, "dtype", GK_FIELD_ENUM, "bf16 f16 e4m3 f32", "'bf16'")->is_dtype = true;
    add_field(op, "dtype_out", GK_FIELD_ENUM, "bf16 f16 f32", "dtype == 'f16' ? 'f16' : 'bf16'")
        ->is_dtype = true;
    add_field(op, "ldc", GK_FIELD_INT, NULL, "N");
    add_field(op, "alpha", GK_FIELD_REAL, NULL, "1");
    add_field(op, "bias", GK_FIELD_BOOL, NULL, "false");
    add_field(op, "act", GK_FIELD_ENUM, "none gelu silu", "'none'");
    add_rule(op, "elements", "batch * M * ldc", NULL, false);
    add_rule(op, "ldc_covers", "ldc >= N", "a row of C must fit between two rows", true);
    add_rule(op, "fits", "elements <= 1 << 40", NULL, true);
}

static void make_attn(struct gk_op_fields *op, const char *name)
{
    begin(op, name, "attention");
    add_field(op, "batch", GK_FIELD_INT, NULL, NULL)->max = 1024;
    struct gk_field *kv_len = add_field(op, "kv_len", GK_FIELD_INTS, NULL, "128");
    struct gk_err err;
    kv_len->min = 0;
    kv_len->max = 65536;
    kv_len->count_text = gk_strdup("batch");
    check(gk_expr_compile("batch", op->scope, &kv_len->count_expr, &err), &err);
    add_field(op, "marks", GK_FIELD_INTS, NULL, "1"); /* any number of entries */
    add_field(op, "window", GK_FIELD_INT, NULL, "max(1, kv_len.max)");
    struct gk_field *scale = add_field(op, "scale", GK_FIELD_REAL, NULL, "1 / sqrt(64)");
    scale->real_min = -DBL_MAX;
    scale->real_max = DBL_MAX;
    add_rule(op, "some", "kv_len.count > 0", "a batch needs a request", true);
}

static const struct gk_op_fields *find(void *context, const char *name)
{
    const struct sample_ops *ops = context;
    const struct gk_op_fields *all[] = {&ops->gemm, &ops->attn, &ops->attn_decode};
    for (size_t i = 0; i < GK_ARRAY_COUNT(all); i++) {
        if (strcmp(all[i]->op, name) == 0) {
            return all[i];
        }
    }
    return NULL;
}

static const char *names(void *context)
{
    (void)context; /* always the same three */
    return "gemm, attn, attn_decode";
}

void sample_ops_init(struct sample_ops *ops)
{
    struct gk_err err;
    check(gk_hash_setup(&err), &err);
    make_gemm(&ops->gemm);
    make_attn(&ops->attn, "attn");
    make_attn(&ops->attn_decode, "attn_decode");
    ops->lookup = (struct gk_op_lookup){.find = find, .names = names, .context = ops};
}

void sample_ops_fini(struct sample_ops *ops)
{
    gk_op_fields_fini(&ops->gemm);
    gk_op_fields_fini(&ops->attn);
    gk_op_fields_fini(&ops->attn_decode);
}
