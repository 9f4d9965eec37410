"""How much memory a dispatcher's plan takes: a matrix product of each number of rows, none twice.

    PYTHONPATH=python python bench/python/plan_memory.py [--shapes 20000]
"""

import argparse
import os

import numpy as np
import tilesmith


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--shapes", type=int, default=20000)
shapes = parser.parse_args().shapes
weight = np.zeros((8, 8), np.float32)
rows = np.zeros((shapes + 101, 8), np.float32)
for m in range(1, 101):  # kernels, threads and tables
    tilesmith.matmul(rows[:m], weight)
before = resident_bytes()
for m in range(101, shapes + 101):
    tilesmith.matmul(rows[:m], weight)
print(f"{(resident_bytes() - before) / shapes:.0f} bytes a shape")
