/*
 * What a device is, as data: reported by a worker, kept by the store, seen by expressions as dev.*.
 */
#ifndef GK_CORE_DEVICE_PROPS_H
#define GK_CORE_DEVICE_PROPS_H

#include "core/expr.h"
#include "core/json.h"
#include "core/status.h"

struct gk_device_props {
    char device[64]; /* "cuda:0", "emu:sm_80", "mock:sm_80": where a worker runs it */
    char arch[32];   /* "sm_90a", "emu-sm_80", "mock-sm_80": what a binary and a result belong to */
    char target[32]; /* "sm_80": what NVRTC compiles for */
    char gpu[64];    /* "h200-132sm", "emu-8sm": what a time belongs to */
    char name[96];   /* for people */
    char uuid[64];   /* "" on devices that have none (emu, mock) */
    bool modelled;   /* times are modelled, not measured */
    int64_t sm;      /* compute capability as 10*major+minor: 80, 90 */
    int64_t sms;     /* multiprocessors */
    int64_t smem_block_max;      /* bytes of shared memory a block may opt in to */
    int64_t smem_sm;             /* bytes of shared memory an SM has */
    int64_t smem_block_reserved; /* bytes the system takes from each block's share */
    int64_t regs_sm;             /* 32-bit registers an SM has */
    int64_t regs_block_max;
    int64_t threads_sm;
    int64_t threads_block_max;
    int64_t blocks_sm;
    int64_t cluster_max;
    int64_t l2_bytes;
    int64_t mem_bytes;
    int64_t clock_khz;               /* highest SM clock */
    int64_t mem_bytes_per_us;        /* nominal memory rate: bytes per microsecond = MB/s */
    int64_t tensor_flops_per_clk_sm; /* dense bf16 */
    int64_t work_limit; /* emulated devices: thread instructions a trial may take; else INT64_MAX */
};

/* To and from JSON (schemas/device.schema.json). from_json names a missing or bad member. */
struct gk_json *gk_device_props_to_json(const struct gk_device_props *props);
enum gk_status gk_device_props_from_json(const struct gk_json *json,
                                         struct gk_device_props *props_out, struct gk_err *err);

/* Adds dev.sm, dev.sms, dev.smem_block_max, ... to a scope, in one fixed order; *first_slot_out is
 * the slot of the first. gk_device_props_fill() then writes the values in the same order. */
enum gk_status gk_device_props_scope(struct gk_scope *scope, uint32_t *first_slot_out,
                                     struct gk_err *err);
void gk_device_props_fill(const struct gk_device_props *props, union gk_value *slots);

/* Blocks of one kernel that an SM holds at once, from registers, shared memory and threads;
 * 0 if not even one fits. Register allocation is in units of 256 a warp. */
int64_t gk_device_blocks_per_sm(const struct gk_device_props *props, int64_t threads,
                                int64_t regs_per_thread, int64_t smem_bytes);

/* By which factor a mock's times are longer: of "mock:sm_80#1@1.03" 1.03; 1 of all others. */
double gk_device_skew(const char *device);

/* The built-in description of an emulated or mock device for a target ("sm_80", "sm_90a"), used by
 * the worker's devices and by `gktune space --arch emu-sm_80`, so that both see one space.
 * GK_UNSUPPORTED names the targets there are. */
enum gk_status gk_device_props_builtin(const char *device, struct gk_device_props *props_out,
                                       struct gk_err *err);

#endif
