/* The name that times of a GPU are kept under: see device_cuda.h. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/cuda/device_cuda.h"

/* Memory as the driver counts it (GiB, a little under what is on the box), and the power limit in
 * watts. A100 is left out: it comes with 40 and 80 GB under one name. */
struct product {
    const char *words;
    double mem_gib;
    int64_t power_w;
};

static const struct product products[] = {
    {"h200", 140, 700},      {"h200-nvl", 140, 600}, {"h100", 79.5, 700}, {"h100-pcie", 79.5, 350},
    {"h100-nvl", 93.5, 400}, {"b200", 179, 1000},    {"l40s", 44.7, 350}, {"l4", 22.3, 72},
    {"a10", 22.3, 150},      {"a30", 23.8, 165},     {"t4", 14.8, 70},
};

#define MEM_TOLERANCE 0.04 /* ECC, firmware and drivers keep different shares */

static const struct product *find_product(const char *words)
{
    for (size_t i = 0; i < GK_ARRAY_COUNT(products); i++) {
        if (strcmp(products[i].words, words) == 0) {
            return &products[i];
        }
    }
    return NULL;
}

/* Words that say nothing, or what is said elsewhere: the maker, kinds of memory, its size. */
static bool is_dropped(const char *word)
{
    static const char *const dropped[] = {"nvidia", "tesla", "geforce", "generation", "gpu"};
    for (size_t i = 0; i < GK_ARRAY_COUNT(dropped); i++) {
        if (strcmp(word, dropped[i]) == 0) {
            return true;
        }
    }
    size_t digits = strspn(word, "0123456789");
    return strncmp(word, "hbm", 3) == 0 || (digits > 0 && strcmp(word + digits, "gb") == 0);
}

/* Letters and digits of the next word, small; an empty one at the end. */
static const char *next_word(const char *at, char word[32])
{
    size_t size = 0;
    while (*at && !isalnum((unsigned char)*at)) {
        at++;
    }
    for (; isalnum((unsigned char)*at) || (*at == '.' && size > 0); at++) {
        if (*at != '.' && size < 31) {
            word[size++] = (char)tolower((unsigned char)*at);
        }
    }
    word[size] = '\0';
    return at;
}

void gk_cuda_gpu_key(const char *name, int64_t sms, int64_t mem_bytes, int64_t limit_mw,
                     int64_t default_mw, char key_out[64])
{
    char words[40] = "", profile[32] = "", word[32], extra[48] = "";
    size_t size = 0;
    for (const char *at = next_word(name, word); *word; at = next_word(at, word)) {
        if (strcmp(word, "mig") == 0) {
            (void)next_word(at, profile);
            break;
        }
        if (!is_dropped(word) && size + strlen(word) + 2 < sizeof words) {
            size +=
                (size_t)snprintf(words + size, sizeof words - size, "%s%s", size ? "-" : "", word);
        }
    }
    const struct product *product = find_product(words);
    double gib = (double)mem_bytes / (1 << 30);
    double off = product ? gib / product->mem_gib - 1 : 1;
    size = 0;
    if (!*profile && (off > MEM_TOLERANCE || off < -MEM_TOLERANCE)) {
        size += (size_t)snprintf(extra, sizeof extra, "-%.0fgb", gib);
    }
    int64_t usual_w = default_mw > 0 ? (default_mw + 500) / 1000 : product ? product->power_w : -1;
    int64_t limit_w = limit_mw > 0 ? (limit_mw + 500) / 1000 : usual_w;
    if (limit_w != usual_w) {
        size +=
            (size_t)snprintf(extra + size, sizeof extra - size, "-%" PRId64 "w", limit_w % 100000);
    }
    if (*profile) {
        (void)snprintf(extra + size, sizeof extra - size, "-mig-%.12s", profile);
    }
    (void)snprintf(key_out, 64, "%.24s-%" PRId64 "sm%.28s", *words ? words : "gpu", sms % 10000,
                   extra);
}
