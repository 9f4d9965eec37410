"""Which configuration the library's tile table (specs/cuda/sm_90a.json) has for a problem, and which to try next."""

import dataclasses
import math

from gemm_config import BYTES, Hopper, Stream, hopper_traits, traits
from gemm_facts import SPEC

SQUARES = (512, 1024, 2048, 4096, 8192)
ROWS = (1, 16, 64, 128, 512, 2048, 8192)
WIDE = ((4096, 4096), (14336, 4096), (4096, 14336))  # n, k


def shapes(which):
    """(m, n, k) of a list of names: square, wide, or m x n x k themselves."""
    out = []
    for name in which.split(","):
        if name == "square":
            out += [(s, s, s) for s in SQUARES]
        elif name == "wide":
            out += [(m, n, k) for n, k in WIDE for m in ROWS]
        elif name == "skinny":
            out += [(m, n, k) for n, k in WIDE for m in ROWS if m < 512]
        elif name == "broad":
            out += [(m, n, k) for n, k in WIDE for m in ROWS if m >= 512]
        else:
            out.append(tuple(int(x) for x in name.split("x")))
    return out


SMS = 132

LINES = SPEC["pipelines"]["warpspec"]["tiles"]


def _tile(line):
    (tile_m, tile_n), (cluster_m, cluster_n) = line["tile"], line.get("cluster", (1, 1))
    tile = dict(tile_m=tile_m, tile_n=tile_n, warpgroups=line["wave"][0], ping_pong=line.get("ping_pong", False))
    tile.update(cluster_m=cluster_m, cluster_n=cluster_n)
    return dict(tile, split_k=True, splits=line["splits"]) if "splits" in line else tile


# Microseconds for a step of 128 bytes of k and for the end of a tile.
TILES = [
    (_tile(line), line["step_us"], line["end_us"])
    for line in LINES
    if not line.keys() & {"first_for", "groups", "splits", "shares_k"}
]
# First choices up to 128 rows: (bytes of an element, m, n and k up to, configuration), the first that fits. MN-major
# operands and others that no line fits take the tiles above.
FEW_ROWS = [
    (f["element_bytes"], f["m"], f.get("n", 1 << 30), f.get("k", 1 << 30), _tile(line))
    for line in LINES
    for f in [line.get("first_for")]
    if f
]


def fill(config):
    """The configuration with as many stages as fit."""
    return largest(lambda stages: Hopper(**dict(config, stages=stages)), range(2, 13))


def band(p):
    return 16 if p.m * p.n <= 4096 * 14336 else 8


def largest(make, stages=range(2, 40)):
    """The configuration with as many stages as fit, or None."""
    fitting = [c for c in map(make, stages) if c.fits()]
    return fitting[-1] if fitting else None


def streams(p, early_b=False):
    """Configurations for at most 16 rows, the best first: one group of columns for each SM, or an even part of one."""
    fit = -(-p.n // SMS // 16) * 16
    while fit > 128:
        fit = -(-fit // 2 // 16) * 16
    few = dict(boxes=max(1, 128 // fit), warps=4) if fit < 96 else dict(boxes=2, warps=8)
    choices = (
        dict(columns=fit, **few),
        dict(columns=fit, boxes=max(2, 128 // fit), warps=12 - few["warps"]),
        dict(columns=fit, boxes=max(1, 64 // fit)),
        dict(columns=32, boxes=4, blocks_per_sm=2),
    )
    common = dict(traits(p), rows=8 if p.m <= 8 else 16, early_b=early_b)
    return [c for c in (largest(lambda s, f=f: Stream(**common, stages=s, **f)) for f in choices) if c]


def cost(p, tile, step, end):
    """Microseconds that a tile would take, along k."""
    c = fill(dict(hopper_traits(p), **tile))
    if p.a == "s8" and p.k <= 8192 and c.ping_pong:
        step *= 0.94  # integers draw less power: the smaller tile is not held back by it
    tiles = c.tiles(p) * c.cluster_m * c.cluster_n
    if p.k * BYTES[p.a] % 32:
        step = max(step, 1e-3 * SPEC["straddle_ns"] * (c.tile_m / c.cluster_n + c.tile_n / c.cluster_m) * min(tiles / SMS, 1))
    rounds = math.ceil(tiles / SMS)
    return SPEC["launch_us"] + max(rounds * (math.ceil(p.k / c.tile_k()) * step + end), p.bytes() / 4.3e6)


def usable(p, tile):
    if p.row_major_b and tile["tile_n"] % 64:
        return False
    return True


def promising(p, count, early_b=False):
    """The best configurations by the table: the first is the table's choice."""
    few, size = [], BYTES[p.a]
    along_k = p.row_major_a and not p.row_major_b
    if p.m <= 16 and along_k and size < 4:
        few = streams(p, early_b)
    elif p.m <= 128 and along_k and p.batch == 1 and p.k * size % 32 == 0:
        few = [
            fill(dict(hopper_traits(p), **tile, band=band(p)))
            for bytes_, m, n, k, tile in FEW_ROWS
            if bytes_ == size and p.m <= m and p.n <= n and p.k <= k
        ]
    ranked = sorted((cost(p, *row), i) for i, row in enumerate(TILES) if usable(p, row[0]))
    tiles = [fill(dict(hopper_traits(p), **TILES[i][0], band=band(p))) for _, i in ranked]
    return (few + tiles)[:count]


def variants(p):
    """Large tiles in several orders, for problems of many tiles."""
    common = hopper_traits(p)
    wide, tall = dict(tile_m=128, tile_n=256), dict(tile_m=256, tile_n=128)
    out = [fill(dict(common, **wide, band=b)) for b in (2, 4, 8, 16)]
    out += [fill(dict(common, **wide, band=b, band_columns=True)) for b in (4, 8)]
    out += [fill(dict(common, **wide, cluster_m=2, band=b)) for b in (2, 4)]
    out += [fill(dict(common, **wide, cluster_n=2, band=4)), fill(dict(common, **tall, cluster_n=2, band=4))]
    out += [fill(dict(common, **tall, band=b)) for b in (2, 4)]
    return out + [fill(dict(common, tile_m=128, tile_n=128, ping_pong=True, band=b)) for b in (4, 8)]


def table(p):
    """The table's configuration for a problem."""
    return promising(p, 1)


def configs(p, explore, only="", early_b=False, without=()):
    """The table's choice and, to explore, others, and the choice without some of the host's."""
    every = promising(p, max(1, explore), early_b)
    if explore > 4 and p.m * p.n >= 2048 * 2048:
        every += variants(p)
    for choice in without:
        every += [dataclasses.replace(c, **{choice: False}) for c in every[:1] if hasattr(c, choice)]
    return [c for c in dict.fromkeys(every) if only in c.name()]
