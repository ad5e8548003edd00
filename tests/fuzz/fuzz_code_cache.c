/* Entries of the code cache: a damaged one is refused and removed, a whole one is written back. The
 * checksum hides the rest from random bytes, so each input is also tried as the content of one. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/fuzz/fuzz_folder.h"
#include "worker/code_cache.h"
#include "worker/compiler.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gk_compile_output output = {0};
    struct gk_err err = {0};
    char path[300];
    (void)snprintf(path, sizeof path, "%s", fuzz_write("entry", data, size));
    enum gk_status status = gk_code_read(path, &output, &err);
    GK_ASSERT(status == GK_OK || status == GK_CORRUPT || status == GK_LIMIT);
    GK_ASSERT(status != GK_CORRUPT || access(path, F_OK) != 0);
    if (status == GK_OK) {
        gk_compile_output_fini(&output);
    }
    /* One that is whole, then a bit of it. */
    char ptx[] = "ptx", log[] = "";
    unsigned char cubin[8] = {0};
    memcpy(cubin, data, size < sizeof cubin ? size : sizeof cubin);
    struct gk_compile_output whole = {.compiled = true,
                                      .ptx = ptx,
                                      .ptx_size = 3,
                                      .cubin = cubin,
                                      .cubin_size = sizeof cubin,
                                      .log = log};
    GK_ASSERT(gk_code_write(path, &whole, &err) == GK_OK);
    FILE *file = fopen(path, "r+b");
    GK_ASSERT(file && fseek(file, 0, SEEK_END) == 0);
    long bytes = ftell(file);
    size_t at = size > 1 ? (size_t)(data[0] | data[1] << 8) % (size_t)bytes : 0;
    GK_ASSERT(fseek(file, (long)at, SEEK_SET) == 0);
    int byte = fgetc(file);
    GK_ASSERT(fseek(file, (long)at, SEEK_SET) == 0 && fputc(byte ^ 1, file) != EOF);
    GK_ASSERT(fclose(file) == 0);
    GK_ASSERT(gk_code_read(path, &output, &err) == GK_CORRUPT && access(path, F_OK) != 0);
    return 0;
}
