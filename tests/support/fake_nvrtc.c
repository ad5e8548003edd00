/*
 * An NVRTC that compiles nothing: its log is the options that it was given, one a line, and a word
 * of registers, unless $FAKE_NVRTC_SILENT is set. $FAKE_NVRTC_MINOR: it is version 12 of that.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nvrtc.h>

struct _nvrtcProgram {
    char log[4096];
};

nvrtcResult nvrtcVersion(int *major, int *minor)
{
    const char *text = getenv("FAKE_NVRTC_MINOR");
    *major = 12;
    *minor = text ? (int)strtol(text, NULL, 10) : 0;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram *program, const char *text, const char *name,
                               int header_count, const char *const *headers,
                               const char *const *names)
{
    (void)text, (void)name, (void)header_count, (void)headers, (void)names;
    *program = calloc(1, sizeof **program);
    return *program ? NVRTC_SUCCESS : NVRTC_ERROR_OUT_OF_MEMORY;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count, const char *const *options)
{
    size_t used = 0;
    for (int i = 0; i < count && used < sizeof program->log; i++) {
        used +=
            (size_t)snprintf(program->log + used, sizeof program->log - used, "%s\n", options[i]);
    }
    if (!getenv("FAKE_NVRTC_SILENT") && used < sizeof program->log) {
        (void)snprintf(program->log + used, sizeof program->log - used,
                       "ptxas info    : Used 8 registers\n");
    }
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program)
{
    free(*program);
    *program = NULL;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t *size)
{
    *size = strlen(program->log) + 1;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char *log)
{
    memcpy(log, program->log, strlen(program->log) + 1);
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t *size)
{
    (void)program;
    *size = 1;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetPTX(nvrtcProgram program, char *ptx)
{
    (void)program;
    ptx[0] = '\0';
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t *size)
{
    return nvrtcGetPTXSize(program, size);
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char *cubin)
{
    return nvrtcGetPTX(program, cubin);
}

const char *nvrtcGetErrorString(nvrtcResult result)
{
    return result == NVRTC_SUCCESS ? "NVRTC_SUCCESS" : "NVRTC_ERROR";
}
