/* Configs as canonical text, and the end of a space definition. See config.h. Pure; any thread. */
#include "core/config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define CONFIG_TEXT_USUAL 192 /* bytes */

void gk_space_def_fini(struct gk_space_def *def)
{
    if (!def) {
        return;
    }
    for (uint32_t i = 0; i < def->tree_count; i++) {
        free(def->trees[i].base);
    }
    memset(def, 0, sizeof *def);
}

static int32_t value_index(const struct gk_param *param, int64_t value)
{
    for (uint32_t i = 0; i < param->value_count; i++) {
        if (param->values[i] == value) {
            return (int32_t)i;
        }
    }
    return -1;
}

/* The parameter whose name comes next behind `before` (NULL: the first); NULL behind the last. */
static const struct gk_param *next_by_name(const struct gk_tree *tree, const char *before)
{
    const struct gk_param *found = NULL;
    for (uint32_t i = 0; i < tree->param_count; i++) {
        const struct gk_param *param = &tree->params[i];
        if ((!before || strcmp(param->name, before) > 0) &&
            (!found || strcmp(param->name, found->name) < 0)) {
            found = param;
        }
    }
    return found;
}

/* Canonical JSON: written piece by piece, since every trial that is asked for needs one. */
char *gk_config_text(const struct gk_tree *tree, const struct gk_config *config)
{
    struct gk_buf buf = {0};
    const struct gk_param *param = NULL;
    gk_buf_expect(&buf, CONFIG_TEXT_USUAL);
    gk_buf_puts(&buf, tree->template_name);
    gk_buf_putc(&buf, '{');
    for (bool first = true; (param = next_by_name(tree, param ? param->name : NULL));
         first = false) {
        int64_t value = config->values[param - tree->params];
        int32_t index = value_index(param, value);
        if (!first) {
            gk_buf_putc(&buf, ',');
        }
        gk_json_put_string(&buf, param->name);
        gk_buf_putc(&buf, ':');
        if (param->names && index >= 0) {
            gk_json_put_string(&buf, param->names[index]);
        } else {
            gk_json_put_int(&buf, value);
        }
    }
    gk_buf_putc(&buf, '}');
    return gk_buf_detach(&buf);
}

/* ------------------------------------------------------------------ reading */

static enum gk_status fail_template(const struct gk_space_def *def, const char *text, size_t length,
                                    struct gk_err *err)
{
    struct gk_buf all = {0};
    for (uint32_t i = 0; i < def->tree_count; i++) {
        gk_buf_printf(&all, "%s%s", i ? ", " : "", def->trees[i].template_name);
    }
    int shown = length < GK_NAME_MAX ? (int)length : GK_NAME_MAX;
    enum gk_status status = gk_fail(
        err, GK_NOT_FOUND,
        "config '%.120s': there is no template '%.*s' for this problem here; %s%s", text, shown,
        text, def->tree_count ? "there are " : "there is none at all", gk_buf_text(&all));
    gk_buf_fini(&all);
    return status;
}

static enum gk_status fail_value(const struct gk_param *param, const struct gk_json *value,
                                 const char *text, struct gk_err *err)
{
    char shown[GK_JSON_SHOW_SIZE];
    struct gk_buf all = {0};
    for (uint32_t i = 0; i < param->value_count; i++) {
        if (param->names) {
            gk_buf_printf(&all, "%s\"%s\"", i ? ", " : "", param->names[i]);
        } else {
            gk_buf_printf(&all, "%s%" PRId64, i ? ", " : "", param->values[i]);
        }
    }
    gk_json_show(value, shown);
    enum gk_status status =
        gk_fail(err, GK_INPUT, "config '%.120s': parameter %s is %s; allowed: %s", text,
                param->name, shown, gk_buf_text(&all));
    gk_buf_fini(&all);
    return status;
}

static enum gk_status read_value(const struct gk_param *param, const struct gk_json *json,
                                 const char *text, int64_t *value_out, struct gk_err *err)
{
    const struct gk_json *value = gk_json_get(json, param->name);
    int32_t index = -1;
    if (!value) {
        return gk_fail(err, GK_INPUT, "config '%.120s': parameter %s is missing", text,
                       param->name);
    }
    if (param->names && gk_json_is(value, GK_JSON_STRING)) {
        for (uint32_t i = 0; i < param->value_count && index < 0; i++) {
            index = strcmp(param->names[i], gk_json_string(value, "")) == 0 ? (int32_t)i : -1;
        }
    } else if (!param->names && gk_json_is(value, GK_JSON_INT)) {
        index = value_index(param, gk_json_int(value, 0));
    }
    if (index < 0) {
        return fail_value(param, value, text, err);
    }
    *value_out = param->values[index];
    return GK_OK;
}

static enum gk_status refuse_unknown(const struct gk_tree *tree, const struct gk_json *json,
                                     const char *text, struct gk_err *err)
{
    void *cursor = NULL;
    const char *key = NULL;
    while (gk_json_next(json, &cursor, &key)) {
        bool found = false;
        for (uint32_t i = 0; i < tree->param_count && !found; i++) {
            found = strcmp(tree->params[i].name, key) == 0;
        }
        if (found) {
            continue;
        }
        struct gk_buf all = {0};
        for (uint32_t i = 0; i < tree->param_count; i++) {
            gk_buf_printf(&all, "%s%s", i ? ", " : "", tree->params[i].name);
        }
        enum gk_status status =
            gk_fail(err, GK_NOT_FOUND, "config '%.120s': %s has no parameter '%.64s'; it has %s",
                    text, tree->template_name, key, gk_buf_text(&all));
        gk_buf_fini(&all);
        return status;
    }
    return GK_OK;
}

enum gk_status gk_config_from_text(const struct gk_space_def *def, const char *text,
                                   struct gk_config *config_out, uint32_t *tree_out,
                                   struct gk_err *err)
{
    size_t length = strcspn(text, "{");
    if (text[length] == '\0') {
        return gk_fail(err, GK_PARSE,
                       "config '%.120s': a template and its parameters are needed, as "
                       "name{\"P\":1}",
                       text);
    }
    uint32_t index = 0;
    while (index < def->tree_count &&
           (strlen(def->trees[index].template_name) != length ||
            strncmp(def->trees[index].template_name, text, length) != 0)) {
        index++;
    }
    if (index == def->tree_count) {
        return fail_template(def, text, length, err);
    }
    const struct gk_tree *tree = &def->trees[index];
    GK_ASSERT(length < GK_NAME_MAX &&
              tree->param_count <= GK_PARAMS_MAX); /* the catalog's limits */
    struct gk_json *json = NULL;
    struct gk_config config = {.template_hash = tree->template_hash, .count = tree->param_count};
    enum gk_status status =
        gk_json_parse(text + length, strlen(text + length), "config", &json, err);
    if (status == GK_OK && !gk_json_is(json, GK_JSON_OBJECT)) {
        status = gk_fail(err, GK_PARSE, "config '%.120s': no object after the template", text);
    }
    if (status == GK_OK) {
        status = refuse_unknown(tree, json, text, err);
    }
    for (uint32_t i = 0; status == GK_OK && i < tree->param_count; i++) {
        status = read_value(&tree->params[i], json, text, &config.values[i], err);
    }
    if (status == GK_OK) {
        memcpy(config.template_name, tree->template_name, length); /* the rest is zero */
        *config_out = config;
        *tree_out = index;
    }
    gk_json_free(json);
    return status;
}

struct gk_hash gk_config_id(const struct gk_hash *template_hash, const char *text)
{
    struct gk_hasher hasher;
    gk_hasher_init(&hasher);
    gk_hasher_part(&hasher, template_hash->bytes, sizeof template_hash->bytes);
    gk_hasher_text(&hasher, text);
    return gk_hasher_final(&hasher);
}
