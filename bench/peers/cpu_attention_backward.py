#!/usr/bin/env python3
"""Times attention backward on the CPU beside PyTorch's backward of scaled_dot_product_attention.

    bench/peers/cpu_attention_backward.py --program build/bin/tilesmith --threads 1,2 --json backward.json [PROBLEM...]

A problem is TYPE [causal] HEADSxLENGTHxHEAD_DIM, such as "bf16 causal 8x1024x128"; without one, those that the project compares itself with. The
contenders take turns: one `tilesmith run` (its own median of several calls), then as many calls of PyTorch's gradient of q, k and v. Each call begins
with cold caches. Reported: the median over the turns of each contender's median and best time, and of the ratios within a turn. On a machine that
others use the best times tell more. Needs PyTorch; uses its CPU kernels alone.
"""
import argparse
import json
import shlex
import statistics
import subprocess
import sys
import time

DEFAULTS = [
    f"{kind}{causal} {heads}x{length}x{dim}"
    for kind in ("fp32", "bf16")
    for dim, heads in ((64, 16), (128, 8))
    for length in (512, 1024, 2048)
    for causal in ("", " causal")
]
COLD_BYTES = 512 << 20  # more than a last-level cache


def read_problem(text):
    kind, *words, sizes = text.split()
    heads, length, dim = map(int, sizes.split("x"))
    if kind not in ("fp32", "bf16", "fp16") or words not in ([], ["causal"]):
        raise ValueError(f"{text}: TYPE [causal] HEADSxLENGTHxHEAD_DIM with a type of fp32, bf16, fp16")
    return kind, words == ["causal"], heads, length, dim


def flops_of(problem):
    _, causal, heads, length, dim = problem
    return 10 * heads * dim * (length * (length + 1) / 2 if causal else length * length)


class Tilesmith:
    def __init__(self, program, problem, threads):
        kind, causal, heads, length, dim = problem
        options = f"run attention_bwd --heads-q {heads} --seqlen-q {length} --head-dim-qk {dim} --dtype {kind} --threads {threads} --json"
        self._command = [program, *shlex.split(options), *(["--mask", "top_left"] if causal else [])]
        self.kernel = self._run()["kernel"]  # compiled now, if it has to be

    def _run(self):
        return json.loads(subprocess.run(self._command, check=True, capture_output=True, text=True).stdout)

    def seconds(self):
        """Median and best of one run's calls."""
        timing = self._run()["timing"]
        return timing["median_ms"] / 1e3, timing["best_ms"] / 1e3


class PyTorch:
    def __init__(self, torch, problem, threads, calls):
        kind, causal, heads, length, dim = problem
        self._torch, self._threads, self._calls = torch, threads, calls
        torch.set_num_threads(threads)
        torch.manual_seed(1)
        element = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[kind]
        self._inputs = [torch.randn(1, heads, length, dim, dtype=element, requires_grad=True) for _ in range(3)]
        self._out = torch.nn.functional.scaled_dot_product_attention(*self._inputs, is_causal=causal)
        self._dout = torch.randn_like(self._out)
        self._evict = torch.ones(COLD_BYTES, dtype=torch.uint8)

    def seconds(self):
        self._torch.set_num_threads(self._threads)
        samples = []
        for _ in range(self._calls):
            self._evict.add_(1)
            begin = time.perf_counter()
            self._torch.autograd.grad(self._out, self._inputs, self._dout, retain_graph=True)
            samples.append(time.perf_counter() - begin)
        return statistics.median(samples), min(samples)


def compare(torch, text, threads, options):
    problem = read_problem(text)
    ours = Tilesmith(options.program, problem, threads)
    theirs = PyTorch(torch, problem, threads, options.calls)
    theirs.seconds()
    turns = []
    for turn in range(options.turns):
        pair = [ours, theirs] if turn % 2 == 0 else [theirs, ours]
        times = {each: each.seconds() for each in pair}
        turns.append((times[ours], times[theirs]))
    median = lambda values: statistics.median(list(values))
    flops = flops_of(problem)
    return {
        "problem": text,
        "threads": threads,
        "kernel": ours.kernel,
        "median_ms": median(1e3 * a[0] for a, _ in turns),
        "best_ms": min(1e3 * a[1] for a, _ in turns),
        "torch_median_ms": median(1e3 * b[0] for _, b in turns),
        "torch_best_ms": min(1e3 * b[1] for _, b in turns),
        "gflops_best": flops / min(a[1] for a, _ in turns) / 1e9,
        "ratio_of_medians": median(b[0] / a[0] for a, b in turns),
        "ratio_of_bests": min(b[1] for _, b in turns) / min(a[1] for a, _ in turns),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems", nargs="*", default=DEFAULTS, metavar="PROBLEM")
    parser.add_argument("--program", default="build/bin/tilesmith", help="the program, or a command with its first words")
    parser.add_argument("--threads", default="1,2", help="numbers of threads, with commas")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--calls", type=int, default=5, help="of PyTorch in a turn")
    parser.add_argument("--json", help="a file for the results")
    options = parser.parse_args()

    import torch

    rows = []
    for text in options.problems:
        for threads in map(int, options.threads.split(",")):
            row = compare(torch, text, threads, options)
            rows.append(row)
            print(
                f"{row['problem']:24} {threads} threads: {row['best_ms']:8.2f} ms ({row['gflops_best']:4.0f} GFLOP/s), PyTorch "
                f"{row['torch_best_ms']:8.2f} ms: {row['ratio_of_bests']:.2f} times (medians {row['ratio_of_medians']:.2f})",
                flush=True,
            )
    if options.json:
        document = {"peer": f"PyTorch {torch.__version__}, CPU capability {torch.backends.cpu.get_cpu_capability()}", "rows": rows}
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(document, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    sys.exit(main())
