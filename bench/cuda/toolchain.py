"""NVRTC through ctypes: kernel source in, cubin and compiler report out. Needs no GPU and no PyTorch."""

import ctypes
import glob
import os
import sys
from concurrent.futures import ProcessPoolExecutor

KERNELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "kernels", "cuda")


def _library():
    places = [os.path.join(p, "nvidia", "*", "lib", "libnvrtc.so.1[23]*") for p in sys.path]
    places.append("/usr/local/cuda/lib64/libnvrtc.so.1[23]*")
    for pattern in places:
        for path in sorted(glob.glob(pattern)):
            if "builtins" not in path and ".alt" not in path:
                return ctypes.CDLL(path)
    return ctypes.CDLL("libnvrtc.so")


def compile_source(source, arch):
    """Returns (cubin, log). The log carries ptxas' register report; cubin is None when the source is refused."""
    nvrtc = _library()
    program = ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
    options = [f"--gpu-architecture={arch}", "-std=c++17", f"-I{KERNELS}", "--ptxas-options=-v", "-default-device"]
    array = (ctypes.c_char_p * len(options))(*[o.encode() for o in options])
    failed = nvrtc.nvrtcCompileProgram(program, len(options), array)
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    cubin = None
    if not failed:
        nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
        binary = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetCUBIN(program, binary)
        cubin = binary.raw
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return cubin, log.value.decode()


def report(log):
    """The facts of a compiler log that decide whether a kernel is healthy, on one line."""
    facts = []
    for line in log.splitlines():
        if "Used" in line and "registers" in line:
            facts.append(line.split("Used")[1].split(",")[0].strip())
        if "spill" in line and " 0 bytes spill stores" not in line:
            facts.append(line.strip())
        if "C75" in line or "error" in line:
            facts.append(line.strip())
    return "; ".join(facts)


def _one(job):
    return compile_source(*job)


def compile_all(jobs, workers=None):
    """Compiles (source, arch) pairs in worker processes: NVRTC takes turns inside one process."""
    with ProcessPoolExecutor(workers or os.cpu_count()) as pool:
        return list(pool.map(_one, jobs))
