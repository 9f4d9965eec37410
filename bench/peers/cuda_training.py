#!/usr/bin/env python3
"""A training step of examples/train_gpt.py on a CUDA device: the model with Tilesmith's functions beside the same with torch's, whose attention is cuDNN's.

    python bench/peers/cuda_training.py                     the example's model
    python bench/peers/cuda_training.py --graph             steps that a CUDA graph replays
    python bench/peers/cuda_training.py --graph --profile   and what the device does in one of each
    python bench/peers/cuda_training.py --graph --layers 4 --width 1024 --head-dim 64 --context 1024 --batch 8

Both train in one process from the same weights, in bf16, a step of each in turn; a step is forward, backward and a fused AdamW, from a host that
waits for the step before. The median of --rounds. Needs torch with CUDA, and the package (pip install ., or PYTHONPATH=python with
TILESMITH_LIBRARY).
"""
import argparse
import collections
import statistics
import sys
import time
from pathlib import Path

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
import train_gpt  # noqa: E402

WARM_STEPS = 5


def stepper(use, options):
    """(a step by a window of characters, its stream)."""
    torch.manual_seed(0)
    model = train_gpt.Gpt(use, options.layers, options.width, options.context).to("cuda", torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.95), fused=True, capturable=options.graph)
    window = torch.randint(256, (options.batch, options.context + 1), device="cuda")
    stream = torch.cuda.Stream()

    def step(window):
        loss = functional.cross_entropy(model(window[:, :-1]).flatten(0, 1).float(), window[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    with torch.cuda.stream(stream):
        for _ in range(WARM_STEPS):
            step(window)
        if options.graph:
            step = train_gpt.replayed(step, window, stream)

    def go():
        with torch.cuda.stream(stream):
            return step(window).item()

    return go


def kind_of(kernel):
    """What a kernel of the device is for, by its name."""
    name = kernel.lower()
    for kind, words in {
        "attention": ("attention", "sdpa", "fmha", "flash", "bwd_d", "fwd"),
        "optimizer": ("adam", "multi_tensor"),
        "products": ("gemm", "nvjet", "cutlass", "xmma", "splitk"),
        "norms": ("norm", "gammabeta"),
        "copies": ("memcpy", "memset", "copy"),
    }.items():
        if any(word in name for word in words):
            return kind
    return "elementwise and sums"


def profiled(go):
    """{kind: [kernels, microseconds]} of a step, and the kernels themselves."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        go()
        torch.cuda.synchronize()
    kinds, kernels = collections.defaultdict(lambda: [0, 0.0]), collections.Counter()
    for event in seen.events():
        if "CUDA" in str(event.device_type):
            microseconds = event.time_range.end - event.time_range.start
            kinds[kind_of(event.name)][0] += 1
            kinds[kind_of(event.name)][1] += microseconds
            kernels[event.name] += microseconds
    return kinds, kernels


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in {"layers": 4, "width": 128, "head-dim": train_gpt.DIM, "context": 128, "batch": 8, "rounds": 50}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--graph", action="store_true")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--kernels", type=int, default=0, help="with --profile: as many of the longest kernels by name")
    options = parser.parse_args()
    train_gpt.DIM = options.head_dim
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        steps = {"tilesmith": stepper(train_gpt.Tilesmith, options), "torch": stepper(train_gpt.Torch, options)}
        seconds = {name: [] for name in steps}
        for _ in range(options.rounds):
            for name, go in steps.items():
                begin = time.perf_counter()
                go()
                seconds[name].append(time.perf_counter() - begin)
        ours, theirs = (1e3 * statistics.median(each) for each in seconds.values())
        print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}; {options.layers} layers, width {options.width}, "
              f"head dim {options.head_dim}, {options.batch} x {options.context} tokens, {'graph' if options.graph else 'eager'}")
        print(f"milliseconds of a step: {ours:.3f} beside torch's {theirs:.3f} = {theirs / ours:.3f} times as fast")
        for name, go in steps.items() if options.profile else ():
            kinds, kernels = profiled(go)
            print(f"{name}: {sum(us for _, us in kinds.values()):.0f} us on the device, " + ", ".join(
                f"{kind} {us:.0f} ({count})" for kind, (count, us) in sorted(kinds.items(), key=lambda each: -each[1][1])))
            for kernel, us in kernels.most_common(options.kernels):
                print(f"    {us:8.1f} {kernel[:110]}")


if __name__ == "__main__":
    main()
