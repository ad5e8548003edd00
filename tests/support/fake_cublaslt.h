/*
 * A cuBLASLt for machines without a GPU: what tests see of it. The library itself is
 * tests/support/fake_cublaslt.c, built as libcublasLt.so and opened as the real one is.
 *
 * It is strict: an attribute of the wrong size, a leading dimension that is too small, extents that
 * do not fit together, an address that is less aligned than was promised are refused. Products are
 * computed on the host, in its own terms (columns), so that a caller that confuses rows, columns or
 * strides gets wrong numbers.
 */
#ifndef GK_TESTS_SUPPORT_FAKE_CUBLASLT_H
#define GK_TESTS_SUPPORT_FAKE_CUBLASLT_H

#include <cublasLt.h>

#define FAKE_OFFERS_MAX 32

struct fake_layout {
    cudaDataType type;
    uint64_t rows, cols;
    int64_t ld;
    int32_t batch;
    int64_t batch_stride;
};

struct fake_desc {
    cublasComputeType_t compute;
    cudaDataType_t scale;
    cublasOperation_t transa, transb;
    uint32_t epilogue; /* 0: never set */
    const void *bias;
    int32_t bias_type; /* -1: never set */
    int8_t fast_accum;
};

struct fake_preference {
    uint64_t workspace_max;
    uint32_t align_a, align_b, align_c, align_d; /* 256 unless set */
};

enum fake_function {
    FAKE_NONE,
    FAKE_CREATE,
    FAKE_DESC_CREATE,
    FAKE_DESC_SET,
    FAKE_LAYOUT_CREATE,
    FAKE_LAYOUT_SET,
    FAKE_PREFERENCE_CREATE,
    FAKE_PREFERENCE_SET,
    FAKE_HEURISTIC,
    FAKE_MATMUL,
    FAKE_FUNCTIONS
};

struct fake_cublaslt {
    /* set by the test */
    enum fake_function fail_in; /* this function, at its fail_at-th call from now (0: the next) */
    int fail_at;
    cublasStatus_t fail_with;
    int offer_count; /* what the heuristic returns; its results below */
    struct {
        cublasStatus_t state;
        size_t workspace;
    } offers[FAKE_OFFERS_MAX];
    /* set by the library */
    int alive;    /* handles, descriptors, layouts and preferences that were not destroyed */
    void *handle; /* the one made last */
    int matmuls, asked_count;
    struct fake_desc desc; /* as the heuristic, then the product saw it */
    struct fake_layout a, b, c, d;
    struct fake_preference preference;
    uint64_t algo; /* number of the offer that the product ran */
    const void *c_address, *d_address, *workspace, *bias_asked;
    size_t workspace_bytes;
    void *stream;
    float alpha, beta;
};

/* The library's one state; found with dlsym. */
struct fake_cublaslt *fake_cublaslt(void);
#define FAKE_CUBLASLT_SYMBOL "fake_cublaslt"

#endif
