/* Expressions from strangers: compiling, evaluating and rendering end, within bounds, without a
 * trap. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/expr.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const dtypes[] = {"bf16", "f16", "f32"};
static const int64_t lengths[] = {17, 0, -4, INT64_MAX};
static const struct gk_series some = {lengths, 4};
static const struct gk_series none = {NULL, 0};

static const struct {
    const char *name;
    enum gk_value_type type;
    union gk_value values[2]; /* two rounds */
} names[] = {
    {"a", GK_VALUE_INT, {{.i = 7}, {.i = INT64_MIN}}},
    {"b", GK_VALUE_INT, {{.i = -3}, {.i = INT64_MAX}}},
    {"M", GK_VALUE_INT, {{.i = 4096}, {.i = 0}}},
    {"dev.sms", GK_VALUE_INT, {{.i = 132}, {.i = -1}}},
    {"dtype", GK_VALUE_INT, {{.i = 1}, {.i = 2}}},
    {"x", GK_VALUE_REAL, {{.r = 0.5}, {.r = -1e308}}},
    {"kv_len", GK_VALUE_SERIES, {{.series = &some}, {.series = &none}}},
};

static struct gk_scope *scope; /* made once: a target has no tear-down */

static const char *symbol_text(void *context, const struct gk_symbol *symbol)
{
    (void)context; /* names stand for themselves */
    return symbol->name;
}

static void use(const struct gk_expr *expr)
{
    struct gk_err err;
    const struct gk_expr_c c = {symbol_text, NULL};
    struct gk_buf buf = {0};
    for (int round = 0; round < 2; round++) {
        union gk_value slots[GK_ARRAY_COUNT(names)], value;
        double real = 0;
        for (size_t i = 0; i < GK_ARRAY_COUNT(names); i++) {
            slots[i] = names[i].values[round];
        }
        enum gk_status status = gk_expr_eval(expr, slots, &value, &err);
        GK_ASSERT(status == GK_OK || status == GK_RANGE);
        GK_ASSERT(gk_expr_eval_real(expr, slots, &real, NULL) == status);
        GK_ASSERT(status != GK_OK || isfinite(real));
    }
    GK_ASSERT(gk_expr_slot_max(expr) < (int64_t)GK_ARRAY_COUNT(names));
    (void)gk_expr_render_c(expr, scope, &c, &buf, &err); /* .blocks cannot be rendered */
    gk_buf_fini(&buf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gk_err err;
    struct gk_expr *expr = NULL;
    if (!scope) {
        scope = gk_scope_create();
        for (size_t i = 0; scope && i < GK_ARRAY_COUNT(names); i++) {
            bool is_enum = strcmp(names[i].name, "dtype") == 0;
            GK_ASSERT(gk_scope_add(scope, names[i].name, names[i].type, is_enum ? dtypes : NULL, 3,
                                   NULL, &err) == GK_OK);
        }
    }
    char *text = gk_strndup((const char *)data, size);
    GK_ASSERT(scope && text);
    if (gk_expr_compile(text, scope, &expr, &err) == GK_OK) {
        use(expr);
        gk_expr_destroy(expr);
    }
    if (gk_expr_compile_enum(text, scope, dtypes, 3, &expr, &err) == GK_OK) {
        use(expr);
        gk_expr_destroy(expr);
    }
    free(text);
    return 0;
}
