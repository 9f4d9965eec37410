#!/usr/bin/env python3
"""tilesmith.grouped_matmul of few rows a group (experts that decode) beside PyTorch on a CUDA device, in one process.

    python bench/peers/cuda_grouped.py                                all types; 8 and 64 experts; 1, 4 and 16 rows each
    python bench/peers/cuda_grouped.py --types bf16 --modes masked --capacity 128
    python bench/peers/cuda_grouped.py --shapes "4096,4096;14336,4096" --experts 8 --rows 4

w is (experts, n, k). Modes: `contiguous`, --rows of each expert behind one another; `uneven`, as many rows in all, thrown at experts
of falling popularity, so that some have none; `masked`, room for --capacity rows of each expert. Types: bf16; fp8 (e4m3, fast
sums, a scale for each row of a and w); blocks (fp8 with scales of 1x128 and 128x128). GB/s: what must be read and written, the
weights of experts without rows left out, over time. Beside it, from 1 on in our favour, torch._grouped_mm or
torch._scaled_grouped_mm (contiguous rows; torch has no scales of blocks here), and a loop of torch.mm or torch._scaled_mm (one
scale each) over the experts that have rows, which the host must know.
Timing: bursts of captured graphs, cold L2, contenders in turn (bench/timing.py). Needs torch with CUDA, and the package (pip install ., or PYTHONPATH=python with TILESMITH_LIBRARY).
"""
import argparse
import itertools
import json
import sys
from pathlib import Path

import torch

import tilesmith

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import timing  # noqa: E402

SHAPES = [(4096, 4096), (2048, 7168), (14336, 4096)]  # n, k


def rows_of(mode, experts, rows):
    """How many each expert has."""
    if mode != "uneven":
        return [rows] * experts
    popularity = 1 / (1 + torch.arange(experts))
    drawn = torch.multinomial(popularity, experts * rows, replacement=True, generator=torch.Generator().manual_seed(1))
    return torch.bincount(drawn, minlength=experts).tolist()


class Cell:
    """One product of groups: its operands, and who computes it."""

    def __init__(self, kind, mode, counts, n, k, capacity):
        self.kind, self.mode, self.counts, self.n, self.k, self.capacity = kind, mode, counts, n, k, capacity
        ends = list(itertools.accumulate(counts))
        self.groups = torch.tensor(counts if mode == "masked" else ends, dtype=torch.int32, device="cuda")
        # (expert, where its rows are in a and out) of those that have rows
        self.slices = [(g, (g, slice(0, r)) if mode == "masked" else slice(end - r, end))
                       for g, (r, end) in enumerate(zip(counts, ends)) if r]

    def operands(self):
        """a, w, out and the scales of fp8."""
        experts, lead = len(self.counts), (len(self.counts), self.capacity) if self.mode == "masked" else (sum(self.counts),)
        w = torch.randn(experts, self.n, self.k, dtype=torch.bfloat16, device="cuda")
        a = torch.randn(*lead, self.k, dtype=torch.bfloat16, device="cuda")
        out = torch.empty(*lead, self.n, dtype=torch.bfloat16, device="cuda")
        if self.kind == "bf16":
            return a, w, out
        blocks = -(-self.k // 128)
        of_a, of_w = ((*lead, blocks), (experts, blocks, -(-self.n // 128))) if self.kind == "blocks" else (lead, (experts, self.n))
        scales = [torch.rand(shape, device="cuda") + 0.5 for shape in (of_a, of_w)]
        return a.to(torch.float8_e4m3fn), w.to(torch.float8_e4m3fn), out, *scales

    def bytes(self):
        size, rows = 2 if self.kind == "bf16" else 1, sum(self.counts)
        return len(self.slices) * self.n * self.k * size + rows * (self.k * size + self.n * 2)

    def ours(self, a, w, out, scale_a=None, scale_w=None):
        groups = {"group_rows" if self.mode == "masked" else "group_ends": self.groups}
        tilesmith.grouped_matmul(a, w.mT, out=out, scale_a=scale_a, scale_b=scale_w, **groups)

    def contenders(self):
        calls = {"tilesmith": self.ours}
        if self.kind == "bf16":
            if self.mode != "masked":
                calls["grouped"] = lambda a, w, out: torch._grouped_mm(a, w.mT, offs=self.groups)
            calls["loop"] = lambda a, w, out: [torch.mm(a[at], w[g].T, out=out[at]) for g, at in self.slices]
        elif self.kind == "fp8":
            if self.mode != "masked":
                calls["grouped"] = lambda a, w, out, scale_a, scale_w: torch._scaled_grouped_mm(
                    a, w.mT, scale_a, scale_w, offs=self.groups, out_dtype=torch.bfloat16, use_fast_accum=True)
            one = torch.ones((), device="cuda")
            calls["loop"] = lambda a, w, out, *_: [
                torch._scaled_mm(a[at], w[g].T, one, one, out_dtype=torch.bfloat16, use_fast_accum=True, out=out[at])
                for g, at in self.slices]
        return calls


def usable(calls, operands):
    """Those that this version of torch computes; and why others are left out."""
    good = {}
    for name, call in calls.items():
        try:
            call(*operands)
            torch.cuda.synchronize()
            good[name] = call
        except (AttributeError, RuntimeError, NotImplementedError) as error:
            if name == "tilesmith":
                raise
            print(f"  {name} is left out: {str(error).splitlines()[0][:150]}")
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--types", default="bf16,fp8,blocks")
    parser.add_argument("--modes", default="contiguous,uneven,masked")
    parser.add_argument("--experts", default="8,64")
    parser.add_argument("--rows", default="1,4,16", help="of an expert, on average")
    parser.add_argument("--capacity", type=int, default=16, help="masked: rows that an expert has room for")
    parser.add_argument("--shapes", help="n,k;n,k;...")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rest", type=float, default=0.05, help="seconds before each contender's turn")
    parser.add_argument("--json", help="write the results there")
    options = parser.parse_args()
    shapes = [tuple(map(int, s.split(","))) for s in options.shapes.split(";")] if options.shapes else SHAPES
    numbers = [[int(x) for x in text.split(",")] for text in (options.experts, options.rows)]
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, rest {options.rest} s")
    results = []
    for kind, experts, (n, k), mode, rows in itertools.product(
            options.types.split(","), numbers[0], shapes, options.modes.split(","), numbers[1]):
        cell = Cell(kind, mode, rows_of(mode, experts, rows), n, k, options.capacity)
        sets, _ = timing.sets_of(cell.operands)
        contenders = {name: (call, sets) for name, call in usable(cell.contenders(), sets[0]).items()}
        times = timing.burst_medians(contenders, options.rounds, options.rest)
        cell.ours(*sets[0])  # for last_plan
        ours = times.pop("tilesmith")
        beside = "".join(f"  {name} {milliseconds / ours:.2f}" for name, milliseconds in times.items())
        print(f"{kind:6} {experts:3} experts ({len(cell.slices)} with rows) of {rows:2} rows, {mode:10} n {n:5} k {k:5}  {1e3 * ours:8.1f} us "
              f"{1e-6 * cell.bytes() / ours:6.0f} GB/s{beside}  {tilesmith.last_plan().kernel}", flush=True)
        results.append(dict(type=kind, mode=mode, counts=cell.counts, n=n, k=k, bytes=cell.bytes(), ours=ours, peers=times,
                            kernel=tilesmith.last_plan().kernel))
        del sets
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
