#!/usr/bin/env python3
"""Every listed kernel of a problem, timed through the library beside cuDNN or cuBLAS on a CUDA device, in one process.

    python bench/tiles.py "attention bf16 causal 4x16x16x4096x4096x128"          what the dispatcher chooses and the other listed tiles, cuDNN
    python bench/tiles.py "gemm bf16 512x4096x4096" --first 12                   the twelve that the dispatcher ranks first, cuBLAS
    python bench/tiles.py "gemm bf16 512x4096x4096" --filter "c.split_k"          those for which a filter of `tilesmith list` holds
    python bench/tiles.py "gemm fp8 64x4096x4096" --rest 0 --burst 100           sustained: no rest, a quarter of a turn uncounted before it
    python bench/tiles.py PROBLEM --kernels NAME,NAME                            these

How problems are written: problems.py; several are arguments of their own. Kernels come from `tilesmith list` (of a GEMM as dispatch ranks
them; --program says where the program is), each runs in a context whose options name it, and its result is compared with that of the kernel that the dispatcher
chooses. Kernels are compiled beforehand by --compilers processes. Timing: bursts of captured graphs, cold L2, contenders in turn, the median of
--rounds (timing.py). Each line: TFLOP/s, and the peer's time over ours (above 1: in our favour).

Correctness of every tile over awkward sizes: tilesmith bench --op gemm --device cuda:0 --shapes data/bench/awkward_gemm.yaml --verify (the same for attention).
Registers and spills, without a GPU: tilesmith build --op gemm --arch sm_90a -m 512 -n 4096 -k 4096 --filter ..., then tilesmith list --built.
Needs torch with CUDA, and the package (pip install ., or PYTHONPATH=python with TILESMITH_LIBRARY).
"""
import argparse
import concurrent.futures
import ctypes
import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import problems
import timing

CLOSE = {"fp8": 3e-2}  # relative root of the mean square between two kernels' results; 0 for whole numbers
CLOSE_ELSE = 6e-3


class Prepared:
    """A problem's operands, and its calls as the C structures that the package makes."""

    def __init__(self, library, text, count=None):
        import tilesmith
        from tilesmith import _torch_attention, _torch_gemm

        self.text, self.library = text, library
        self.case = problems.case_of(library, text)
        self.attention = self.case.operation == "attention"
        library.seed()
        self.sets = library.sets(self.case.make) if count is None else [self.case.make() for _ in range(count)]
        module = _torch_attention if self.attention else _torch_gemm
        kept, repeat = module.calls, module._run
        module._run = lambda *arguments: NotImplemented  # the library repeats a call without the package's structure
        self.calls, self._alive = [], []
        for operands in self.sets:
            kept.by_key.clear()
            self._alive.append(self.case.call(*operands))  # a log-sum-exp is made by the call, and the structure points to it
            (call,) = kept.by_key.values()
            self.calls.append(type(call._call).from_buffer_copy(call._call))
        module._run = repeat
        self.chosen = tilesmith.last_plan().kernel
        self.expected = library.floats(self.sets[0][-1]).clone()


class Kernel:
    """One kernel's plan for a prepared problem."""

    def __init__(self, prepared, name):
        from tilesmith._library import ContextOptions, check, library, sized

        self._stem = f"tilesmith_{'attention' if prepared.attention else 'gemm'}"
        self._library, self._check = library(), check
        options = sized(ContextOptions)
        options.device, options.kernel = prepared.calls[0].device, name.encode()
        context, self._plan = ctypes.c_void_p(), ctypes.c_void_p()
        check(self._library.tilesmith_context_create(ctypes.addressof(options), ctypes.addressof(context)))
        plan_for = getattr(self._library, f"{self._stem}_plan_for")
        check(plan_for(context, ctypes.addressof(prepared.calls[0]), ctypes.addressof(self._plan)))
        self._run = getattr(self._library, f"{self._stem}_run")

    def __call__(self, call):
        import torch

        call.stream = torch.cuda.current_stream().cuda_stream
        self._check(self._run(self._plan, ctypes.addressof(call)))


def listed(program, arch, prepared, options):
    """Names of the kernels that have the chosen one's signature, the dispatcher's best first where it ranks."""
    _, kind, _, sizes = prepared.case[:4]
    if prepared.attention:
        command = ["--op", "attention", "--dtype", "fp8bf16" if kind == "fp8" else kind, "--head-dim", str(sizes[-1])]
    else:
        *batch, m, n, k = sizes
        command = ["--op", "gemm", "--dtype", kind, "--layout", "all", "--variant", "all", "-m", str(m), "-n", str(n), "-k", str(k),
                   "--batch", str(batch[0] if batch else problems.GROUPS if prepared.case.operation == "grouped" else 1)]  # fmt: skip

    def records(*more):
        lines = subprocess.run([program, "list", "--arch", arch, "--ndjson", *command, *more], check=True, stdout=subprocess.PIPE, text=True).stdout
        return map(json.loads, lines.splitlines())

    steps = prepared.chosen.split("+")  # of a recipe of several kernels, the listed one
    signature = next((record["signature"] for record in records() if record["name"] in steps), None)
    narrowed = ["--mode", options.mode, *(["--filter", options.filter] if options.filter else [])]
    return [record["name"] for record in records(*narrowed) if record["signature"] == signature]


def compile_one(text, name):
    """In a process of its own: the kernel into the store. What is in the way, or ""."""
    import tilesmith

    try:
        Kernel(Prepared(problems.Torch(), text, 1), name)
    except tilesmith.Error as error:
        return error.message
    return ""


def peer_of(prepared):
    """PyTorch's call of the same, or None where it has none: its name and what takes a set of operands."""
    sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))
    case = prepared.case
    if prepared.attention and case.kind != "fp8" and not set(case.words) - {"causal"}:
        from cuda_attention import SDPBackend, backend

        if backend(SDPBackend.CUDNN_ATTENTION, *prepared.sets[0][:3], "causal" in case.words):
            return "cuDNN", lambda q, k, v, out: backend(SDPBackend.CUDNN_ATTENTION, q, k, v, "causal" in case.words)
    elif case.operation == "gemm" and not set(case.words) - {"rcr", "prefetch"} and len(case.sizes) == 3:
        from cuda_matmul import cublas

        if (call := cublas(case.kind, case.sizes[0])) is not None:
            return "cuBLAS", call
    return None


def time_problem(library, text, options):
    """A row of results: milliseconds of each contender."""
    import torch

    prepared = Prepared(library, text)
    arch = torch.cuda.get_device_capability()
    arch = f"sm_{arch[0]}{arch[1]}" + ("a" if arch[0] in (9, 10, 12) else "")
    names = options.kernels.split(",") if options.kernels else listed(options.program, arch, prepared, options)[: options.first]
    names = list(dict.fromkeys([prepared.chosen, *names]))
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(min(options.compilers, len(names)), spawn) as pool:
        refused = dict(zip(names, pool.map(compile_one, [text] * len(names), names)))
    contenders, wrong = {}, {name: why for name, why in refused.items() if why}
    result = prepared.sets[0][-1]
    whole = result.dtype == torch.int32
    close = 0.0 if whole else CLOSE.get(prepared.case.kind, CLOSE_ELSE)
    for name in names:
        if refused[name]:
            continue
        kernel = Kernel(prepared, name)
        result.fill_(-1 if whole else float("nan"))
        kernel(prepared.calls[0])
        got = library.floats(result)
        apart = ((got - prepared.expected).square().mean() / prepared.expected.square().mean()).sqrt().item()
        if not apart <= close:
            wrong[name] = f"differs by {apart:.1e}"
            continue
        contenders[name] = (kernel, [(call,) for call in prepared.calls])
    if peer := peer_of(prepared):
        name, call = peer
        if name == "cuDNN":  # its call is bound to its operands
            contenders[name] = (lambda bound: bound(), [(call(*operands),) for operands in prepared.sets])
        else:
            contenders[name] = (call, prepared.sets)
    times = timing.burst_medians(contenders, options.rounds, options.rest, options.burst)
    return prepared, times, wrong


def report(prepared, times, wrong):
    beside = next((name for name in ("cuDNN", "cuBLAS") if name in times), None)
    print(f"{prepared.text}" + (f"  {beside} {prepared.case.flops() / times[beside] * 1e-9:.1f} TFLOP/s, {1e3 * times[beside]:.2f} us" if beside else ""))
    for name, milliseconds in sorted(times.items(), key=lambda item: item[1]):
        if name != beside:
            ratio = f"{times[beside] / milliseconds:6.3f} x {beside}" if beside else f"{times[prepared.chosen] / milliseconds:6.3f} x chosen"
            print(f"  {prepared.case.flops() / milliseconds * 1e-9:7.1f} TFLOP/s {1e3 * milliseconds:9.2f} us {ratio}  "
                  f"{name}{'  (chosen)' if name == prepared.chosen else ''}")
    for name, why in wrong.items():
        print(f"  left out: {name}: {why}")
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", nargs="+")
    parser.add_argument("--first", type=int, default=8, help="kernels of the list")
    parser.add_argument("--kernels", default="", help="names, with commas between, instead of the list")
    parser.add_argument("--filter", default="", help="an expression of tilesmith list")
    parser.add_argument("--mode", default="rules", help="of tilesmith list: rules or exhaustive")
    parser.add_argument("--program", help="default: bin/tilesmith beside the library's folder")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rest", type=float, default=0.05, help="seconds before each contender's turn")
    parser.add_argument("--burst", type=float, default=10, help="milliseconds of a turn")
    parser.add_argument("--compilers", type=int, default=min(12, os.cpu_count() or 2))
    parser.add_argument("--json", help="write the results there")
    options = parser.parse_args()
    import tilesmith
    import torch

    options.program = options.program or str(Path(tilesmith.library_path()).resolve().parents[1] / "bin" / "tilesmith")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, rest {options.rest} s, bursts of {options.burst:g} ms")
    library, rows, ratios = problems.Torch(), [], []
    for text in options.problems:
        prepared, times, wrong = time_problem(library, text, options)
        report(prepared, times, wrong)
        rows.append(dict(problem=text, chosen=prepared.chosen, milliseconds=times, left_out=wrong))
        if beside := next((times[name] for name in ("cuDNN", "cuBLAS") if name in times), None):
            ratios.append(beside / times[prepared.chosen])
    if ratios:
        print(f"chosen kernels: geometric mean {timing.geometric_mean(ratios):.3f} x the peer, smallest {min(ratios):.3f}, {len(ratios)} problems")
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
