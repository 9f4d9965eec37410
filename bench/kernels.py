"""Kernels that a script of bench/ is about to time."""
import itertools
import subprocess
from pathlib import Path

import tilesmith


def run_program(*arguments):
    """The program beside the library; its output is kept."""
    program = Path(tilesmith.library_path()).resolve().parents[1] / "bin" / "tilesmith"
    return subprocess.run([program, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def compile_all(names, workers):
    """Compiles them side by side into the store, so that no turn waits for a compiler; prints what failed. Returns how many they are."""
    names = sorted(set(names))
    done = run_program("build", "--workers", workers, *itertools.chain(*(("--kernel", name) for name in names)))
    if done.returncode:
        print(done.stdout[-2000:], flush=True)
    return len(names)
