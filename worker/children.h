/*
 * The two kinds of child processes of a worker, both the same program with another main:
 *     gktune-worker --child=compile --nvrtc PATH
 *     gktune-worker --child=executor --device emu:sm_80 --nvrtc PATH --spool DIR
 * They read requests as frames from descriptor 0 and answer each on descriptor 1, in order (an
 * executor on a copy of it: what kernels print goes to standard error). They die with their parent,
 * whatever it dies of, and have limits: what a hostile source or kernel does stays theirs.
 */
#ifndef GK_WORKER_CHILDREN_H
#define GK_WORKER_CHILDREN_H

#include "core/status.h"

/* Compile process: a request is a gk_compile_job, the answer a gk_compile_output (gk_code_to_json),
 * or
 * {"error": text, "status": name} when NVRTC could not work. Returns the exit status. */
int gk_child_compile(const char *nvrtc_path);

struct gk_executor_options {
    const char *device;
    const char
        *nvrtc; /* the library: devices that compare results themselves need kernels of ours */
    const char
        *spool; /* worker's folder, for those kernels' code; "": they are compiled each time */
    const char
        *vendor; /* where the vendor's library may be: see worker/vendor.h; NULL: usual places */
    bool checks; /* a GPU's finalists run on the emulated device too */
};

/* Executor process. Its first frame is {"ready": true}, once the device is open: one that ends
 * before met a broken device, not a broken config. A request: {root, op, problem, config, codes:
 * [path or ""], reference: path, input_set (-1: all), best_ns, measure_only, final, sustained};
 * with "vendor": true in place of config and codes the vendor's library is run. The answer
 * {"record":
 * ...}, or {"error", "status"}; with "lost": true it is the last, since its device is lost. */
int gk_child_executor(const struct gk_executor_options *options);

/* Exits 0 when a small kernel compiles: tried once inside the sandbox before it is relied upon. */
int gk_child_probe(const char *nvrtc_path);

/* For a process of its own kind that has just begun: dies with its parent, keeps no descriptor but
 * 0, 1 and 2, leaves no core files, writes no file beyond 1 GiB; processor time and (without ASan)
 * address space limited. 0: no limit. */
void gk_child_limits(uint64_t cpu_s, uint64_t memory_bytes);

/* From here on this process, and its threads, start no other process and become no other program:
 * those calls fail. False: the kernel has no such filters, or the machine is of another kind; what
 * is there then is the sandbox around it. */
bool gk_child_alone(void);

#endif
