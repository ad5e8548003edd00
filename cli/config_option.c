/* A config as a person writes it: see config_option.h. */
#include "cli/config_option.h"

#include "cli/options.h"
#include "cli/shape_option.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FREE_VALUE INT64_MIN /* of a parameter that is not given */

/* What is given: one value for each parameter of the tree, or FREE_VALUE. */
struct given {
    uint32_t tree;
    int64_t values[GK_PARAMS_MAX];
    uint32_t count;
};

/* ------------------------------------------------------------------ reading */

static void name_values(const struct gk_param *param, struct gk_buf *out)
{
    for (uint32_t i = 0; i < param->value_count; i++) {
        gk_buf_puts(out, i ? ", " : "");
        if (param->names) {
            gk_buf_puts(out, param->names[i]);
        } else {
            gk_buf_printf(out, "%" PRId64, param->values[i]);
        }
    }
}

static bool find_value(const struct gk_param *param, const struct gk_json *json, int64_t *value_out)
{
    for (uint32_t i = 0; i < param->value_count; i++) {
        bool same = param->names
                        ? strcmp(param->names[i], gk_json_string(json, "")) == 0
                        : gk_json_is(json, GK_JSON_INT) && gk_json_int(json, 0) == param->values[i];
        if (same) {
            *value_out = param->values[i];
            return true;
        }
    }
    return false;
}

static void take_one(const struct gk_tree *tree, const char *key, const struct gk_json *json,
                     struct given *given, struct gk_diag *diag)
{
    const char *words[GK_PARAMS_MAX];
    for (uint32_t i = 0; i < tree->param_count; i++) {
        words[i] = tree->params[i].name;
        if (strcmp(words[i], key) != 0) {
            continue;
        }
        if (find_value(&tree->params[i], json, &given->values[i])) {
            given->count++;
        } else {
            char met[GK_JSON_SHOW_SIZE];
            struct gk_buf allowed = {0};
            gk_json_show(json, met);
            name_values(&tree->params[i], &allowed);
            (void)gk_diag_add(diag, GK_INPUT, "--config: %s = %s: %s has %s", key, met,
                              tree->template_name, gk_buf_text(&allowed));
            gk_buf_fini(&allowed);
        }
        return;
    }
    struct gk_buf near = {0};
    gk_suggest(key, words, tree->param_count, "", &near);
    if (near.size == 0) {
        gk_buf_puts(&near, "; it has ");
        for (uint32_t i = 0; i < tree->param_count; i++) {
            gk_buf_printf(&near, "%s%s", i ? ", " : "", words[i]);
        }
    }
    (void)gk_diag_add(diag, GK_INPUT, "--config: %s has no parameter '%s'%s", tree->template_name,
                      key, gk_buf_text(&near));
    gk_buf_fini(&near);
}

static enum gk_status find_tree(const struct gk_space_def *def, const char *name, size_t size,
                                uint32_t *tree_out, struct gk_err *err)
{
    struct gk_buf names = {0};
    for (uint32_t i = 0; i < def->tree_count; i++) {
        const char *own = def->trees[i].template_name;
        if (strlen(own) == size && memcmp(own, name, size) == 0) {
            *tree_out = i;
            gk_buf_fini(&names);
            return GK_OK;
        }
        gk_buf_printf(&names, "%s%s", i ? ", " : "", own);
    }
    (void)gk_fail(err, GK_INPUT,
                  "--config: no template '%.*s' serves this problem here; there are %s", (int)size,
                  name, gk_buf_text(&names));
    gk_buf_fini(&names);
    return GK_INPUT;
}

static enum gk_status read_given(const struct gk_space_def *def, const char *text,
                                 struct given *given, struct gk_err *err)
{
    struct gk_json *json = NULL;
    struct gk_diag diag;
    const char *brace = strchr(text, '{');
    bool named = brace && !memchr(text, '=', (size_t)(brace - text));
    enum gk_status status = GK_OK;
    if (named && brace > text) {
        status = find_tree(def, text, (size_t)(brace - text), &given->tree, err);
    }
    if (status == GK_OK) {
        status = named ? gk_json_parse(brace, strlen(brace), "--config", &json, err)
                       : gk_shape_parse(text, "--config", &json, err);
    }
    if (status != GK_OK) {
        return status;
    }
    gk_diag_init(&diag);
    void *cursor = NULL;
    const char *key = NULL;
    const struct gk_json *value;
    while ((value = gk_json_next(json, &cursor, &key)) != NULL) {
        take_one(&def->trees[given->tree], key, value, given, &diag);
    }
    status = gk_diag_status(&diag, err);
    gk_diag_fini(&diag);
    gk_json_free(json);
    return status;
}

/* ------------------------------------------------------------------ choosing */

static uint32_t differences(const struct gk_config *a, const struct gk_config *b)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < a->count; i++) {
        count += a->values[i] != b->values[i];
    }
    return count;
}

/* The legal config with the given values that is nearest to `base` (NULL: the first one). */
static enum gk_status nearest(const struct gk_space_def *def, const struct given *given,
                              const struct gk_config *base, struct gk_config *config_out,
                              struct gk_err *err)
{
    struct gk_space *space = NULL;
    uint32_t first = 0, count = 0, best = UINT32_MAX;
    enum gk_status status = gk_space_create(def, &space, err);
    if (status != GK_OK) {
        return status;
    }
    gk_space_tree_range(space, given->tree, &first, &count);
    for (uint32_t i = first; i < first + count && best > 0; i++) {
        struct gk_config config;
        bool fits = true;
        gk_space_config(space, i, &config);
        for (uint32_t p = 0; p < config.count && fits; p++) {
            fits = given->values[p] == FREE_VALUE || given->values[p] == config.values[p];
        }
        uint32_t far = fits && base ? differences(&config, base) : 0;
        if (fits && far < best) {
            best = far;
            *config_out = config;
        }
    }
    gk_space_destroy(space);
    return best == UINT32_MAX ? gk_fail(err, GK_NOT_FOUND, "no such config") : GK_OK;
}

static void set_given(const struct given *given, struct gk_config *config)
{
    for (uint32_t i = 0; i < config->count; i++) {
        if (given->values[i] != FREE_VALUE) {
            config->values[i] = given->values[i];
        }
    }
}

static void note_changes(const struct gk_tree *tree, const struct gk_config *wanted,
                         const struct gk_config *taken, struct gk_buf *note)
{
    gk_buf_puts(note, "the default does not fit what is given; changed with it:");
    for (uint32_t i = 0; i < taken->count; i++) {
        const struct gk_param *param = &tree->params[i];
        if (taken->values[i] == wanted->values[i]) {
            continue;
        }
        if (param->names) {
            gk_buf_printf(note, " %s=%s", param->name, param->names[taken->values[i]]);
        } else {
            gk_buf_printf(note, " %s=%" PRId64, param->name, taken->values[i]);
        }
    }
}

static enum gk_status complete(const struct gk_space_def *def, const struct given *given,
                               const struct gk_config *base, struct gk_config *config_out,
                               struct gk_buf *note, struct gk_err *err)
{
    const struct gk_tree *tree = &def->trees[given->tree];
    struct gk_err why = {0};
    struct gk_config wanted = {0};
    if (base) {
        wanted = *base;
        set_given(given, &wanted);
        enum gk_status legal = gk_space_why(def, &wanted, NULL, &why);
        if (legal == GK_OK) {
            *config_out = wanted;
            return GK_OK;
        }
        if (given->count == tree->param_count) {
            return gk_fail(err, GK_INPUT, "--config: %s", why.text);
        }
    }
    enum gk_status status = nearest(def, given, base ? &wanted : NULL, config_out, err);
    if (status == GK_NOT_FOUND) {
        return gk_fail(err, GK_INPUT, "--config: no legal config of %s has these values%s%s",
                       tree->template_name, why.text[0] ? "; with the default's others: " : "",
                       why.text);
    }
    if (status == GK_OK && base) {
        note_changes(tree, &wanted, config_out, note);
    }
    return status;
}

enum gk_status gk_config_choose(const struct gk_op *op, const struct gk_problem *problem,
                                const struct gk_space_def *def, const char *text, char **config_out,
                                struct gk_buf *note_out, struct gk_err *err)
{
    struct gk_config base = {0}, config = {0};
    struct given given = {0};
    uint32_t home = 0;
    bool has_base = gk_catalog_default(op, problem, def, &base, &home, NULL) == GK_OK;
    given.tree = has_base ? home : 0;
    for (uint32_t i = 0; i < GK_PARAMS_MAX; i++) {
        given.values[i] = FREE_VALUE;
    }
    enum gk_status status = text ? read_given(def, text, &given, err) : GK_OK;
    if (status == GK_OK) {
        has_base = has_base && home == given.tree;
        status = complete(def, &given, has_base ? &base : NULL, &config, note_out, err);
    }
    if (status == GK_OK) {
        *config_out = gk_config_text(&def->trees[given.tree], &config);
        status = *config_out ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory");
    }
    return status;
}
