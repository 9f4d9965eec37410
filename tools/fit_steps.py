#!/usr/bin/env python3
"""Fit the microseconds of a step and of an end (`step_us`, `end_us` of the tiles of a chip's gemm.pipelines.warpspec) to timings of whole problems.

    tilesmith bench --op gemm --oracle --shapes train.txt --candidates 0 --rounds 4 --device cuda:0 --csv oracle.csv
    python bench/tiles.py "gemm fp8 575x3584x18944" ... --first 14 --json tiles.json
    python3 tools/fit_steps.py oracle.csv tiles.json --spec specs/cuda/sm_90a.json [--bandwidth 3.35e12] [--write]

A figure of the table was measured of a tile alone, on a chip that does nothing else. Here the figures of a family of tiles are moved
together (a least-squares fit of each figure alone chose no better than the table), to where the kernel that goes first loses least to the
fastest: one family after another, twice over, steps by 4 % up to 16 %, ends by 0.2 us up to 0.6; a family that gains nothing stays. The program ranks
(`tilesmith list --candidates --json`, with a changed spec); none of its formulas is repeated here. Rows that split k or share tiles, and
measured first choices, keep theirs. --bandwidth: of the device that the timings are of, where it is not the spec's. Printed: the regret (seconds of the kernel that
goes first over those of the fastest) before and after, and of five folds that have not seen the problem.
"""
import argparse
import csv
import json
import math
import os
import re
import shlex
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

STEPS = (1, 1.04, 0.96, 1.08, 0.92, 1.12, 0.88, 1.16, 0.84)
ENDS = (0, 0.2, -0.2, 0.4, -0.4, 0.6, -0.6)
LEAST_GAIN = 2e-4  # of the mean logarithm of the regret


class Tile(NamedTuple):
    rows: int
    columns: int
    warpgroups: int
    transposed: bool
    in_turns: bool


def alone(tile):
    return tile.warpgroups == 2 and not tile.in_turns


FAMILIES = {
    "one warpgroup, 240 columns and more": lambda t: t.warpgroups == 1 and not t.transposed and t.columns >= 240,
    "one warpgroup, 144 to 224 columns": lambda t: t.warpgroups == 1 and not t.transposed and 144 <= t.columns < 240,
    "64 columns, transposed or by two warpgroups": lambda t: t.columns == 64 and (t.transposed or t.warpgroups == 2),
    "in turns": lambda t: t.in_turns,
    "two warpgroups, 96 and 112 columns": lambda t: alone(t) and not t.transposed and t.columns in (96, 112),
    "two warpgroups, 128 rows by 128 columns and more": lambda t: alone(t) and not t.transposed and t.rows == 128 and t.columns >= 128,
    "two warpgroups, 256 rows": lambda t: alone(t) and not t.transposed and t.rows == 256,
    "two warpgroups, transposed, 128 columns": lambda t: alone(t) and t.transposed and t.columns == 128,
    "two warpgroups, transposed, 256 columns": lambda t: alone(t) and t.transposed and t.columns == 256,
    "three warpgroups, transposed": lambda t: t.warpgroups == 3 and t.transposed,
}


def measured(files):
    """{problem's line: {kernel: seconds}}"""
    problems = {}
    for file in files:
        if file.endswith(".json"):
            for row in json.loads(Path(file).read_text()):
                _, kind, sizes = row["problem"].split()
                m, n, k = sizes.split("x")
                into = problems.setdefault(f"gemm -m {m} -n {n} -k {k} --dtype {kind}", {})
                into.update({name: t / 1e3 for name, t in row["milliseconds"].items() if name.startswith("gemm_")})
            continue
        with open(file, newline="", encoding="utf-8") as stream:
            for row in csv.DictReader(line for line in stream if not line.startswith("#")):
                if row["status"] in ("verified", "unverified") and row["turns_s"]:
                    line = re.sub(" --seed .*", "", row["problem"])
                    problems.setdefault(line, {})[row["name"]] = statistics.median(map(float, row["turns_s"].split()))
    return {line: kernels for line, kernels in problems.items() if len(kernels) > 1}


def ranked(program, spec, arch, line):
    """The kernels of a problem in dispatch's order."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "cuda").mkdir()
        (Path(folder) / "cuda" / f"{arch}.json").write_text(spec)
        command = [program, "list", "--arch", arch, "--op", "gemm", "--candidates", "--json", *shlex.split(line)[1:]]
        found = subprocess.run(command, env=dict(os.environ, TILESMITH_SPEC_DIR=folder), check=True, capture_output=True, text=True).stdout
    return [one["name"] for one in json.loads(found)["candidates"]]


ROW = re.compile(r'\{"tile": \[(\d+), (\d+)\], "wave": \[(\d+)\][^}]*?"step_us": ([0-9.]+)[^}]*\}')
KEEP = ('"splits"', '"stream_k"', '"cluster_k"', '"groups"', '"first_for"')


def table_of(spec):
    """Where the warp-specialised GEMM tiles stand in the text."""
    gemm = spec.index('"gemm": {')
    begin = spec.index('"warpspec": {', gemm)
    return begin, spec.index("]\n", spec.index('"tiles"', begin))


def tile_of(match):
    text = match.group(0)
    return Tile(*map(int, match.groups()[:3]), '"transpose_c": true' in text, '"ping_pong": true' in text)


def moved(spec, figures_of):
    """The text with each tile's figures as figures_of(tile, step, end) has them."""
    begin, end = table_of(spec)

    def one(match):
        text = match.group(0)
        end_us = re.search(r'"end_us": ([0-9.]+)', text)
        if end_us is None or any(word in text for word in KEEP):
            return text
        step, last = figures_of(tile_of(match), float(match.group(4)), float(end_us.group(1)))
        text = text.replace(f'"step_us": {match.group(4)}', f'"step_us": {round(step, 4):g}')
        return text.replace(end_us.group(0), f'"end_us": {round(last, 4):g}')

    return spec[:begin] + ROW.sub(one, spec[begin:end]) + spec[end:]


def regret(kernels, listed):
    """Of the kernel that goes first: what is listed is in dispatch's order."""
    common = [name for name in listed if name in kernels]
    return kernels[common[0]] / min(kernels[name] for name in common)


class Judge:
    def __init__(self, options, text, problems):
        self._options, self._text, self._problems, self._known = options, text, problems, {}

    def spec(self, moves):
        """`moves`: {(family, "step"): a factor, (family, "end"): microseconds more}"""

        def figures_of(tile, step, end):
            for name, holds in FAMILIES.items():
                if holds(tile):
                    step, end = step * moves.get((name, "step"), 1), max(end + moves.get((name, "end"), 0), 0.1)
            return step, end

        return moved(self._text, figures_of)

    def regrets(self, moves):
        """Of each problem."""
        key = tuple(sorted(moves.items()))
        if key not in self._known:
            spec = self.spec(moves)
            if self._options.bandwidth:
                spec = re.sub(r'"bytes_per_second": [0-9.e+]+', f'"bytes_per_second": {self._options.bandwidth}', spec, count=1)
            arch = Path(self._options.spec).stem
            self._known[key] = {line: regret(kernels, ranked(self._options.program, spec, arch, line)) for line, kernels in self._problems.items()}
        return self._known[key]

    def fit(self, lines):
        def loss(moves):
            return sum(math.log(self.regrets(moves)[line]) for line in lines) / len(lines)

        moves = {}
        for _ in range(2):
            for family in FAMILIES:
                for figure, steps in (("step", STEPS), ("end", ENDS)):
                    best = loss(moves)
                    for step in steps:
                        if (now := loss(moves | {(family, figure): step})) < best - LEAST_GAIN:
                            best, moves = now, moves | {(family, figure): step}
        return {what: step for what, step in moves.items() if step != (1 if what[1] == "step" else 0)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("timings", nargs="+", help="of an oracle (CSV) or of bench/tiles.py (JSON)")
    parser.add_argument("--program", default="build/bin/tilesmith")
    parser.add_argument("--spec", required=True)
    parser.add_argument("--bandwidth", help="bytes a second")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    try:
        problems = measured(options.timings)
        text = Path(options.spec).read_text(encoding="utf-8")
    except OSError as error:
        parser.error(f"{error.filename}: {error.strerror}")
    except (KeyError, ValueError) as error:
        parser.error(f"{' '.join(options.timings)}: {error!r}: want a CSV of bench --oracle, or a .json of bench/tiles.py")
    if not problems:
        parser.error(f"{' '.join(options.timings)}: no problem has two kernels that were timed")
    judge = Judge(options, text, problems)
    lines = list(problems)
    moves = judge.fit(lines)
    unseen = {}
    for fold in range(5):
        held = lines[fold::5]
        found = judge.regrets(judge.fit([line for line in lines if line not in held]))
        unseen |= {line: found[line] for line in held}
    for (family, figure), move in moves.items():
        print(f"{family}: {figure} {'x' if figure == 'step' else '+'} {move}")
    for what, found in (("before", judge.regrets({})), ("fitted", judge.regrets(moves)), ("unseen", unseen)):
        mean = math.exp(statistics.mean(map(math.log, found.values())))
        worst = max(found, key=found.get)
        print(f"{what}: {len(found)} problems, mean {mean:.4f}, worst {found[worst]:.3f} ({worst})")
    if options.write:
        Path(options.spec).write_text(judge.spec(moves))


if __name__ == "__main__":
    main()
