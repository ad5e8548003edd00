/* Words that describe a problem or an arch: see shape_option.h. */
#include "cli/shape_option.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A value as written on the line: a number, true, false, JSON in brackets, or a word. */
static struct gk_json *value_of(const char *text, const char *option, struct gk_err *err)
{
    char *end = NULL;
    errno = 0;
    long long whole = strtoll(text, &end, 10);
    if (end != text && *end == '\0' && errno == 0) {
        return gk_json_new_int(whole);
    }
    double real = strtod(text, &end);
    if (end != text && *end == '\0' && isfinite(real)) {
        return gk_json_new_real(real);
    }
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
        return gk_json_new_bool(text[0] == 't');
    }
    if (text[0] == '[' || text[0] == '{') {
        struct gk_json *json = NULL;
        return gk_json_parse(text, strlen(text), option, &json, err) == GK_OK ? json : NULL;
    }
    return gk_json_new_string(text);
}

/* Bytes of the value that begins here: to the next comma outside of brackets. */
static size_t value_size(const char *text)
{
    int depth = 0;
    size_t i = 0;
    for (; text[i] != '\0' && (depth > 0 || text[i] != ','); i++) {
        depth += text[i] == '[' || text[i] == '{';
        depth -= text[i] == ']' || text[i] == '}';
    }
    return i;
}

enum gk_status gk_shape_parse(const char *text, const char *option, struct gk_json **fields_out,
                              struct gk_err *err)
{
    struct gk_json *fields = gk_json_new_object();
    enum gk_status status = GK_OK;
    while (*text != '\0' && status == GK_OK) {
        size_t name = strcspn(text, "=,"), size = 0;
        if (name == 0 || text[name] != '=') {
            status = gk_fail(err, GK_USAGE, "%s: '%s' is not FIELD=VALUE,..", option, text);
            break;
        }
        size = value_size(text + name + 1);
        char *key = gk_strndup(text, name), *value = gk_strndup(text + name + 1, size);
        struct gk_err parse = {0};
        struct gk_json *json = key && value ? value_of(value, option, &parse) : NULL;
        if (parse.status != GK_OK) {
            status = gk_fail(err, GK_USAGE, "%s", parse.text);
        } else if (!json) {
            status = gk_fail(err, GK_NOMEM, "out of memory");
        } else if (gk_json_get(fields, key)) {
            status = gk_fail(err, GK_USAGE, "%s: '%s' is given twice", option, key);
            gk_json_free(json);
        } else {
            (void)gk_json_set(fields, key, json);
        }
        free(key);
        free(value);
        text += name + 1 + size;
        text += *text == ',';
    }
    if (status != GK_OK) {
        gk_json_free(fields);
        return status;
    }
    *fields_out = fields;
    return GK_OK;
}

void gk_emu_device_name(const char *arch, char device_out[64])
{
    const char *target = strncmp(arch, "emu:", 4) == 0 || strncmp(arch, "emu-", 4) == 0 ? arch + 4
                         : strcmp(arch, "emu") == 0                                     ? "sm_80"
                                                                                        : arch;
    bool is_target = strncmp(target, "sm_", 3) == 0;
    (void)snprintf(device_out, 64, "%s%.50s", is_target ? "emu:" : "", target);
}

void gk_arch_name(const char *text, char arch_out[64])
{
    struct gk_device_props props;
    bool known = gk_device_props_builtin(text, &props, NULL) == GK_OK;
    (void)snprintf(arch_out, 64, "%.60s", known ? props.arch : text);
}

enum gk_status gk_arch_limits(const char *arch, struct gk_device_props *props_out,
                              struct gk_err *err)
{
    char near[64];
    struct gk_device_props props;
    (void)snprintf(near, sizeof near, "emu-%.50s", arch);
    if (strncmp(arch, "sm_", 3) == 0 && gk_device_props_builtin(near, &props, NULL) == GK_OK) {
        return gk_fail(err, GK_USAGE,
                       "--arch %s: a GPU's limits are known to its worker alone; --arch %s has "
                       "those of the target on 8 SMs",
                       arch, near);
    }
    enum gk_status status = gk_device_props_builtin(arch, props_out, err);
    return status == GK_OK ? GK_OK : gk_fail_in(err, status, "--arch");
}
