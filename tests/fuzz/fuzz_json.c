/* JSON from strangers: what parses is written, read back, and must be the same value and the same
 * text. */
#include <stdlib.h>
#include <string.h>

#include "core/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gk_json *json = NULL, *back = NULL;
    struct gk_err err;
    struct gk_buf pretty = {0};
    if (gk_json_parse((const char *)data, size, "input", &json, &err) != GK_OK) {
        size_t bad = 0;
        GK_ASSERT(strncmp(err.text, "input: ", 7) == 0);
        GK_ASSERT(gk_utf8_check(err.text, strlen(err.text), &bad) ||
                  strlen(err.text) >= GK_ERR_TEXT_MAX - 1);
        return 0;
    }
    char *text = gk_json_text(json);
    GK_ASSERT(text);
    GK_ASSERT(gk_json_parse(text, strlen(text), "canonical", &back, &err) == GK_OK);
    GK_ASSERT(gk_json_equal(json, back));
    char *again = gk_json_text(back);
    GK_ASSERT(again && strcmp(text, again) == 0);
    gk_json_free(back);
    GK_ASSERT(gk_json_pretty(json, &pretty, &err) == GK_OK);
    GK_ASSERT(gk_json_parse(pretty.data, pretty.size, "pretty", &back, &err) == GK_OK);
    GK_ASSERT(gk_json_equal(json, back));
    char shown[GK_JSON_SHOW_SIZE];
    gk_json_show(json, shown);
    gk_json_free(json);
    gk_json_free(back);
    gk_buf_fini(&pretty);
    free(text);
    free(again);
    return 0;
}
