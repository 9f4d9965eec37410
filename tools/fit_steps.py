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
import re
from typing import NamedTuple

import fitting

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


def changed(spec, moves):
    """`moves`: {(family, "step"): a factor, (family, "end"): microseconds more}"""

    def figures_of(tile, step, end):
        for name, holds in FAMILIES.items():
            if holds(tile):
                step, end = step * moves.get((name, "step"), 1), max(end + moves.get((name, "end"), 0), 0.1)
        return step, end

    return moved(spec, figures_of)


if __name__ == "__main__":
    choices = [((family, figure), moves) for family in FAMILIES for figure, moves in (("step", STEPS), ("end", ENDS))]
    fitting.main(__doc__, fitting.Fit(changed, choices, LEAST_GAIN))
