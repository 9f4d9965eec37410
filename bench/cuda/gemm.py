"""Checks and times the CUDA GEMM templates on the GPU at hand.

  python bench/cuda/gemm.py check                every trait of the templates, exactly with integers or against float64
  python bench/cuda/gemm.py time                 the tile table against torch (cuBLAS): bf16; --types f16, e4m3, s8, ...
  python bench/cuda/gemm.py time --explore 12    also the twelve most promising other configurations of every shape
  python bench/cuda/gemm.py time --without next_at_end,b_first,edges   and the table's choice without one of these
  python bench/cuda/gemm.py extras               epilogues, layouts, other types, groups, the portable template
  python bench/cuda/gemm.py compile              registers and spills of every checked configuration; needs no GPU

Timing: one process; inputs rotated through more than 200 MB so that L2 is cold; CUDA graphs; each contender in turn
rests, runs once unmeasured, then in a burst of about 10 ms between two events; the best of the rounds counts.
Ratios above 1 are in our favour.
"""

import argparse
import dataclasses
import hashlib
import json
import math
import os
import statistics
import sys
import time

import driver
import gemm_cells
import gemm_table
import toolchain
from gemm_config import Hopper, Portable, hopper_traits, traits
from gemm_facts import Problem

CACHE = os.environ.get("TILESMITH_BENCH_CACHE", "")


def build(configs):
    """{config source: (cubin, log)}. With TILESMITH_BENCH_CACHE set, compiled kernels are kept in that folder."""
    sources = list(dict.fromkeys((c.source(), c.arch()) for c in configs))
    headers = hashlib.sha256()
    for folder, _, files in sorted(os.walk(toolchain.KERNELS)):
        for file in sorted(files):
            with open(os.path.join(folder, file), "rb") as f:
                headers.update(f.read())
    built, missing = {}, []
    for job in sources:
        path = os.path.join(CACHE, hashlib.sha256((job[0] + job[1] + headers.hexdigest()).encode()).hexdigest()[:24])
        if CACHE and os.path.exists(path + ".log"):
            cubin = open(path + ".cubin", "rb").read() if os.path.exists(path + ".cubin") else None
            built[job[0]] = (cubin, open(path + ".log").read())
        else:
            missing.append((job, path))
    for (job, path), (cubin, log) in zip(missing, toolchain.compile_all([j for j, _ in missing]) if missing else []):
        built[job[0]] = (cubin, log)
        if CACHE:
            os.makedirs(CACHE, exist_ok=True)
            if cubin is not None:
                open(path + ".cubin", "wb").write(cubin)
            open(path + ".log", "w").write(log)
    return built


def load(config, built):
    cubin, log = built[config.source()]
    if cubin is None:
        print(f"refused: {config.name()}: {log[:400]}")
        return None
    if "C75" in log:
        print(f"slow: {config.name()}: {toolchain.report(log)}")
    return driver.Kernel(cubin, config.threads(), config.shared_bytes(), b"ts_gemm")


class Workspace:
    """Memory for split products, shared by all launches of a stream."""

    def __init__(self):
        self.partials = self.counters = self.sums = None

    def pointers(self, size, counters, zero=False):
        """With `zero` the partial sums are zero, and launches leave them so."""
        import torch

        if self.partials is None:
            self.partials = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
            self.counters = torch.zeros(1 << 16, dtype=torch.int32, device="cuda")
            self.sums = torch.zeros_like(self.partials)
        if size > self.partials.numel() or counters > self.counters.numel():
            raise RuntimeError(f"workspace of {size} bytes and {counters} counters is larger than the benchmark's")
        return (self.sums if zero else self.partials).data_ptr(), self.counters.data_ptr()


def run_compile(args):
    cases = [(n, c(Problem(**p))) for n, p, c in gemm_cells.checks(args.only)]
    for p in timed_problems(args) if args.explore else []:
        cases += [("timed", c) for c in gemm_table.configs(p, args.explore)]
    built = build([c for _, c in cases])
    for name, config in cases:
        cubin, log = built[config.source()]
        print(f"{name:40s} {config.name()}: {toolchain.report(log)}" if cubin else f"REFUSED {name}: {log[:600]}")


# Relative RMS errors allowed by output type; fp8 sums inside the tensor cores keep about 13 bits.
LIMITS = dict(bf16=3e-3, f16=4e-4, f32=3e-6, e4m3=3e-2, e5m2=6e-2)


def judge(t, config):
    """(good, what to print)."""
    import gemm_problem as problem

    p, exact = t.p, t.p.exact
    results, most = problem.reference(t)
    error = norm = 0.0
    wrong = total = 0
    for entry, rows, x in results:
        got = t.d[entry, rows]
        expected = problem.rounded(x, p.d)
        total += x.numel()
        if exact:
            wrong += (got.float() != expected.float()).sum().item()
        else:
            error += (got.double() - x).square().sum().item()
            norm += x.square().sum().item()
    around = t.untouched()
    text = "" if around else " WROTE OUTSIDE"
    good = around
    for (operation, _), (_, view, _, _) in zip(p.epilogue, t.operands):
        if operation == "amax" and not abs(view.item() - most) <= 2e-3 * most:
            good, text = False, text + f" amax {view.item()} for {most}"
    if exact:
        return good and wrong == 0, f"{wrong} of {total} differ" + text
    limit = LIMITS.get(p.d, 1e-2)
    if p.d == "f32":
        limit = (
            (1e-6 if getattr(config, "three_products", False) else 6e-4)
            if p.a == "f32"
            else (2e-3 if p.a in ("e4m3", "e5m2") else limit)
        )
    rms = math.sqrt(error / max(norm, 1e-300)) if math.isfinite(error) else math.inf
    return good and rms < limit, f"rms {rms:.1e}" + text


def run_check(args):
    import torch

    import gemm_problem as problem

    cases = []
    for name, facts, make in gemm_cells.checks(args.only):
        p = Problem(**facts)
        config = make(p)
        if getattr(config, "architecture", "") == "sm_80":
            config = dataclasses.replace(config, architecture="sm_90a")
        cases.append((name, p, config))
    built = build([c for _, _, c in cases])
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.zeros(1, device="cuda")
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    stream, workspace = torch.cuda.current_stream().cuda_stream, Workspace()
    failures = 0
    for name, p, config in cases:
        kernel = load(config, built)
        if kernel is None:
            failures += 1
            continue
        t = problem.Tensors(p)
        print(f"... {name} {config.name()}", end="\r", flush=True)
        go = config.launcher(kernel, t, sms, stream, workspace)
        go()
        torch.cuda.synchronize()
        first = t.storage_d.clone()
        t.poison()
        for _ in range(3):
            go()
        torch.cuda.synchronize()
        size = {1: torch.int8, 2: torch.int16, 4: torch.int32}[first.element_size()]
        same = torch.equal(first.view(size), t.storage_d.view(size))
        good, text = judge(t, config)
        good = good and same
        failures += not good
        if not good or args.verbose:
            print(
                f"{'ok  ' if good else 'FAIL'} {name:40s} {config.name():30s} {text}{'' if same else ' NOT REPEATABLE'}"
            )
    print(f"{len(cases) - failures} of {len(cases)} good" + " " * 60)
    return failures != 0


def cublas_call(p, t):
    """Torch's product on these tensors, or None where it has none."""
    import torch

    a, b = t.a[0], t.b[0]
    one = torch.ones(1, device="cuda")
    added = p.epilogue[0][0] if len(p.epilogue) == 1 and p.d == p.a == p.epilogue[0][1] else ""
    if added in ("add", "bias_n"):
        _, tensor, value, _ = t.operands[0]
        c, beta = (tensor[0], value) if added == "add" else (tensor[0, 0], 1.0)
        return lambda: torch.addmm(c, a, b, beta=beta, out=t.d[0])
    if p.epilogue or p.grouping or p.block_scales or p.batch > 1 or (p.a != "s8" and p.d == "f32" != p.a):
        return None
    if p.a in ("e4m3", "e5m2"):
        return lambda: torch._scaled_mm(a, b, one, one, out_dtype=t.d.dtype, use_fast_accum=True)
    if p.a == "s8":
        return lambda: torch._int_mm(a, b)
    return lambda: torch.mm(a, b, out=t.d[0])


def graph_of(calls, stream):
    import torch

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for call in calls:
            call()
    return graph


def burst(graph, launches, rest, estimate):
    """Microseconds of one launch."""
    import torch

    torch.cuda.synchronize()
    time.sleep(rest)
    graph.replay()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    replays = max(1, round(1e4 / (launches * estimate)))
    begin.record()
    for _ in range(replays):
        graph.replay()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1e3 / (replays * launches)


def time_cell(p, configs, built, args, sms, stream, workspace):
    """{contender: microseconds}, and {contender: what is wrong}."""
    import torch

    import gemm_problem as problem

    sets = [problem.Tensors(p, seed=i + 1) for i in range(max(2, min(160, math.ceil(2.2e8 / p.bytes()))))]
    floor = max(p.flops() / 1.6e9, p.bytes() / 4.7e6, 2.0)
    repeats = max(1, math.ceil(400 / (floor * len(sets))))
    calls, wrong = {}, {}
    peer = [cublas_call(p, t) for t in sets]
    if peer[0] is not None:
        try:
            expected = peer[0]()
            calls["cuBLAS"] = peer
        except RuntimeError as e:
            wrong["cuBLAS"] = str(e).splitlines()[0][:120]
            peer = [None]
    if peer[0] is None:
        out, _ = problem.reference(sets[0])
        entry, rows, expected = out[-1]
    else:
        entry, rows = 0, slice(0, p.m)
    expected = expected.double()
    for config in configs:
        kernel = load(config, built)
        if kernel is None:
            wrong[config.name()] = "does not compile"
            continue
        sets[0].poison()
        launches = [config.launcher(kernel, t, sms, stream.cuda_stream, workspace) for t in sets]
        launches[0]()
        torch.cuda.synchronize()
        got = sets[0].d[entry, rows].double()
        rms = ((got - expected).square().mean() / expected.square().mean()).sqrt().item()
        if not rms < 6e-3:
            wrong[config.name()] = f"differs by {rms:.1e}"
            continue
        calls[config.name()] = launches
    graphs = {n: graph_of(c * repeats, stream) for n, c in calls.items()}
    launches = len(sets) * repeats
    best = {}
    for r in range(args.rounds):
        names = list(graphs)
        for name in names[r % len(names) :] + names[: r % len(names)]:
            us = burst(graphs[name], launches, args.rest, best.get(name, 1.5 * floor))
            best[name] = min(us, best.get(name, math.inf))
    return best, wrong


def timed_problems(args):
    for kind in args.types.split(","):
        for m, n, k in gemm_table.shapes(args.shapes):
            yield Problem(
                m,
                n,
                k,
                a=kind,
                b=kind,
                d={"s8": "s32", "f32": "f32", "f16": "f16"}.get(kind, "bf16"),
                dense=True,
                row_major_a=args.layout[0] == "r",
                row_major_b=args.layout[1] == "r",
            )


def run_time(args):
    import torch

    stream = torch.cuda.Stream()
    torch.cuda.set_stream(stream)
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    print(f"{torch.cuda.get_device_name(0)}, torch {torch.__version__}; TFLOP/s (GB/s)")
    work = [(p, gemm_table.configs(p, args.explore, args.only, args.early_b, args.without)) for p in timed_problems(args)]
    built = build([c for _, cs in work for c in cs])
    workspace, results, ratios = Workspace(), [], {}
    started = time.time()
    for p, configs in work:
        if args.budget and time.time() - started > args.budget:
            print("out of time")
            break
        us, wrong = time_cell(p, configs, built, args, sms, stream, workspace)
        rate = {n: p.flops() / t * 1e-6 for n, t in us.items()}
        ours = sorted(((r, n) for n, r in rate.items() if n != "cuBLAS"), reverse=True)
        if not ours:
            print(f"{p.a} {p.m}x{p.n}x{p.k}: {wrong}")
            continue
        line = f"{p.a:5s} {p.m}x{p.n}x{p.k}: {ours[0][0]:6.1f} ({p.bytes() / us[ours[0][1]] * 1e-3:4.0f}) "
        if "cuBLAS" in rate:
            ratios.setdefault(p.a, []).append(ours[0][0] / rate["cuBLAS"])
            line += f"cuBLAS {rate['cuBLAS']:6.1f} ratio {ratios[p.a][-1]:.3f} "
        rest = ours[1 : args.show + 1]
        print(line + f"[{ours[0][1]}] " + "; ".join(f"{n} {r / ours[0][0]:.3f}" for r, n in rest), flush=True)
        for name, what in wrong.items():
            print(f"  WRONG {name}: {what}")
        results.append(dict(type=p.a, m=p.m, n=p.n, k=p.k, layout=args.layout, us=us))
    for kind, r in ratios.items():
        mean = math.exp(statistics.mean(map(math.log, r)))
        print(f"{kind}: geometric mean {mean:.3f}, smallest {min(r):.3f} over {len(r)} shapes")
    if args.json:
        with open(args.json, "w") as f:
            json.dump(results, f, indent=1)
    return 0


def run_extras(args):
    """Times of what plain products against cuBLAS do not show, next to the plain product of the same kind."""
    import torch

    stream = torch.cuda.Stream()
    torch.cuda.set_stream(stream)
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    torch.backends.cuda.matmul.allow_tf32 = True
    work = []
    for name, facts, tiles in gemm_cells.extras():
        p = Problem(**dict(facts, dense=True))
        if args.only in name:
            work.append((name, p, [Hopper(**dict(hopper_traits(p), **t)) for t in tiles]))
        if (
            args.only in name
            and ("plain" in name or name.startswith("layout"))
            or name in ("direct stores", "type f32")
        ):
            shapes = (dict(blocks_per_sm=2, stages=3), dict(warps_n=2, blocks_per_sm=2, stages=3))
            portable = [Portable(**dict(traits(p), architecture="sm_90a", **s)) for s in shapes]
            portable = [c for c in portable if c.fits()]
            work.append((f"{name}, portable", p, portable))
    built = build([c for _, _, cs in work for c in cs])
    workspace = Workspace()
    for name, p, configs in work:
        us, wrong = time_cell(p, configs, built, args, sms, stream, workspace)
        rates = "; ".join(f"{n} {p.flops() / t * 1e-6:.1f}" for n, t in sorted(us.items(), key=lambda x: x[1]))
        print(f"{name:28s} {rates}", *(f"WRONG {n}: {w}" for n, w in wrong.items()), flush=True)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["check", "time", "extras", "compile"])
    parser.add_argument("--only", default="", help="cases, or configurations, whose name contains this")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--types", default="bf16")
    parser.add_argument("--shapes", default="square,wide")
    parser.add_argument("--layout", default="rcr")
    parser.add_argument("--explore", type=int, default=0, metavar="N")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--rest", type=float, default=0.15, help="seconds before each contender's burst")
    parser.add_argument("--without", type=lambda names: names.split(","), default=[], help="the host's choices")
    parser.add_argument("--budget", type=float, default=0.0, help="seconds after which no further shape is begun")
    parser.add_argument("--show", type=int, default=4, help="runners-up on each line")
    parser.add_argument("--early-b", action="store_true", help="b is constant: copies of it may start early (few rows)")
    parser.add_argument("--json", default="")
    args = parser.parse_args()
    if unknown := set(args.without) - {"next_at_end", "b_first", "edges"}:
        parser.error(f"--without {','.join(sorted(unknown))}: one of next_at_end, b_first, edges")
    return {"check": run_check, "time": run_time, "extras": run_extras, "compile": run_compile}[args.what](args)


if __name__ == "__main__":
    sys.exit(main())
