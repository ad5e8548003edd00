#!/usr/bin/env python3
"""Compiles one kernel source through NVRTC and prints what the compiler says about it.

    nvrtc_check.py SOURCE [--arch sm_80]... [-D NAME=VALUE]... [-I DIR]... [--ptx FILE] [--cubin FILE]

For each architecture: seconds, registers, spills, shared memory, and the log. Exit status 1 if a
compile fails or spills. NVRTC is looked for in the loader's path and below $CUDA_HOME (default
/usr/local/cuda). Used by hand and by sweeps (import compile_source).
"""
import argparse
import ctypes
import os
import re
import sys
import time


def load_nvrtc():
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    names = ["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"]
    for name in names + [os.path.join(home, d, n) for d in ("lib64", "lib") for n in names]:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    sys.exit("nvrtc_check: libnvrtc.so not found; set CUDA_HOME or LD_LIBRARY_PATH")


NVRTC = None


class Result:
    def __init__(self, ok, seconds, log, code):
        self.ok, self.seconds, self.log, self.code = ok, seconds, log, code
        self.regs = self._number(r"Used (\d+) registers")
        self.spill_stores = self._number(r"(\d+) bytes spill stores")
        self.spill_loads = self._number(r"(\d+) bytes spill loads")
        self.stack = self._number(r"(\d+) bytes stack frame")

    def _number(self, pattern):
        found = re.findall(pattern, self.log)
        return max((int(x) for x in found), default=0)


def compile_source(path, arch, defines, include_dirs, options=()):
    """arch "sm_80" makes a cubin, "compute_80" makes PTX."""
    global NVRTC
    if NVRTC is None:
        NVRTC = load_nvrtc()
    with open(path, "rb") as handle:
        text = handle.read()
    argv = ["-arch=" + arch, "-std=c++17"]
    if arch.startswith("sm_"):
        argv.append("--ptxas-options=-v")
    argv += ["-I" + d for d in include_dirs] + ["-D" + d for d in defines] + list(options)
    array = (ctypes.c_char_p * len(argv))(*[a.encode() for a in argv])
    program = ctypes.c_void_p()
    name = os.path.basename(path).encode()
    status = NVRTC.nvrtcCreateProgram(ctypes.byref(program), text, name, 0, None, None)
    if status != 0:
        raise RuntimeError("nvrtcCreateProgram failed with %d" % status)
    begin = time.monotonic()
    status = NVRTC.nvrtcCompileProgram(program, len(argv), array)
    seconds = time.monotonic() - begin
    size = ctypes.c_size_t()
    NVRTC.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    NVRTC.nvrtcGetProgramLog(program, log)
    code = b""
    if status == 0:
        get_size, get = ((NVRTC.nvrtcGetCUBINSize, NVRTC.nvrtcGetCUBIN) if arch.startswith("sm_")
                         else (NVRTC.nvrtcGetPTXSize, NVRTC.nvrtcGetPTX))
        get_size(program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        get(program, buffer)
        code = buffer.raw
    NVRTC.nvrtcDestroyProgram(ctypes.byref(program))
    return Result(status == 0, seconds, log.value.decode(errors="replace"), code)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source")
    parser.add_argument("--arch", action="append")
    parser.add_argument("-D", dest="defines", action="append", default=[])
    parser.add_argument("-I", dest="include_dirs", action="append", default=[])
    parser.add_argument("--ptx")
    parser.add_argument("--cubin")
    args = parser.parse_args()
    here = os.path.dirname(os.path.abspath(__file__))
    dirs = args.include_dirs + [os.path.join(here, "..", "..", "kernels", "include")]
    failed = False
    for arch in args.arch or ["sm_80", "sm_90a"]:
        result = compile_source(args.source, arch, args.defines, dirs)
        print("%s %s %.2f s, %d registers, %d + %d bytes spilled" %
              (arch, "ok" if result.ok else "FAILED", result.seconds, result.regs,
               result.spill_stores, result.spill_loads))
        if result.log.strip():
            print(result.log)
        failed |= not result.ok or result.spill_stores > 0
        if args.cubin and result.ok:
            with open(args.cubin, "wb") as handle:
                handle.write(result.code)
    if args.ptx:
        arch = (args.arch or ["sm_80"])[0].replace("sm_", "compute_")
        result = compile_source(args.source, arch, args.defines, dirs, ["-lineinfo"])
        with open(args.ptx, "wb") as handle:
            handle.write(result.code.rstrip(b"\0"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
