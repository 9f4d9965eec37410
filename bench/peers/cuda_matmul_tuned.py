#!/usr/bin/env python3
"""tilesmith.matmul as chosen and as tuned, beside PyTorch's cuBLAS, on random projections of models.

    python bench/peers/cuda_matmul_tuned.py --seed 84                        60 shapes in bf16
    python bench/peers/cuda_matmul_tuned.py --seed 84 --types fp8 --part 2/3 the second third of them
    python bench/peers/cuda_matmul_tuned.py --shapes "156,10240,8192"        these

The shapes are those of cuda_matmul.py --random. `tilesmith tune` races the first --candidates of each, whose kernels `tilesmith build` compiles
beforehand, and its file of choices is what is judged: its choice, the dispatcher's, the --others that were fastest in the race, and cuBLAS, in turns of
bursts, what they read in no cache (bench/timing.py). Each result is compared with cuBLAS's. Regret is a kernel's time over that of the best: rounds of
even number choose the best and those of odd number judge, and the other way round, so luck counts for nobody. A round of races and a judgement
follow each other for --at-a-time shapes, the smallest products first; with --seconds, what was not reached by then is left out.
Needs torch with CUDA, and the package (pip install ., or PYTHONPATH=python with TILESMITH_LIBRARY).
"""
import argparse
import json
import math
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch

import tilesmith

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import cuda_matmul  # noqa: E402
import kernels  # noqa: E402
import timing  # noqa: E402

CLOSE = 6e-3  # relative root of the mean square between two results


def line_of(kind, shape):
    return "gemm -m {} -n {} -k {} --dtype {}".format(*shape, kind)


def candidates_of(kind, shape, first):
    a, b, out = cuda_matmul.operands(kind, *shape)
    return [each.kernel for each in tilesmith.candidates(tilesmith.matmul, a, b, out=out).candidates[:first]]


def fastest_of(database, problem, count):
    """The kernels that took the least time in a problem's race, by what the program exports."""
    exported = Path(database).with_suffix(".json")
    if (done := kernels.run_program("db", "export", "--format", "json", "--db", database, exported)).returncode:
        raise RuntimeError(done.stdout)
    race = next(each for each in json.loads(exported.read_text())["races"] if each["line"] == problem)
    entrants = [each for each in race["entrants"] if not each["failure"]]
    return [each["name"] for each in sorted(entrants, key=lambda each: each["least_s"])[:count]]


def by_name(name):
    return lambda a, b, out: tilesmith.matmul(a, b, out=out, kernel=name)


def apart(result, peer):
    return ((result - peer).norm() / peer.norm()).item()


def turns(contenders, options):
    """Milliseconds of each contender in each round."""
    bursts = {name: timing.Burst(call, sets, options.rest) for name, (call, sets) in contenders.items()}
    times = {name: [] for name in contenders}
    for _, name in timing.in_turn(contenders, options.rounds):
        times[name].append(bursts[name].milliseconds(options.rest, options.burst))
    return times


def regret(times, name):
    """Of the kernel, both ways: the best of one half of the rounds against it in the other."""
    halves = []
    for chooses in (0, 1):
        best = min(times, key=lambda each: statistics.fmean(times[each][chooses::2]))
        halves.append(statistics.fmean(times[name][1 - chooses :: 2]) / statistics.fmean(times[best][1 - chooses :: 2]))
    return math.sqrt(halves[0] * halves[1])


def judged(kind, shape, names, choices, options):
    """A row: the times of these kernels and of cuBLAS, and what the file of choices makes dispatch take."""
    sets, _ = timing.sets_of(lambda: cuda_matmul.operands(kind, *shape))
    peer = cuda_matmul.cublas(kind, shape[0])
    a, b, out = sets[0]
    peer(a, b, out)
    expected = out.double()
    with tilesmith.tuning(choices):
        tilesmith.matmul(a, b, out=out)
        tuned, source = tilesmith.last_plan().kernel, tilesmith.last_plan().source
    contenders, wrong = {"cuBLAS": (peer, sets)}, []
    for name in dict.fromkeys([*names, tuned]):
        out.fill_(math.nan)
        by_name(name)(a, b, out)
        if not apart(out.double(), expected) <= CLOSE:
            wrong.append(name)
        contenders[name] = (by_name(name), sets)
    times = turns(contenders, options)
    return dict(type=kind, shape=shape, chosen=names[0], tuned=tuned, source=str(source), wrong=wrong, milliseconds=times)


def told(row):
    """Ratios and regrets of a row."""
    times = {name: each for name, each in row["milliseconds"].items() if name != "cuBLAS"}
    of = {name: statistics.median(each) for name, each in row["milliseconds"].items()}
    return {word: (of["cuBLAS"] / of[row[word]], regret(times, row[word])) for word in ("chosen", "tuned")}


def summary(rows):
    for kind in dict.fromkeys(row["type"] for row in rows):
        figures = [told(row) for row in rows if row["type"] == kind]
        for word in ("chosen", "tuned"):
            ratios, regrets = [each[word][0] for each in figures], [each[word][1] for each in figures]
            print(f"{kind} {word}: {timing.geometric_mean(ratios):.4f} x cuBLAS in the geometric mean, least {min(ratios):.3f}, {sum(r < 0.95 for r in ratios)} below 0.95, "
                  f"{sum(r < 0.98 for r in ratios)} below 0.98, {len(ratios)} shapes; regret {timing.geometric_mean(regrets):.4f}, worst {max(regrets):.3f}")  # fmt: skip
        for row, each in sorted(zip([row for row in rows if row["type"] == kind], figures), key=lambda pair: pair[1]["tuned"][0])[:6]:
            print(f"  {each['tuned'][0]:.3f} (chosen {each['chosen'][0]:.3f}) {'x'.join(map(str, row['shape']))} {row['tuned']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--types", default="bf16")
    parser.add_argument("--random", type=int, default=60, help="shapes of each type")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shapes", help="m,n,k;m,n,k;... instead")
    parser.add_argument("--part", default="1/1", help="I/N: every N-th of the shapes, from the I-th on")
    parser.add_argument("--candidates", type=int, default=8, help="that race for a shape")
    parser.add_argument("--budget", type=float, default=0.4, help="seconds of timing of a race")
    parser.add_argument("--others", type=int, default=2, help="of the race's fastest that are judged too")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--rest", type=float, default=0.006, help="seconds before each contender's turn")
    parser.add_argument("--burst", type=float, default=3.5, help="milliseconds of a turn")
    parser.add_argument("--at-a-time", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=math.inf, help="from the start until the last shape")
    parser.add_argument("--workers", type=int, default=15, help="that compile")
    parser.add_argument("--json", help="write the results there")
    options = parser.parse_args()
    begin = time.monotonic()
    shapes = [tuple(map(int, s.split(","))) for s in options.shapes.split(";")] if options.shapes else cuda_matmul.random_shapes(options.random, options.seed)
    first, step = map(int, options.part.split("/"))
    if not 1 <= first <= step:
        parser.error(f"--part {options.part}: I/N has I from 1 to N, for example 2/3")
    cells = [(kind, shape) for shape in sorted(shapes[first - 1 :: step], key=math.prod) for kind in options.types.split(",")]
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, rest {options.rest} s, bursts of {options.burst:g} ms, {options.rounds} rounds")
    near = {cell: candidates_of(*cell, options.candidates) for cell in cells}
    count = kernels.compile_all([name for names in near.values() for name in names], options.workers)
    print(f"{len(cells)} problems, {count} kernels, compiled after {time.monotonic() - begin:.1f} s", flush=True)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        database = f"{folder}/tuning.db"
        for at in range(0, len(cells), options.at_a_time):
            part, choices = cells[at : at + options.at_a_time], f"{folder}/choices{at}.json"  # a file is read once
            if time.monotonic() - begin > options.seconds:
                break
            torch.cuda.empty_cache()  # the races run in a process of their own
            report = tilesmith.tune([line_of(*cell) for cell in part], device="cuda:0", candidates=options.candidates, budget=options.budget,
                                    database=database, file=choices)  # fmt: skip
            for problem, reason in report.skipped:
                print(f"skipped: {problem}: {reason}")
            raced = {tuple(int(each.problem.split(f" -{size} ")[1].split()[0]) for size in "mnk") + (each.problem.split("--dtype ")[1].split()[0],): each
                     for each in report.problems}  # fmt: skip
            print(f"raced after {time.monotonic() - begin:.1f} s", flush=True)
            for kind, shape in part:
                if (each := raced.get((*shape, kind))) is None:
                    continue
                names = [near[kind, shape][0], *fastest_of(database, each.problem, options.others)]
                rows.append(judged(kind, shape, names, choices, options))
                row, figures = rows[-1], told(rows[-1])
                if row["source"] != "measurement":
                    raise RuntimeError(f"the file of choices did not decide {each.problem}: {row['source']}")
                print(f"{kind:5} {'x'.join(map(str, shape)):18} cuBLAS {1e3 * statistics.median(row['milliseconds']['cuBLAS']):8.2f} us; chosen {figures['chosen'][0]:.3f}, tuned {figures['tuned'][0]:.3f} "
                      f"({row['source']}) {row['tuned']}{' WRONG: ' + ' '.join(row['wrong']) if row['wrong'] else ''}", flush=True)  # fmt: skip
                if options.json:
                    Path(options.json).write_text(json.dumps(rows))
                if time.monotonic() - begin > options.seconds:
                    break
    print(f"judged {len(rows)} of {len(cells)} after {time.monotonic() - begin:.1f} s")
    if rows:
        summary(rows)
    if wrong := sorted({name for row in rows for name in row["wrong"]}):
        sys.exit(f"results are not cuBLAS's: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
