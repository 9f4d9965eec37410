"""Kernels for NVIDIA GPUs with a fault in them: compiled by an NVRTC that puts it in, and run where there is a GPU."""

import glob
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import threading

from outcome import Outcome, outcome_of

# What a kernel that reads or writes where nothing is, or stops, leaves in the words of the driver.
CRASH = re.compile("CUDA_ERROR_(ILLEGAL|MISALIGNED|LAUNCH|INVALID_ADDRESS|INVALID_PC|HARDWARE|ASSERT)")


def code_in(folder):
    """The machine code in the store of a run: a digest of each binary."""
    return [hashlib.sha256(binary.read_bytes()).hexdigest() for binary in sorted((folder / "store").glob("v*/entries/*/binary"))]


def find_nvrtc():
    """The true NVRTC's file, if there is one."""
    folders = [f"{os.environ[name]}/lib64" for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ]
    folders += ["/usr/local/cuda*/lib64", "/usr/lib/x86_64-linux-gnu"]
    folders += [f"{place}/lib/python3*/site-packages/nvidia/*/lib" for place in (os.environ.get("VIRTUAL_ENV"), sys.prefix)]
    found = [os.environ["TILESMITH_NVRTC"]] if "TILESMITH_NVRTC" in os.environ else []
    for folder in folders:
        found += sorted(glob.glob(f"{folder}/libnvrtc.so*"))
    return pathlib.Path(found[0]).resolve() if found else None


class CudaFaults:
    """Compiles and runs the lines of one data file, whose `arch` is that of all kernels."""

    def __init__(self, options, data):
        self.options, self.arch = options, data["arch"]
        self.folder = tempfile.TemporaryDirectory(prefix="tilesmith-nvrtc-")
        self.library = pathlib.Path(self.folder.name) / "libnvrtc.so"
        nvrtc = find_nvrtc()
        if nvrtc is None:
            sys.exit("there is no NVRTC (libnvrtc.so): name its file in TILESMITH_NVRTC")
        source = pathlib.Path(__file__).with_name("nvrtc_with_fault.cpp")
        subprocess.run([options.compiler, "-std=c++17", "-shared", "-fPIC", f'-DREAL="{nvrtc}"', str(source), "-o",
                        str(self.library), "-Wl,--no-as-needed", str(nvrtc), f"-Wl,-rpath,{nvrtc.parent}", "-ldl"],
                       check=True)
        self.device = threading.Semaphore(options.device_jobs)
        self.kernels, self.lock = {}, threading.Lock()

    def kernel_of(self, run):
        """The first candidate for a run's problem whose name has the run's `kernel` in it."""
        with self.lock:
            if run["line"] not in self.kernels:
                operation, *words = shlex.split(run["line"])
                command = [self.options.program, "list", "--candidates", "--json", "--arch", self.arch, "--op", operation]
                done = subprocess.run(command + words, capture_output=True, text=True)
                names = [each["name"] for each in json.loads(done.stdout)["candidates"]] if done.returncode == 0 else []
                self.kernels[run["line"]] = names or [f"(no candidates: {done.stderr})"]
            return next((name for name in self.kernels[run["line"]] if re.search(run["kernel"], name)), None)

    def run_line(self, run, fault):
        """One line with a store of its own: passed, found, unreached or broken."""
        kernel = self.kernel_of(run)
        if kernel is None:
            return Outcome("broken", f"no candidate has {run['kernel']} in its name: {self.kernels[run['line']][:3]}")
        with tempfile.TemporaryDirectory(prefix="tilesmith-mutant-") as folder:
            here = pathlib.Path(folder)
            for name in ("in", "from", "to"):
                (here / name).write_text(fault.get(name, ""))
                (here / f"slow_{name}").write_text(fault.get("slow", {}).get(name, ""))
            environment = {**os.environ, "TILESMITH_NVRTC": str(self.library), "TILESMITH_FAULT": str(here),
                           "TILESMITH_CACHE_DIR": str(here / "store"), "TILESMITH_LOG": "error"}
            command = [self.options.program, "build", "--arch", self.arch, "--kernel", kernel, "--workers", "1"]
            built = subprocess.run(command, capture_output=True, text=True, env=environment)
            missing = [text["from"] for kind, text in (("", fault), ("slow_", fault.get("slow", {"from": ""})))
                       if text["from"] and not (here / f"{kind}applied").exists()]
            if missing and not run.get("beside"):
                return Outcome("unreached", built.stderr or f"{kernel} does not have it")
            if built.returncode != 0:
                return Outcome("broken", built.stderr)
            if self.options.compile_only:
                return Outcome("passed", "compiled", code_in(here))
            # Tolerant: a run says by its kernel how sums are added.
            command = [self.options.program, "run", *shlex.split(run["line"]), "--device", "cuda:0", "--kernel", kernel,
                       "--determinism", "tolerant", "--verify", "--json", *([] if run.get("timed") else ["--no-time"])]
            with self.device:
                try:
                    done = subprocess.run(command, capture_output=True, text=True, env=environment,
                                          timeout=self.options.seconds)
                except subprocess.TimeoutExpired:
                    return Outcome("found", "ran out of time", code_in(here))
            if missing and not (here / "applied").exists():
                return Outcome("unreached", f"nothing that the run of {kernel} compiles has it")
            if done.returncode != 0 and CRASH.search(done.stderr):
                return Outcome("found", CRASH.search(done.stderr)[0], code_in(here))
            return outcome_of(done, code_in(here), kernel)
