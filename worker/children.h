/*
 * The two kinds of child processes of a worker, both the same program with another main:
 *     gktune-worker --child=compile --nvrtc PATH
 *     gktune-worker --child=executor --device emu:sm_80
 * They read requests as frames from descriptor 0 and answer each on descriptor 1, in order. They
 * die with their parent, whatever it dies of, and have limits: what a hostile source or kernel does
 * stays theirs.
 */
#ifndef GK_WORKER_CHILDREN_H
#define GK_WORKER_CHILDREN_H

#include "core/status.h"

/* Compile process: a request is a gk_compile_job, the answer a gk_compile_output (gk_code_to_json),
 * or
 * {"error": text, "status": name} when NVRTC could not work. Returns the exit status. */
int gk_child_compile(const char *nvrtc_path);

/* Executor process. A request: {root, op, template, problem, config, codes:[path or ""], reference:
 * path, input_set (-1: all), best_ns, measure_only}. The answer {"record": ...}, or {"error",
 * "status"}. */
int gk_child_executor(const char *device_name);

/* Exits 0 when a small kernel compiles: tried once inside the sandbox before it is relied upon. */
int gk_child_probe(const char *nvrtc_path);

/* Dies with the parent, no core files, processor time and (without ASan) address space limited. 0:
 * no limit. */
void gk_child_limits(uint64_t cpu_s, uint64_t memory_bytes);

#endif
