/* Pipes of compile processes and executors: a stream cut anywhere gives the same frames, and a
 * broken one stays broken. What comes in them: jobs, compiled code, records. */
#include <string.h>

#include "core/record.h"
#include "worker/child_frame.h"
#include "worker/code_cache.h"
#include "worker/compile_job.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void as_contents(const struct gk_json *json)
{
    static struct gk_record record; /* 10 KB */
    struct gk_compile_job job = {0};
    struct gk_compile_output output = {0}, again = {0};
    struct gk_err err = {0};
    if (gk_compile_job_from_json(json, &job, &err) == GK_OK) {
        struct gk_json *back = gk_compile_job_to_json(&job);
        GK_ASSERT(back);
        gk_json_free(back);
        gk_compile_job_fini(&job);
    }
    if (gk_code_from_json(json, &output, &err) == GK_OK) {
        struct gk_json *back = gk_code_to_json(&output);
        GK_ASSERT(back && gk_code_from_json(back, &again, &err) == GK_OK);
        GK_ASSERT(again.cubin_size == output.cubin_size && again.ptx_size == output.ptx_size);
        gk_json_free(back);
        gk_compile_output_fini(&output);
        gk_compile_output_fini(&again);
    }
    if (gk_record_from_json(json, &record, &err) == GK_OK) {
        gk_record_fini(&record);
    }
}

/* The number of frames, and how the stream ended. */
static uint32_t read_stream(const uint8_t *data, size_t size, size_t piece, bool look,
                            enum gk_status *end_out)
{
    struct gk_frame_reader reader = {0};
    struct gk_err err = {0};
    uint32_t frames = 0;
    enum gk_status status = GK_AGAIN;
    for (size_t at = 0; status == GK_AGAIN && at < size; at += piece) {
        size_t count = size - at < piece ? size - at : piece;
        status = gk_frame_feed(&reader, data + at, count, &err);
        while (status == GK_OK) {
            struct gk_json *json = NULL;
            status = gk_frame_next(&reader, &json, &err);
            if (status == GK_OK) {
                frames++;
                if (look) {
                    as_contents(json);
                }
                gk_json_free(json);
            }
        }
    }
    gk_frame_reader_fini(&reader);
    *end_out = status;
    return frames;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum gk_status whole, cut;
    struct gk_json *json = NULL;
    uint32_t frames = read_stream(data, size, size + 1, true, &whole);
    GK_ASSERT(frames == read_stream(data, size, 1 + size / 5, false, &cut) && whole == cut);
    GK_ASSERT(frames == read_stream(data, size, 1, false, &cut) && whole == cut);
    /* Without the length: what is in a frame. */
    if (gk_json_parse((const char *)data, size, "input", &json, NULL) == GK_OK) {
        as_contents(json);
    }
    gk_json_free(json);
    return 0;
}
