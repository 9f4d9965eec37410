"""The tile table of the GEMM templates: which configuration for which problem, as data; and a model that ranks others."""

import math

from gemm_config import BYTES, Hopper, Skinny, Stream, hopper_traits, traits

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


TILES = (
    [dict(tile_m=128, tile_n=n) for n in (128, 160, 192, 224, 256)]
    + [dict(tile_m=256, tile_n=n) for n in (96, 128)]
    + [dict(tile_m=192, tile_n=n, warpgroups=3) for n in (128, 192)]
    + [dict(tile_m=64, tile_n=n, ping_pong=True) for n in (64, 96, 128, 224, 256)]
    + [dict(tile_m=128, tile_n=n, ping_pong=True) for n in (32, 64, 96, 112, 128)]
    + [dict(tile_m=64, tile_n=n, warpgroups=1) for n in (32, 64, 96, 112, 128)]
    + [dict(tile_m=128, tile_n=n) for n in (32, 64)]
)
SMS = 132


def fill(config):
    """The configuration with as many stages as fit."""
    best = None
    for stages in range(2, 13):
        one = Hopper(**dict(config, stages=stages))
        if one.fits():
            best = one
    return best


def clocks(p, c):
    """A rough count of clocks, to rank configurations before any is timed."""
    tiles = c.tiles(p) * c.cluster_m * c.cluster_n
    items = tiles * c.splits
    rounds = math.ceil(items / SMS)
    steps = math.ceil(math.ceil(p.k / c.tile_k()) / c.splits)
    element = BYTES[p.a]
    # A product takes n / 2 clocks whatever the type; small tiles are fed less well.
    multiply = c.tile_m * c.tile_n / 32 * (1 if c.tile_m * c.tile_n >= 128 * 128 else 1.2)
    rows = min(c.tile_m, p.m)
    move = (rows / c.cluster_n + c.tile_n / c.cluster_m) * 128 / 50
    memory = p.bytes() / 2.6e3 / rounds
    end = c.tile_m * c.tile_n / 16 * (0.3 if c.ping_pong and rounds > 1 else 1) * (2 if element == 1 else 1)
    end += (1500 + c.tile_m * c.tile_n / 16 * c.splits) if c.split_k else 0
    penalty = 1.01 if c.cluster_m * c.cluster_n > 1 else 1
    return rounds * penalty * (max(steps * max(multiply, move), memory) + end) + 2500


def promising(p, count):
    """The configurations that the model likes best."""
    out = []
    for tile in TILES:
        if p.row_major_b and tile["tile_n"] % 64:
            continue
        for cluster in (dict(), dict(cluster_m=2), dict(cluster_n=2)):
            if cluster and (tile["tile_n"] % 16 or tile.get("warpgroups") == 3):
                continue
            for splits in (1, 2, 3, 4, 6):
                if splits > 1 and (p.k / splits < 512 or tile["tile_m"] * tile["tile_n"] > 128 * 192):
                    continue
                band = 8 if p.m >= 8192 else 4
                c = fill(dict(hopper_traits(p), **tile, **cluster, split_k=splits > 1, splits=splits, band=band))
                if c.tiles(p) * c.splits > SMS and splits > 1:
                    continue
                out.append((clocks(p, c), len(out), c))
    # Not more than two variants of a tile, so that the list stays various.
    chosen, seen = [], {}
    for _, _, c in sorted(out):
        key = (c.tile_m, c.tile_n, c.ping_pong, c.warpgroups)
        seen[key] = seen.get(key, 0) + 1
        if seen[key] <= 2:
            chosen.append(c)
    skinny = []
    if p.m <= 16 and p.row_major_a and not p.row_major_b and p.a not in ("f32",):
        rows = 8 if p.m <= 8 else 16
        fit = -(-p.n // SMS // 16) * 16
        while fit > 128:
            fit = -(-fit // 2 // 16) * 16
        for facts in (
            dict(columns=fit, boxes=max(1, 128 // fit)),
            dict(columns=fit, boxes=max(1, 128 // fit), warps=8) if fit <= 64 else dict(columns=fit, boxes=2),
            dict(columns=fit, boxes=max(1, 64 // fit)) if fit < 112 else dict(columns=fit, boxes=2, warps=8),
            dict(columns=32, boxes=4, blocks_per_sm=2),
            dict(columns=64, boxes=2, splits=2, split_k=True),
            dict(columns=fit // 2 // 16 * 16 or 16, boxes=2, blocks_per_sm=2),
        ):
            best = None
            for stages in range(2, 40):
                one = Stream(**traits(p), rows=rows, stages=stages, **facts)
                best = one if one.fits() else best
            skinny.append(best)
        skinny.append(Skinny(**traits(p), rows=rows, columns=16, stages=6))
        chosen = skinny + chosen[:2]
    return [c for c in chosen if c][:count]


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


TABLE = {}


def table(p):
    """The table's configurations for a problem."""
    return promising(p, 1)


def configs(p, explore, only=""):
    """The table's choice and, to explore, the most promising others."""
    every = table(p)
    if explore:
        every += variants(p) if p.m * p.n >= 2048 * 2048 else promising(p, explore)
    return [c for c in dict.fromkeys(every) if only in c.name()]
