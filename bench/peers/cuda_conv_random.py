#!/usr/bin/env python3
"""Random convolutions, untuned, beside cuDNN (through PyTorch, benchmark mode over all engines) on a CUDA device, in one process.

    python bench/peers/cuda_conv_random.py --seed 5                        6 layers of each family, in all three directions
    python bench/peers/cuda_conv_random.py --seed 5 --families odd,first   of these
    python bench/peers/cuda_conv_random.py --seed 5 --look 4               where cuDNN is ahead, what dispatch's next four kernels take
    python bench/peers/cuda_conv_random.py --seed 5 --lines                the problems as lines, as `tilesmith run --file` has them; needs no device

Families: line (1-D), image (2-D), volume (3-D), pointwise (1x1, also with a stride), odd (channels that are no multiple of 8), first (1 to 4
channels), groups (2 to 8 of 8 to 128 channels), narrow (groups of 2 to 32 channels), pairs (groups of 2), thin (8 to 32 filters, or channels of x),
slices (3-D of 1x3x3 and 1x5x5 taps), depthwise. Strides and dilations are drawn, and one to 128 images of any size. bf16 and fp16, channels last, cold L2, contenders in turn, medians (bench/timing.py); results are compared. Kernels are compiled
beforehand by `tilesmith build`. Families take turns; with --seconds, what was not reached by then is left out.
"""
import argparse
import itertools
import json
import math
import sys
import time
from pathlib import Path

import cuda_conv
import torch

import tilesmith

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import families  # noqa: E402
import kernels  # noqa: E402
import timing  # noqa: E402

DIRECTIONS = ("fwd", "bwd_data", "bwd_weight")
MOST_ELEMENTS = 1 << 26  # of x or y
MOST_PRODUCTS = 3 << 33
LEAST_PRODUCTS = 1 << 24
CLOSE = 1.2e-2  # relative root of the mean square between the two results


def eights(draw, low=8, high=512):
    return draw.choice((families.between(draw, low, high, 8), 1 << draw.randint(math.ceil(math.log2(low)), int(math.log2(high)))))


def layer(draw, c, k, groups=1, dimensions=None, taps=None, stride=None):
    """Of c channels and k filters a group; images, sizes and what is not given are drawn."""
    dimensions = dimensions or draw.choice((1, 2, 2, 2, 3))
    if taps is None:
        one = draw.choice((3, 3, 5, 7) if dimensions < 3 else (3,)) if c * k == 1 else draw.choice((1, 3, 3, 5, 7) if dimensions < 3 else (1, 3, 3))
        taps = (one,) * dimensions
        if dimensions == 3:
            taps = draw.choice((taps, taps, (1, one, one), (one, 1, 1)))
    side = {1: lambda: families.between(draw, 100, 10000), 2: lambda: families.between(draw, 7, 224), 3: lambda: families.between(draw, 7, 64)}[dimensions]()
    size = (side,) * dimensions if dimensions < 3 else (families.between(draw, 4, 32), side, side)
    stride = stride or draw.choice((1, 1, 1, 2))
    dilation = draw.choice((1, 1, 1, 1, 2)) if max(taps) > 1 and stride == 1 else 1
    padding = tuple(dilation * (tap - 1) // 2 for tap in taps)
    shape = "x".join(map(str, taps)) if len(set(taps)) > 1 or dimensions == 3 else f"{taps[0]}x{taps[0]}" if dimensions == 2 else f"{taps[0]}"
    batch = families.between(draw, 1, 128)
    words = (f"{dimensions}-D {shape}", f"s{stride}" if stride > 1 else "", f"d{dilation}" if dilation > 1 else "", f"{groups * c}-{groups * k}",
             f"{groups} groups" if groups > 1 else "", f"@{'x'.join(map(str, size if dimensions == 3 else size[:1]))}", f"x {batch}")  # fmt: skip
    return (" ".join(filter(None, words)), batch, groups * c, groups * k, size, taps, stride, padding, dilation, groups)


def odd_channels(draw):
    channels = families.between(draw, 5, 260)
    return channels if channels % 8 else channels + draw.randint(1, 7)


def odd(draw):
    return layer(draw, *draw.choice(((odd_channels(draw), odd_channels(draw)), (odd_channels(draw), eights(draw)), (eights(draw), odd_channels(draw)))))


def narrow(draw):
    channels = draw.choice((2, 4, 8, 12, 16, 24, 32))
    return layer(draw, channels, channels * draw.choice((1, 1, 1, 2)), groups=families.between(draw, 8, 512 // channels), dimensions=draw.choice((1, 2, 2, 2)))


def thin(draw):
    channels = [eights(draw, 8, 256), draw.choice((8, 16, 24, 32))]
    draw.shuffle(channels)
    return layer(draw, *channels)


def slices(draw):
    taps = draw.choice((3, 3, 5))
    return layer(draw, eights(draw, 8, 128), eights(draw, 8, 128), dimensions=3, taps=(1, taps, taps))


FAMILIES = {
    "line": lambda draw: layer(draw, eights(draw), eights(draw), dimensions=1),
    "image": lambda draw: layer(draw, eights(draw), eights(draw), dimensions=2),
    "volume": lambda draw: layer(draw, eights(draw, 8, 256), eights(draw, 8, 256), dimensions=3),
    "pointwise": lambda draw: layer(draw, eights(draw, 8, 1024), eights(draw, 8, 1024), dimensions=2, taps=(1, 1)),
    "odd": odd,
    "first": lambda draw: layer(draw, draw.randint(1, 4), eights(draw, 16, 128), dimensions=draw.choice((1, 2, 2, 2, 3)), stride=draw.choice((1, 2))),
    "groups": lambda draw: layer(draw, eights(draw, 8, 128), eights(draw, 8, 128), groups=draw.randint(2, 8)),
    "narrow": narrow,
    "pairs": lambda draw: layer(draw, 2, 2, groups=families.between(draw, 16, 512, 4)),
    "thin": thin,
    "slices": slices,
    "depthwise": lambda draw: layer(draw, 1, 1, groups=families.between(draw, 16, 1024, 8)),
}  # fmt: skip


def outputs(drawn):
    _, _, _, _, size, taps, stride, padding, dilation, _ = drawn
    return [(s + 2 * p - dilation * (t - 1) - 1) // stride + 1 for s, t, p in zip(size, taps, padding)]


def fits(drawn):
    _, batch, c, k, size, taps, *_, groups = drawn
    out = outputs(drawn)
    if min(out) < 1:
        return False
    pixels = batch * math.prod(out)
    products = pixels * k * (c // groups) * math.prod(taps)
    return max(batch * c * math.prod(size), pixels * k) <= MOST_ELEMENTS and LEAST_PRODUCTS <= products <= MOST_PRODUCTS


def drawn(names, count, seed):
    """So many layers of each family with a type each, in turns."""

    def maker(family):
        def one(draw):
            found = FAMILIES[family](draw)
            return (family, draw.choice(("bf16", "bf16", "fp16")), found) if fits(found) else None

        return one

    return families.drawn({family: maker(family) for family in names}, count, seed)


def line(direction, kind, drawn):
    """As `tilesmith run --file` has it."""
    _, batch, c, k, size, taps, stride, padding, dilation, groups = drawn
    joined = lambda values: ",".join(map(str, values))  # noqa: E731
    return (f"conv --direction {direction} --batch {batch} --groups {groups} -c {c // groups} -k {k // groups} --in {joined(size)} --filter {joined(taps)} "
            f"--stride {joined([stride] * len(size))} --dilation {joined([dilation] * len(size))} --pad {joined(padding)} --dtype {kind}")  # fmt: skip


def ours_of(direction, drawn, kernel=None):
    """A call of (x, w, dy)."""
    function, arguments, named = cuda_conv.our_call(direction, drawn)
    more = dict(kernel=kernel) if kernel else {}
    return lambda *operands: function(*arguments(*operands), **named, **more)


def candidates_of(direction, kind, drawn, first):
    function, arguments, named = cuda_conv.our_call(direction, drawn)
    operands = cuda_conv.operands(drawn, cuda_conv.TYPES[kind], "channels_last")
    return [each.kernel for each in tilesmith.candidates(function, *arguments(*operands), **named).candidates[:first]]


def timed(direction, kind, drawn, names, options):
    """Milliseconds of ours and of cuDNN; where cuDNN is ahead, of these kernels of ours too. And how far the results are apart."""
    sets, _ = timing.sets_of(lambda: cuda_conv.operands(drawn, cuda_conv.TYPES[kind], "channels_last"))
    calls = cuda_conv.contenders_of(direction, drawn)
    ours, peer = (calls[name](*sets[0]).float().flatten(2).squeeze() for name in ("tilesmith", "cuDNN"))
    apart = ((ours - peer).norm() / peer.norm().clamp_min(1e-30)).item()
    kernel = tilesmith.last_plan().kernel
    del ours, peer
    times = timing.burst_medians({name: (call, sets) for name, call in calls.items()}, options.rounds, options.rest, options.burst)
    found = dict(tilesmith=times["tilesmith"], cuDNN=min(value for name, value in times.items() if name != "tilesmith"))
    others = {}
    if found["cuDNN"] < options.look_below * found["tilesmith"] and len(names) > 1:
        calls = {name: (ours_of(direction, drawn, name), sets) for name in names}
        others = timing.burst_medians(calls, options.rounds, options.rest, options.burst)
    return found, kernel, apart, others


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--count", type=int, default=6, help="layers of a family")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rest", type=float, default=0.004, help="seconds before each contender's turn")
    parser.add_argument("--burst", type=float, default=2, help="milliseconds of a turn")
    parser.add_argument("--seconds", type=float, default=math.inf, help="from the start until the last layer")
    parser.add_argument("--look", type=int, default=1, help="kernels of dispatch's order that are timed where cuDNN is ahead")
    parser.add_argument("--look-below", type=float, default=1.0, help="and cuDNN's time is less than this share of ours")
    parser.add_argument("--worst", type=int, default=15)
    parser.add_argument("--workers", type=int, default=13, help="that compile")
    parser.add_argument("--lines", action="store_true", help="print the problems and stop")
    parser.add_argument("--json", help="write the results there")
    options = parser.parse_args()
    begin = time.monotonic()
    layers = drawn(options.families.split(","), options.count, options.seed)
    cells = [(direction, family, kind, found) for family, kind, found in layers for direction in DIRECTIONS]
    if options.lines:
        for direction, _, kind, found in cells:
            print(line(direction, kind, found))
        return
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.benchmark_limit = 0  # all engines
    torch.manual_seed(1)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, rest {options.rest} s, bursts of "
          f"{options.burst:g} ms, {options.rounds} rounds, seed {options.seed}")  # fmt: skip
    names = [candidates_of(direction, kind, found, options.look) for direction, _, kind, found in cells]
    ranked = time.monotonic() - begin
    count = kernels.compile_all(itertools.chain(*names), options.workers)
    print(f"{len(cells)} cells, {count} kernels; ranked after {ranked:.1f} s, compiled after {time.monotonic() - begin:.1f} s", flush=True)
    rows = []
    for (direction, family, kind, found), first in zip(cells, names):
        if time.monotonic() - begin > options.seconds:
            break
        what = f"{direction} {kind} {found[0]}"
        try:
            times, kernel, apart, others = timed(direction, kind, found, first, options)
        except (tilesmith.Error, RuntimeError) as error:
            print(f"left out: {what}: {str(error).splitlines()[0][:200]}", flush=True)
            continue
        ratio = times["cuDNN"] / times["tilesmith"]
        wrong = "" if apart <= CLOSE else f"  DIFFERS by {apart:.1e}"
        rows.append(dict(problem=what, line=line(direction, kind, found), family=family, direction=direction, ratio=ratio, milliseconds=times,
                         kernel=kernel, apart=apart, others=others))  # fmt: skip
        print(f"{ratio:6.3f} {1e3 * times['tilesmith']:8.1f} us  {family:9} {what}  {kernel}{wrong}", flush=True)
        for name, milliseconds in sorted(others.items(), key=lambda item: item[1]):
            print(f"         {1e3 * milliseconds:8.1f} us {times['cuDNN'] / milliseconds:6.3f} {name}", flush=True)
        if options.json:
            Path(options.json).write_text(json.dumps(rows, indent=1))
    print(f"timed after {time.monotonic() - begin:.1f} s")
    families.summary(rows, options.worst, "cuDNN", ("family", "direction"))


if __name__ == "__main__":
    main()
