#!/usr/bin/env python3
"""Changes kernel templates one fault at a time and asks whether `tilesmith run --verify` finds each fault.

    find_mutants.py --program build/bin/tilesmith --kernels kernels [--sample 6 --seed 1] FILE.toml...

A data file has lines of problems ([runs], the options of `tilesmith run`) and mutants: `in`, a template below
kernels/; `from`, a text that stands there once; `to`, what stands there instead; `runs`, the lines that should find
it; `needs`, a feature of the processor without which the changed text is not compiled; or `equivalent`, why no run
can find it. With `kernel` every line runs that one, by its name; with `pattern` the first of a line's candidates whose
name it fits. The program is not changed: a compiler of our own
(TILESMITH_CXX) replaces the text in the generated source and calls the true one with -O1. Specs of our own
(TILESMITH_SPEC_DIR) give every machine the facts of x86_64_v4 under the name of a level whose kernels are not linked
into the program, so that the same kernels are chosen everywhere and all are compiled here; mutants with `needs` run
with the machine's own. Every line is run without a fault first and must pass.

A data file with `arch` is about kernels for NVIDIA GPUs. Its runs have `line` and `kernel`, a pattern: of the candidates
for the problem the first whose name fits is run; `beside` says that the text is of a kernel that the run compiles
itself, which takes a GPU. An NVRTC of our own replaces the text (nvrtc_with_fault.cpp). A fault that shows only when
threads come in a bad order has `slow`, a second exchange of texts that makes them come so; with `slow` alone the run
must pass.

A fault that no line reaches, or that changes none of the machine code, is not found: it is "unreached". The exit status
is 0 when every mutant that is not equivalent was found; those whose feature this processor lacks are counted apart. It is
77 when a sample is asked for on a processor without AVX-512, or --compile-only without NVRTC.
"""

import argparse
import concurrent.futures
import functools
import json
import os
import pathlib
import random
import re
import resource
import shlex
import subprocess
import sys
import tempfile
import time
import tomllib

from cuda_faults import CudaFaults, find_nvrtc
from outcome import Outcome, outcome_of

COMPILER = r'''#!/usr/bin/env python3
import hashlib, json, os, subprocess, sys
here = os.path.dirname(os.path.abspath(__file__))
fault = json.load(open(os.path.join(here, "fault.json")))
arguments = ["-O1" if word == "-O3" else word for word in sys.argv[1:]]
for name in arguments:
    if name.endswith(".cpp") and "--version" not in arguments:
        text = open(name).read()
        if fault["from"] and text.count(fault["from"]) == 1:
            open(name, "w").write(text.replace(fault["from"], fault["to"]))
            open(os.path.join(here, "applied"), "w").close()
status = subprocess.call([fault["compiler"], *arguments])
if status == 0 and "-o" in arguments:
    made = arguments[arguments.index("-o") + 1]
    with open(os.path.join(here, "digests"), "a") as digests:
        digests.write(hashlib.sha256(open(made, "rb").read()).hexdigest() + "\n")
sys.exit(status)
'''


def write_specs(specs, folder):
    """The level x86_64_v4_bf16 with the facts of a lower one that this machine has, and no AMX."""
    (folder / "cpu").mkdir(parents=True)
    base = "x86_64_v4" if "avx512f" in cpu_features() else "x86_64_v3"
    level = json.loads((specs / "cpu" / f"{base}.json").read_text())
    level["arch"] = "x86_64_v4_bf16"
    level["includes"] = ["x86_64_v4", "x86_64_v3"]
    (folder / "cpu" / "x86_64_v4_bf16.json").write_text(json.dumps(level))
    amx = json.loads((specs / "cpu" / "x86_64_amx.json").read_text())
    amx["features"].append("not_for_mutants")
    (folder / "cpu" / "x86_64_amx.json").write_text(json.dumps(amx))


def first_that_fits(options, line, pattern, level, environment):
    """The first candidate of a line's problem whose name has the pattern."""
    operation, *words = shlex.split(line)
    command = [options.program, "list", "--candidates", "--json", "--arch", level, "--op", operation, *words]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    names = [each["name"] for each in json.loads(done.stdout)["candidates"]] if done.returncode == 0 else []
    return next((name for name in names if re.search(pattern, name)), f"none of {pattern}: {done.stderr}")


def run_line(options, pattern, line, fault):
    """One run with a store and a compiler of its own."""
    with tempfile.TemporaryDirectory(prefix="tilesmith-mutant-") as folder:
        here = pathlib.Path(folder)
        (here / "tmp").mkdir()
        script = here / "compiler"
        script.write_text(COMPILER)
        script.chmod(0o700)
        (here / "fault.json").write_text(json.dumps({**fault, "compiler": options.compiler}))
        environment = {**os.environ, "TILESMITH_CXX": str(script), "TILESMITH_CACHE_DIR": str(here / "store"),
                       "TMPDIR": str(here / "tmp"), "TILESMITH_LOG": "error"}
        if not fault.get("needs"):
            write_specs(options.kernels.parent / "specs", here / "specs")
            environment["TILESMITH_SPEC_DIR"] = str(here / "specs")
        if pattern and "--kernel" not in line:
            level = highest_level() if fault.get("needs") else "x86_64_v4_bf16"
            line += f" --kernel {shlex.quote(first_that_fits(options, line, pattern, level, environment))}"
        threads = [] if "--threads" in line else ["--threads", "1"]
        command = [options.program, "run", *shlex.split(line), "--verify", "--no-time", *threads, "--json"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=options.seconds)
        except subprocess.TimeoutExpired:
            return Outcome("found", "ran out of time")
        if fault["from"] and not (here / "applied").exists():
            return Outcome("unreached", done.stderr or done.stdout[:200])
        digests = here / "digests"
        code = digests.read_text().split() if digests.exists() else []
        return outcome_of(done, code)


def control_key(name, mutant):
    """The run without the fault: alike for all mutants of a line but those that need a feature or are slowed down."""
    return name, mutant.get("needs", ""), json.dumps(mutant.get("slow", {}))


def judge(options, run_line, mutant, runs, controls):
    """The first outcome over a mutant's lines that is not `passed`. A fault that no line has reached is `unreached`."""
    reached, unreached = False, "no run"
    for name in mutant["runs"]:
        if time.monotonic() > options.deadline:
            return Outcome("untried", "there was no time left")
        outcome = run_line(runs[name], mutant)
        if outcome.word in ("found", "broken"):
            return outcome
        same = outcome.code == controls[control_key(name, mutant)].result().code
        reached |= outcome.word == "passed" and not same
        unreached = "the machine code is the same" if outcome.word == "passed" else outcome.text
    return Outcome("passed") if reached else Outcome("unreached", unreached)


def read(path, kernels):
    """A data file, checked against the templates."""
    data = tomllib.loads(path.read_text())
    if "kernel" in data:
        data["runs"] = {name: f"{line} --kernel {data['kernel']}" for name, line in data["runs"].items()}
    names = [mutant["name"] for mutant in data["mutants"]]
    wrong = []
    for mutant in data["mutants"]:
        text = (kernels / mutant["in"]).read_text()
        if names.count(mutant["name"]) != 1:
            wrong.append(f"{path}: {mutant['name']}: the name stands {names.count(mutant['name'])} times")
        if text.count(mutant["from"]) != 1:
            wrong.append(f"{path}: {mutant['name']}: its text stands {text.count(mutant['from'])} times in {mutant['in']}")
        slow = mutant.get("slow")
        if slow and (kernels / slow["in"]).read_text().count(slow["from"]) != 1:
            wrong.append(f"{path}: {mutant['name']}: the text of `slow` does not stand once in {slow['in']}")
        if mutant["from"] == mutant["to"]:
            wrong.append(f"{path}: {mutant['name']}: it changes nothing")
        if not mutant.get("equivalent"):
            for name in mutant["runs"]:
                data["runs"][name]
    if wrong:
        sys.exit("\n".join(wrong))
    return data


def cpu_features():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("flags"):
            return set(line.split(":")[1].split())
    return set()


def highest_level():
    levels = {"x86_64_amx": "amx_tile", "x86_64_v4_bf16": "avx512_bf16", "x86_64_v4": "avx512f", "x86_64_v3": "avx2"}
    return next(level for level, feature in levels.items() if feature in cpu_features())


def try_file(options, path):
    """Tries one data file's mutants and says what was not found. Returns how many things were not as they should be."""
    data = read(path, options.kernels)
    runs, mutants = data["runs"], data["mutants"]
    if "arch" in data:
        run_of, good = CudaFaults(options, data).run_line, "passed" if options.compile_only else "found"
    else:
        run_of, good = functools.partial(run_line, options, data.get("pattern")), "found"
    features = cpu_features()
    live = [m for m in mutants if not m.get("equivalent") and options.only in m["name"]]
    if options.compile_only:  # what a run compiles itself takes a GPU
        live = [m for m in live if not any(runs[name].get("beside") for name in m["runs"])]
    tried = [m for m in live if m.get("needs") is None or m["needs"] in features]
    lacking = len(live) - len(tried)
    if options.sample:  # the same on every machine
        tried = [m for m in tried if m.get("needs") is None]
        tried = random.Random(options.seed).sample(tried, min(options.sample, len(tried)))
    failures = found = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        keys = {control_key(name, mutant) for mutant in tried for name in mutant["runs"]}
        controls = {}
        for name, needs, slow in sorted(keys):
            fault = {"from": "", "to": "", "needs": needs, **({"slow": json.loads(slow)} if slow != "{}" else {})}
            controls[name, needs, slow] = pool.submit(run_of, runs[name], fault)
        verdicts = [(mutant, pool.submit(judge, options, run_of, mutant, runs, controls)) for mutant in tried]
        for (name, *_), control in controls.items():
            outcome = control.result()
            if outcome.word != "passed":
                failures += 1
                print(f"{path.name}: the run {name} without a fault: {outcome.word}: {outcome.text}", flush=True)
        for mutant, verdict in verdicts:
            outcome = verdict.result()
            found += outcome.word == good
            failures += outcome.word != good
            if outcome.word != good or options.verbose:
                print(f"{path.name}: {mutant['name']}: {outcome.word}: {outcome.text}", flush=True)
    verb = "found" if good == "found" else "compile"
    equivalent = len([m for m in mutants if m.get("equivalent")])
    print(f"{path.name}: {found} of {len(tried)} mutants {verb}; {equivalent} more are equivalent, {lacking} need "
          "another processor", flush=True)
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    parser.add_argument("--program", required=True)
    parser.add_argument("--kernels", required=True, type=pathlib.Path, help="the folder of the templates, beside specs")
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--sample", type=int, default=0, help="only so many mutants of each file, drawn by --seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=120, help="of one run")
    parser.add_argument("--within", type=float, default=float("inf"), help="seconds after which no run begins")
    parser.add_argument("--compile-only", action="store_true", help="CUDA: compile the mutants, for want of a GPU")
    parser.add_argument("--device-jobs", type=int, default=1, help="CUDA: runs on the GPU at a time")
    parser.add_argument("--texts", action="store_true", help="only see whether the files' texts stand in the templates")
    parser.add_argument("--only", default="", help="mutants whose names hold this")
    parser.add_argument("--verbose", action="store_true", help="say how each mutant was found")
    options = parser.parse_args()
    if options.texts:
        for path in options.files:
            read(path, options.kernels)
        return 0
    options.deadline = time.monotonic() + options.within
    if options.compile_only and find_nvrtc() is None:
        print("skipped: there is no NVRTC (libnvrtc.so); TILESMITH_NVRTC may name its file")
        return 77
    if options.sample and not options.compile_only and "avx512f" not in cpu_features():
        print("skipped: the lines that find a few faults were chosen for kernels of x86_64_v4")
        return 77
    failures = sum(try_file(options, path) for path in options.files)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{spent.ru_utime + spent.ru_stime:.0f} CPU seconds", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
