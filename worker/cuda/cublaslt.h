/*
 * cuBLASLt, opened at run time: where it may be, and a table of its functions.
 *
 * Needs cublasLt.h: files of this folder alone include it. Each entry has the type that the header
 * declares, so that a function and its pointer cannot part. All of them exist since CUDA 11.
 */
#ifndef GK_WORKER_CUDA_CUBLASLT_H
#define GK_WORKER_CUDA_CUBLASLT_H

#include <cublasLt.h>

#include "core/status.h"

#define GK_CUBLASLT_FUNCTIONS(X)                                                                   \
    X(version, cublasLtGetVersion)                                                                 \
    X(status_text, cublasLtGetStatusString)                                                        \
    X(create, cublasLtCreate)                                                                      \
    X(destroy, cublasLtDestroy)                                                                    \
    X(matmul, cublasLtMatmul)                                                                      \
    X(heuristic, cublasLtMatmulAlgoGetHeuristic)                                                   \
    X(algo_get, cublasLtMatmulAlgoConfigGetAttribute)                                              \
    X(desc_create, cublasLtMatmulDescCreate)                                                       \
    X(desc_destroy, cublasLtMatmulDescDestroy)                                                     \
    X(desc_set, cublasLtMatmulDescSetAttribute)                                                    \
    X(layout_create, cublasLtMatrixLayoutCreate)                                                   \
    X(layout_destroy, cublasLtMatrixLayoutDestroy)                                                 \
    X(layout_set, cublasLtMatrixLayoutSetAttribute)                                                \
    X(preference_create, cublasLtMatmulPreferenceCreate)                                           \
    X(preference_destroy, cublasLtMatmulPreferenceDestroy)                                         \
    X(preference_set, cublasLtMatmulPreferenceSetAttribute)

struct gk_cublaslt {
    void *library;
    char text[32];   /* "cublaslt 13.0.2" */
    char path[4096]; /* resolved; "" if it cannot be told */
#define GK_CUBLASLT_MEMBER(member, symbol) __typeof__(symbol) *member;
    GK_CUBLASLT_FUNCTIONS(GK_CUBLASLT_MEMBER)
#undef GK_CUBLASLT_MEMBER
};

/* places as of gk_vendor_open (worker/vendor.h). GK_UNSUPPORTED lists what was tried, or names the
 * function that the library lacks. The library stays mapped until the process ends: it starts
 * threads of its own and has no way to end them. */
enum gk_status gk_cublaslt_open(const char *places, struct gk_cublaslt *library_out,
                                struct gk_err *err);

#endif
