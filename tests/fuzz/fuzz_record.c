/* Records from strangers: what is accepted is written back to an equal record; and device
 * properties, which come by the same message path. */
#include "core/device_props.h"
#include "core/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void as_device(const struct gk_json *json)
{
    struct gk_device_props props, back;
    struct gk_err err;
    if (gk_device_props_from_json(json, &props, &err) == GK_OK) {
        struct gk_json *again = gk_device_props_to_json(&props);
        GK_ASSERT(again && gk_device_props_from_json(again, &back, &err) == GK_OK);
        GK_ASSERT(gk_device_blocks_per_sm(&props, 128, 64, 1024) >= 0);
        gk_json_free(again);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct gk_record record, back; /* 10 KB each */
    struct gk_json *json = NULL;
    struct gk_err err;
    if (gk_json_parse((const char *)data, size, "input", &json, &err) != GK_OK) {
        return 0;
    }
    if (gk_record_from_json(json, &record, &err) == GK_OK) {
        struct gk_json *first = gk_record_to_json(&record);
        GK_ASSERT(first && gk_record_from_json(first, &back, &err) == GK_OK);
        struct gk_json *second = gk_record_to_json(&back);
        GK_ASSERT(second && gk_json_equal(first, second));
        gk_json_free(first);
        gk_json_free(second);
        gk_record_fini(&record);
        gk_record_fini(&back);
    }
    as_device(json);
    gk_json_free(json);
    return 0;
}
