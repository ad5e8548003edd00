/* JSON out of a test's own text. Include after cmocka.h. */
#ifndef GK_TESTS_SUPPORT_PARSED_H
#define GK_TESTS_SUPPORT_PARSED_H

#include <string.h>

#include "core/json.h"
#include "tests/support/check.h"

/* The caller frees it; fails the test where the text is no JSON. */
static inline struct gk_json *parsed(const char *text)
{
    struct gk_json *json = NULL;
    struct gk_err err = {0};
    assert_ok(gk_json_parse(text, strlen(text), "a test", &json, &err), err);
    return json;
}

#endif
