/* See fuzz_folder.h. */
#include "tests/fuzz/fuzz_folder.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/status.h"

static char folder[64];

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *place)
{
    (void)info;
    (void)kind;
    (void)place;
    return remove(path);
}

static void remove_all(void)
{
    (void)nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS); /* what stays is in /tmp */
}

const char *fuzz_folder(void)
{
    if (!folder[0]) {
        (void)snprintf(folder, sizeof folder, "/tmp/gk-fuzz-XXXXXX");
        GK_ASSERT(mkdtemp(folder) && atexit(remove_all) == 0);
    }
    return folder;
}

const char *fuzz_write(const char *name, const uint8_t *data, size_t size)
{
    static char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    GK_ASSERT(fd >= 0 && write(fd, data, size) == (ssize_t)size && close(fd) == 0);
    return path;
}
