#!/usr/bin/env python3
"""Fit the figures of a chip's gemm.stream (few rows, skinny_tma) and gemm.pair (two SMs that share a way to memory) to timings of problems of up to
128 rows.

    python bench/tiles.py "gemm fp8 1x4096x4096" "gemm bf16 90x5120x5120" ... --first 10 --json few.json
    python3 tools/fit_streams.py few.json --spec specs/cuda/sm_90a.json [--only pair] [--bandwidth 3.35e12] [--write]

One figure after another, twice over, is multiplied by 0.8 to 1.25 and keeps the factor with which the kernel that goes first loses least to the
fastest of those timed (the mean logarithm of their ratio, and a fifth of the largest). The program ranks with the changed spec (fitting.py);
no formula is repeated here. A figure that gains nothing stays. Printed: the figures that moved, and the regret before and after, and of five
folds that have not seen the problem. --only: one object's figures (wgmma, mma, pair). --bandwidth: of the device that the timings are of, where it is not the spec's.
"""
import re

import fitting

OF_STREAM = ("launch_us", "box_ns", "end_us", "pair_bytes_per_second", "between", "power", "fp8", "others")
FIGURES = [
    *(("wgmma", figure) for figure in OF_STREAM),
    *(("mma", figure) for figure in (*OF_STREAM, "sum_ns")),
    *(("pair", figure) for figure in ("bytes_per_second", "alone", "soon_shared", "shared", "copies_once")),
]
MOST_ROWS = 128
FACTORS = (0.9, 1.1, 0.8, 1.25)
LEAST_GAIN = 5e-4


def scaled(text, moves):
    """The spec's text with the figures multiplied, {(object, figure): factor}."""
    for (name, figure), factor in moves.items():
        line = re.compile(rf'"{name}": \{{.*?\}}').search(text, text.index('"gemm": {'))
        old = re.search(rf'"{figure}": ([0-9.e+]+)', line.group(0))
        new = line.group(0).replace(old.group(0), f'"{figure}": {float(old.group(1)) * factor:.3g}')
        text = text[: line.start()] + new + text[line.end() :]
    return text


def fit_of(options):
    choices = [(figure, FACTORS) for figure in FIGURES if options.only in ("", figure[0])]
    few_rows = lambda line: int(re.search(r"-m (\d+)", line).group(1)) <= MOST_ROWS  # noqa: E731
    return fitting.Fit(scaled, choices, LEAST_GAIN, of_worst=0.2, holds=few_rows)


if __name__ == "__main__":
    fitting.main(__doc__, fit_of, lambda parser: parser.add_argument("--only", choices=("wgmma", "mma", "pair"), default=""))
