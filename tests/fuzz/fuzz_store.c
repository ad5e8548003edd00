/*
 * Stores and backups that were damaged: the input is a list of changes to a whole one (4 bytes of
 * offset, 1 byte to put there, each), or, if it begins as a file of SQLite does, the file itself.
 * Opening, checking, listing, migrating and restoring it end with a status.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "db/db.h"
#include "tests/fuzz/fuzz_folder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *base;
static size_t base_size;

static void use(const char *path)
{
    struct gk_db *db = NULL;
    struct gk_json *json = NULL;
    struct gk_err err = {0};
    if (gk_db_open(path, true, &db, &err) != GK_OK) {
        GK_ASSERT(err.status != GK_OK && err.text[0]);
        return;
    }
    if (gk_db_check(db, &json, &err) == GK_OK) {
        gk_json_free(json);
        json = NULL;
    }
    if (gk_db_list_jobs(db, 0, NULL, &json, &err) == GK_OK) {
        gk_json_free(json);
        json = NULL;
    }
    if (gk_db_list_trials(db, 1, false, 0, &json, &err) == GK_OK) {
        gk_json_free(json);
        json = NULL;
    }
    if (gk_db_list_picks(db, NULL, NULL, NULL, 0, 0, &json, &err) == GK_OK) {
        gk_json_free(json);
    }
    gk_db_close(db);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gk_err err = {0};
    char path[300], restored[300];
    if (!base) {
        GK_ASSERT(gk_hash_setup(&err) == GK_OK &&
                  gk_file_load(GK_SOURCE_DIR "/tests/data/store/v1.db", 1u << 20, &base, &base_size,
                               &err) == GK_OK);
    }
    if (size > 16 && memcmp(data, "SQLite format 3", 15) == 0) {
        (void)snprintf(path, sizeof path, "%s", fuzz_write("store.db", data, size));
    } else {
        char *copy = malloc(base_size);
        GK_ASSERT(copy);
        memcpy(copy, base, base_size);
        for (size_t i = 0; i + 5 <= size && i < 500; i += 5) {
            size_t at = (size_t)data[i] | (size_t)data[i + 1] << 8 | (size_t)data[i + 2] << 16;
            copy[at % base_size] = (char)data[i + 4];
        }
        size_t keep = size > 3 && data[3] % 7 == 6 ? base_size / 2 : base_size; /* cut short */
        (void)snprintf(path, sizeof path, "%s",
                       fuzz_write("store.db", (const uint8_t *)copy, keep));
        free(copy);
    }
    (void)snprintf(restored, sizeof restored, "%s/restored.db", fuzz_folder());
    if (gk_db_restore(path, restored, &err) == GK_OK) {
        use(restored);
    }
    (void)unlink(restored); /* made or not */
    use(path);
    char wal[320];
    (void)snprintf(wal, sizeof wal, "%s-wal", path);
    (void)unlink(wal); /* there or not */
    return 0;
}
