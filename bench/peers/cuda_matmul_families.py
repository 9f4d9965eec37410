#!/usr/bin/env python3
"""tilesmith.matmul, untuned, beside PyTorch's cuBLAS on random problems of families that no table was made for.

    python bench/peers/cuda_matmul_families.py --seed 5                       13 problems of each family
    python bench/peers/cuda_matmul_families.py --seed 5 --families odd,deep   of these
    python bench/peers/cuda_matmul_families.py --seed 5 --look 12             and of the 12 worst, what the next kernels take

Families: layouts (A and B along k or across), odd (n or k odd or prime), eighths (n and k multiples of 8 alone), few (1 to 16 rows), columns
(1 to 64 columns), deep (k of 8192 and more), batch, tf32, int8, fp8 (a number each scales A and B), fp8rows (a vector each), bias (with an
activation or none), beta (D = AB + D / 2 in place). What a call reads is in no cache, contenders take turns, medians (bench/timing.py). Results are
compared with PyTorch's. Kernels are compiled beforehand by `tilesmith build`. With --seconds, what was not reached by then is left out: families
take turns.
"""
import argparse
import itertools
import json
import math
import sys
import time
from pathlib import Path

import torch

import tilesmith

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import families  # noqa: E402
import kernels  # noqa: E402
import timing  # noqa: E402

TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "tf32": torch.float32, "int8": torch.int8, "fp8": torch.float8_e4m3fn}
RESULTS = {"int8": torch.int32, "fp8": torch.bfloat16}
CLOSE = {"int8": 0.0, "fp8": 3e-2, "tf32": 2e-3}  # relative root of the mean square between the two results
CLOSE_ELSE = 6e-3
LAYOUTS = ("rcr", "rrr", "crr", "ccr")
MOST_PRODUCTS = 1 << 36  # m n k of all members
MOST_ELEMENTS = 1 << 28  # of A, B or D


class Problem:
    def __init__(self, family, kind, layout, m, n, k, batch=0, words=()):
        self.family, self.kind, self.layout, self.sizes, self.batch, self.words = family, kind, layout, (m, n, k), batch, words

    def __str__(self):
        size = "x".join(map(str, ((self.batch,) if self.batch else ()) + self.sizes))
        return " ".join((self.family, self.kind, self.layout, *self.words, size))

    def fits(self):
        (m, n, k), members = self.sizes, self.batch or 1
        return members * m * n * k <= MOST_PRODUCTS and members * max(m * k, k * n, m * n) <= MOST_ELEMENTS

    def make(self):
        (m, n, k), members = self.sizes, (self.batch,) if self.batch else ()
        a = self.matrix(*members, m, k) if self.layout[0] == "r" else self.matrix(*members, k, m).mT
        b = self.matrix(*members, k, n) if self.layout[1] == "r" else self.matrix(*members, n, k).mT
        beside = []
        if "bias" in self.words:
            beside = [self.matrix(n)]
        elif "scale" in self.words:
            beside = [torch.rand((), device="cuda") + 0.5 for _ in "ab"]
        elif "scales" in self.words:
            beside = [torch.rand(m, 1, device="cuda") + 0.5, torch.rand(1, n, device="cuda") + 0.5]
        out = torch.zeros(*members, m, n, dtype=RESULTS.get(self.kind, TYPES[self.kind]), device="cuda")
        return (a, b, *beside, out)

    def matrix(self, *shape):
        if self.kind == "int8":
            return torch.randint(-128, 128, shape, dtype=torch.int8, device="cuda")
        return torch.randn(shape, device="cuda", dtype=torch.bfloat16 if self.kind == "fp8" else TYPES[self.kind]).to(TYPES[self.kind])

    def options(self):
        """matmul's named arguments beside the tensors."""
        return dict(tf32=self.kind == "tf32", activation=next((w for w in self.words if w in ("relu", "gelu_tanh")), None))

    def named(self, operands):
        _, _, *beside, out = operands
        names = ("bias",) if "bias" in self.words else ("scale_a", "scale_b")
        more = dict(c=out, beta=0.5) if "beta" in self.words else {}
        return dict(zip(names, beside), out=out, **more, **self.options())

    def ours(self, *operands):
        return tilesmith.matmul(*operands[:2], **self.named(operands))

    def peer(self, *operands):
        a, b, *beside, out = operands
        if self.kind == "int8":
            return torch._int_mm(a, b, out=out)
        if self.kind == "fp8":
            return torch._scaled_mm(a, b, *beside, out_dtype=torch.bfloat16, use_fast_accum=True, out=out)
        if "beta" in self.words:
            return torch.addmm(out, a, b, beta=0.5, out=out)
        if "relu" in self.words or "gelu_tanh" in self.words:
            return torch._addmm_activation(beside[0], a, b, use_gelu="gelu_tanh" in self.words, out=out)
        if "bias" in self.words:
            return torch.addmm(beside[0], a, b, out=out)
        return torch.matmul(a, b, out=out)


def awkward(draw, low, high):
    """Odd, and every second one a prime."""
    size = families.between(draw, low, high) | 1
    while draw.random() < 0.5 and any(size % d == 0 for d in range(3, math.isqrt(size) + 1, 2)):
        size += 2
    return size


def half(draw):
    return draw.choice(("bf16", "fp16"))


def layouts(draw):
    return Problem("layouts", half(draw), draw.choice(LAYOUTS), *(families.between(draw, 64, 8192, 8) for _ in "mnk"))


def odd(draw):
    n, k = draw.choice(((True, False), (False, True), (True, True)))
    return Problem("odd", half(draw), draw.choice(LAYOUTS), families.between(draw, 16, 8192), *(awkward(draw, 64, 8192) if x else families.between(draw, 64, 8192, 8) for x in (n, k)))


def eighths(draw):
    return Problem("eighths", half(draw), draw.choice(LAYOUTS[:2]), families.between(draw, 16, 8192), *(8 * (families.between(draw, 8, 1024) | 1) for _ in "nk"))


def few(draw):
    kind = draw.choice(("bf16", "fp16", "fp8"))
    words = ("scale",) if kind == "fp8" else ()
    return Problem("few", kind, "rcr" if kind == "fp8" else draw.choice(LAYOUTS[:2]), draw.randint(1, 16), *(families.between(draw, 512, 32768, 16) for _ in "nk"), words=words)


def columns(draw):
    return Problem("columns", half(draw), draw.choice(LAYOUTS), families.between(draw, 256, 16384), families.between(draw, 1, 64), families.between(draw, 256, 8192, 8))


def deep(draw):
    return Problem("deep", half(draw), draw.choice(LAYOUTS), *(families.between(draw, 16, 1024, 8) for _ in "mn"), families.between(draw, 8192, 131072, 8))


def batch(draw):
    return Problem("batch", half(draw), draw.choice(LAYOUTS), *(families.between(draw, 16, 2048, 8) for _ in "mn"),
                   draw.choice((64, 128, families.between(draw, 16, 2048, 8))), batch=families.between(draw, 2, 256))  # fmt: skip


def tf32(draw):
    return Problem("tf32", "tf32", draw.choice(LAYOUTS), *(families.between(draw, 32, 4096, draw.choice((1, 4, 8))) for _ in "mnk"))


def int8(draw):
    return Problem("int8", "int8", draw.choice(LAYOUTS[:2]), families.between(draw, 17, 8192), *(families.between(draw, 64, 8192, draw.choice((8, 16))) for _ in "nk"))


def fp8(draw):
    return Problem("fp8", "fp8", "rcr", families.between(draw, 1, 8192), *(families.between(draw, 64, 16384, 16) for _ in "nk"), words=("scale",))


def fp8rows(draw):
    return Problem("fp8rows", "fp8", "rcr", families.between(draw, 1, 8192), *(families.between(draw, 64, 16384, 16) for _ in "nk"), words=("scales",))


def bias(draw):
    return Problem("bias", half(draw), draw.choice(LAYOUTS[:2]), families.between(draw, 1, 8192), *(families.between(draw, 64, 16384, 8) for _ in "nk"),
                   words=("bias", *draw.choice(((), ("relu",), ("gelu_tanh",)))))  # fmt: skip


def beta(draw):
    return Problem("beta", half(draw), draw.choice(LAYOUTS), families.between(draw, 1, 8192), *(families.between(draw, 64, 8192, 8) for _ in "nk"), words=("beta",))


FAMILIES = (layouts, odd, eighths, few, columns, deep, batch, tf32, int8, fp8, fp8rows, bias, beta)


def drawn(wanted, count, seed):
    """So many of each, in turns."""

    def maker(family):
        return lambda draw: problem if (problem := family(draw)).fits() else None

    return families.drawn({family.__name__: maker(family) for family in wanted}, count, seed)


def candidates_of(problem, first):
    operands = problem.make()
    return [each.kernel for each in tilesmith.candidates(tilesmith.matmul, *operands[:2], **problem.named(operands)).candidates[:first]]


def difference(problem, operands):
    """Between the two results, as a share of PyTorch's."""
    def of(call):
        operands[-1].zero_()
        call(*operands)
        return operands[-1].double()

    peer = of(problem.peer)
    ours = of(problem.ours)
    return ((ours - peer).square().mean() / peer.square().mean().clamp_min(1e-30)).sqrt().item()


def timed(problem, options, kernels=()):
    """Milliseconds of ours, or of these kernels of ours, and of cuBLAS."""
    sets, _ = timing.sets_of(problem.make)
    apart = difference(problem, sets[0])
    kernel = tilesmith.last_plan().kernel

    def by_name(name):
        return lambda *operands: tilesmith.matmul(*operands[:2], kernel=name, **problem.named(operands))

    contenders = {name: (by_name(name), sets) for name in kernels} or {"tilesmith": (problem.ours, sets)}
    return timing.burst_medians({**contenders, "cuBLAS": (problem.peer, sets)}, options.rounds, options.rest, options.burst), kernel, apart


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", default=",".join(each.__name__ for each in FAMILIES))
    parser.add_argument("--count", type=int, default=13, help="problems of a family")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rest", type=float, default=0.008, help="seconds before each contender's turn")
    parser.add_argument("--burst", type=float, default=4, help="milliseconds of a turn")
    parser.add_argument("--seconds", type=float, default=math.inf, help="from the start until the last problem")
    parser.add_argument("--look", type=int, default=0, help="of so many of the worst, the dispatcher's first eight kernels are timed")
    parser.add_argument("--look-seconds", type=float, default=math.inf, help="from the start until the last look")
    parser.add_argument("--worst", type=int, default=15)
    parser.add_argument("--workers", type=int, default=15, help="that compile")
    parser.add_argument("--json", help="write the results there")
    options = parser.parse_args()
    begin = time.monotonic()
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.manual_seed(1)
    wanted = options.families.split(",")
    problems = drawn([each for each in FAMILIES if each.__name__ in wanted], options.count, options.seed)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, rest {options.rest} s, bursts of {options.burst:g} ms, seed {options.seed}")
    chosen = [candidates_of(problem, 1)[0] for problem in problems]
    ranked = time.monotonic() - begin
    count = kernels.compile_all(chosen, options.workers)
    print(f"{len(problems)} problems, {count} kernels; ranked after {ranked:.1f} s, compiled after {time.monotonic() - begin:.1f} s", flush=True)
    rows = []

    def keep(looks=()):
        if options.json:
            Path(options.json).write_text(json.dumps(dict(rows=rows, looks=list(looks)), indent=1))

    for problem in problems:
        if time.monotonic() - begin > options.seconds:
            break
        try:
            times, kernel, apart = timed(problem, options)
        except (tilesmith.Error, RuntimeError) as error:
            print(f"left out: {problem}: {str(error).splitlines()[0][:200]}", flush=True)
            continue
        ratio = times["cuBLAS"] / times["tilesmith"]
        wrong = "" if apart <= CLOSE.get(problem.kind, CLOSE_ELSE) else f"  DIFFERS by {apart:.1e}"
        rows.append(dict(problem=str(problem), family=problem.family, ratio=ratio, milliseconds=times, kernel=kernel, apart=apart))
        print(f"{ratio:6.3f} {1e3 * times['tilesmith']:9.2f} us  {problem}  {kernel}{wrong}", flush=True)
        keep()
    print(f"timed after {time.monotonic() - begin:.1f} s")
    families.summary(rows, options.worst, "cuBLAS")
    if options.look:
        look(problems, rows, options, begin, keep)


def look(problems, rows, options, begin, keep):
    """What the kernels that dispatch ranks next take, where ours lost most."""
    by_text = {str(problem): problem for problem in problems}
    worst = [by_text[row["problem"]] for row in sorted(rows, key=lambda row: row["ratio"])[: options.look]]
    names = {str(problem): candidates_of(problem, 8) for problem in worst}
    kernels.compile_all(itertools.chain(*names.values()), options.workers)
    looks = []
    for problem in worst:
        if time.monotonic() - begin > options.look_seconds:
            break
        try:
            times, kernel, _ = timed(problem, options, names[str(problem)])
        except (tilesmith.Error, RuntimeError) as error:
            print(f"left out: {problem}: {str(error).splitlines()[0][:200]}", flush=True)
            continue
        looks.append(dict(problem=str(problem), chosen=kernel, milliseconds=times))
        print(f"{problem}: cuBLAS {1e3 * times['cuBLAS']:.2f} us", flush=True)
        for name, milliseconds in sorted(times.items(), key=lambda item: item[1]):
            if name != "cuBLAS":
                print(f"  {1e3 * milliseconds:9.2f} us {times['cuBLAS'] / milliseconds:6.3f} {name}{'  (chosen)' if name == kernel else ''}")
        keep(looks)
    print(f"looked after {time.monotonic() - begin:.1f} s")


if __name__ == "__main__":
    main()
