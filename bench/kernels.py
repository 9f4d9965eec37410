"""Kernels that a script of bench/ is about to time."""
import itertools
import subprocess
from pathlib import Path

import tilesmith


def compile_all(names, workers):
    """Compiles them side by side into the store, so that no turn waits for a compiler; prints what failed. Returns how many they are."""
    program = Path(tilesmith.library_path()).resolve().parents[1] / "bin" / "tilesmith"
    names = sorted(set(names))
    done = subprocess.run([program, "build", "--workers", str(workers), *itertools.chain(*(("--kernel", name) for name in names))],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # fmt: skip
    if done.returncode:
        print(done.stdout[-2000:], flush=True)
    return len(names)
