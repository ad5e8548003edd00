/* An earlier export read back: see incumbents.h. */
#include "cli/incumbents.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define EVIDENCE_SUFFIX ".evidence.json"
#define EVIDENCE_MAX    ((size_t)256 << 20) /* bytes: 10,000 rows with their samples */

static enum gk_status take_rows(const struct gk_json *evidence, const char *path,
                                struct gk_json *list, struct gk_err *err)
{
    static const char *const keys[] = {"problem", "arch", "template", "config"};
    const struct gk_json *rows = NULL;
    enum gk_status status = gk_json_need(evidence, "rows", GK_JSON_ARRAY, &rows, path, err);
    for (size_t i = 0; status == GK_OK && i < gk_json_count(rows); i++) {
        struct gk_json *one = gk_json_new_object();
        for (size_t k = 0; k < GK_ARRAY_COUNT(keys) && status == GK_OK; k++) {
            const char *text = NULL;
            status = gk_json_need_string(gk_json_at(rows, i), keys[k], 65536, &text, path, err);
            if (status == GK_OK && !gk_json_set_string(one, keys[k], text)) {
                status = gk_fail(err, GK_NOMEM, "out of memory");
            }
        }
        if (!gk_json_push(list, one) && status == GK_OK) {
            status = gk_fail(err, GK_NOMEM, "out of memory");
        }
    }
    return status;
}

static bool is_evidence(const char *name)
{
    size_t size = strlen(name), tail = strlen(EVIDENCE_SUFFIX);
    return size > tail && strcmp(name + size - tail, EVIDENCE_SUFFIX) == 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int wanted(const struct dirent *entry)
{
    return is_evidence(entry->d_name);
}

enum gk_status gk_incumbents_load(const char *folder, struct gk_json **list_out, struct gk_err *err)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, wanted, by_name);
    if (count < 0) {
        return gk_fail(err, GK_NOT_FOUND, "--from '%s': %s", folder, strerror(errno));
    }
    struct gk_json *list = gk_json_new_array();
    enum gk_status status = count > 0 ? GK_OK
                                      : gk_fail(err, GK_NOT_FOUND,
                                                "--from '%s': no *%s in it: it is not "
                                                "an export",
                                                folder, EVIDENCE_SUFFIX);
    for (int i = 0; i < count; i++) {
        struct gk_json *evidence = NULL;
        char *path = gk_asprintf("%s/%s", folder, entries[i]->d_name);
        if (status == GK_OK) {
            status = path ? gk_json_load(path, EVIDENCE_MAX, &evidence, err)
                          : gk_fail(err, GK_NOMEM, "out of memory");
        }
        if (status == GK_OK) {
            status = take_rows(evidence, path, list, err);
        }
        gk_json_free(evidence);
        free(path);
        free(entries[i]);
    }
    free(entries);
    if (status != GK_OK) {
        gk_json_free(list);
        return status;
    }
    *list_out = list;
    return GK_OK;
}
