/*
 * A double of the CUDA driver: a shared library with the driver's functions whose memory is the
 * host's and whose streams run at once.
 *
 * Its modules are texts: "fake NAME(bytes,bytes) NAME(bytes) ..", a kernel with the sizes of its
 * parameters each. What a kernel does is told by its name: add1(p, n) adds one to n bytes at p;
 * touch(p) reads a byte there (a real fault if it is not mapped); oob, misaligned, trap, assert,
 * illegal, ecc end with that error; hang never ends; greedy is refused for its resources.
 *
 * The test opens the same file and finds `fake_cuda` in it. Worker processes read
 * FAKE_CUDA_DEVICES and FAKE_CUDA_MIG (fake_gpus.h), and FAKE_CUDA_BROKEN: a file with the digits
 * of devices that do not open now; where it is set, cubins load, and their kernels do nothing.
 */
#ifndef GK_TESTS_SUPPORT_FAKE_CUDA_H
#define GK_TESTS_SUPPORT_FAKE_CUDA_H

#include <stdbool.h>
#include <stdint.h>

#define FAKE_ATTRIBUTES_MAX 8
#define FAKE_LAUNCHES_MAX   64

struct fake_launch { /* as the driver was given it */
    char kernel[32];
    uint32_t grid[3], block[3], cluster[3], smem_bytes, attribute_count;
    bool cooperative, pdl, recorded;
    uint64_t window_bytes;
    int window_hit, window_miss;
};

struct fake_cuda {
    /* set by tests, before the device is opened */
    int device_count; /* 0: cuInit fails with NO_DEVICE */
    const char *name; /* of every device */
    int major, sms;
    uint64_t mem_bytes;
    uint64_t alloc_limit; /* bytes in one allocation; more is out of memory */
    int fail_in;          /* the n-th call from now fails with fail_with; 0: none */
    int fail_with;
    /* looked at by tests */
    uint64_t calls;
    int contexts, streams, events, modules, allocations, pinned, reserved, pieces, execs, graphs;
    struct fake_launch launches[FAKE_LAUNCHES_MAX];
    uint32_t launch_count;
    uint32_t copies, sets;       /* memcpy and memset calls */
    int function_attributes[16]; /* set last, by CUfunction_attribute */
    int maps_encoded;
    uint64_t l2_share;
    uint32_t l2_resets;
};

/* Both are found by dlsym in the library that the device opens. Reset as before the first test. */
extern struct fake_cuda fake_cuda;
void fake_cuda_reset(void);

#endif
