#!/usr/bin/env python3
"""Fit what attention forward takes on CUDA whose rows begin anywhere: `element_ns` and `element_wait_ns` of kernels that read them by elements, and the `row_copies` in front
of kernels that do not and behind them.

    tilesmith bench --op attention --oracle --shapes odd_rows.txt --device cuda:0 --candidates 12 --cut 9 --rounds 2 --csv odd_rows.csv
    python3 tools/fit_odd_rows.py odd_rows.csv --spec specs/cuda/sm_90a.json --alone 3.5 [--write]

One figure after another is multiplied by 0.8 to 1.25 as long as that makes the predictions of all kernels better (the root of the mean square of the logarithms of their
errors). An oracle times calls that stand alone; --alone says how many microseconds those take more than is predicted. The program predicts with the changed
spec (fitting.py); no formula is repeated here. Printed: the figures, and the error and the regret before and after, and of
five folds that have not seen the problem.
"""
import re

import fitting

FIGURES = [("element_ns",), ("element_wait_ns",), ("row_copies", "launch_us"), ("row_copies", "bytes_per_second")]
FACTORS = (0.9, 1.1, 0.8, 1.25)
LEAST_GAIN = 5e-4


def scaled(text, moves):
    """The spec's text with the figures multiplied, {figure: factor}."""
    for figure, factor in moves.items():
        begin = text.index(f'"{figure[0]}"')
        old = re.compile(rf'"{figure[-1]}": ([0-9.e+]+)').search(text, begin)
        text = text[: old.start(1)] + f"{float(old.group(1)) * factor:.3g}" + text[old.end(1) :]
    return text


if __name__ == "__main__":
    choices = [(figure, FACTORS) for figure in FIGURES]
    fitting.main(__doc__, lambda options: fitting.Fit(scaled, choices, LEAST_GAIN, passes=8, compound=True, predicts=lambda name: True, alone=1e-6 * options.alone),
                 lambda parser: parser.add_argument("--alone", type=float, default=0, help="microseconds"))  # fmt: skip
