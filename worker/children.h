/*
 * What the worker's child processes do: hidden modes of the same program (--child=compile, --child=executor).
 *
 * Frames (pipe_frame.h); `kind` tells them apart, `id` is the asker's and comes back.
 *
 * compile   > {kind:"hello", nvrtc:"13.0", path, objects:[..]}  or  {kind:"hello", error}
 *           < {kind:"compile", id, cpu_s, job}                  job: worker/compile_job.h
 *           < {kind:"mock", id, outcome, ms}                    outcome: ok, compile_error, compile_die, compile_hang
 *           > {kind:"compiled", id, status, text, compiled, log, ptx, cubin}   sizes; payload: PTX, then cubin
 * executor  > {kind:"hello", device}                            or  {kind:"hello", error}
 *           < {kind:"trial", id, bundle, op, problem, template, config, input_set, measure_only,
 *              codes:[{launch, log, ptx, cubin}]}               launch -1: the reference; payload in order
 *           < {kind:"mock", id, outcome, ms, ns}                outcome: mock.h
 *           > {kind:"started", id}    then    {kind:"record", id, record}  or  {kind:"record", id, error}
 *
 * A child ends when its stdin does. It trusts the supervisor and nobody trusts it.
 */
#ifndef GK_WORKER_CHILDREN_H
#define GK_WORKER_CHILDREN_H

#include "core/status.h"
#include "worker/compiler.h"

struct gk_children_streams {
    int in, out;
    int parent; /* pid that must be the parent; 0: not checked (in a pid namespace of its own) */
};

/* Exit status of the process. places: where NVRTC may be (places->file set: there alone); NULL: no compiler is
 * needed (mock). */
int gk_compile_child(const struct gk_children_streams *streams, const struct gk_compiler_places *places);
int gk_executor_child(const struct gk_children_streams *streams, const char *device);

#endif
