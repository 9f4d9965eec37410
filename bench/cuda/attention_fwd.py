"""Checks and times the CUDA attention-forward templates on the GPU at hand.

  python bench/cuda/attention_fwd.py check            every trait of both templates against float64
  python bench/cuda/attention_fwd.py time             the tile table against torch's cuDNN, 16k tokens, hidden size 2048
  python bench/cuda/attention_fwd.py time --explore   more configurations for each cell
  python bench/cuda/attention_fwd.py time --more      grouped heads, other dimensions, traits; portable too
  python bench/cuda/attention_fwd.py time --fp8 tensor   e4m3 against our own bf16
  python bench/cuda/attention_fwd.py compile          registers and spills of every configuration; needs no GPU

Timing: one process, contenders interleaved, L2 overwritten before each call, CUDA events, median.
Ratios above 1 are in our favour.
"""

import argparse
import json
import math
import statistics
import sys
import time

import cells
import hopper
import toolchain


def build(configs):
    """{config: (cubin, log)} of distinct configurations."""
    distinct = list(dict.fromkeys(configs))
    return dict(zip(distinct, toolchain.compile_all([(c.source(), c.arch()) for c in distinct])))


def load(config, built):
    import driver

    cubin, log = built[config]
    if cubin is None:
        print(f"refused: {config.name()}: {log}")
        return None
    return driver.Kernel(cubin, config.threads(), config.shared_bytes())


def run_compile(args):
    configs = [c for _, _, c in cells.checks()] + [c for _, cs in cells.timed(args) for c in cs]
    for config, (_, log) in build(configs).items():
        print(f"{config.head_dim_qk}/{config.head_dim_v} {config.name()}: {toolchain.report(log)}")


def repeat_report(first, t):
    """How far a second run is from the first."""
    apart = [(a.nan_to_num().float() - b.nan_to_num().float()).abs() for a, b in zip(first, (t.o, t.lse))]
    return " NOT REPEATABLE: " + ", ".join(
        f"{(x != 0).sum().item()} of {x.numel()} up to {x.max().item():.1e}" for x in apart
    )


def limit(p):
    """How far the output may be from float64's, relative RMS: the probabilities' rounding makes most of it."""
    return 3e-2 if p.fp8 else 4e-3 if p.bf16 else 1e-3


def run_check(args):
    import torch

    import problem

    cases = [c for c in cells.checks() if args.only in c[0]]
    built = build([c for _, _, c in cases])
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    failures = 0
    for name, p, config in cases:
        kernel = load(config, built)
        if kernel is None:
            failures += 1
            continue
        t = problem.Tensors(p)
        print(f"... {name}", end="\r", flush=True)
        go = config.launcher(kernel, t, sms, torch.cuda.current_stream().cuda_stream)
        go()
        torch.cuda.synchronize()
        first = (t.o.clone(), t.lse.clone())
        t.poison()
        go()
        torch.cuda.synchronize()
        same = torch.equal(first[0].nan_to_num(), t.o.nan_to_num()) and torch.equal(
            first[1].nan_to_num(), t.lse.nan_to_num()
        )
        rms, worst = problem.errors(t, *problem.reference(t))
        good = rms < limit(p) and worst < (2e-2 if p.fp8 else 1e-4) and same
        failures += not good
        print(
            f"{'ok  ' if good else 'FAIL'} {name:44s} {config.name():26s} rms {rms:.2e} lse {worst:.1e}"
            + ("" if same else repeat_report(first, t)),
            flush=True,
        )
    print(f"{len(cases) - failures} of {len(cases)} good")
    return failures != 0


def cudnn_call(p, t):
    """Torch's cuDNN attention on these tensors, or None where it has no such kernel."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    if p.fp8 or p.bias or p.alibi or p.sink or p.softcap or p.dropout or p.lengths or p.window not in ((-1, -1), (-1, 0)):
        return None

    def go():
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return torch.nn.functional.scaled_dot_product_attention(
                t.q, t.k, t.v, is_causal=p.window[1] == 0, enable_gqa=p.heads_q != p.heads_kv
            )

    try:
        go()
    except RuntimeError:
        return None
    return go


def traits_text(p):
    """What sets a problem apart, in words."""
    words = [f"D={p.head_dim_qk}" + (f"/{p.head_dim_v}" if p.head_dim_v != p.head_dim_qk else "")]
    words.append("full" if p.window == (-1, -1) else "causal" if p.window == (-1, 0) else f"window {p.window}")
    words.append(f"S={p.seqlen_q}")
    words += [f"heads {p.heads_q}/{p.heads_kv}"] if p.heads_q != p.heads_kv else []
    words += [n for n in ("softcap", "bias", "alibi", "sink", "dropout") if getattr(p, n)]
    words += [f"fp8 by {p.fp8}"] if p.fp8 else []
    words += (["fp16"] if not p.bf16 else []) + (["packed sequences"] if p.lengths else [])
    return " ".join(words + (["bshd"] if p.layout != "bhsd" else []))


def time_all(calls, rounds, rest):
    """Median milliseconds of each call; interleaved, cold L2. With a rest, a turn is a burst of calls on a rested chip."""
    import torch

    flush = torch.empty(192 << 20, dtype=torch.int8, device="cuda")
    events = {n: [] for n in calls}
    names = list(calls)
    for r in range(rounds if rest else rounds + 2):
        for name in names[r % len(names) :] + names[: r % len(names)]:
            if rest:
                torch.cuda.synchronize()
                time.sleep(rest)
            for i in range(5 if rest else 1):
                flush.zero_()
                a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                a.record()
                calls[name]()
                b.record()
                if i if rest else r >= 2:
                    events[name].append((a, b))
    torch.cuda.synchronize()
    return {n: statistics.median(a.elapsed_time(b) for a, b in e) for n, e in events.items()}


def run_time(args):
    import torch

    import problem

    work = cells.timed(args)
    twins = {id(p): cells.bf16_twin(p) for p, _ in work if p.fp8}
    built = build([c for _, cs in work for c in cs] + [c for _, c in twins.values()])
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    stream = torch.cuda.current_stream().cuda_stream
    results, ratios = [], []
    print(
        f"{torch.cuda.get_device_name(0)}, torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}; TFLOP/s"
    )
    for p, configs in work:
        t = problem.Tensors(p)
        rival, peer = "cuDNN", cudnn_call(p, t)
        expected = peer().float() if peer else None
        if p.fp8:
            twin, config = twins[id(p)]
            twin_tensors = problem.Tensors(twin)
            rival, peer = "bf16", config.launcher(load(config, built), twin_tensors, sms, stream)
        calls = {rival: peer} if peer else {}
        for config in configs:
            kernel = load(config, built)
            if kernel is None:
                continue
            t.poison()
            go = config.launcher(kernel, t, sms, stream)
            go()
            got = t.o.float()
            expected = got if expected is None else expected
            rms = ((got - expected).square().mean() / expected.square().mean()).sqrt().item()
            if not rms < 6e-3:
                print(f"WRONG {config.name()}: differs by {rms:.2e}")
                continue
            calls[config.name()] = go
        rate = {n: p.flops() / ms * 1e-9 for n, ms in time_all(calls, args.rounds, args.rest).items()}
        ours = sorted(((r, n) for n, r in rate.items() if n != rival), reverse=True)
        line = f"{traits_text(p):26s} ours {ours[0][0]:5.0f} "
        if peer:
            ratios.append(ours[0][0] / rate[rival])
            line += f" {rival} {rate[rival]:5.0f}  ratio {ratios[-1]:.3f} "
        print(line + f" [{ours[0][1]}]  " + "  ".join(f"{n}: {r:.0f}" for r, n in ours[1:]), flush=True)
        results.append(dict(problem=traits_text(p), tflops=rate))
    print(
        f"geometric mean {math.exp(statistics.mean(map(math.log, ratios))):.3f}, smallest {min(ratios):.3f} "
        f"over {len(ratios)} cells"
    )
    if args.json:
        with open(args.json, "w") as f:
            json.dump(results, f, indent=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["check", "time", "compile"])
    parser.add_argument("--only", default="", help="check: cases whose name contains this")
    parser.add_argument("--explore", action="store_true")
    parser.add_argument("--more", action="store_true")
    parser.add_argument("--fp8", choices=["", "tensor", "head", "block"], default="")
    parser.add_argument("--head-dims", default="64,128,256")
    parser.add_argument("--seqlens", default="512,1024,2048,4096,8192,16384")
    parser.add_argument("--masks", default="full,causal")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument(
        "--rest", type=float, default=0.0, help="seconds of rest before each contender's turn (burst timing)"
    )
    parser.add_argument("--json", default="")
    args = parser.parse_args()
    return {"check": run_check, "time": run_time, "compile": run_compile}[args.what](args)


if __name__ == "__main__":
    sys.exit(main())
