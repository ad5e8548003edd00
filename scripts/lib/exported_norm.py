"""An exported rmsnorm_residual as a stranger's program uses it: header, sources, NVRTC and the driver; nothing of gktune.

For scripts/lib/torch_outputs.py, which times it in one loop with torch's. Sizes are those of the header's launch; errors
are exceptions that name the library, its function and its status.
"""
import ctypes
import glob
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def describe(folder, rows, cols):
    """The launch that the header has for the problem: kernel, source, defines, grid, block, arguments."""
    headers = glob.glob(os.path.join(folder, "gk_rmsnorm_residual_*.h"))
    if len(headers) != 1:
        raise OSError("'%s' has %d headers of rmsnorm_residual; one is wanted" % (folder, len(headers)))
    name = os.path.basename(headers[0])
    with tempfile.TemporaryDirectory() as scratch:
        program = os.path.join(scratch, "exported_norm")
        subprocess.run(["cc", "-std=c17", "-O1", '-DHEADER="%s"' % name, "-DPREFIX=" + name[:-2], "-I", folder,
                        os.path.join(HERE, "exported_norm.c"), "-o", program], check=True)
        done = subprocess.run([program, str(rows), str(cols)], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise OSError("%s has no plain launch for %d x %d" % (name, rows, cols))
    return json.loads(done.stdout)


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


def compile_launch(folder, launch, target):
    """Its cubin."""
    nvrtc, program = find_nvrtc(), ctypes.c_void_p()
    with open(os.path.join(folder, launch["source"]), "rb") as text:
        source = text.read()
    options = ["-arch=" + target, "-std=c++17", *launch["options"], *("-I" + os.path.join(folder, d) for d in launch["include_dirs"]),
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
