#!/usr/bin/env python3
"""Times convolutions of tilesmith and of PyTorch (oneDNN) on the CPU, by turns, on the same tensors.

    bench/peers/cpu_conv.py --threads 1 --type bf16                       # layers of ResNet-50, MobileNet, ConvNeXt, ResNeXt
    taskset -c 0 bench/peers/cpu_conv.py --threads 1 --type fp32 --direction bwd_weight

Tensors are channels_last, caches are evicted before each sample unless --warm, and medians of each are reported. The results are compared. tilesmith takes
as many threads as --threads says. --processor-time takes the time of the process instead of the clock's, for one thread beside other work. Backward directions are
torch.ops.aten.convolution_backward with one gradient wanted.
"""
import argparse
import statistics
import time

# name, batch, channels, filters, image, filter, stride, padding, groups
LAYERS = [
    ("stem 7x7 s2 3-64 @224", 1, 3, 64, 224, 7, 2, 3, 1),
    ("3x3 64-64 @56", 1, 64, 64, 56, 3, 1, 1, 1),
    ("3x3 128-128 @28", 1, 128, 128, 28, 3, 1, 1, 1),
    ("3x3 256-256 @14", 1, 256, 256, 14, 3, 1, 1, 1),
    ("3x3 512-512 @7", 1, 512, 512, 7, 3, 1, 1, 1),
    ("3x3 s2 128-128 @56", 1, 128, 128, 56, 3, 2, 1, 1),
    ("1x1 256-64 @56", 1, 256, 64, 56, 1, 1, 0, 1),
    ("1x1 1024-256 @14", 1, 1024, 256, 14, 1, 1, 0, 1),
    ("1x1 s2 512-1024 @28", 1, 512, 1024, 28, 1, 2, 0, 1),
    ("depthwise 3x3 256 @56", 1, 256, 256, 56, 3, 1, 1, 256),
    ("depthwise 3x3 s2 96 @112", 1, 96, 96, 112, 3, 2, 1, 96),
    ("depthwise 7x7 96 @56", 1, 96, 96, 56, 7, 1, 3, 96),
    ("groups 32 x 4 @56", 1, 128, 128, 56, 3, 1, 1, 32),
    ("groups 32 x 16 @28", 1, 512, 512, 28, 3, 1, 1, 32),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--type", default="bf16", choices=["fp32", "bf16"])
    parser.add_argument("--direction", default="fwd", choices=["fwd", "bwd_data", "bwd_weight"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, help="images, instead of one")
    parser.add_argument("--seconds", type=float, default=1.0, help="spent on each layer")
    parser.add_argument("--layers", default="", help="only those whose name contains this")
    parser.add_argument("--processor-time", action="store_true", help="of the process, instead of the clock's")
    parser.add_argument("--warm", action="store_true", help="leave the caches as the call before left them")
    options = parser.parse_args()

    import torch

    import tilesmith

    torch.set_num_threads(options.threads)
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[options.type]
    eviction = torch.ones(256 << 20, dtype=torch.uint8)
    torch.manual_seed(0)
    print(f"PyTorch {torch.__version__}, {options.type}, {options.direction}, {options.threads} thread(s), {'warm' if options.warm else 'cold'} caches")
    ratios = []
    clock = time.process_time if options.processor_time else time.perf_counter
    for name, batch, c, k, size, filter, stride, padding, groups in (each for each in LAYERS if options.layers in each[0]):
        batch = options.batch or batch
        x = torch.randn(batch, c, size, size).to(dtype).contiguous(memory_format=torch.channels_last)
        w = (torch.randn(k, c // groups, filter, filter) / (filter * (c // groups) ** 0.5)).to(dtype).contiguous(memory_format=torch.channels_last)
        geometry = {"stride": stride, "padding": padding, "groups": groups}
        with torch.inference_mode(), tilesmith.options(threads=options.threads):
            y = torch.conv2d(x, w, **geometry)
            dy = torch.randn_like(y)

            def backward(mask):
                return torch.ops.aten.convolution_backward(dy, x, w, None, [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], groups, mask)

            peer, ours = {
                "fwd": (lambda: torch.conv2d(x, w, **geometry), lambda: tilesmith.conv2d(x, w, **geometry)),
                "bwd_data": (lambda: backward([True, False, False])[0], lambda: tilesmith.conv_backward_data(dy, w, x.shape, **geometry)),
                "bwd_weight": (lambda: backward([False, True, False])[1], lambda: tilesmith.conv_backward_weight(dy, x, w.shape, **geometry)),
            }[options.direction]
            want, got = peer().float(), ours().float()
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
        times = [statistics.median(each) for each in samples]
        best = [min(each) for each in samples]
        work = 2e-9 * y.numel() * (c // groups) * filter * filter
        ratios.append(times[0] / times[1])
        print(f"{name:>26}  PyTorch {times[0] * 1e3:8.3f} ms {work / times[0]:7.1f} GFLOP/s   ours {times[1] * 1e3:8.3f} ms {work / times[1]:7.1f} GFLOP/s"
              f"   its over ours {ratios[-1]:.2f} (best times {best[0] / best[1]:.2f})   apart by {off:.1e}", flush=True)  # fmt: skip
    print(f"geometric mean of its time over ours: {statistics.geometric_mean(ratios):.3f}")


if __name__ == "__main__":
    main()
