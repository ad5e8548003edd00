/*
 * The inspector: kernels of our own that make inputs, compare outputs and look at guards where the
 * memory is, on the device.
 *
 * The host can do all of it (generate.h, verify.h) and stays the judge of what failed: the
 * inspector says yes, or leaves the question to gk_verify(). What it accepts gk_verify() accepts,
 * always: both take the rule from one text (accept_rule.h), and the element that came nearest to
 * its bound is judged again on the host in every check, so that a device whose arithmetic differs
 * is met as an error and not as a verdict.
 *
 * Works through the operations of worker/device.h alone, so the emulated device runs the same PTX
 * as a GPU. There it is an interpreter's work (some hundred instructions an element): right for
 * tests and small problems. Not to be used while a recording is open or memory is hidden. One
 * thread, the device's. An inspector holds device memory of its own: 256 KiB of quantiles once a
 * normal input was made, 56 bytes a segment of the longest list, and a byte for each element of the
 * largest output with padding. None of it lies inside a buffer that a kernel under trial was given.
 */
#ifndef GK_WORKER_INSPECT_H
#define GK_WORKER_INSPECT_H

#include "worker/compiler.h"
#include "worker/device.h"
#include "worker/generate.h"
#include "worker/verify.h"

#define GK_SEGMENTS_MAX 65536

struct gk_inspector;

/* Compiles the kernels for device->props.target, or takes them from cache_folder (NULL: none; a
 * code cache, made if it is missing), and loads them. A cache that cannot be written is no error:
 * the next process compiles again. `places` is borrowed for the call, `device` until destroy.
 * Errors: those of gk_compiler_open() and of the device; GK_INTERNAL if our own source does not
 * compile. */
enum gk_status gk_inspector_create(struct gk_device *device,
                                   const struct gk_compiler_places *places,
                                   const char *cache_folder, struct gk_inspector **inspector_out,
                                   struct gk_err *err);
/* Before the device is closed. NULL is allowed; so is a lost device. */
void gk_inspector_destroy(struct gk_inspector *inspector);
/* Whether the kernels came from the cache. */
bool gk_inspector_cached(const struct gk_inspector *inspector);

/* Writes the whole buffer of an input at `address` (span elements): the very bits of gk_generate(),
 * padding included. GK_UNSUPPORTED: the generator counts along its elements (offsets, series,
 * page_table); nothing was written, gk_generate() and write() do it. Else errors of gk_generate()
 * and of the device. */
enum gk_status gk_inspector_generate(struct gk_inspector *inspector, const struct gk_plan *plan,
                                     uint32_t tensor, uint64_t seed, enum gk_input_kind inputs,
                                     uint64_t address, struct gk_err *err);

/* A range of device memory and what it holds: the bytes at same_as, or a pattern repeated from the
 * range's start. Any alignment; fastest where address and same_as are equal modulo 16. */
struct gk_segment {
    uint64_t address, bytes;
    uint64_t same_as; /* device address; 0: the pattern */
    unsigned char pattern[8];
    uint32_t pattern_bytes; /* 1, 2, 4 or 8; not looked at with same_as */
};

struct gk_audit {
    uint64_t changed; /* bytes that differ */
    uint64_t first;   /* offset of the first of them; UINT64_MAX: none */
};

/* Compares every segment with what it ought to hold, all in one launch. results_out has `count`
 * entries. GK_INPUT names a segment with another pattern_bytes; GK_LIMIT: more than
 * GK_SEGMENTS_MAX. Bytes that nobody wrote (emulated device) are compared by the value they have.
 */
enum gk_status gk_inspector_audit(struct gk_inspector *inspector, const struct gk_segment *segments,
                                  uint32_t count, struct gk_audit *results_out, struct gk_err *err);
/* Makes every segment hold it, all in one launch. Segments do not overlap, nor does a same_as
 * overlap a segment. Errors as of audit. The painted bytes count as written: the caller forgets
 * them where that matters. */
enum gk_status gk_inspector_paint(struct gk_inspector *inspector, const struct gk_segment *segments,
                                  uint32_t count, struct gk_err *err);

/* What gk_verify() finds, without its words. */
struct gk_verdict_sum {
    /* All but its name. passed: gk_verify() passes too. Not passed: ask gk_verify(), which says
     * why, or that it passes after all where the norm lies within rounding of its bound. The norm
     * is summed in another order than on the host (the same on all devices), so its last digits
     * differ. */
    struct gk_rung rung;
    int64_t nonfinite, poisoned, too_large; /* as gk_verify() counts them */
    int64_t padding_changed;                /* elements */
};

/* gk_verify() of the buffer at got_address (span elements) with input->compare pairs of doubles at
 * pairs_address (16-byte aligned). input->got and input->pairs are not looked at. The padding
 * between rows is looked at here, where span > elements; guards around the buffer are the caller's
 * to audit. GK_INTERNAL: the device's arithmetic is not the host's. */
enum gk_status gk_inspector_check(struct gk_inspector *inspector,
                                  const struct gk_verify_input *input, uint64_t got_address,
                                  uint64_t pairs_address, struct gk_verdict_sum *sum_out,
                                  struct gk_err *err);

#endif
