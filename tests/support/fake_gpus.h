/*
 * Which GPUs the doubles of the driver and of NVML have, so that they agree. FAKE_CUDA_DEVICES: how
 * many. FAKE_CUDA_MIG: the first of them is in parts, named by their profiles: "1g.18gb,3g.71gb".
 *
 * As the driver does, fake_gpus_visible() keeps to CUDA_VISIBLE_DEVICES (numbers, UUIDs, beginnings
 * of UUIDs), and where a part is among what is left it shows one part and nothing else.
 */
#ifndef GK_TESTS_SUPPORT_FAKE_GPUS_H
#define GK_TESTS_SUPPORT_FAKE_GPUS_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAKE_GPUS_MAX 16

struct fake_gpu {
    unsigned gpu; /* of the whole GPUs */
    int part;     /* -1: it is whole */
    char profile[16];
    unsigned char last; /* byte of its UUID */
};

/* "GPU-00112233-4455-6677-8899-aabbccddeeXX" */
static inline void fake_gpu_uuid(const struct fake_gpu *gpu, char text_out[48])
{
    (void)snprintf(text_out, 48, "%s-00112233-4455-6677-8899-aabbccddee%02x",
                   gpu->part >= 0 ? "MIG" : "GPU", gpu->last);
}

static inline unsigned fake_gpus_all(struct fake_gpu gpus[FAKE_GPUS_MAX])
{
    const char *devices = getenv("FAKE_CUDA_DEVICES"), *mig = getenv("FAKE_CUDA_MIG");
    unsigned count = 0, whole = devices ? (unsigned)strtoul(devices, NULL, 10) : 1;
    for (const char *at = mig; at && *at && count < FAKE_GPUS_MAX;) {
        size_t size = strcspn(at, ",");
        struct fake_gpu *gpu = &gpus[count];
        *gpu = (struct fake_gpu){.part = (int)count, .last = (unsigned char)(16 + count)};
        (void)snprintf(gpu->profile, sizeof gpu->profile, "%.*s", (int)size, at);
        count++;
        at += size + (at[size] == ',');
    }
    for (unsigned i = mig ? 1 : 0; i < whole && count < FAKE_GPUS_MAX; i++) {
        gpus[count++] = (struct fake_gpu){.gpu = i, .part = -1, .last = (unsigned char)i};
    }
    return count;
}

static inline bool fake_gpu_meant(const struct fake_gpu *gpu, const char *word, size_t size)
{
    char uuid[48], text[48] = "", *end = NULL;
    fake_gpu_uuid(gpu, uuid);
    if (size == 0 || size >= sizeof text) {
        return false;
    }
    memcpy(text, word, size);
    unsigned long number = strtoul(text, &end, 10);
    return end != text ? *end == '\0' && number == gpu->gpu && gpu->part <= 0
                       : strncmp(uuid, text, size) == 0;
}

static inline unsigned fake_gpus_visible(struct fake_gpu gpus[FAKE_GPUS_MAX])
{
    struct fake_gpu all[FAKE_GPUS_MAX];
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    unsigned every = fake_gpus_all(all), count = 0;
    for (unsigned i = 0; i < every && !visible; i++) {
        gpus[count++] = all[i];
    }
    for (const char *at = visible; at && *at && count < FAKE_GPUS_MAX;) {
        size_t size = strcspn(at, ",");
        unsigned found = 0;
        while (found < every && !fake_gpu_meant(&all[found], at, size)) {
            found++;
        }
        if (found == every) {
            break; /* the driver takes what stands before the first that it does not know */
        }
        gpus[count++] = all[found];
        at += size + (at[size] == ',');
    }
    for (unsigned i = 0; i < count; i++) {
        if (gpus[i].part >= 0) {
            gpus[0] = gpus[i];
            return 1;
        }
    }
    return count;
}

#endif
