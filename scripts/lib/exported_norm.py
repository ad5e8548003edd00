"""An exported rmsnorm_residual as a stranger's program uses it: header, sources, NVRTC and the driver; nothing of gktune.

For scripts/lib/torch_outputs.py, which times it in one loop with torch's. Sizes are those of the header's launch; errors
are exceptions that name the library, its function and its status.
"""
import ctypes
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

# What the header says of one problem, as JSON; exit status 1: no row serves, or it is no plain launch. It lies here and not in a
# file of its own since nothing but an exported header makes it a program.
ASKS_THE_HEADER = r"""
#include HEADER

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define PASTE2(a, b) a##b
#define PASTE(a, b)  PASTE2(a, b)
#define SELECT  PASTE(PREFIX, _select)
#define LAUNCH  PASTE(PREFIX, _launch)
#define DEFINES PASTE(PREFIX, _defines)

static char defines[1 << 16];
static struct gk_plan plan;

static void put_list(const char *name, const char *const *list)
{
    printf("\"%s\":[", name);
    for (int i = 0; list[i]; i++) {
        printf("%s\"%s\"", i ? "," : "", list[i]);
    }
    printf("],");
}

static void put_defines(void)
{
    printf("\"defines\":[\"");
    for (const char *c = defines; *c; c++) {
        fputs(*c != '\n' ? (char[]){*c, 0} : c[1] ? "\",\"" : "", stdout);
    }
    printf("\"],");
}

int main(int argc, char **argv)
{
    struct gk_rmsnorm_residual_problem problem;
    enum gk_match why = GK_MATCH_NONE;
    if (argc != 3) {
        return 1;
    }
    gk_rmsnorm_residual_problem_init(&problem, strtoll(argv[1], NULL, 10), strtoll(argv[2], NULL, 10));
    const void *row = SELECT(&problem, &why);
    const struct gk_launch *launch = &plan.launches[0];
    if (!row || !LAUNCH(&problem, row, NULL, &plan) || plan.launch_count != 1 || launch->cluster[0] > 1 ||
        DEFINES(&problem, row, 0, defines, sizeof defines) >= sizeof defines) {
        return 1;
    }
    printf("{\"match\":%d,\"kernel\":\"%s\",\"source\":\"%s\",", (int)why, launch->kernel, launch->source);
    put_list("include_dirs", launch->include_dirs);
    put_list("options", launch->options);
    put_defines();
    printf("\"grid\":[%" PRIu32 ",%" PRIu32 ",%" PRIu32 "],\"block\":[%" PRIu32 ",%" PRIu32 ",%" PRIu32 "],\"smem_bytes\":%" PRIu32 ",\"arguments\":[",
           launch->grid[0], launch->grid[1], launch->grid[2], launch->block[0], launch->block[1], launch->block[2], launch->smem_bytes);
    for (uint32_t i = 0; i < launch->argument_count; i++) {
        const struct gk_argument *argument = &launch->arguments[i];
        printf("%s{\"tensor\":%s,\"name\":\"%s\",\"size\":%" PRIu32 ",\"bits\":%" PRIu64 "}", i ? "," : "",
               argument->kind == GK_ARGUMENT_TENSOR ? "true" : "false", argument->name ? argument->name : "", argument->size, argument->value.u64);
    }
    printf("]}\n");
    return 0;
}
"""


EXACT = 3 # enum gk_match


def describe(folder, rows, cols):
    """The launch that the header has for this very problem: kernel, source, defines, grid, block, arguments; its target."""
    headers = glob.glob(os.path.join(folder, "gk_rmsnorm_residual_*.h"))
    if len(headers) != 1:
        raise OSError("'%s' has %d headers of rmsnorm_residual; one is wanted" % (folder, len(headers)))
    name = os.path.basename(headers[0])
    with tempfile.TemporaryDirectory() as scratch:
        program = os.path.join(scratch, "exported_norm")
        subprocess.run(["cc", "-std=c17", "-O1", '-DHEADER="%s"' % name, "-DPREFIX=" + name[:-2], "-I", folder, "-x", "c", "-", "-o", program],
                       input=ASKS_THE_HEADER, text=True, check=True)
        done = subprocess.run([program, str(rows), str(cols)], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise OSError("%s has no plain launch for %d x %d" % (name, rows, cols))
    launch = json.loads(done.stdout)
    if launch["match"] != EXACT:
        raise OSError("%s has no row for %d x %d itself" % (name, rows, cols))
    return {"target": re.search(r"_(sm_[0-9]+a?)$", name[:-2]).group(1), **launch}


def find_nvrtc():
    tried = [os.environ.get("GKTUNE_NVRTC", "")]
    for folder in sys.path:
        tried += sorted(glob.glob(os.path.join(folder, "nvidia", "*", "lib", "libnvrtc.so.*")), reverse=True)
    tried += sorted(glob.glob("/usr/local/cuda*/lib*/libnvrtc.so.*"), reverse=True)
    for path in tried:
        if os.path.isfile(path) and ".alt." not in path:
            return ctypes.CDLL(path)
    raise OSError("libnvrtc.so is neither in $GKTUNE_NVRTC, nor in a wheel, nor in /usr/local/cuda")


def checked(library, name, *arguments):
    status = getattr(library, name)(*arguments)
    if status != 0:
        raise OSError("%s: status %d" % (name, status))


def output_of(nvrtc, program, what):
    size = ctypes.c_size_t()
    checked(nvrtc, "nvrtcGet%sSize" % what, program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    checked(nvrtc, "nvrtcGet" + what, program, text)
    return text.raw


def compile_launch(folder, launch):
    """Its cubin."""
    nvrtc, program = find_nvrtc(), ctypes.c_void_p()
    with open(os.path.join(folder, launch["source"]), "rb") as text:
        source = text.read()
    options = ["-arch=" + launch["target"], "-std=c++17", *launch["options"], *("-I" + os.path.join(folder, d) for d in launch["include_dirs"]),
               *("-D" + define for define in launch["defines"])]
    checked(nvrtc, "nvrtcCreateProgram", ctypes.byref(program), source, launch["source"].encode(), 0, None, None)
    words = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    if nvrtc.nvrtcCompileProgram(program, len(options), words) != 0:
        raise OSError(output_of(nvrtc, program, "ProgramLog").decode(errors="replace"))
    return output_of(nvrtc, program, "CUBIN")


class Kernel:
    """Of the current context."""

    def __init__(self, launch, cubin):
        self.driver, self.launch, self.function = ctypes.CDLL("libcuda.so.1"), launch, ctypes.c_void_p()
        module = ctypes.c_void_p()
        checked(self.driver, "cuModuleLoadData", ctypes.byref(module), cubin)
        checked(self.driver, "cuModuleGetFunction", ctypes.byref(self.function), module, launch["kernel"].encode())

    def run(self, stream, addresses):
        """addresses: of the tensors by name; of one that is not there, 0."""
        cells = [ctypes.c_uint64(addresses[a["name"]] if a["tensor"] else a["bits"]) for a in self.launch["arguments"]]
        pointers = (ctypes.c_void_p * len(cells))(*(ctypes.addressof(cell) for cell in cells))
        checked(self.driver, "cuLaunchKernel", self.function, *self.launch["grid"], *self.launch["block"], self.launch["smem_bytes"],
                ctypes.c_void_p(stream), pointers, None)
