/*
 * Bytes to, from and within the CUDA device, in its stream.
 *
 * Everything that crosses the bus goes through two pinned buffers in turn: the copy of one runs
 * while the other is filled or emptied. Copying from pageable memory was rejected: the driver then
 * waits by itself, without an end.
 */
#include <inttypes.h>
#include <string.h>

#include "worker/cuda/cuda_inside.h"

static enum gk_status check(struct cuda_device *device, uint64_t address, uint64_t size,
                            const char *what, struct gk_err *err)
{
    enum gk_status status = cuda_ready(device, what, err);
    if (status == GK_OK && device->record != CUDA_RECORD_NONE) {
        status = gk_fail(err, GK_USAGE, "%s: a recording is open", what);
    }
    return status == GK_OK ? cuda_range(device, address, size, what, err) : status;
}

static size_t piece_of(uint64_t size, uint64_t done)
{
    return size - done < CUDA_STAGE_BYTES ? (size_t)(size - done) : CUDA_STAGE_BYTES;
}

static enum gk_status wait_stage(struct cuda_device *device, uint32_t stage, const char *what,
                                 struct gk_err *err)
{
    CUresult result = cuda_wait(device, device->stages[stage].done, CUDA_SETTLE_MS);
    return result == CUDA_SUCCESS ? GK_OK
                                  : cuda_result(device, result, "cuEventQuery", err, "%s", what);
}

/* Starts the copy of one piece; the stage's event tells when it has ended. */
static enum gk_status start_piece(struct cuda_device *device, uint32_t stage, uint64_t address,
                                  size_t size, bool in, struct gk_err *err)
{
    const struct gk_cuda_driver *driver = device->driver;
    void *host = device->stages[stage].host;
    CUresult result = in ? driver->copy_in(address, host, size, device->stream)
                         : driver->copy_out(host, address, size, device->stream);
    if (result == CUDA_SUCCESS) {
        result = driver->event_record(device->stages[stage].done, device->stream);
    }
    return result == CUDA_SUCCESS
               ? GK_OK
               : cuda_result(device, result, in ? "cuMemcpyHtoD" : "cuMemcpyDtoH", err,
                             "%s of %zu bytes at 0x%" PRIx64, in ? "write" : "read", size, address);
}

enum gk_status cuda_write(struct gk_device *base, uint64_t address, const void *bytes,
                          uint64_t size, struct gk_err *err)
{
    struct cuda_device *device = cuda_of(base);
    enum gk_status status = check(device, address, size, "write", err);
    uint32_t count = 0;
    for (uint64_t done = 0; done < size && status == GK_OK; count++) {
        uint32_t stage = count % 2;
        size_t piece = piece_of(size, done);
        if (count >= 2) {
            status = wait_stage(device, stage, "write", err);
        }
        if (status == GK_OK) {
            memcpy(device->stages[stage].host, (const unsigned char *)bytes + done, piece);
            status = start_piece(device, stage, address + done, piece, true, err);
        }
        done += piece;
    }
    /* The one started last ends last. */
    return status == GK_OK && count > 0 ? wait_stage(device, (count - 1) % 2, "write", err)
                                        : status;
}

enum gk_status cuda_read(struct gk_device *base, uint64_t address, void *bytes, uint64_t size,
                         struct gk_err *err)
{
    struct cuda_device *device = cuda_of(base);
    enum gk_status status = check(device, address, size, "read", err);
    uint64_t started = 0;
    if (status == GK_OK && size > 0) {
        started = piece_of(size, 0);
        status = start_piece(device, 0, address, (size_t)started, false, err);
    }
    uint32_t stage = 0;
    for (uint64_t done = 0; done < size && status == GK_OK; stage ^= 1) {
        size_t piece = piece_of(size, done);
        if (started < size) {
            size_t next = piece_of(size, started);
            status = start_piece(device, stage ^ 1, address + started, next, false, err);
            started += next;
        }
        if (status == GK_OK) {
            status = wait_stage(device, stage, "read", err);
        }
        if (status == GK_OK) {
            memcpy((unsigned char *)bytes + done, device->stages[stage].host, piece);
        }
        done += piece;
    }
    return status;
}

/* Waits for what was put into the stream, unless it is being recorded. */
static enum gk_status settle(struct cuda_device *device, CUresult result, const char *function,
                             const char *what, struct gk_err *err)
{
    if (result == CUDA_SUCCESS && device->record == CUDA_RECORD_NONE) {
        function = "cuEventQuery";
        result = cuda_settle(device);
    }
    return result == CUDA_SUCCESS ? GK_OK : cuda_result(device, result, function, err, "%s", what);
}

enum gk_status cuda_copy(struct gk_device *base, uint64_t to, uint64_t from, uint64_t size,
                         struct gk_err *err)
{
    struct cuda_device *device = cuda_of(base);
    enum gk_status status = check(device, from, size, "copy", err);
    status = status == GK_OK ? cuda_range(device, to, size, "copy", err) : status;
    if (status != GK_OK || size == 0) {
        return status;
    }
    return settle(device, device->driver->copy_within(to, from, (size_t)size, device->stream),
                  "cuMemcpyDtoD", "copy", err);
}

/* ------------------------------------------------------------------ filling */

#define SEED_BYTES                                                                                 \
    UINT64_C(65536) /* enough rows to be quick, few enough to be one small launch                  \
                     */

/* Copies what is filled behind itself until all is: the period of the pattern divides what is
 * copied. Only the seeds below know how the pattern looks. */
static CUresult spread(struct cuda_device *device, uint64_t address, uint64_t done, uint64_t size)
{
    CUresult result = CUDA_SUCCESS;
    while (done < size && result == CUDA_SUCCESS) {
        uint64_t piece = done < size - done ? done : size - done;
        result =
            device->driver->copy_within(address + done, address, (size_t)piece, device->stream);
        done += piece;
    }
    return result;
}

static CUresult fill_bytes(struct cuda_device *device, uint64_t address, uint64_t size,
                           const unsigned char pattern[8])
{
    CUresult result = CUDA_SUCCESS;
    for (uint64_t i = 0; i < size && result == CUDA_SUCCESS; i++) {
        result = device->driver->set8(address + i, pattern[i % 8], 1, device->stream);
    }
    return result;
}

/* pattern: eight bytes of the period, as often as it fits. */
static CUresult fill_any(struct cuda_device *device, uint64_t address, uint64_t size,
                         const unsigned char pattern[8])
{
    const struct gk_cuda_driver *driver = device->driver;
    uint32_t low, high;
    uint16_t half;
    memcpy(&low, pattern, 4);
    memcpy(&high, pattern + 4, 4);
    memcpy(&half, pattern, 2);
    bool by_four = low == high, by_two = by_four && low == (uint32_t)half * 0x10001u;
    bool by_one = by_two && pattern[0] == pattern[1];
    CUresult result;
    /* The widest unit first: a memset of bytes in a graph is not always made one of words. */
    uint32_t unit = by_four && address % 4 == 0 && size >= 4  ? 4
                    : by_two && address % 2 == 0 && size >= 2 ? 2
                    : by_one                                  ? 1
                                                              : 0;
    if (unit > 0) {
        uint64_t count = size / unit;
        result = unit == 4   ? driver->set32(address, low, (size_t)count, device->stream)
                 : unit == 2 ? driver->set16(address, half, (size_t)count, device->stream)
                             : driver->set8(address, pattern[0], (size_t)count, device->stream);
        return result == CUDA_SUCCESS
                   ? fill_bytes(device, address + count * unit, size - count * unit, pattern)
                   : result;
    }
    uint64_t seed = (size < SEED_BYTES ? size : SEED_BYTES) / 8 * 8;
    if (address % 4 != 0 || seed == 0) {
        seed = size < 8 ? size : 8;
        result = fill_bytes(device, address, seed, pattern);
    } else {
        result = driver->set32_strided(address, 8, low, 1, (size_t)(seed / 8), device->stream);
        if (result == CUDA_SUCCESS) {
            result =
                driver->set32_strided(address + 4, 8, high, 1, (size_t)(seed / 8), device->stream);
        }
    }
    return result == CUDA_SUCCESS ? spread(device, address, seed, size) : result;
}

enum gk_status cuda_fill(struct gk_device *base, uint64_t address, uint64_t size,
                         const void *pattern, uint32_t pattern_bytes, struct gk_err *err)
{
    struct cuda_device *device = cuda_of(base);
    unsigned char whole[8];
    enum gk_status status = cuda_ready(device, "fill", err);
    if (status == GK_OK && device->record == CUDA_RECORD_FAILED) {
        status =
            gk_fail(err, GK_USAGE, "fill: the recording has failed: %s", device->record_err.text);
    }
    if (status == GK_OK && pattern_bytes != 1 && pattern_bytes != 2 && pattern_bytes != 4 &&
        pattern_bytes != 8) {
        status = gk_fail(err, GK_USAGE,
                         "fill: a pattern of %" PRIu32 " bytes; 1, 2, 4 and 8 are allowed",
                         pattern_bytes);
    }
    status = status == GK_OK ? cuda_range(device, address, size, "fill", err) : status;
    if (status != GK_OK || size == 0) {
        return status;
    }
    for (uint32_t i = 0; i < sizeof whole; i++) {
        whole[i] = ((const unsigned char *)pattern)[i % pattern_bytes];
    }
    device->after_kernel = false;
    struct gk_err own = {0};
    status = settle(device, fill_any(device, address, size, whole), "cuMemset", "fill", &own);
    if (status != GK_OK) {
        cuda_record_fail(device, &own);
        if (err) {
            *err = own;
        }
    }
    return status;
}
