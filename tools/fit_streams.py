#!/usr/bin/env python3
"""Fit the figures of a chip's gemm.stream (few rows, skinny_tma) to timings of problems of up to 16 rows.

    python bench/tiles.py "gemm fp8 1x4096x4096" "gemm bf16 16x5120x5120" ... --first 10 --json few.json
    python3 tools/fit_streams.py few.json --spec specs/cuda/sm_90a.json [--bandwidth 3.35e12] [--write]

One figure after another, twice over, is multiplied by 0.8 to 1.25 and keeps the factor with which the kernel that goes first loses least to the
fastest of those timed (the mean logarithm of their ratio, and a fifth of the largest). The program ranks with the changed spec (fit_steps.py);
no formula is repeated here. A figure that gains nothing stays. Printed: the figures that moved, and the regret before and after, and of five
folds that have not seen the problem. --bandwidth: of the device that the timings are of, where it is not the spec's.
"""
import argparse
import math
import re
import statistics
from pathlib import Path

import fit_steps

FIGURES = [(instruction, figure) for instruction in ("wgmma", "mma")
           for figure in ("launch_us", "box_ns", "end_us", "pair_bytes_per_second", "between", "power", "fp8", "others")]  # fmt: skip
FACTORS = (0.9, 1.1, 0.8, 1.25)
LEAST_GAIN = 5e-4


def scaled(text, moves):
    """The spec's text with the figures multiplied, {(instruction, figure): factor}."""
    for (instruction, figure), factor in moves.items():
        line = re.search(rf'"{instruction}": \{{"launch_us".*?\}}', text)
        old = re.search(rf'"{figure}": ([0-9.e+]+)', line.group(0))
        new = line.group(0).replace(old.group(0), f'"{figure}": {float(old.group(1)) * factor:.3g}')
        text = text[: line.start()] + new + text[line.end() :]
    return text


class Judge:
    def __init__(self, options, text, problems):
        self._options, self._text, self._problems, self._known = options, text, problems, {}

    def regrets(self, moves):
        """Of each problem."""
        key = tuple(sorted(moves.items()))
        if key not in self._known:
            spec, arch = scaled(self._text, moves), Path(self._options.spec).stem
            if self._options.bandwidth:
                spec = re.sub(r'"bytes_per_second": [0-9.e+]+', f'"bytes_per_second": {self._options.bandwidth}', spec, count=1)
            self._known[key] = {line: fit_steps.regret(kernels, fit_steps.ranked(self._options.program, spec, arch, line)) for line, kernels in self._problems.items()}
        return self._known[key]

    def fit(self, lines):
        def loss(moves):
            found = [math.log(self.regrets(moves)[line]) for line in lines]
            return statistics.mean(found) + max(found) / 5

        moves = {}
        for _ in range(2):
            for what in FIGURES:
                best = loss(moves)
                for factor in FACTORS:
                    if (now := loss(moves | {what: factor})) < best - LEAST_GAIN:
                        best, moves = now, moves | {what: factor}
        return moves


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("timings", nargs="+", help="of an oracle (CSV) or of bench/tiles.py (JSON)")
    parser.add_argument("--program", default="build/bin/tilesmith")
    parser.add_argument("--spec", required=True)
    parser.add_argument("--bandwidth", help="bytes a second")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    try:
        problems = fit_steps.measured(options.timings)
        text = Path(options.spec).read_text(encoding="utf-8")
    except OSError as error:
        parser.error(f"{error.filename}: {error.strerror}")
    except (KeyError, ValueError) as error:
        parser.error(f"{' '.join(options.timings)}: {error!r}: want a CSV of bench --oracle, or a .json of bench/tiles.py")
    problems = {line: kernels for line, kernels in problems.items() if int(re.search(r"-m (\d+)", line).group(1)) <= 16}
    if not problems:
        parser.error(f"{' '.join(options.timings)}: no problem of up to 16 rows has two kernels that were timed")
    judge, lines = Judge(options, text, problems), list(problems)
    moves, unseen = judge.fit(lines), {}
    for fold in range(5):
        held = lines[fold::5]
        found = judge.regrets(judge.fit([line for line in lines if line not in held]))
        unseen |= {line: found[line] for line in held}
    for (instruction, figure), factor in moves.items():
        print(f"{instruction}: {figure} x {factor}")
    for what, found in (("before", judge.regrets({})), ("fitted", judge.regrets(moves)), ("unseen", unseen)):
        worst = max(found, key=found.get)
        print(f"{what}: {len(found)} problems, mean {math.exp(statistics.mean(map(math.log, found.values()))):.4f}, worst {found[worst]:.3f} ({worst})")
    if options.write:
        Path(options.spec).write_text(scaled(text, moves), encoding="utf-8")


if __name__ == "__main__":
    main()
