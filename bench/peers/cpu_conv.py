#!/usr/bin/env python3
"""Times convolutions of tilesmith and of PyTorch (oneDNN) on the CPU, by turns, on the same tensors.

    bench/peers/cpu_conv.py --threads 1 --type fp32                     # layers of ResNet-50; groups; depthwise layers of MobileNet, EfficientNet, ConvNeXt; first layers
    taskset -c 0 bench/peers/cpu_conv.py --threads 1 --layers depthwise --direction bwd_weight
    bench/peers/cpu_conv.py --type int8 --packed --layers resnet50      # both with weights packed beforehand, as PyTorch's quantized layers have them

Tensors are channels_last, caches are evicted before each sample unless --warm, and medians of each are reported, or the least with --best (on a machine
with other work). The results are compared. tilesmith takes as many threads as --threads says. --processor-time takes the time of the process instead of the
clock's, for one thread beside other work. Backward directions are torch.ops.aten.convolution_backward with one gradient wanted. --packed: tilesmith's filters
are packed beforehand, and so are PyTorch's where it offers that: of fp32 and bf16 by torch.ops.mkldnn._reorder_convolution_weight. int8: PyTorch's quantized conv2d
(onednn), whose image is without sign, whose result is 8 bits, and whose weights are always packed; tilesmith's image and result are int8.
"""
import argparse
import statistics
import time

# name, channels, filters, image, filter, stride, groups; padding is half of the filter
RESNET50 = [
    ("stem 7x7 s2 3-64 @224", 3, 64, 224, 7, 2, 1),
    *((f"{f}x{f}{' s2' if s == 2 else ''} {c}-{k} @{size}", c, k, size, f, s, 1) for c, k, size, f, s in (
        (64, 64, 56, 1, 1), (64, 64, 56, 3, 1), (64, 256, 56, 1, 1), (256, 64, 56, 1, 1), (256, 128, 56, 1, 1), (128, 128, 56, 3, 2), (256, 512, 56, 1, 2),
        (128, 512, 28, 1, 1), (512, 128, 28, 1, 1), (128, 128, 28, 3, 1), (256, 256, 28, 3, 2), (512, 1024, 28, 1, 2), (256, 1024, 14, 1, 1),
        (1024, 256, 14, 1, 1), (256, 256, 14, 3, 1), (512, 512, 14, 3, 2), (1024, 2048, 14, 1, 2), (512, 2048, 7, 1, 1), (2048, 512, 7, 1, 1),
        (512, 512, 7, 3, 1))),
]  # fmt: skip
DEPTHWISE = [(f"depthwise {f}x{f}{' s2' if s == 2 else ''} {c} @{size}", c, c, size, f, s, c) for f, s, c, size in (
    (3, 1, 32, 112), (3, 2, 96, 112), (3, 1, 144, 56), (3, 2, 144, 56), (3, 1, 256, 56), (3, 1, 192, 28), (3, 2, 192, 28), (3, 1, 384, 14), (3, 1, 576, 14),
    (3, 2, 576, 14), (3, 1, 960, 7), (5, 2, 144, 56), (5, 1, 240, 28), (5, 1, 480, 14), (5, 1, 672, 14), (5, 2, 672, 14), (5, 1, 1152, 7), (7, 1, 96, 56),
    (7, 1, 192, 28), (7, 1, 384, 14), (7, 1, 768, 7))]  # fmt: skip
GROUPS = [(f"groups 32 x {c} @{size}", 32 * c, 32 * c, size, 3, 1, 32) for c, size in ((4, 56), (8, 28), (16, 28))]
FIRST = [(f"{f}x{f}{f' s{s}' if s > 1 else ''} 3-{k} @224", 3, k, 224, f, s, 1) for f, s, k in ((7, 2, 64), (3, 2, 32), (4, 4, 96), (3, 1, 64))]
LAYERS = {"resnet50": RESNET50, "depthwise": DEPTHWISE, "groups": GROUPS, "first": FIRST}


def contenders(torch, tilesmith, options, layer):
    """PyTorch's call and ours, and the products of one."""
    _, c, k, size, filter, stride, groups = layer
    padding = filter // 2
    last = dict(memory_format=torch.channels_last)
    geometry = {"stride": stride, "padding": padding, "groups": groups}
    shapes = (options.batch, c, size, size), (k, c // groups, filter, filter)
    if options.type == "int8":
        x, w = (torch.randint(-100, 101, shape, dtype=torch.int8).contiguous(**last) for shape in shapes)
        scale = 30 / (3300 * (c // groups * filter**2) ** 0.5)  # results of some dozens
        qx = torch._make_per_tensor_quantized_tensor(x.short().add(128).to(torch.uint8).contiguous(**last), 1.0, 128)
        torch.backends.quantized.engine = "onednn"
        packed = torch.ops.quantized.conv2d_prepack(torch._make_per_tensor_quantized_tensor(w, 1.0, 0), None, [stride] * 2, [padding] * 2, [1, 1], groups)
        ours_w = tilesmith.pack_conv_weight(w, groups=groups) if options.packed else w
        ours = lambda: tilesmith.conv2d(x, ours_w, scale_w=scale, out_dtype=torch.int8, **geometry)  # noqa: E731
        quantized = lambda: torch.ops.quantized.conv2d(qx, packed, 1 / scale, 128)  # noqa: E731
        work = 2e-9 * ours().numel() * (c // groups) * filter**2
        return quantized, ours, lambda: quantized().int_repr().short() - 128, work
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[options.type]
    x, w = torch.randn(shapes[0]).to(dtype).contiguous(**last), torch.randn(shapes[1]) / (filter * (c // groups) ** 0.5)
    w = w.to(dtype).contiguous(**last)
    y = torch.conv2d(x, w, **geometry)
    dy = torch.randn_like(y)
    work = 2e-9 * y.numel() * (c // groups) * filter**2
    ours_w = peer_w = w
    if options.packed:
        ours_w = tilesmith.pack_conv_weight(w, groups=groups, transposed=options.direction == "bwd_data")
        if options.direction == "fwd":
            peer_w = torch.ops.mkldnn._reorder_convolution_weight(w, [padding] * 2, [stride] * 2, [1, 1], groups, list(x.shape))

    def backward(mask):
        return torch.ops.aten.convolution_backward(dy, x, w, None, [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], groups, mask)

    def forward():
        if peer_w is w:
            return torch.conv2d(x, w, **geometry)
        return torch.ops.mkldnn._convolution_pointwise(x, peer_w, None, [padding] * 2, [stride] * 2, [1, 1], groups, "none", [], "")

    peer, ours = {
        "fwd": (forward, lambda: tilesmith.conv2d(x, ours_w, **geometry)),
        "bwd_data": (lambda: backward([True, False, False])[0], lambda: tilesmith.conv_backward_data(dy, ours_w, x.shape, **geometry)),
        "bwd_weight": (lambda: backward([False, True, False])[1], lambda: tilesmith.conv_backward_weight(dy, x, w.shape, **geometry)),
    }[options.direction]
    return peer, ours, peer, work


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--type", default="fp32", choices=["fp32", "bf16", "int8"])
    parser.add_argument("--direction", default="fwd", choices=["fwd", "bwd_data", "bwd_weight"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0, help="spent on each layer")
    parser.add_argument("--layers", default=",".join(LAYERS), help=f"of {', '.join(LAYERS)}")
    parser.add_argument("--only", default="", help="only layers whose name contains this")
    parser.add_argument("--packed", action="store_true", help="filters are packed beforehand; not bwd_weight")
    parser.add_argument("--processor-time", action="store_true", help="of the process, instead of the clock's")
    parser.add_argument("--best", action="store_true", help="the least time instead of the median")
    parser.add_argument("--warm", action="store_true", help="leave the caches as the call before left them")
    options = parser.parse_args()

    import torch

    import tilesmith

    torch.set_num_threads(options.threads)
    eviction = torch.ones(256 << 20, dtype=torch.uint8)
    torch.manual_seed(0)
    print(f"PyTorch {torch.__version__}, {options.type}, {options.direction}, {options.threads} thread(s), {'warm' if options.warm else 'cold'} caches, "
          f"{'packed' if options.packed else 'plain'} filters")  # fmt: skip
    clock = time.process_time if options.processor_time else time.perf_counter
    for family in options.layers.split(","):
        ratios = []
        for layer in (each for each in LAYERS[family] if options.only in each[0]):
            with torch.inference_mode(), tilesmith.options(threads=options.threads):
                peer, ours, result, work = contenders(torch, tilesmith, options, layer)
                want, got = result().float(), ours().float()
                off = ((got - want).norm() / want.norm()).item()
                samples = [[], []]
                began = time.perf_counter()
                while len(samples[0]) < 5 or (time.perf_counter() - began < options.seconds and len(samples[0]) < 300):
                    for call, each in zip((peer, ours), samples):
                        if not options.warm:
                            eviction.add_(1)  # larger than any last-level cache
                        start = clock()
                        call()
                        each.append(clock() - start)
            times = [(min if options.best else statistics.median)(each) for each in samples]
            ratios.append(times[0] / times[1])
            print(f"{layer[0]:>28}  PyTorch {times[0] * 1e3:8.3f} ms {work / times[0]:7.1f} GFLOP/s   ours {times[1] * 1e3:8.3f} ms {work / times[1]:7.1f} GFLOP/s"
                  f"   its over ours {ratios[-1]:.2f}   apart by {off:.1e}", flush=True)  # fmt: skip
        if ratios:
            print(f"{family}: geometric mean of its time over ours {statistics.geometric_mean(ratios):.3f}, least {min(ratios):.2f}")


if __name__ == "__main__":
    main()
