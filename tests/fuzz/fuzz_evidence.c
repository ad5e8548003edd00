/* An earlier export read back by --from: rows of strangers are rows or an error. */
#include <stdio.h>
#include <string.h>

#include "cli/incumbents.h"
#include "tests/fuzz/fuzz_folder.h"
#include "worker/code_cache.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gk_json *list = NULL;
    struct gk_err err = {0};
    (void)fuzz_write("gk_gemm_sm_80.evidence.json", data, size);
    if (gk_incumbents_load(fuzz_folder(), &list, &err) != GK_OK) {
        GK_ASSERT(err.text[0]);
        return 0;
    }
    for (size_t i = 0; i < gk_json_count(list); i++) {
        static const char *const members[] = {"problem", "arch", "template", "config"};
        for (size_t k = 0; k < 4; k++) {
            GK_ASSERT(gk_json_is(gk_json_get(gk_json_at(list, i), members[k]), GK_JSON_STRING));
        }
    }
    gk_json_free(list);
    return 0;
}
