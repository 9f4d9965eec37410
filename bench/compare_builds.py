#!/usr/bin/env python3
"""Two builds of the library on the same problems, in turns, in one run: what a change has cost or gained.

    python bench/compare_builds.py OLD/build/lib/libtilesmith.so build/lib/libtilesmith.so                   GPU (torch)
    python bench/compare_builds.py OLD.so NEW.so --device cpu --threads 1                                  CPU (NumPy; bf16 with ml_dtypes)
    python bench/compare_builds.py OLD.so NEW.so --problems "gemm bf16 16x4096x4096;attention bf16 causal 1x16x16x4096x4096x128"

Each build is loaded by a worker process of its own, with its own Python package (--package-a, --package-b: the folder that holds tilesmith/; without, the
folder `python` beside the library's build folder) and a store of kernels of its own (--store). Kernels are compiled beforehand by --compilers processes of
each build. Then the two take turns on each problem, with the same random data, and their results are compared. Printed are milliseconds of both, A's time over B's (above
1: B is faster; median over pairs of turns), the range of that ratio, whether the bits are the same, and the kernels where they differ; at the end the geometric mean
and the worst of the ratios. GPU: bursts of captured graphs, cold L2, device time (timing.py); --host adds what a call costs the host. CPU: least times.

How problems are written: problems.py.
"""
import argparse
import hashlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import timing

PROJECTIONS = ["1x4096x4096", "16x4096x14336", "64x4096x4096", "128x14336x4096", "512x4096x4096", "2048x4096x14336"]
CUDA_PROBLEMS = [
    *(f"attention bf16 {mask}{16384 // s}x{2048 // d}x{2048 // d}x{s}x{s}x{d}" for d in (64, 128, 256) for mask in ("", "causal ") for s in (512, 4096)),
    "attention fp16 causal 4x32x8x4096x4096x128", "attention bf16 soft_cap causal 4x16x16x4096x4096x128",
    "attention fp8 4x16x16x4096x4096x128", "attention bf16 16x32x8x1x8192x128",
    *(f"gemm bf16 {shape}" for shape in ("512x512x512", "2048x2048x2048", "4096x4096x4096", "3000x3000x3000", *PROJECTIONS)),
    *(f"gemm {kind} {shape}" for kind in ("fp8", "int8") for shape in ("1024x1024x1024", "4096x4096x4096", *PROJECTIONS[2:])),
    "gemm fp16 1024x1024x1024", "gemm fp32 1024x1024x1024", "gemm bf16 bias gelu 128x4096x4096", "gemm bf16 bias gelu 4096x4096x4096",
    "weights bf16 16x4096x4096", "weights bf16 128x14336x4096", "grouped bf16 4x4096x4096", "grouped bf16 512x4096x4096",
]  # fmt: skip
CPU_PROBLEMS = [
    *(f"attention {kind} {mask}1x8x8x512x512x64" for kind in ("fp32", "bf16", "fp16") for mask in ("", "causal ")),
    "attention fp32 causal 1x2x2x2048x2048x128", "attention bf16 1x2x2x2048x2048x128", "attention bf16 1x32x8x1x4096x128",
    *(f"gemm {kind} {shape}" for kind in ("fp32", "bf16", "int8") for shape in ("512x512x512", "1000x333x777", "1x4096x4096", "16x4096x4096")),
    "gemm fp32 bias gelu 64x1024x1024", "gemm bf16 bias gelu 64x1024x1024", "weights bf16 1x4096x4096", "grouped fp32 16x512x512", "gemm fp32 16x16x16",
]  # fmt: skip
SAMPLE = 4096  # elements of a result that are compared


# ------------------------------------------------------------------------------------------------------------- the worker


def work(options):
    """Serves one build: commands as lines of JSON on standard input, answers on what was standard output."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    if options.device == "cpu" and options.threads:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    import problems
    import tilesmith

    library = problems.NumPy() if options.device == "cpu" else problems.Torch()
    state = {}

    def compile_problem(problem):
        case = problems.case_of(library, problem)
        library.seed()
        case.call(*case.make())

    def prepare(problem):
        case = problems.case_of(library, problem)
        library.seed()
        call, sets = case.call, library.sets(case.make)
        call(*sets[0])
        result = sets[0][-1]
        state.update(call=call, sets=sets)
        flat = library.floats(result)
        found = dict(kernel=tilesmith.last_plan().kernel, bits=hashlib.sha256(library.bits(result)).hexdigest(),
                     sample=flat[:: max(1, len(flat) // SAMPLE)].tolist())  # fmt: skip
        if options.device == "cuda":
            state["burst"] = timing.Burst(call, sets, options.rest)
        return found

    def turn(_):
        if options.device == "cuda":
            return state["burst"].milliseconds(options.rest, options.burst)
        clock = time.process_time if options.processor_time else time.perf_counter
        return 1e3 * timing.cpu_seconds(state["call"], state["sets"], options.seconds, clock)

    def host(_):
        """Microseconds that a call takes the host, the device idle before each round."""
        call, operands = state["call"], state["sets"][0]
        best = math.inf
        for _ in range(10):
            library.torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(50):
                call(*operands)
            best = min(best, (time.perf_counter() - begin) / 50)
        return 1e6 * best

    commands = dict(compile=compile_problem, prepare=prepare, turn=turn, host=host, forget=lambda _: state.clear())
    for line in sys.stdin:
        name, problem = json.loads(line)
        try:
            answer = dict(value=commands[name](problem))
        except Exception as error:  # whatever it is, the other problems go on
            answer = dict(error=f"{type(error).__name__}: {str(error).splitlines()[0][:200]}")
        print(json.dumps(answer), file=answers)


class Worker:
    """A process with one build loaded."""

    def __init__(self, library, package, store, arguments):
        environment = {**os.environ, "TILESMITH_LIBRARY": str(library), "PYTHONPATH": str(package), "TILESMITH_CACHE_DIR": str(store),
                       "PYTHONDONTWRITEBYTECODE": "1"}  # fmt: skip
        self._process = subprocess.Popen([sys.executable, __file__, str(library), str(library), "--worker", *arguments], env=environment,
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # fmt: skip

    def send(self, command, problem=""):
        print(json.dumps([command, problem]), file=self._process.stdin, flush=True)

    def answer(self):
        """A value, or the text of an error as (None, text)."""
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"a worker ended with status {self._process.wait()}")
        got = json.loads(line)
        return got.get("value"), got.get("error")

    def ask(self, command, problem=""):
        self.send(command, problem)
        return self.answer()

    def end(self):
        self._process.stdin.close()
        self._process.wait()


def compile_all(make_worker, problems, compilers):
    """Every kernel into both stores, each build by several processes."""
    shares = [problems[at::compilers] for at in range(compilers) if problems[at::compilers]]
    crew = [(make_worker(build), share) for build in (0, 1) for share in shares]
    for at in range(max((len(share) for _, share in crew), default=0)):
        busy = [(worker, share[at]) for worker, share in crew if at < len(share)]
        for worker, problem in busy:
            worker.send("compile", problem)
        for worker, _ in busy:
            worker.answer()  # errors show again where the problem is prepared
    for worker, _ in crew:
        worker.end()


def apart(a, b):
    """How far two results are from each other: relative root of the mean square, of the sample."""
    norm = math.fsum(x * x for x in a)
    return math.sqrt(math.fsum((x - y) ** 2 for x, y in zip(a, b)) / norm) if norm else 0.0


def compare(workers, problem, options):
    """A row of results, or the text of what is in the way."""
    for worker in workers:
        worker.send("prepare", problem)
    found, errors = zip(*(worker.answer() for worker in workers))
    if any(errors):
        return ", ".join(f"{build}: {error}" for build, error in zip("AB", errors) if error)
    pairs = []
    for turn in range(options.rounds):
        times = {}
        for at in (0, 1) if turn % 2 == 0 else (1, 0):
            times[at], error = workers[at].ask("turn")
            if error:
                return f"{'AB'[at]}: {error}"
        pairs.append((times[0], times[1]))
    ratios = [a / b for a, b in pairs]
    middle = min if options.device == "cpu" else statistics.median
    times = [middle(column) for column in zip(*pairs)]
    host = [worker.ask("host")[0] for worker in workers] if options.host and options.device == "cuda" else None
    for worker in workers:
        worker.ask("forget")
    distance = 0.0 if found[0]["bits"] == found[1]["bits"] else apart(found[0]["sample"], found[1]["sample"])
    return dict(problem=problem, a_ms=times[0], b_ms=times[1], ratio=times[0] / times[1] if middle is min else statistics.median(ratios), least=min(ratios),
                most=max(ratios), kernels=[each["kernel"] for each in found], same_bits=found[0]["bits"] == found[1]["bits"], apart=distance, host_us=host)  # fmt: skip


def text_of(row):
    same = "same bits" if row["same_bits"] else f"apart {row['apart']:.1e}"
    line = f"{row['problem']:46} {row['a_ms']:9.4f} {row['b_ms']:9.4f}  {row['ratio']:.3f} ({row['least']:.3f} to {row['most']:.3f})  {same}"
    if row["host_us"]:
        line += f"  host us {row['host_us'][0]:.2f}, {row['host_us'][1]:.2f}"
    if row["kernels"][0] != row["kernels"][1]:
        line += f"\n    A {row['kernels'][0]}\n    B {row['kernels'][1]}"
    return line + ("" if row["apart"] < 1e-2 else "\n    WRONG: the results differ by more than rounding")


def package_of(library, given):
    if given:
        return Path(given).resolve()
    beside = [parent / "python" for parent in library.parents[:3]]
    return next((folder for folder in beside if (folder / "tilesmith").is_dir()), Path(__file__).resolve().parents[1] / "python")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("a", help="libtilesmith.so of the one build, usually the older")
    parser.add_argument("b", help="libtilesmith.so of the other")
    parser.add_argument("--package-a", help="folder that holds the package tilesmith/ of build A")
    parser.add_argument("--package-b")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--problems", help="with semicolons between, or a file of one a line; default: a list for the device")
    parser.add_argument("--only", default="", help="of the problems, those whose text contains this")
    parser.add_argument("--rounds", type=int, default=6, help="turns of each build on a problem")
    parser.add_argument("--rest", type=float, default=0.05, help="GPU: seconds before each turn")
    parser.add_argument("--burst", type=float, default=10, help="GPU: milliseconds of a turn")
    parser.add_argument("--seconds", type=float, default=0.3, help="CPU: of a turn")
    parser.add_argument("--threads", type=int, default=0, help="CPU: processors of a call; 0 is all")
    parser.add_argument("--processor-time", action="store_true", help="CPU: on a machine that others use too, with --threads 1")
    parser.add_argument("--host", action="store_true", help="GPU: what a call costs the host too")
    parser.add_argument("--compilers", type=int, default=min(8, max(1, (os.cpu_count() or 2) // 2)), help="processes of each build that compile; 0: kernels are in --store already")
    parser.add_argument("--store", help="folder for the two stores of kernels, kept; default: a temporary one")
    parser.add_argument("--json", help="write the results there")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return work(options)
    problems = CPU_PROBLEMS if options.device == "cpu" else CUDA_PROBLEMS
    if options.problems:
        text = Path(options.problems).read_text() if Path(options.problems).is_file() else options.problems.replace(";", "\n")
        problems = [line.strip() for line in text.splitlines() if line.strip()]
    problems = [problem for problem in problems if options.only in problem]
    libraries = [Path(options.a).resolve(), Path(options.b).resolve()]
    packages = [package_of(library, given) for library, given in zip(libraries, (options.package_a, options.package_b))]
    arguments = ["--device", options.device, "--threads", str(options.threads), "--rest", str(options.rest), "--burst", str(options.burst),
                 "--seconds", str(options.seconds), *(["--processor-time"] if options.processor_time else [])]  # fmt: skip
    for build, library, package in zip("AB", libraries, packages):
        print(f"{build}: {library}, package {package}")
    with tempfile.TemporaryDirectory() as temporary:
        stores = [Path(options.store or temporary).resolve() / build for build in "ab"]
        for store in stores:
            store.mkdir(mode=0o700, parents=True, exist_ok=True)
        begin = time.perf_counter()
        compile_all(lambda build: Worker(libraries[build], packages[build], stores[build], arguments), problems, options.compilers)
        print(f"kernels are there after {time.perf_counter() - begin:.0f} s; milliseconds of A and B, A's time over B's (least to most of {options.rounds})", flush=True)
        workers = [Worker(*each, arguments) for each in zip(libraries, packages, stores)]
        rows = []
        for problem in problems:
            row = compare(workers, problem, options)
            if isinstance(row, str):
                print(f"{problem:46} left out, {row}", flush=True)
                continue
            rows.append(row)
            print(text_of(row), flush=True)
        for worker in workers:
            worker.end()
    if not rows:
        raise SystemExit("nothing was compared")
    worst = min(rows, key=lambda row: row["ratio"])
    print(f"A's time over B's: geometric mean {timing.geometric_mean([row['ratio'] for row in rows]):.4f} over {len(rows)} problems, worst {worst['ratio']:.3f} "
          f"({worst['problem']}); {sum(row['kernels'][0] != row['kernels'][1] for row in rows)} with other kernels")
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1))
    if any(not row["apart"] < 1e-2 for row in rows):
        raise SystemExit("some results differ by more than rounding")


if __name__ == "__main__":
    main()
