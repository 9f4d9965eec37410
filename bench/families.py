"""Random problems of families, and what a peer takes beside ours: what the scripts that draw them have in common."""
import math
import random

import timing


def between(draw, low, high, unit=1):
    """By its logarithm, a multiple of unit."""
    return max(unit, round(math.exp(draw.uniform(math.log(low), math.log(high))) / unit) * unit)


def drawn(makers, count, seed):
    """So many of each of {name: maker}, in turns; a maker answers None where what it drew is too large or too small. A family's do not depend
    on which others are drawn."""
    rows = []
    for name, maker in makers.items():
        draw, row = random.Random(f"{name} {seed}"), []
        while len(row) < count:
            if (problem := maker(draw)) is not None:
                row.append(problem)
        rows.append(row)
    return [problem for turn in zip(*rows) for problem in turn]


def summary(rows, worst, peer, kinds=("family",)):
    """Geometric means of the ratios of each of the kinds, and the worst. A row names its peer as `best`, or has this one; without a ratio it
    does not count."""
    rows = [row for row in rows if row["ratio"]]
    if not rows:
        return
    for kind in kinds:
        for each in dict.fromkeys(row[kind] for row in rows):
            ratios = [row["ratio"] for row in rows if row[kind] == each]
            print(f"{each:10} {timing.geometric_mean(ratios):6.3f} x {peer}, smallest {min(ratios):.3f}, {sum(r < 0.95 for r in ratios)} of {len(ratios)} below 0.95")
    print(f"all        {timing.geometric_mean([row['ratio'] for row in rows]):6.3f} x {peer}, {len(rows)} problems; the worst:")
    for row in sorted(rows, key=lambda row: row["ratio"])[:worst]:
        ms, best = row["milliseconds"], row.get("best", peer)
        print(f"{row['ratio']:6.3f} {1e3 * ms['tilesmith']:9.2f} us, {best} {1e3 * ms[best]:9.2f}  {row['problem']}  {row['kernel']}")
