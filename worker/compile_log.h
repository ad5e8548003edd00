/*
 * What ptxas says about a kernel: registers, spills, static shared memory, and the warnings that
 * mean a kernel was silently made slow. Pure text in, numbers out.
 */
#ifndef GK_WORKER_COMPILE_LOG_H
#define GK_WORKER_COMPILE_LOG_H

#include "core/status.h"

struct gk_compile_facts {
    bool found; /* the kernel is in the log; else every number is -1 */
    int64_t regs;
    int64_t spill_bytes; /* stores + loads */
    int64_t stack_bytes;
    int64_t static_smem;
    bool setmaxnreg_ignored; /* C7508 */
    bool wgmma_serialized;   /* C7510 */
};

/* Reads the lines about `kernel` (its extern "C" name) from NVRTC's log; a log of one kernel only
 * may also lack its name. */
void gk_compile_log_read(const char *log, const char *kernel, struct gk_compile_facts *facts_out);

#endif
