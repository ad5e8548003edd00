/* See epoch_file.h. */
#include "daemon/epoch_file.h"

#include <stdlib.h>
#include <string.h>

#include "core/state_dir.h"

#define EPOCH_FILE_MAX 4096

enum gk_status gk_epoch_read(const char *state_dir, struct gk_db_past *past_out, bool *known_out,
                             struct gk_err *err)
{
    struct gk_json *json = NULL;
    char *path = gk_asprintf("%s/%s", state_dir, GK_STATE_EPOCH);
    enum gk_status status = path ? gk_json_load(path, EPOCH_FILE_MAX, &json, err)
                                 : gk_fail(err, GK_NOMEM, "out of memory for a path");
    free(path);
    *past_out = (struct gk_db_past){0};
    *known_out = status != GK_NOT_FOUND;
    if (status == GK_NOT_FOUND) { /* a new folder, or one of an older gktune */
        return GK_OK;
    }
    if (status == GK_IO || status == GK_NOMEM) {
        return status;
    }
    past_out->epoch = gk_json_get_int(json, "epoch", 0);
    past_out->restored =
        status != GK_OK || past_out->epoch < 0 || gk_json_get_bool(json, "restored", false);
    past_out->epoch = past_out->epoch > 0 ? past_out->epoch : 0;
    gk_json_free(json);
    return GK_OK;
}

enum gk_status gk_epoch_write(const char *state_dir, int64_t epoch, struct gk_err *err)
{
    char *path = gk_asprintf("%s/%s", state_dir, GK_STATE_EPOCH);
    struct gk_json *json = gk_json_new_object();
    bool ok = path && gk_json_set_int(json, "epoch", epoch);
    char *text = ok ? gk_json_text(json) : NULL;
    enum gk_status status = text ? gk_file_store(path, text, strlen(text), err)
                                 : gk_fail(err, GK_NOMEM, "out of memory for the epoch");
    free(text);
    free(path);
    gk_json_free(json);
    return status;
}
