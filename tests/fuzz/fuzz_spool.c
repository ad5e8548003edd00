/* A spool that somebody or something has damaged: a results file and the id. What is damaged is
 * removed and counted, never given out; what is whole is given out as it is. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/fuzz/fuzz_folder.h"
#include "worker/code_cache.h"
#include "worker/spool.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void each(void *context, int64_t token, int64_t pass, const struct gk_json *body)
{
    GK_ASSERT(token == 7 && pass == 0 && body);
    (*(int *)context)++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char folder[256], path[300];
    struct gk_spool *spool = NULL;
    struct gk_err err = {0};
    uint32_t damaged = 0;
    int given = 0;
    (void)snprintf(folder, sizeof folder, "%s/spool", fuzz_folder());
    (void)snprintf(path, sizeof path, "%s/results/", folder);
    GK_ASSERT(gk_make_folders(path, &err) == GK_OK);
    (void)fuzz_write("spool/results/7-0.json", data, size);
    (void)fuzz_write("spool/results/7-x.json", data, size); /* no name of ours: left alone */
    (void)fuzz_write("spool/spool_id", data, size < 32 ? size : 32);
    GK_ASSERT(gk_spool_open(folder, &spool, &err) == GK_OK);
    GK_ASSERT(strlen(gk_spool_id(spool)) == 32);
    GK_ASSERT(gk_spool_each(spool, each, &given, &damaged, &err) == GK_OK);
    GK_ASSERT(given + (int)damaged == 1);
    (void)snprintf(path, sizeof path, "%s/results/7-0.json", folder);
    GK_ASSERT((access(path, F_OK) == 0) == (given == 1));
    gk_spool_close(spool);
    return 0;
}
