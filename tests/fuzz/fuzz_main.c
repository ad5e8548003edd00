/*
 * Replays files through a fuzz target: PROGRAM FILE|FOLDER...
 *
 * The targets are written for libFuzzer (LLVMFuzzerTestOneInput); without it this main makes each
 * of them a program that any compiler builds, so that the corpus is a test. --mutate N also runs N
 * seeded mutations of every file: a fuzzer for machines that have none.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/json.h"
#include "core/prng.h"

#define INPUT_MAX (1u << 20) /* bytes of one input */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct replay {
    uint64_t mutations; /* of each file */
    uint64_t files;
};

/* A copy without a spare byte: the sanitizer sees every read past the end. */
static void run_one(const uint8_t *data, size_t size)
{
    uint8_t *exact = malloc(size ? size : 1);
    if (!exact) {
        fprintf(stderr, "out of memory for %zu bytes\n", size);
        exit(1);
    }
    if (size) {
        memcpy(exact, data, size);
    }
    (void)LLVMFuzzerTestOneInput(exact, size); /* 0 by contract */
    free(exact);
}

/* One to eight of: flip a bit, change, insert, remove a byte, repeat or cut a piece. */
static size_t mutate(struct gk_prng *prng, uint8_t *data, size_t size)
{
    static const char spice[] = "{}[]\",:'()?+-*/%<>=!&|.0123456789eE\\\n \xC3\xFF";
    for (uint64_t steps = 1 + gk_prng_below(prng, 8); steps > 0; steps--) {
        size_t at = size ? (size_t)gk_prng_below(prng, size) : 0;
        size_t piece = size ? (size_t)gk_prng_below(prng, size - at < 16 ? size - at : 16) : 0;
        switch (gk_prng_below(prng, 5)) {
        case 0:
            if (size) {
                data[at] = (uint8_t)(data[at] ^ (1u << gk_prng_below(prng, 8)));
            }
            break;
        case 1:
            if (size) {
                data[at] = (uint8_t)spice[gk_prng_below(prng, sizeof spice - 1)];
            }
            break;
        case 2:
            memmove(data + at + 1, data + at, size - at);
            data[at] = (uint8_t)spice[gk_prng_below(prng, sizeof spice - 1)];
            size++;
            break;
        case 3:
            memmove(data + at, data + at + piece, size - at - piece);
            size -= piece;
            break;
        default:
            memmove(data + at + piece, data + at, size - at); /* the piece stands there twice */
            size += piece;
            break;
        }
    }
    return size;
}

static int replay_file(struct replay *replay, const char *path)
{
    struct gk_err err;
    char *text = NULL;
    size_t size = 0;
    if (gk_file_load(path, INPUT_MAX, &text, &size, &err) != GK_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    run_one((const uint8_t *)text, size);
    replay->files++;
    uint8_t *work = malloc(size + 8 * 16); /* eight steps of at most 16 bytes more */
    struct gk_prng prng;
    gk_prng_init(&prng, replay->files, 0);
    for (uint64_t i = 0; work && i < replay->mutations; i++) {
        if (size) {
            memcpy(work, text, size);
        }
        run_one(work, mutate(&prng, work, size));
    }
    free(work);
    free(text);
    return 0;
}

static int replay_path(struct replay *replay, const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return 1;
    }
    if (!S_ISDIR(info.st_mode)) {
        return replay_file(replay, path);
    }
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, NULL, alphasort), bad = count < 0;
    for (int i = 0; i < count; i++) {
        char *inner = gk_asprintf("%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.') {
            bad |= inner ? replay_file(replay, inner) : 1;
        }
        free(inner);
        free(entries[i]);
    }
    free(entries);
    return bad;
}

int main(int argc, char **argv)
{
    struct replay replay = {0};
    int bad = 0, first = 1;
    if (argc > 2 && strcmp(argv[1], "--mutate") == 0) {
        replay.mutations = strtoull(argv[2], NULL, 10);
        first = 3;
    }
    if (first >= argc) {
        fprintf(stderr, "usage: %s [--mutate N] FILE|FOLDER...\n", argv[0]);
        return 2;
    }
    for (int i = first; i < argc; i++) {
        bad |= replay_path(&replay, argv[i]);
    }
    if (replay.files == 0) {
        fprintf(stderr, "no input was found\n");
        return 1;
    }
    printf("%" PRIu64 " files, %" PRIu64 " mutations each\n", replay.files, replay.mutations);
    return bad;
}
