/*
 * gktune kernels: which ops there are, what a shapes file may say about each, and which templates
 * serve it.
 *
 * The number of configs is that of an example problem on an emulated device: required extents at
 * 4096 (or the nearest allowed), everything else at its default, where op.json has no example.
 */
#include "cli/command.h"
#include "cli/shape_option.h"
#include "cli/table.h"
#include "search/space.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXAMPLE_EXTENT 4096

/* A problem with the required fields filled in; GK_INPUT when an op has required fields of another
 * kind. */
static enum gk_status example_problem(const struct gk_op *op, struct gk_problem *problem_out,
                                      struct gk_err *err)
{
    struct gk_json *fields = op->example ? gk_json_copy(op->example) : gk_json_new_object();
    struct gk_diag diag;
    gk_diag_init(&diag);
    for (uint32_t i = 0; i < op->fields.field_count; i++) {
        const struct gk_field *field = &op->fields.fields[i];
        if (op->example || field->default_text) {
            continue;
        }
        if (field->type == GK_FIELD_INT) {
            int64_t value = EXAMPLE_EXTENT < field->min   ? field->min
                            : EXAMPLE_EXTENT > field->max ? field->max
                                                          : EXAMPLE_EXTENT;
            (void)gk_json_set_int(fields, field->name, value);
        } else if (field->type == GK_FIELD_ENUM) {
            (void)gk_json_set_string(fields, field->name, field->values[0]);
        }
    }
    enum gk_status status =
        gk_problem_from_json(&op->fields, fields, "example", problem_out, &diag);
    if (status != GK_OK) {
        (void)gk_diag_status(&diag, err);
    }
    gk_diag_fini(&diag);
    gk_json_free(fields);
    return status;
}

/* Legal configs of the example; -1 if there is no example or no template serves it there. */
static int64_t example_count(const struct gk_op *op, const char *arch, char label[128])
{
    struct gk_problem problem = {0};
    struct gk_device_props dev;
    struct gk_space_def def = {0};
    uint64_t legal = 0, raw = 0;
    int64_t count = -1;
    label[0] = '\0';
    if (gk_device_props_builtin(arch, &dev, NULL) == GK_OK &&
        example_problem(op, &problem, NULL) == GK_OK) {
        gk_problem_label(&problem, label, 128);
        if (gk_catalog_space(op, &problem, &dev, &def, NULL) == GK_OK &&
            gk_catalog_prefer(op, &problem, &def, NULL, NULL, NULL) == GK_OK &&
            gk_space_tally(&def, &legal, &raw, NULL, 0, NULL, NULL) == GK_OK) {
            count = (int64_t)legal;
        }
    }
    gk_space_def_fini(&def);
    gk_problem_fini(&problem);
    return count;
}

static const char *field_type(const struct gk_field *field)
{
    switch (field->type) {
    case GK_FIELD_INT:
        return "int";
    case GK_FIELD_REAL:
        return "real";
    case GK_FIELD_BOOL:
        return "bool";
    case GK_FIELD_ENUM:
        return field->is_dtype ? "dtype" : "enum";
    case GK_FIELD_INTS:
        return "ints";
    }
    return "?";
}

static void allowed_text(const struct gk_field *field, struct gk_buf *out)
{
    gk_buf_reset(out);
    if (field->type == GK_FIELD_INT || field->type == GK_FIELD_INTS) {
        gk_buf_printf(out, "%" PRId64 " .. %" PRId64, field->min, field->max);
    } else if (field->type == GK_FIELD_BOOL) {
        gk_buf_puts(out, "true, false");
    } else if (field->type == GK_FIELD_ENUM) {
        for (uint32_t i = 0; i < field->value_count; i++) {
            gk_buf_printf(out, "%s%s", i ? ", " : "", field->values[i]);
        }
    } else {
        gk_buf_puts(out, "any number");
    }
}

/* What a shapes file would have to say to mean the default. */
static void default_text(const struct gk_field *field, struct gk_buf *out)
{
    union gk_value value = {0};
    gk_buf_reset(out);
    bool constant = field->default_expr && gk_expr_slot_max(field->default_expr) < 0 &&
                    gk_expr_eval(field->default_expr, NULL, &value, NULL) == GK_OK;
    if (!field->default_text) {
        gk_buf_puts(out, "(required)");
    } else if (!constant) {
        gk_buf_puts(out, field->default_text);
    } else if (field->type == GK_FIELD_ENUM && value.i >= 0 &&
               value.i < (int64_t)field->value_count) {
        gk_buf_puts(out, field->values[value.i]);
    } else if (field->type == GK_FIELD_BOOL) {
        gk_buf_puts(out, value.i ? "true" : "false");
    } else if (gk_expr_type(field->default_expr) == GK_VALUE_REAL) {
        char real[32];
        gk_real_text(value.r, real);
        gk_buf_puts(out, real);
    } else {
        gk_buf_printf(out, "%" PRId64, value.i);
    }
}

static void param_values(const struct gk_param *param, struct gk_buf *out)
{
    gk_buf_reset(out);
    for (uint32_t i = 0; i < param->value_count; i++) {
        if (param->names) {
            gk_buf_printf(out, "%s%s", i ? ", " : "", param->names[i]);
        } else {
            gk_buf_printf(out, "%s%" PRId64, i ? ", " : "", param->values[i]);
        }
    }
}

static void archs_text(const struct gk_template *template_, struct gk_buf *out)
{
    gk_buf_reset(out);
    for (uint32_t i = 0; i < template_->arch_count; i++) {
        gk_buf_printf(out, "%s%s", i ? ", " : "", template_->archs[i]);
    }
}

static void print_op(const struct gk_op *op, const char *arch)
{
    struct gk_buf text = {0}, shown = {0}, out = {0};
    gk_buf_printf(&out, "%s (family %s)\n", op->fields.op, op->fields.family);
    if (op->doc) {
        gk_buf_printf(&out, "%s\n", op->doc);
    }
    struct gk_table table;
    gk_table_init(&table, "field|type|default|allowed|meaning");
    for (uint32_t i = 0; i < op->fields.field_count; i++) {
        const struct gk_field *field = &op->fields.fields[i];
        allowed_text(field, &text);
        gk_table_cell(&table, "  %s", field->name);
        gk_table_cell(&table, "%s", field_type(field));
        default_text(field, &shown);
        gk_table_cell(&table, "%s", gk_buf_text(&shown));
        gk_table_cell(&table, "%s", gk_buf_text(&text));
        gk_table_cell(&table, "%s", field->doc ? field->doc : "");
    }
    gk_buf_putc(&out, '\n');
    gk_table_render(&table, &out);
    gk_table_fini(&table);
    for (uint32_t i = 0; i < op->template_count; i++) {
        const struct gk_template *template_ = &op->templates[i];
        archs_text(template_, &text);
        gk_buf_printf(&out, "\ntemplate %s (%s)\n", template_->name, gk_buf_text(&text));
        if (template_->doc) {
            gk_buf_printf(&out, "%s\n", template_->doc);
        }
        gk_table_init(&table, "parameter|values|meaning");
        for (uint32_t j = 0; j < template_->param_count; j++) {
            param_values(&template_->params[j], &text);
            gk_table_cell(&table, "  %s", template_->params[j].name);
            gk_table_cell(&table, "%s", gk_buf_text(&text));
            gk_table_cell(&table, "%s", template_->params[j].doc ? template_->params[j].doc : "");
        }
        gk_table_render(&table, &out);
        gk_table_fini(&table);
    }
    char label[128];
    int64_t count = example_count(op, arch, label);
    if (count >= 0) {
        gk_buf_printf(&out, "\n%" PRId64 " legal configs for %s on %s\n", count, label, arch);
    }
    (void)fputs(gk_buf_text(&out), stdout);
    gk_buf_fini(&out);
    gk_buf_fini(&shown);
    gk_buf_fini(&text);
}

static struct gk_json *field_json(const struct gk_field *field)
{
    struct gk_json *json = gk_json_new_object();
    (void)gk_json_set_string(json, "name", field->name);
    (void)gk_json_set_string(json, "type", field_type(field));
    (void)gk_json_set_string(json, "role", field->role == GK_FIELD_KEY ? "key" : "data");
    (void)gk_json_set_bool(json, "required", field->default_text == NULL);
    if (field->default_text) {
        struct gk_buf shown = {0};
        default_text(field, &shown);
        (void)gk_json_set_string(json, "default", gk_buf_text(&shown));
        gk_buf_fini(&shown);
    }
    if (field->type == GK_FIELD_INT || field->type == GK_FIELD_INTS) {
        (void)gk_json_set_int(json, "min", field->min);
        (void)gk_json_set_int(json, "max", field->max);
    }
    if (field->type == GK_FIELD_ENUM) {
        struct gk_json *values = gk_json_new_array();
        for (uint32_t i = 0; i < field->value_count; i++) {
            (void)gk_json_push(values, gk_json_new_string(field->values[i]));
        }
        (void)gk_json_set(json, "values", values);
    }
    return json;
}

static struct gk_json *template_json(const struct gk_template *template_)
{
    struct gk_json *json = gk_json_new_object(), *params = gk_json_new_array(),
                   *archs = gk_json_new_array();
    char hash[GK_HASH_TEXT_SIZE];
    gk_hash_hex(&template_->hash, hash);
    (void)gk_json_set_string(json, "name", template_->name);
    (void)gk_json_set_string(json, "hash", hash);
    for (uint32_t i = 0; i < template_->arch_count; i++) {
        (void)gk_json_push(archs, gk_json_new_string(template_->archs[i]));
    }
    for (uint32_t i = 0; i < template_->param_count; i++) {
        const struct gk_param *param = &template_->params[i];
        struct gk_json *one = gk_json_new_object(), *values = gk_json_new_array();
        for (uint32_t j = 0; j < param->value_count; j++) {
            (void)gk_json_push(values, param->names ? gk_json_new_string(param->names[j])
                                                    : gk_json_new_int(param->values[j]));
        }
        (void)gk_json_set_string(one, "name", param->name);
        (void)gk_json_set(one, "values", values);
        (void)gk_json_push(params, one);
    }
    (void)gk_json_set(json, "archs", archs);
    (void)gk_json_set(json, "params", params);
    return json;
}

static struct gk_json *op_json(const struct gk_op *op, const char *arch)
{
    struct gk_json *json = gk_json_new_object(), *fields = gk_json_new_array(),
                   *templates = gk_json_new_array();
    (void)gk_json_set_string(json, "op", op->fields.op);
    (void)gk_json_set_string(json, "family", op->fields.family);
    for (uint32_t i = 0; i < op->fields.field_count; i++) {
        (void)gk_json_push(fields, field_json(&op->fields.fields[i]));
    }
    for (uint32_t i = 0; i < op->template_count; i++) {
        (void)gk_json_push(templates, template_json(&op->templates[i]));
    }
    (void)gk_json_set(json, "fields", fields);
    (void)gk_json_set(json, "templates", templates);
    char label[128];
    int64_t count = example_count(op, arch, label);
    if (count >= 0) {
        struct gk_json *example = gk_json_new_object();
        (void)gk_json_set_string(example, "problem", label);
        (void)gk_json_set_string(example, "arch", arch);
        (void)gk_json_set_int(example, "configs", count);
        (void)gk_json_set(json, "example", example);
    }
    return json;
}

static void print_summary(const struct gk_catalog *catalog, const char *arch)
{
    struct gk_table table;
    gk_table_init(&table, "op|family|templates|>fields|>configs|example");
    for (uint32_t i = 0; i < gk_catalog_op_count(catalog); i++) {
        const struct gk_op *op = gk_catalog_op(catalog, i);
        struct gk_buf names = {0};
        for (uint32_t j = 0; j < op->template_count; j++) {
            gk_buf_printf(&names, "%s%s", j ? ", " : "", op->templates[j].name);
        }
        char label[128];
        int64_t count = example_count(op, arch, label);
        gk_table_cell(&table, "%s", op->fields.op);
        gk_table_cell(&table, "%s", op->fields.family);
        gk_table_cell(&table, "%s", gk_buf_text(&names));
        gk_table_cell(&table, "%" PRIu32, op->fields.field_count);
        if (count < 0) {
            gk_table_cell(&table, "-");
        } else {
            gk_table_cell(&table, "%" PRId64, count);
        }
        gk_table_cell(&table, "%s", label);
        gk_buf_fini(&names);
    }
    struct gk_buf out = {0};
    gk_table_render(&table, &out);
    gk_buf_printf(&out,
                  "\nconfigs: legal ones of the example on %s. Fields and parameters: gktune "
                  "kernels OP\n",
                  arch);
    (void)fputs(gk_buf_text(&out), stdout);
    gk_buf_fini(&out);
    gk_table_fini(&table);
}

enum gk_status gk_cmd_kernels(struct gk_cli *cli, struct gk_err *err)
{
    const char *what = cli->options.operand_count ? cli->options.operands[0] : NULL;
    const char *arch = gk_options_get(&cli->options, "arch");
    arch = arch ? arch : "emu-sm_80";
    struct gk_device_props dev;
    struct gk_catalog *catalog = NULL;
    enum gk_status status = gk_arch_limits(arch, &dev, err);
    if (status == GK_OK) {
        arch = dev.arch;
        status = gk_load_catalog(cli, what, &catalog, err);
    }
    if (status != GK_OK) {
        return status;
    }
    if (cli->json) {
        struct gk_json *json = gk_json_new_object(), *ops = gk_json_new_array();
        for (uint32_t i = 0; i < gk_catalog_op_count(catalog); i++) {
            (void)gk_json_push(ops, op_json(gk_catalog_op(catalog, i), arch));
        }
        (void)gk_json_set(json, "ops", ops);
        status = gk_print_json(cli, json, err);
        gk_json_free(json);
    } else if (what) {
        for (uint32_t i = 0; i < gk_catalog_op_count(catalog); i++) {
            (void)fputs(i ? "\n" : "", stdout);
            print_op(gk_catalog_op(catalog, i), arch);
        }
    } else {
        print_summary(catalog, arch);
    }
    gk_catalog_destroy(catalog);
    return status;
}
