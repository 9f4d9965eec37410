#!/usr/bin/env python3
"""Times random problems of tilesmith and of PyTorch on the CPU, by turns, on the same tensors, and reports where tilesmith loses most.

    taskset -c 0 bench/peers/cpu_random.py gemm --types fp32,bf16,fp16,int8 --seed 7 --count 60 --csv gemm.csv
    taskset -c 0,1 bench/peers/cpu_random.py conv --threads 2 --seconds 100
    bench/peers/cpu_random.py --judge gemm.csv conv.csv                        # the figures again, of several files

Operations: gemm (few rows, tiny, awkward, batched, long and short sums; all orders), conv (plain, pointwise, depthwise, groups, few channels; three directions, both layouts)
and attention (prefill, append, decode; grouped heads, causal, a bias). Problems follow from --seed and their number alone. Caches are evicted before each turn unless --warm.
Medians are reported, or the least with --best. A problem that PyTorch refuses is left out; where the results are apart by more than the type allows, the line says so, and
where they have nothing in common the figures leave it out: PyTorch 2.11's _int_mm is wrong where m or k is 1, its bf16 gradients of dilated groups' filters too.
"""
import argparse
import csv
import math
import random
import statistics
import sys
import time

REST = 0.02  # seconds before each turn of more than one thread: by then the threads of the other no longer wait for work on the processors
FIELDS = ["operation", "family", "type", "threads", "problem", "peer_ms", "ours_ms", "ratio", "apart", "kernel"]
TOLERANCE = {"fp32": 1e-4, "bf16": 2e-2, "fp16": 5e-3, "int8": 2e-2}
NOTHING_IN_COMMON = 0.1
MOST_WORK, MOST_BYTES = 4e9, 128 << 20  # of a problem


def between(draw, low, high):
    """An integer, all orders of magnitude alike."""
    return min(high, max(low, round(math.exp(draw.uniform(math.log(low), math.log(high + 1))))))


def draw_gemm(draw, kind):
    family = draw.choice(["few rows", "tiny", "awkward", "batched", "long sum", "short sum", "usual"])
    batch = 1
    if family == "few rows":
        m, n, k = between(draw, 1, 16), between(draw, 64, 8192), between(draw, 64, 8192)
    elif family == "tiny":
        m, n, k = (between(draw, 1, 48) for _ in range(3))
    elif family == "batched":
        batch, (m, n, k) = between(draw, 2, 64), (between(draw, 1, 256) for _ in range(3))
    elif family == "long sum":
        m, n, k = between(draw, 1, 128), between(draw, 1, 128), between(draw, 2048, 65536)
    elif family == "short sum":
        m, n, k = between(draw, 128, 2048), between(draw, 128, 2048), between(draw, 1, 48)
    elif family == "awkward":
        m, n, k = (between(draw, 17, 700) | 1 for _ in range(3))
    else:
        m, n, k = (16 * between(draw, 2, 80) for _ in range(3))
    order = draw.choice(["rr", "rc", "rc", "cr", "cc"])
    if 2 * batch * m * n * k > MOST_WORK or 4 * batch * (m * k + k * n + m * n) > MOST_BYTES or (kind == "int8" and batch > 1):
        return draw_gemm(draw, kind)
    return family, {"batch": batch, "m": m, "n": n, "k": k, "order": order}


def gemm(torch, tilesmith, kind, p):
    def matrix(rows, columns, order):
        shape = (rows, columns) if order == "r" else (columns, rows)
        if p["batch"] > 1:
            shape = (p["batch"], *shape)
        x = torch.randint(-127, 128, shape, dtype=torch.int8) if kind == "int8" else torch.randn(shape).to(dtype_of(torch, kind))
        return x if order == "r" else x.transpose(-1, -2)

    a, b = matrix(p["m"], p["k"], p["order"][0]), matrix(p["k"], p["n"], p["order"][1])
    product = torch._int_mm if kind == "int8" else torch.matmul
    return lambda: product(a, b), lambda: tilesmith.matmul(a, b)


def draw_conv(draw, kind):
    family = draw.choice(["plain", "plain", "pointwise", "depthwise", "groups", "few channels", "few filters"])
    batch, size = draw.choice([1, 1, 1, 2, 8]), (between(draw, 5, 112), between(draw, 5, 112))
    filter = 1 if family == "pointwise" else draw.choice([2, 3, 3, 3, 4, 5, 7])
    c, k, groups = between(draw, 16, 512), between(draw, 16, 512), 1
    if family == "depthwise":
        c = k = groups = between(draw, 8, 512)
    elif family == "groups":
        groups = between(draw, 2, 32)
        c, k = groups * between(draw, 2, 64), groups * between(draw, 2, 64)
    elif family == "few channels":
        c = between(draw, 1, 12)
    elif family == "few filters":
        k = between(draw, 1, 12)
    p = {"batch": batch, "c": c, "k": k, "groups": groups, "size": size, "filter": filter, "stride": draw.choice([1, 1, 2]), "padding": filter // 2,
         "dilation": draw.choice([1] * 7 + [2]), "layout": draw.choice(["last", "last", "first"]),
         "direction": "fwd" if kind in ("int8", "fp16") else draw.choice(["fwd", "bwd_data", "bwd_weight"])}  # fmt: skip
    out = [(s + 2 * p["padding"] - p["dilation"] * (filter - 1) - 1) // p["stride"] + 1 for s in size]
    work = 2 * batch * k * (c // groups) * filter**2 * math.prod(out)
    if min(out) < 1 or work > MOST_WORK or 4 * batch * (c * math.prod(size) + k * math.prod(out)) > MOST_BYTES:
        return draw_conv(draw, kind)
    return family, p


def conv(torch, tilesmith, kind, p):
    memory = dict(memory_format=torch.channels_last if p["layout"] == "last" else torch.contiguous_format)
    geometry = {"stride": p["stride"], "padding": p["padding"], "dilation": p["dilation"], "groups": p["groups"]}
    pairs = [[p[name]] * 2 for name in ("stride", "padding", "dilation")]
    shapes = (p["batch"], p["c"], *p["size"]), (p["k"], p["c"] // p["groups"], p["filter"], p["filter"])
    if kind == "int8":
        memory = dict(memory_format=torch.channels_last)  # that of PyTorch's operator
        x, w = (torch.randint(-100, 101, shape, dtype=torch.int8).contiguous(**memory) for shape in shapes)
        scale = 30 / (3300 * (shapes[1][1] * p["filter"] ** 2) ** 0.5)  # results of some dozens
        qx = torch._make_per_tensor_quantized_tensor(x.short().add(128).to(torch.uint8).contiguous(**memory), 1.0, 128)
        torch.backends.quantized.engine = "onednn"
        theirs = torch.ops.quantized.conv2d_prepack(torch._make_per_tensor_quantized_tensor(w, 1.0, 0), None, *pairs, p["groups"])
        packed = tilesmith.pack_conv_weight(w, groups=p["groups"], dilation=p["dilation"])
        ours = lambda: tilesmith.conv2d(x, packed, scale_w=scale, out_dtype=torch.int8, **geometry)  # noqa: E731
        return lambda: torch.ops.quantized.conv2d(qx, theirs, 1 / scale, 128), ours
    dtype = dtype_of(torch, kind)
    x, w = torch.randn(shapes[0]).to(dtype).contiguous(**memory), torch.randn(shapes[1]) / (p["filter"] * shapes[1][1] ** 0.5)
    w = w.to(dtype).contiguous(**memory)
    dy = torch.randn_like(torch.conv2d(x, w, **geometry))

    def backward(mask):
        return torch.ops.aten.convolution_backward(dy, x, w, None, *pairs, False, [0, 0], p["groups"], mask)

    return {
        "fwd": (lambda: torch.conv2d(x, w, **geometry), lambda: tilesmith.conv2d(x, w, **geometry)),
        "bwd_data": (lambda: backward([True, False, False])[0], lambda: tilesmith.conv_backward_data(dy, w, x.shape, **geometry)),
        "bwd_weight": (lambda: backward([False, True, False])[1], lambda: tilesmith.conv_backward_weight(dy, x, w.shape, **geometry)),
    }[p["direction"]]


def draw_attention(draw, kind):
    family = draw.choice(["prefill", "append", "decode", "decode", "small"])
    group = draw.choice([1, 1, 2, 4, 8])
    p = {"batch": between(draw, 1, 8), "heads": group * between(draw, 1, 8), "group": group, "head_dim": draw.choice([16, 32, 40, 64, 64, 72, 80, 96, 128, 128, 160, 192, 256])}
    if family == "prefill":
        p["q"] = p["k"] = between(draw, 64, 1500)
    elif family == "append":
        p["q"], p["k"] = between(draw, 9, 128), between(draw, 256, 4096)
    elif family == "decode":
        p["q"], p["k"] = draw.choice([1, 1, 1, 2, 4, 8]), between(draw, 64, 8192)
    else:
        p["q"], p["k"] = between(draw, 1, 64), between(draw, 1, 64)
    p["mask"] = draw.choice(["none", "none", "causal", "causal", "bias", "bias of keys"])
    if p["mask"] == "causal" and p["q"] != p["k"]:  # torch's mask begins at the first key, the other at the last
        p["mask"] = "none"
    work = 4 * p["batch"] * p["heads"] * p["q"] * p["k"] * p["head_dim"]
    if work > MOST_WORK or 8 * p["batch"] * (p["heads"] * p["q"] + p["heads"] // group * p["k"]) * p["head_dim"] > MOST_BYTES:
        return draw_attention(draw, kind)
    return family, p


def attention(torch, tilesmith, kind, p):
    def tensor(heads, rows):
        return torch.randn(p["batch"], heads, rows, p["head_dim"]).to(dtype_of(torch, kind))

    q, k, v = tensor(p["heads"], p["q"]), tensor(p["heads"] // p["group"], p["k"]), tensor(p["heads"] // p["group"], p["k"])
    causal, shape = p["mask"] == "causal", {"bias": (p["q"], p["k"]), "bias of keys": (p["batch"], 1, 1, p["k"])}.get(p["mask"])
    added = None if shape is None else torch.randn(shape).to(q.dtype)  # torch takes one of q's type, ours fp32
    bias = None if shape is None else added.float()
    theirs = torch.nn.functional.scaled_dot_product_attention
    return lambda: theirs(q, k, v, attn_mask=added, is_causal=causal, enable_gqa=p["group"] > 1), lambda: tilesmith.attention(q, k, v, causal=causal, bias=bias)


OPERATIONS = {"gemm": (draw_gemm, gemm, "fp32,bf16,fp16,int8"), "conv": (draw_conv, conv, "fp32,bf16,fp16,int8"), "attention": (draw_attention, attention, "fp32,bf16,fp16")}


def dtype_of(torch, kind):
    return {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[kind]


def floats(result):
    return (result.int_repr().short() - 128 if result.is_quantized else result).float()


def measure(torch, tilesmith, options, eviction, calls):
    """Seconds of each call, and by how much the results are apart."""
    with torch.inference_mode(), tilesmith.options(threads=options.threads):
        want, got = (floats(call()) for call in calls)
        kernel = tilesmith.last_plan().kernel
        apart = ((got - want).norm() / max(want.norm().item(), 1e-30)).item()
        samples, began = [[], []], time.perf_counter()
        while len(samples[0]) < 5 or (len(samples[0]) < 15 and time.perf_counter() - began < options.each):
            for call, each in zip(calls, samples):
                if not options.warm:
                    eviction.add_(1)  # larger than any last-level cache
                if options.threads > 1:
                    time.sleep(REST)
                start = time.perf_counter()
                call()
                each.append(time.perf_counter() - start)
    return [(min if options.best else statistics.median)(each) for each in samples], apart, kernel


def judge(rows, worst):
    """Geometric means by family, type and threads, and the rows with the least ratio."""
    groups = {}
    alike = [row for row in rows if float(row["apart"]) < NOTHING_IN_COMMON]
    if len(alike) < len(rows):
        print(f"left out, as the results have nothing in common: {len(rows) - len(alike)}")
    for row in alike:
        for key in ((row["operation"], "all", row["type"]), (row["operation"], row["family"], "all")):
            groups.setdefault((*key, row["threads"]), []).append(float(row["ratio"]))
    for key, ratios in sorted(groups.items(), key=str):
        print(f"{key[0]:>10} {key[1]:<13} {key[2]:<5} {key[3]} thread(s)  PyTorch's time over ours: mean {statistics.geometric_mean(ratios):.3f}, least {min(ratios):.2f}, {len(ratios)} problems")
    for row in sorted(alike, key=lambda each: float(each["ratio"]))[:worst]:
        print(f"{float(row['ratio']):.2f} {row['type']} {row['threads']} {row['family']}: {row['problem']}  {row['peer_ms']} ms, ours {row['ours_ms']}  {row['kernel']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("operation", nargs="?", choices=list(OPERATIONS))
    parser.add_argument("--types", default="", help="default: all that the operation has here")
    parser.add_argument("--families", default="", help="default: all")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1 << 30)
    parser.add_argument("--seconds", type=float, default=60, help="no problem begins later")
    parser.add_argument("--each", type=float, default=0.3, help="seconds spent on a problem's turns")
    parser.add_argument("--worst", type=int, default=15, help="problems listed")
    parser.add_argument("--best", action="store_true", help="the least time instead of the median")
    parser.add_argument("--warm", action="store_true", help="leave the caches as the call before left them")
    parser.add_argument("--csv", help="writes a line for each problem")
    parser.add_argument("--judge", nargs="+", metavar="FILE", help="reads lines instead of measuring")
    options = parser.parse_args()
    if options.judge:
        rows = [row for file in options.judge for row in csv.DictReader(open(file, newline="", encoding="utf-8"))]
        return judge(rows, options.worst)
    if not options.operation:
        parser.error("an operation, or --judge")

    import torch

    import tilesmith

    began = time.perf_counter()
    torch.set_num_threads(options.threads)
    eviction = torch.ones(256 << 20, dtype=torch.uint8)
    draw_problem, contenders, types = OPERATIONS[options.operation]
    types = (options.types or types).split(",")
    writer = None
    if options.csv:
        file = open(options.csv, "w", newline="", encoding="utf-8", buffering=1)
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
    rows = []
    for number in range(options.count):
        if time.perf_counter() - began > options.seconds:
            break
        draw = random.Random(f"{options.operation} {options.seed} {number}")
        torch.manual_seed(number)
        kind = draw.choice(types)
        family, problem = draw_problem(draw, kind)
        if options.families and family not in options.families.split(","):
            continue
        line = " ".join(f"{name}={'x'.join(map(str, value)) if isinstance(value, tuple) else value}" for name, value in problem.items())
        try:
            calls = contenders(torch, tilesmith, kind, problem)
            calls[0]()
        except (RuntimeError, NotImplementedError) as error:
            print(f"PyTorch refuses {kind} {line}: {str(error).splitlines()[0]}", file=sys.stderr)
            continue
        seconds, apart, kernel = measure(torch, tilesmith, options, eviction, calls)
        rows.append(dict(zip(FIELDS, (options.operation, family, kind, options.threads, line, f"{seconds[0] * 1e3:.4f}", f"{seconds[1] * 1e3:.4f}",
                                      f"{seconds[0] / seconds[1]:.3f}", f"{apart:.1e}", kernel))))  # fmt: skip
        print(f"{rows[-1]['ratio']} {kind} {family}: {line}" + ("" if apart < TOLERANCE[kind] else f"  APART by {apart:.1e}"), flush=True)
        if writer:
            writer.writerow(rows[-1])
    if rows:
        judge(rows, options.worst)


if __name__ == "__main__":
    main()
