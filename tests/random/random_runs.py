#!/usr/bin/env python3
"""Draws problems of every operation and candidates for them at random, and runs each with `tilesmith run --verify`.

    random_runs.py --program build/bin/tilesmith --device cpu --seconds 60 --seed 1 [--only gemm,conv] [--jobs 2]

Half of the runs take the kernel that dispatch chooses, the others any candidate. A run is "passed" by the float64
reference, "refused" where the program says why the problem cannot be or has no kernel, with a hint, "inconclusive"
where the reference cannot judge, or "failed": a wrong result, a crash, a driver's or a compiler's error, or no end
within --limit. Each failure is printed with the command that repeats it. The exit status is 1 when there is one, or when
fewer than half of the runs passed, or there was none: then the draw tests nothing.
"""

import argparse
import collections
import concurrent.futures
import json
import math
import random
import re
import shlex
import shutil
import subprocess
import sys
import time


def size(rng, most):
    """A size from 1 to most whose magnitude is even; every third is a multiple of 8."""
    value = min(most, int(math.exp(rng.uniform(0, math.log(most + 1)))))
    return max(8, value // 8 * 8) if rng.random() < 0.33 else value


def few(rng, *values):
    return rng.choice(values)


def option(rng, chance, *words):
    return list(map(str, words)) if rng.random() < chance else []


def gemm(rng, device):
    m, n, k = size(rng, 700), size(rng, 900), size(rng, 3000 if rng.random() < 0.3 else 700)
    words = ["-m", m, "-n", n, "-k", k]
    dtype = few(rng, "bf16", "bf16", "fp16", "fp32", "tf32", "fp8", "bf8", "int8")
    words += ["--dtype", dtype]
    if dtype in ("bf16", "fp16") and rng.random() < 0.2:
        words += ["--dtype-b", few(rng, "int8", "int4"), "--group-size", few(rng, 32, 64, 128, k)]
        words += option(rng, 0.3, "--zero-points")
    elif dtype == "fp8" and rng.random() < 0.25:
        words += ["--group-size", 128]
    elif rng.random() < 0.15:
        words += ["--grouping", few(rng, "contiguous", "masked"), "--batch", few(rng, 2, 4, 9)]
    else:
        words += option(rng, 0.2, "--batch", few(rng, 0, 2, 3, 5)) + option(rng, 0.15, "--k2", size(rng, 300))
    words += option(rng, 0.2, "--dtype-out", "int8" if dtype == "int8" else few(rng, "fp32", "bf16", "fp16"))
    words += option(rng, 0.4, "--layout", few(rng, *(a + b + c for a in "rc" for b in "rc" for c in "rc")))
    words += option(rng, 0.2, "--unaligned") + option(rng, 0.2, "--alpha", few(rng, 0.5, -2))
    words += option(rng, 0.2, "--beta", few(rng, 1, 0.25))
    last = ["relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "clamp", "amax"] + (["swiglu", "geglu"] if n % 2 == 0 else [])
    steps = [each for each in ("bias", "bias_m", "scale_n", "scale_m", "add", "multiply") if rng.random() < 0.15]
    steps += [rng.choice(last)] if rng.random() < 0.3 else []
    return "gemm", words + (["--epilogue", ",".join(steps)] if steps else [])


def mask(rng):
    kind = few(rng, "none", "none", "top_left", "bottom_right")
    words = ["--mask", kind]
    right = few(rng, -1, 0, 7, 100) if kind == "none" else -1
    words += option(rng, 0.25, "--window", f"{few(rng, -1, 0, 5, 64, 300)},{right}")
    return words + (option(rng, 0.2, "--diagonal", few(rng, -1, 3, -40)) if kind != "none" else [])


def heads(rng):
    key_heads = few(rng, 1, 1, 2, 3, 8)
    return ["--heads-q", key_heads * few(rng, 1, 1, 2, 3, 7, 8, 16), "--heads-kv", key_heads]


def traits(rng):
    words = option(rng, 0.15, "--softcap", few(rng, 5, 30)) + option(rng, 0.15, "--random-sink")
    return words + option(rng, 0.3, few(rng, "--random-bias", "--random-alibi"))


def head_dim(rng):
    return few(rng, 32, 40, 64, 64, 72, 80, 96, 128, 128, 160, 192, 256)


def attention_fwd(rng, device):
    words = ["--batch", few(rng, 1, 1, 2, 3), *heads(rng), "--seqlen-q", size(rng, 700), "--seqlen-k", size(rng, 900)]
    words += ["--head-dim-qk", head_dim(rng), *option(rng, 0.2, "--head-dim-v", head_dim(rng)), *mask(rng), *traits(rng)]
    dtype = few(rng, "bf16", "bf16", "fp16", "fp32", "tf32", "fp8bf16", "fp8e4m3", "fp8fp16")
    words += ["--dtype", dtype, *option(rng, 0.4, "--with-lse"), *option(rng, 0.15, "--dropout", few(rng, 0.1, 0.5))]
    words += option(rng, 0.3, "--layout", "bshd") + option(rng, 0.3, "--mode", "group") + option(rng, 0.15, "--unaligned")
    return "attention_fwd", words + (option(rng, 0.3, "--block-scale") if dtype.startswith("fp8") else [])


def decode(rng, device):
    words = ["--batch", few(rng, 1, 2, 5, 17), "--seqlen-q", few(rng, 1, 1, 1, 2, 4, 9, 70), "--seqlen-k", size(rng, 4000)]
    words += [*mask(rng), *traits(rng), "--dtype", few(rng, "bf16", "bf16", "fp16", "fp32"), *option(rng, 0.4, "--with-lse")]
    if rng.random() < 0.15:
        words += ["--latent", "--head-dim-qk", 576, "--head-dim-v", 512, "--heads-q", few(rng, 1, 16, 20, 128), "--heads-kv", 1]
    else:
        words += [*heads(rng), "--head-dim-qk", head_dim(rng)]
    if rng.random() < 0.7:
        words += ["--page-size", few(rng, 1, 3, 16, 16, 64, 128, 256), *option(rng, 0.2, "--vectorized-pages")]
    if rng.random() < 0.3:
        words += ["--cache", few(rng, "fp8", "int8"), *option(rng, 0.3, "--page-scale")]
    return "attention_fwd", words + option(rng, 0.25, "--splits", few(rng, 1, 2, 5, 16)) + option(rng, 0.2, "--batch-invariant")


def attention_bwd(rng, device):
    words = ["--batch", few(rng, 1, 1, 2), *heads(rng), "--seqlen-q", size(rng, 400), "--seqlen-k", size(rng, 500)]
    words += ["--head-dim-qk", head_dim(rng), *option(rng, 0.15, "--head-dim-v", head_dim(rng)), *mask(rng), *traits(rng)]
    words += ["--dtype", few(rng, "bf16", "bf16", "fp16", "fp32"), *option(rng, 0.15, "--dropout", few(rng, 0.1, 0.5))]
    return "attention_bwd", words + option(rng, 0.3, "--layout", "bshd") + option(rng, 0.3, "--mode", "group")


def conv(rng, device):
    dims = few(rng, 1, 2, 2, 2, 3)
    most = {1: 400, 2: 40, 3: 12}[dims]
    each = lambda *values: ",".join(str(few(rng, *values)) for _ in range(dims))
    direction = few(rng, "fwd", "fwd", "bwd_data", "bwd_weight")
    groups = few(rng, 1, 1, 1, 2, 8, 32)
    channels = (1, 2, 4, 8, 16) if groups > 1 else (1, 3, 3, 4, 8, 20, 32, 64, 100)
    c = few(rng, *channels)
    words = ["--direction", direction, "-n", few(rng, 1, 2, 5), "--groups", groups, "-c", c, "-k", few(rng, c, *channels, 64)]
    words += ["--in", ",".join(str(size(rng, most)) for _ in range(dims)), "--filter", each(1, 1, 2, 3, 3, 5, 7)]
    words += option(rng, 0.4, "--stride", each(1, 2, 2, 3)) + option(rng, 0.2, "--dilation", each(1, 2, 3))
    words += option(rng, 0.7, "--pad", each(0, 1, 1, 2, 3)) + option(rng, 0.15, "--pad-high", each(0, 1, 4))
    dtype = few(rng, "bf16", "bf16", "fp16", "fp32", *(("fp8", "int8") if direction == "fwd" else ()))
    words += ["--dtype", dtype, *option(rng, 0.2, "--dtype-out", "fp32"), *option(rng, 0.4, "--layout", "channels_first")]
    words += option(rng, 0.15, "--unaligned")
    if device == "cpu" and direction != "bwd_weight":
        words += option(rng, 0.15, "--packed-w")
    steps = [] if direction == "bwd_weight" else [step for step in ("bias", "scale_n", "add", "relu") if rng.random() < 0.2]
    return "conv", words + (["--epilogue", ",".join(steps)] if steps else [])


# By name; each takes a generator and the device's name, and returns the operation and its options.
DRAWS = {"gemm": gemm, "attention_fwd": attention_fwd, "decode": decode, "attention_bwd": attention_bwd, "conv": conv}
# What no problem is refused for.
BROKEN = re.compile("CUDA_ERROR|could not be (had|compiled)|the compiler|internal")
PASSED, REFUSED, INCONCLUSIVE, FAILED = "passed", "refused", "inconclusive", "failed"


def candidates(options, operation, words):
    command = [options.program, "list", "--candidates", "--json", "--op", operation, "--device", options.device, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=options.limit)
    return [each["name"] for each in json.loads(done.stdout)["candidates"]] if done.returncode == 0 else []


def judged(done):
    """A word for a finished run, and why."""
    if done.returncode in (1, 2) and done.stderr.startswith("error: ") and not done.stdout:
        said = "hint: " in done.stderr and not BROKEN.search(done.stderr)
        return (REFUSED if said else FAILED), done.stderr
    try:
        outcome = json.loads(done.stdout)["verify"]
    except (ValueError, KeyError):
        return FAILED, f"exit status {done.returncode}: {done.stderr or done.stdout}"
    if outcome["outcome"] == "pass" and done.returncode == 0:
        return PASSED, ""
    if outcome["outcome"] == "fail" or done.returncode != 0:
        return FAILED, outcome.get("reason", done.stderr)
    return INCONCLUSIVE, outcome.get("reason", "")


def run_one(options, seed):
    """The word, why, the operation and the command of one draw."""
    rng = random.Random(seed)
    name = rng.choice(options.only)
    operation, words = DRAWS[name](rng, options.device)
    words = [*map(str, words), "--seed", str(seed % 1000)]
    determinism = few(rng, "bitwise", "tolerant")
    kernel = []
    if rng.random() < 0.5:
        named = candidates(options, operation, words)
        # By the name a kernel says how its sums are added: one that needs tolerance is run with it.
        kernel = ["--kernel", rng.choice(named)] if named else []
        determinism = "tolerant" if kernel else determinism
    command = [options.program, "run", operation, *words, "--device", options.device, "--determinism", determinism, *kernel,
               "--verify", "--no-time", "--json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=options.limit)
    except subprocess.TimeoutExpired:
        return FAILED, f"no end within {options.limit} s", name, command
    return *judged(done), name, command


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/bin/tilesmith")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(DRAWS), help=f"of {', '.join(DRAWS)}")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60, help="after which no run begins")
    parser.add_argument("--limit", type=float, default=60, help="seconds of one run")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--verbose", action="store_true", help="why each refused draw was refused")
    options = parser.parse_args()
    unknown = [name for name in options.only if name not in DRAWS]
    if unknown:
        parser.error(f"--only: {', '.join(unknown)}: it takes {', '.join(DRAWS)}, with commas between")
    if shutil.which(options.program) is None:
        parser.error(f"--program: {options.program} is no program: build it (make), or name one")
    end, counts = time.monotonic() + options.seconds, collections.defaultdict(collections.Counter)
    failures = 0

    def turns(job):
        number = job
        while time.monotonic() < end:
            report(*run_one(options, options.seed * 10**6 + number))
            number += options.jobs

    def report(word, why, name, command):
        nonlocal failures
        counts[name][word] += 1
        if word == FAILED or (options.verbose and word != PASSED):
            failures += word == FAILED
            print(f"{word}: {shlex.join(command)}\n  {why.strip()}", flush=True)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(turns, range(options.jobs)))
    total = collections.Counter()
    for name, words in sorted(counts.items()):
        total.update(words)
        print(f"{name}: " + ", ".join(f"{words[word]} {word}" for word in (PASSED, REFUSED, INCONCLUSIVE, FAILED)))
    if total[PASSED] == 0 or 2 * total[PASSED] < sum(total.values()):
        print("fewer than half of the runs passed, or there was none")
        return 1
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
