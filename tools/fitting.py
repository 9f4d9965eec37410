"""What tools share that fit figures of a chip's models to timings: the timings, the program's predictions with a changed spec, the regret, and the report."""
import argparse
import csv
import json
import math
import os
import re
import shlex
import statistics
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Callable, NamedTuple


class Fit(NamedTuple):
    changed: Callable  # (the spec's text, {figure: move}) to the text with the figures moved
    choices: list  # (figure, the moves that are tried), in turn; a figure is a tuple of words
    least_gain: float  # of the loss, for a move to be made
    of_worst: float = 0  # the loss is the mean logarithm of the regret and this share of the largest
    holds: Callable = lambda line: True  # whether a problem's line is of those that are fitted to
    passes: int = 2  # over all figures, or as many as gain
    compound: bool = False  # whether a move multiplies the move that the figure has
    predicts: Callable = None  # of a kernel's name, whether the loss is the error of its predicted seconds; none: it is the regret
    alone: float = 0  # seconds that a timing has more than is predicted
    times: Callable = lambda name: True  # of kernels' names: problems of which none was timed are left out


def measured(files):
    """{problem's line: {kernel: seconds}}"""
    problems = {}
    for file in files:
        if file.endswith(".json"):
            for row in json.loads(Path(file).read_text()):
                _, kind, sizes = row["problem"].split()
                m, n, k = sizes.split("x")
                into = problems.setdefault(f"gemm -m {m} -n {n} -k {k} --dtype {kind}", {})
                into.update({name: t / 1e3 for name, t in row["milliseconds"].items() if name.startswith("gemm_")})
            continue
        with open(file, newline="", encoding="utf-8") as stream:
            for row in csv.DictReader(line for line in stream if not line.startswith("#")):
                if row["status"] in ("verified", "unverified") and row["turns_s"]:
                    line = re.sub(" --seed .*", "", row["problem"])
                    problems.setdefault(line, {})[row["name"]] = statistics.median(map(float, row["turns_s"].split()))
    return {line: kernels for line, kernels in problems.items() if len(kernels) > 1}


def predicted(program, spec, arch, lines):
    """{line: {kernel: seconds}} of problems, in dispatch's order. They are asked for side by side."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        (Path(folder) / "cuda").mkdir()
        (Path(folder) / "cuda" / f"{arch}.json").write_text(spec)

        def one(line):
            operation, *words = shlex.split(line)
            command = [program, "list", "--arch", arch, "--op", operation, "--candidates", "--json", *words]
            found = subprocess.run(command, env=dict(os.environ, TILESMITH_SPEC_DIR=folder), check=True, capture_output=True, text=True).stdout
            return {one["name"]: one["predicted_seconds"] for one in json.loads(found)["candidates"]}

        return dict(zip(lines, pool.map(one, lines)))


def regret(kernels, listed):
    """Of the kernel that goes first: what is listed is in dispatch's order."""
    common = [name for name in listed if name in kernels]
    return kernels[common[0]] / min(kernels[name] for name in common)


def squared_errors(kernels, listed, predicts):
    """Of the logarithms of the predictions that are fitted."""
    return [math.log(listed[name] / seconds) ** 2 for name, seconds in kernels.items() if name in listed and predicts(name)]


class Judge:
    def __init__(self, fit, options, text, problems):
        self._fit, self._options, self._text, self._problems, self._known = fit, options, text, problems, {}

    def _predictions(self, moves):
        """Of each problem."""
        key = tuple(sorted(moves.items()))
        if key not in self._known:
            spec = self._fit.changed(self._text, moves)
            if self._options.bandwidth:
                spec = re.sub(r'"bytes_per_second": [0-9.e+]+', f'"bytes_per_second": {self._options.bandwidth}', spec, count=1)
            arch = Path(self._options.spec).stem
            self._known[key] = predicted(self._options.program, spec, arch, list(self._problems))
        return self._known[key]

    def regrets(self, moves):
        """Of each problem."""
        return {line: regret(self._problems[line], listed) for line, listed in self._predictions(moves).items()}

    def error(self, moves, lines):
        """Of the predictions that are fitted, the root of the mean square of logarithms."""
        listed = self._predictions(moves)
        errors = [error for line in lines for error in squared_errors(self._problems[line], listed[line], self._fit.predicts)]
        return math.sqrt(statistics.mean(errors)) if errors else 0

    def moves(self, lines):
        """One figure after another takes the move with which the loss is least."""

        def loss(moves):
            if self._fit.predicts:
                return self.error(moves, lines)
            regrets = self.regrets(moves)
            found = [math.log(regrets[line]) for line in lines]
            return statistics.mean(found) + max(found) * self._fit.of_worst

        moves = {}
        for _ in range(self._fit.passes):
            before = moves
            for figure, steps in self._fit.choices:
                best, begun = loss(moves), moves.get(figure, 1) if self._fit.compound else 1
                for step in steps:
                    if (now := loss(moves | {figure: step * begun})) < best - self._fit.least_gain:
                        best, moves = now, moves | {figure: step * begun}
            if moves == before:
                break
        return moves


def main(about, fit, arguments=lambda parser: None):
    """`fit` is a Fit, or of the options, among which are those that `arguments` adds."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("timings", nargs="+", help="of an oracle (CSV) or of bench/tiles.py (JSON)")
    parser.add_argument("--program", default="build/bin/tilesmith")
    parser.add_argument("--spec", required=True)
    parser.add_argument("--bandwidth", help="bytes a second")
    parser.add_argument("--write", action="store_true")
    arguments(parser)
    options = parser.parse_args()
    fit = fit if isinstance(fit, Fit) else fit(options)
    files = " ".join(options.timings)
    try:
        problems = {line: kernels for line, kernels in measured(options.timings).items() if fit.holds(line)}
        problems = {line: kernels for line, kernels in problems.items() if any(map(fit.times, kernels))}
        problems = {line: {name: seconds - fit.alone for name, seconds in kernels.items()} for line, kernels in problems.items()}
        text = Path(options.spec).read_text(encoding="utf-8")
    except OSError as error:
        parser.error(f"{error.filename}: {error.strerror}")
    except (KeyError, ValueError) as error:
        parser.error(f"{files}: {error!r}: want a CSV of bench --oracle, or a .json of bench/tiles.py")
    if not problems:
        parser.error(f"{files}: no problem of those that are fitted to has two kernels that were timed")
    judge, lines = Judge(fit, options, text, problems), list(problems)
    moves, unseen, errors = judge.moves(lines), {}, []
    for fold in range(5):
        held = lines[fold::5]
        seen = [line for line in lines if line not in held]
        of_seen = judge.moves(seen) if seen else {}
        found = judge.regrets(of_seen)
        unseen |= {line: found[line] for line in held}
        if fit.predicts and held:
            errors.append(judge.error(of_seen, held) ** 2)
    for figure, move in moves.items():
        print(f"{': '.join(figure)} {move}")
    if fit.predicts:
        unseen_error = math.sqrt(statistics.mean(errors))
        print(f"error of predictions: before {judge.error({}, lines):.3f}, fitted {judge.error(moves, lines):.3f}, unseen {unseen_error:.3f}")
    for what, found in (("before", judge.regrets({})), ("fitted", judge.regrets(moves)), ("unseen", unseen)):
        mean = math.exp(statistics.mean(map(math.log, found.values())))
        worst = max(found, key=found.get)
        print(f"{what}: {len(found)} problems, mean {mean:.4f}, worst {found[worst]:.3f} ({worst})")
    if options.write:
        Path(options.spec).write_text(fit.changed(text, moves), encoding="utf-8")
