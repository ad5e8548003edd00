/* The launch of a plain kernel: see emu_args.h. */
#include "cli/emu_args.h"

#include "core/buf.h"
#include "kernels/catalog.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIM_MAX 2147483647

enum gk_status gk_emu_triple(const char *text, const char *option, struct gk_json **list_out,
                             struct gk_err *err)
{
    struct gk_json *list = gk_json_new_array();
    enum gk_status status = list ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory");
    for (int i = 0; i < 3 && status == GK_OK; i++) {
        char *end = NULL;
        long value = *text ? strtol(text, &end, 10) : 1;
        if (*text && (end == text || value < 1 || value > DIM_MAX || (*end && *end != ',') ||
                      (*end == ',' && !end[1]))) {
            status =
                gk_fail(err, GK_USAGE, "--%s: '%s': X, X,Y or X,Y,Z are wanted, 1 or more each",
                        option, text);
            break;
        }
        text = end && *end == ',' ? end + 1 : "";
        if (!gk_json_push(list, gk_json_new_int(value))) {
            status = gk_fail(err, GK_NOMEM, "out of memory");
        }
    }
    if (status == GK_OK && *text) {
        status = gk_fail(err, GK_USAGE, "--%s: more than three numbers", option);
    }
    if (status != GK_OK) {
        gk_json_free(list);
        return status;
    }
    *list_out = list;
    return GK_OK;
}

static enum gk_status bad_argument(const char *text, const char *why, struct gk_err *err)
{
    return gk_fail(err, GK_USAGE,
                   "--arg '%s': %s; a buffer is TYPE[ELEMENTS]=FILL, as f32[1024]=normal (FILL: "
                   "normal, uniform, iota, none or a number), a scalar TYPE=VALUE, as i32=1024",
                   text, why);
}

static enum gk_status check_type(const char *text, size_t size, char name[16], enum gk_dtype *dtype,
                                 struct gk_err *err)
{
    struct gk_buf known = {0};
    (void)snprintf(name, 16, "%.*s", size < 15 ? (int)size : 15, text);
    if (gk_dtype_from_name(name, dtype)) {
        return GK_OK;
    }
    for (int i = 0; i < GK_DTYPE_COUNT; i++) {
        gk_buf_printf(&known, "%s%s", i ? ", " : "", gk_dtype_name((enum gk_dtype)i));
    }
    enum gk_status status = gk_fail(err, GK_USAGE, "--arg '%s': no type '%s'; there are %s", text,
                                    name, gk_buf_text(&known));
    gk_buf_fini(&known);
    return status;
}

static bool is_number(const char *text, double *value_out)
{
    char *end = NULL;
    *value_out = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(*value_out);
}

/* A type of integers takes what it holds, nothing rounded: and what a double tells exactly, which
 * is how far the way to the kernel goes. */
static bool holds(enum gk_dtype dtype, double value)
{
    double least = 0, most = 0;
    switch (dtype) {
    case GK_I8:
        least = INT8_MIN, most = INT8_MAX;
        break;
    case GK_U8:
        most = UINT8_MAX;
        break;
    case GK_I32:
        least = INT32_MIN, most = INT32_MAX;
        break;
    case GK_U32:
        most = UINT32_MAX;
        break;
    case GK_I64:
        least = -0x1p53 + 1, most = 0x1p53 - 1;
        break;
    default:
        return true;
    }
    return value == floor(value) && value >= least && value <= most;
}

static bool is_fill(enum gk_dtype dtype, const char *text)
{
    static const char *const words[] = {"normal", "uniform", "iota", "none"};
    double value = 0;
    for (size_t i = 0; i < GK_ARRAY_COUNT(words); i++) {
        if (strcmp(words[i], text) == 0) {
            return true;
        }
    }
    return is_number(text, &value) && holds(dtype, value);
}

enum gk_status gk_emu_argument(const char *text, struct gk_json **argument_out, struct gk_err *err)
{
    size_t name_size = strcspn(text, "[=");
    const char *equals = strchr(text, '=');
    char name[16];
    double value = 0;
    enum gk_dtype dtype = GK_F32;
    enum gk_status status = check_type(text, name_size, name, &dtype, err);
    if (status != GK_OK) {
        return status;
    }
    struct gk_json *json = gk_json_new_object();
    bool good = json && gk_json_set_string(json, "dtype", name);
    if (text[name_size] == '[') {
        char *end = NULL;
        long long elements = strtoll(text + name_size + 1, &end, 10);
        const char *fill = equals ? equals + 1 : "none";
        if (elements < 1 || !end || *end != ']' || (end[1] != '\0' && end + 1 != equals)) {
            status = bad_argument(text, "1 or more elements in brackets", err);
        } else if (!is_fill(dtype, fill)) {
            status = bad_argument(text, "no such fill of this type", err);
        }
        good = good && gk_json_set_int(json, "elements", elements) &&
               gk_json_set_string(json, "fill", fill);
    } else if (!equals || !is_number(equals + 1, &value)) {
        status = bad_argument(text, "a value is missing", err);
    } else if (!holds(dtype, value)) {
        status = bad_argument(text, "the type does not hold this value exactly", err);
    } else {
        good = good && gk_json_set_real(json, "value", value);
    }
    if (status == GK_OK && !good) {
        status = gk_fail(err, GK_NOMEM, "out of memory");
    }
    if (status != GK_OK) {
        gk_json_free(json);
        return status;
    }
    *argument_out = json;
    return GK_OK;
}

static enum gk_status set_triples(const struct gk_options *options, struct gk_json *request,
                                  struct gk_err *err)
{
    static const char *const names[] = {"grid", "block", "cluster"};
    enum gk_status status = GK_OK;
    for (size_t i = 0; i < GK_ARRAY_COUNT(names) && status == GK_OK; i++) {
        const char *text = gk_options_get(options, names[i]);
        struct gk_json *list = NULL;
        if (!text && i < 2) {
            return gk_fail(err, GK_USAGE, "--%s X[,Y[,Z]] is missing: a .cu file has no launch",
                           names[i]);
        }
        status = gk_emu_triple(text ? text : "1", names[i], &list, err);
        if (status == GK_OK && !gk_json_set(request, names[i], list)) {
            status = gk_fail(err, GK_NOMEM, "out of memory");
        }
    }
    return status;
}

enum gk_status gk_emu_plain_request(const struct gk_options *options, struct gk_json *request,
                                    struct gk_err *err)
{
    struct gk_json *args = gk_json_new_array(), *more = gk_json_new_array();
    const char *entry = gk_options_get(options, "entry"), *text = gk_options_get(options, "smem");
    int64_t smem = 0;
    bool good = args && more;
    enum gk_status status =
        good ? set_triples(options, request, err) : gk_fail(err, GK_NOMEM, "out of memory");
    if (status == GK_OK && text) {
        status = gk_parse_int(text, "--smem", 0, 1 << 20, &smem, err);
    }
    for (uint32_t i = 0; status == GK_OK && (text = gk_options_at(options, "arg", i)); i++) {
        struct gk_json *arg = NULL;
        status = gk_emu_argument(text, &arg, err);
        good = status != GK_OK || (gk_json_push(args, arg) && good);
    }
    for (uint32_t i = 0; (text = gk_options_at(options, "option", i)); i++) {
        good = gk_json_push(more, gk_json_new_string(text)) && good;
    }
    good = gk_json_set(request, "args", args) && good;
    good = gk_json_set(request, "options", more) && good;
    good = good && gk_json_set_int(request, "smem", smem) &&
           (!entry || gk_json_set_string(request, "entry", entry));
    return status == GK_OK && !good ? gk_fail(err, GK_NOMEM, "out of memory") : status;
}
