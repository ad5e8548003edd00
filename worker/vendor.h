/*
 * The vendor's library doing what an op does: one row of a final round, never a pick.
 *
 * op.json's "vendor" says which tensors and scalars make the call (docs/formats.md). The library's
 * heuristic offers several algorithms; each is one choice, timed like a config of ours: same
 * tensors, same workspace limit, same recording. Nothing here knows a header of CUDA: the one
 * implementation is worker/cuda/vendor_cublaslt.c. One thread, that of the device.
 */
#ifndef GK_WORKER_VENDOR_H
#define GK_WORKER_VENDOR_H

#include "kernels/render.h"
#include "worker/device.h"

#define GK_VENDOR_CHOICES_MAX 24  /* what the heuristic is asked for */
#define GK_VENDOR_TEXT_MAX    256 /* of gk_vendor_describe: eight short members */

struct gk_vendor;

/* Opens the library and asks its heuristic for this problem. `plan` is any plan of the op for the
 * problem, the reference's too; it is read now and not kept. workspace_bytes_max: no choice that
 * needs more is offered. The device must outlive the vendor.
 *
 * places: where the library may be. NULL: the loader's path and the usual folders. Otherwise files
 * and folders, separated by ':', tried before those in this order; one that stands alone (no ':')
 * is all that is tried. A folder may be the one that holds the library, a toolkit
 * ($CUDA_HOME: lib64 or lib below it), a virtual environment ($VIRTUAL_ENV) or ~/.local (wheels
 * below lib/python3), or a folder of Python packages (nvidia below it). Empty parts are skipped.
 *
 * GK_UNSUPPORTED names why there is no vendor here: the op has none, its condition does not hold,
 * the device is no CUDA device, the library is missing (every place that was tried) or too old, or
 * has no algorithm for the problem. GK_INPUT: op.json's "vendor" contradicts its tensors. */
enum gk_status gk_vendor_open(struct gk_device *device, const char *places,
                              const struct gk_plan *plan, uint64_t workspace_bytes_max,
                              struct gk_vendor **vendor_out, struct gk_err *err);
/* NULL is fine. The library stays mapped: it has threads of its own. */
void gk_vendor_close(struct gk_vendor *vendor);

/* "cublaslt 13.0.2", and the library's resolved path ("" if it cannot be told). */
const char *gk_vendor_version(const struct gk_vendor *vendor);
const char *gk_vendor_path(const struct gk_vendor *vendor);

/* Choices that came with success, in the library's order: the first is what its heuristic would
 * run. At least 1. */
uint32_t gk_vendor_count(const struct gk_vendor *vendor);
/* "algo 66, tile 128x256 (23), stages 36, split-k 1, reduction 0, cluster 5, workspace 0 B": the
 * same text for the same algorithm on every run. */
void gk_vendor_describe(const struct gk_vendor *vendor, uint32_t choice,
                        char text_out[GK_VENDOR_TEXT_MAX]);
/* Bytes that the choice needs, at most what was allowed at opening. */
uint64_t gk_vendor_workspace(const struct gk_vendor *vendor, uint32_t choice);

/* One call of the library on the device's stream, with the addresses of the tensors' first elements
 * (as a kernel's arguments carry them; those of absent tensors are not read) and a workspace of
 * at least gk_vendor_workspace() bytes, aligned to 256. While a recording is open the call is
 * recorded; otherwise it runs to its end. Run a choice once before it is recorded: the library
 * loads its code with the first call. GK_TRIAL: it ran and failed, the device may be lost.
 * GK_UNSUPPORTED: the library refused the call. GK_INPUT: a workspace that is too small or
 * misaligned, or a tensor's address that is less aligned than its op promised. */
enum gk_status gk_vendor_enqueue(struct gk_vendor *vendor, uint32_t choice,
                                 const uint64_t tensor_addresses[GK_TENSORS_MAX],
                                 uint64_t workspace_address, uint64_t workspace_bytes,
                                 struct gk_err *err);

#endif
