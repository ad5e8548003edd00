/*
 * NVRTC: source text in, PTX and cubin out.
 *
 * The only user of nvrtc.h. The library is opened at run time, so that one binary serves machines
 * with any NVRTC and says by name where it looked when there is none. Runs in compile processes and
 * in tests; never in the process that speaks to the daemon, since a hostile source may crash or
 * fill the compiler.
 */
#ifndef GK_WORKER_COMPILER_H
#define GK_WORKER_COMPILER_H

#include "core/status.h"

struct gk_compiler;

struct gk_compiler_header {
    const char *name; /* as written between < > or " " */
    const char *text;
};

struct gk_compile_input {
    const char *name; /* of the source, for messages and line information */
    const char *text;
    const struct gk_compiler_header *headers;
    uint32_t header_count;
    const char *const *defines; /* "NAME=VALUE" */
    uint32_t define_count;
    const char *const *options; /* of the template, from the list that the loader allows */
    uint32_t option_count;
    const char *target; /* "sm_80" */
};

struct gk_compile_output {
    bool compiled;   /* false: the source has errors, log says which */
    char *ptx;       /* NUL-terminated */
    size_t ptx_size; /* without the NUL */
    unsigned char *cubin;
    size_t cubin_size;
    char *log; /* of NVRTC and ptxas; "" if they had nothing to say */
};

/* Where NVRTC may be. All borrowed; NULL where unknown. Mains read them from the environment. */
struct gk_compiler_places {
    const char *file; /* $GKTUNE_NVRTC: the library, or a folder that holds it (of a toolkit or a
                         Python package); then nothing else is tried */
    const char *cuda_home;   /* $CUDA_HOME */
    const char *virtual_env; /* $VIRTUAL_ENV: wheels keep it in site-packages/nvidia */
    const char *home;        /* $HOME: ~/.local holds wheels too */
};

/* GK_MISSING lists every place that was tried. */
enum gk_status gk_compiler_open(const struct gk_compiler_places *places,
                                struct gk_compiler **compiler_out, struct gk_err *err);
void gk_compiler_close(struct gk_compiler *compiler);
/* "13.0", and the resolved path of the library. */
const char *gk_compiler_version(const struct gk_compiler *compiler);
const char *gk_compiler_path(const struct gk_compiler *compiler);
/* GK_OK whether the source compiled or not (output_out->compiled); other statuses mean that NVRTC
 * itself could not work: GK_NOMEM, GK_UNSUPPORTED (a target it does not know), GK_MISSING (no
 * word of the registers that the code takes: no source does that), GK_INTERNAL. */
enum gk_status gk_compiler_run(struct gk_compiler *compiler, const struct gk_compile_input *input,
                               struct gk_compile_output *output_out, struct gk_err *err);
void gk_compile_output_fini(struct gk_compile_output *output);

#endif
