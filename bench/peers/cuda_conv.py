#!/usr/bin/env python3
"""Convolutions of tilesmith beside cuDNN (through PyTorch, benchmark mode over all engines) on a CUDA device, in one process.

    python bench/peers/cuda_conv.py                                    bf16, forward: layers of ResNet-50, and others
    python bench/peers/cuda_conv.py --direction bwd_data,bwd_weight    gradients
    python bench/peers/cuda_conv.py --layers resnet50 --check          these layers alone; results are compared

Tensors are channels_last, or as --layout says; 1-D ones have their channels innermost, and PyTorch gets the better of them and of the same as images of height 1. Timing:
bursts of captured graphs, cold L2, contenders in turn (bench/timing.py); the median of --rounds. Time for TFLOP/s counts products with the border too.
Needs torch with CUDA, and the package (pip install ., or PYTHONPATH=python with TILESMITH_LIBRARY).
"""
import argparse
import json
import math
import sys
from pathlib import Path

import torch

import tilesmith

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import timing  # noqa: E402

# Of each: name, images, channels, filters, pixels, taps, stride, padding, dilation, groups. ResNet-50 (He et al., with the stride in the 3x3 filters).
RESNET50 = [(f"{name} @{size}", 128, c, k, (size, size), (f, f), s, f // 2, 1, 1) for name, c, k, size, f, s in (
    ("1x1 64-64", 64, 64, 56, 1, 1), ("3x3 64-64", 64, 64, 56, 3, 1), ("1x1 64-256", 64, 256, 56, 1, 1), ("1x1 256-64", 256, 64, 56, 1, 1),
    ("3x3 s2 128-128", 128, 128, 56, 3, 2), ("1x1 s2 256-512", 256, 512, 56, 1, 2), ("1x1 128-512", 128, 512, 28, 1, 1),
    ("1x1 512-128", 512, 128, 28, 1, 1), ("3x3 128-128", 128, 128, 28, 3, 1), ("3x3 s2 256-256", 256, 256, 28, 3, 2),
    ("1x1 s2 512-1024", 512, 1024, 28, 1, 2), ("1x1 1024-256", 1024, 256, 14, 1, 1), ("3x3 256-256", 256, 256, 14, 3, 1),
    ("3x3 s2 512-512", 512, 512, 14, 3, 2), ("1x1 2048-512", 2048, 512, 7, 1, 1), ("3x3 512-512", 512, 512, 7, 3, 1))]  # fmt: skip
LARGE = [("3x3 320-320 @128", 1, 320, 320, (128, 128), (3, 3), 1, 1, 1, 1), ("3x3 256-256 @56", 32, 256, 256, (56, 56), (3, 3), 1, 1, 1, 1),
         ("3x3 dilation 2 256-256 @64", 8, 256, 256, (64, 64), (3, 3), 1, 2, 2, 1)]  # fmt: skip
OTHER_DIMENSIONS = [("1-D 3 512-512 @3000", 8, 512, 512, (3000,), (3,), 1, 1, 1, 1),
                    ("3-D 3x3x3 64-64 @16x56x56", 8, 64, 64, (16, 56, 56), (3, 3, 3), 1, 1, 1, 1)]  # fmt: skip
# First layers: ResNet-50, MobileNet-V2 and EfficientNet-B0, EfficientNet-B3, ConvNeXt-T, VGG-16.
STEMS = [("stem 7x7 s2 3-64 @224", 64, 3, 64, (224, 224), (7, 7), 2, 3, 1, 1), ("stem 3x3 s2 3-32 @224", 64, 3, 32, (224, 224), (3, 3), 2, 1, 1, 1),
         ("stem 3x3 s2 3-40 @300", 64, 3, 40, (300, 300), (3, 3), 2, 1, 1, 1), ("stem 4x4 s4 3-96 @224", 64, 3, 96, (224, 224), (4, 4), 4, 0, 1, 1),
         ("stem 3x3 3-64 @224", 32, 3, 64, (224, 224), (3, 3), 1, 1, 1, 1)]  # fmt: skip
GROUPS = [("32 groups of 16 @28", 64, 512, 512, (28, 28), (3, 3), 1, 1, 1, 32), ("32 groups of 4 @56", 64, 128, 128, (56, 56), (3, 3), 1, 1, 1, 32)]
# ResNeXt-50 32x4d (Xie et al.) has the second of these, and:
RESNEXT = [(f"32 groups of {c} @{size}", 64, 32 * c, 32 * c, (size, size), (3, 3), 1, 1, 1, 32) for c, size in ((8, 28), (16, 14), (32, 7))]
DEPTHWISE = [("depthwise 7x7 96 @56", 64, 96, 96, (56, 56), (7, 7), 1, 3, 1, 96), ("depthwise 7x7 384 @14", 64, 384, 384, (14, 14), (7, 7), 1, 3, 1, 384),
             ("depthwise 7x7 768 @7", 64, 768, 768, (7, 7), (7, 7), 1, 3, 1, 768),
             ("depthwise 3x3 256 @56", 32, 256, 256, (56, 56), (3, 3), 1, 1, 1, 256),
             ("depthwise 3x3 s2 96 @112", 64, 96, 96, (112, 112), (3, 3), 2, 1, 1, 96),
             ("depthwise 1-D 31 512 @1500", 16, 512, 512, (1500,), (31,), 1, 15, 1, 512)]  # fmt: skip
LAYERS = {"resnet50": RESNET50, "large": LARGE, "dimensions": OTHER_DIMENSIONS, "stems": STEMS, "groups": GROUPS, "resnext": RESNEXT, "depthwise": DEPTHWISE}
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


def channels_inner(x):
    """The same tensor with its channels innermost in memory."""
    order = (0, *range(2, x.dim()), 1)
    back = (0, x.dim() - 1, *range(1, x.dim() - 1))
    return x.permute(order).clone(memory_format=torch.contiguous_format).permute(back)  # of one channel too, whose strides are any to contiguous()


def padding_of(layer):
    """Of each dimension."""
    padding = layer[7]
    return padding if isinstance(padding, tuple) else (padding,) * len(layer[4])


def operands(layer, dtype, layout):
    _, batch, c, k, size, taps, stride, padding, dilation, groups = layer
    out = [(s + 2 * p - dilation * (t - 1) - 1) // stride + 1 for s, t, p in zip(size, taps, padding_of(layer))]
    ordered = channels_inner if layout == "channels_last" else lambda x: x.contiguous()
    draw = lambda *shape: ordered(torch.randn(*shape, device="cuda").to(dtype))  # noqa: E731
    w = draw(k, c // groups, *taps) / math.sqrt(c // groups * math.prod(taps))
    return draw(batch, c, *size), ordered(w.to(dtype)), draw(batch, k, *out)


def our_call(direction, layer):
    """The package's function, its arguments of (x, w, dy), and the named ones."""
    _, _, _, _, size, _, stride, _, dilation, groups = layer
    geometry = dict(stride=stride, padding=padding_of(layer), dilation=dilation, groups=groups)
    if direction == "fwd":
        return (tilesmith.conv1d, tilesmith.conv2d, tilesmith.conv3d)[len(size) - 1], lambda x, w, dy: (x, w), geometry
    if direction == "bwd_data":
        return tilesmith.conv_backward_data, lambda x, w, dy: (dy, w, x.shape), geometry
    return tilesmith.conv_backward_weight, lambda x, w, dy: (dy, x, w.shape), geometry


def contenders_of(direction, layer):
    """What computes the direction from (x, w, dy), by name."""
    _, _, _, _, size, _, stride, _, dilation, groups = layer
    count, padding = len(size), padding_of(layer)
    function, arguments, geometry = our_call(direction, layer)

    def peer(images):
        def call(x, w, dy):
            if images:
                x, w, dy = (t.unsqueeze(2) for t in (x, w, dy))
            spatial = x.dim() - 2
            sizes = ([stride] * spatial, [*padding], [dilation] * spatial)
            if images:
                sizes = ([1, stride], [0, *padding], [1, dilation])
            if direction == "fwd":
                return torch.ops.aten.convolution(x, w, None, *sizes, False, [0] * spatial, groups)
            mask = [direction == "bwd_data", direction == "bwd_weight", False]
            return torch.ops.aten.convolution_backward(dy, x, w, None, *sizes, False, [0] * spatial, groups, mask)[0 if mask[0] else 1]

        return call

    found = {"tilesmith": lambda *operands: function(*arguments(*operands), **geometry), "cuDNN": peer(False)}
    if count == 1:
        found["cuDNN, height 1"] = peer(True)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--type", default="bf16", choices=TYPES)
    parser.add_argument("--direction", default="fwd", help="fwd, bwd_data, bwd_weight, with commas between")
    parser.add_argument("--layers", default=",".join(LAYERS), help=f"of {', '.join(LAYERS)}")
    parser.add_argument("--layout", default="channels_last", choices=["channels_last", "channels_first"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rest", type=float, default=0.05, help="seconds before each contender's turn")
    parser.add_argument("--burst", type=float, default=10, help="milliseconds of a turn")
    parser.add_argument("--check", action="store_true", help="compare the results with PyTorch's")
    parser.add_argument("--json", help="write the results there")
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.benchmark_limit = 0  # all engines
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, {options.type}, "
          f"{options.layout}, rest {options.rest} s, bursts of {options.burst:g} ms")  # fmt: skip
    rows = []
    for direction in options.direction.split(","):
        for family in options.layers.split(","):
            ratios = []
            for layer in LAYERS[family]:
                sets, size = timing.sets_of(lambda: operands(layer, TYPES[options.type], options.layout))
                contenders = contenders_of(direction, layer)
                off = ""
                if options.check:
                    results = {name: call(*sets[0]).float().flatten(2).squeeze() for name, call in contenders.items() if "height" not in name}
                    off = f"  off by {((results['tilesmith'] - results['cuDNN']).norm() / results['cuDNN'].norm()).item():.1e}"
                times = timing.burst_medians({name: (call, sets) for name, call in contenders.items()}, options.rounds, options.rest, options.burst)
                contenders["tilesmith"](*sets[0])  # for last_plan
                ours, best = times["tilesmith"], min(value for name, value in times.items() if name != "tilesmith")
                _, batch, c, k, _, taps, *_, groups = layer
                flops = 2 * sets[0][2].numel() * (c // groups) * math.prod(taps)
                ratios.append(best / ours)
                kernel = tilesmith.last_plan().kernel
                print(f"{direction:10} {layer[0]:27} {1e3 * ours:8.1f} us {1e-9 * flops / ours:6.0f} TFLOP/s  cuDNN {1e3 * best:8.1f} us "
                      f"{1e-9 * flops / best:6.0f} = {ratios[-1]:.2f}{off}  {kernel}", flush=True)  # fmt: skip
                rows.append(dict(type=options.type, direction=direction, layer=layer[0], milliseconds=times, kernel=kernel))
            print(f"{direction}, {family}: geometric mean {timing.geometric_mean(ratios):.3f} x cuDNN, smallest {min(ratios):.3f}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
