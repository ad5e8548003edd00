/* A child's stream: whatever bytes come, whole frames or an error, and the same in two pieces as in one. */
#include <stddef.h>
#include <stdint.h>

#include "worker/pipe_frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t read_frames(struct gk_pipe_reader *reader, enum gk_status *status)
{
    uint32_t count = 0;
    struct gk_pipe frame = {0};
    struct gk_err err;
    while ((*status = gk_pipe_next(reader, &frame, &err)) == GK_OK) {
        GK_ASSERT(gk_json_is(frame.json, GK_JSON_OBJECT));
        gk_pipe_fini(&frame);
        count++;
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gk_pipe_reader whole = {0}, pieces = {0};
    enum gk_status status = GK_OK, last = GK_OK;
    GK_ASSERT(gk_pipe_feed(&whole, data, size, NULL) == GK_OK);
    uint32_t all = read_frames(&whole, &status), some = 0;
    size_t half = size / 2;
    GK_ASSERT(gk_pipe_feed(&pieces, data, half, NULL) == GK_OK);
    some = read_frames(&pieces, &last);
    if (last == GK_AGAIN) {
        GK_ASSERT(gk_pipe_feed(&pieces, data + half, size - half, NULL) == GK_OK);
        some += read_frames(&pieces, &last);
    }
    GK_ASSERT(last == status && some == all);
    gk_pipe_reader_fini(&whole);
    gk_pipe_reader_fini(&pieces);
    return 0;
}
