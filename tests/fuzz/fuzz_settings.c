/* Config files of gktuned: all mistakes come in one message that names lines; what is accepted is
 * in order, prints, and is accepted when it is read again. */
#include <string.h>

#include "daemon/settings.h"
#include "tests/fuzz/fuzz_folder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gk_settings settings;
    struct gk_err err = {0};
    struct gk_buf text = {0}, restart = {0};
    const char *path = fuzz_write("gktuned.json", data, size);
    gk_settings_init(&settings);
    enum gk_status status = gk_settings_load(&settings, path, &err);
    if (status == GK_OK) {
        status = gk_settings_finish(&settings, &err);
    }
    if (status == GK_OK) {
        GK_ASSERT(settings.listen_count <= GK_LISTEN_MAX);
        gk_settings_print(&settings, "state", "ipc://x", &text);
        GK_ASSERT(gk_buf_text(&text)[0]);
        GK_ASSERT(gk_settings_reload(&settings, path, &restart, &err) == GK_OK);
        GK_ASSERT(restart.size == 0);
    } else {
        GK_ASSERT(err.text[0]);
    }
    gk_settings_fini(&settings);
    gk_buf_fini(&text);
    gk_buf_fini(&restart);
    return 0;
}
