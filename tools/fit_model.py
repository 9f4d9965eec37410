#!/usr/bin/env python3
"""Fit the coefficients of a model that predicts kernels' seconds (the `model` block of a spec) to an oracle's timings.

    tilesmith bench --op attention --oracle --sample 40 --seed 15 --device cuda:0 --csv oracle.csv
    python3 tools/fit_model.py oracle.csv --spec specs/cuda/sm_90a.json --alone 3.5 [--write]
    tilesmith bench --op attention --oracle --sample 40 --seed 15 --threads 1 --processor-time --csv oracle.csv
    python3 tools/fit_model.py oracle.csv --spec specs/cpu/x86_64_{amx,v4_bf16,v4,v3}.json [--chips "GenuineIntel 6"]
    tilesmith bench --op conv --oracle --sample 300 --seed 15 --types fp32,bf16,int8 --threads 1 --processor-time --csv oracle.csv    (gemm alike)
    python3 tools/fit_model.py oracle.csv --spec specs/cpu/x86_64_{amx,v4_bf16,v4,v3}.json

A CPU runs the kernels of several levels, each with a spec of its own; the machine's level comes first. --chips writes
the `model_on` of chips whose vendor and family begin so, in place of the `model` of all others.

On CUDA each row of the tile table that has a `round_us` gets one of its own, and an `efficiency`. An oracle times cold calls that stand alone;
--alone says how many microseconds those take more than calls that follow one another, of which decode's models and
few_queries tell, and `launch` is written without them.

The program lists the model's terms of each kernel (`tilesmith list --candidates --json`); none of its formulas is
repeated here. The coefficients of each pipeline (on CPUs of each pipeline and type of a level, of convolution also of
each direction) are a bounded least-squares fit of relative errors, in which kernels count the more the nearer they come to the fastest of their
problem, and of convolution the more, the more the choice by the fit before lost there. Printed: the regret (seconds of the kernel that goes first over those of the fastest) of the order in the file,
of the fit, and of fits that have not seen the problem (five folds) or its whole family. Without --write the spec stays
as it is. Needs numpy and scipy.
"""
import argparse
import csv
import datetime
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
from scipy.optimize import lsq_linear

# What coefficients of CUDA kernels may be. Shares of a physical time: a quarter to four times of it, of memory's half to twice. The products of the kernels whose
# rate in the tile table was measured stay near it, as few of the problems that are drawn are long enough to show it.
LIMITS = {"products": (0.25, 4), "memory": (0.5, 2), "launch": (1, 20)}
MEASURED_RATES = {"warpspec": {"products": (0.95, 1.1)}}
OF_RATE = ("products", "narrower")  # terms that a row's rate divides
ROUNDS = "rounds"  # the term that rows of the tile table have figures of their own for
# How much a row's figure is drawn to the mean of its pipeline's: what a microsecond between them counts as, a relative error of one timing.
DRAWN_TO_MEAN = 0.3
LEAST_ROUND_US = 0.05
# How much the products at a row's rate are drawn to what they take by the file: what a share of them counts as, and how far they may go.
DRAWN_TO_RATE, RATE_LIMITS = 1.5, (-0.2, 0.25)
# Those of CPU kernels: instructions at their rate or half of it; a vector of sums loaded, added to and stored; a vector read from the second-level cache. The problems
# that are drawn are too small to tell these, of which large ones consist.
CPU_LIMITS = {"attention": {}, "conv": {"scattered": (2, np.inf), "tails": (2, np.inf)}, "gemm": {"products": (1, 2), "sums": (2, 8), "reads_a": (0, 2), "reads_b": (0, 0.1)}}
BLOCKS = {"attention": "attention_fwd", "conv": "conv", "gemm": "gemm"}  # of a CPU's spec
# Rows that what kernels alike have in common counts as, beside those of the kernels themselves. Convolution has several times as many kernels as attention.
ROWS_OF_ALIKE = {"attention": 1, "conv": 15, "gemm": 40}
# Fits in turn, of convolution and GEMM on CPUs: before the next, the rows of a problem whose first kernel is not the fastest count this much more for a regret of one more, at most
# so much of their own weight in all.
TURNS = {"attention": 1, "conv": 12, "gemm": 12}
MORE_FOR_REGRET, MOST_MORE = 2, 20


def read_rows(file):
    """The rows of kernels that ran and whose results, where they were looked at, are right, each with its seconds: of
    a kernel that the race left behind those of the first look."""
    rows = []
    with open(file, newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(line for line in stream if not line.startswith("#")):
            if row["status"] not in ("verified", "unverified", "behind"):
                continue
            halves = [float(row[name]) for name in ("first_s", "second_s") if row[name]]
            seconds = sum(halves) / len(halves) if halves else float(row["look_s"] or 0)
            if seconds > 0:
                rows.append(row | {"seconds": seconds, "race": (row["problem"], file)})
    return rows


def terms_of(program, problem, arch):
    """The program's terms of each kernel of a problem's line: {name: {term: seconds}}."""
    operation, *words = shlex.split(problem)
    command = [program, "list", "--arch", arch, "--op", operation, "--candidates", "--json", *words]
    listing = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {one["name"]: one["terms"] for one in listing["candidates"] if "terms" in one}


def level_of(name):
    """The CPU level in a kernel's name; of other kernels none."""
    level = re.search(r"_on_(x86_64\w*)$", name)
    return level.group(1) if level else ""


def kernels_of(name):
    """Which coefficients a kernel has: those of its pipeline, on a CPU of its level, pipeline and type, of convolution
    also of its direction."""
    pipeline = re.search(r"_(warpspec|mma_sm80|skinny_tma|weight_only|skinny|flash|decode|blocked|depthwise|direct)_", name).group(1)
    level = level_of(name)
    conv = re.match(r"conv_((?:fwd|bwd_data|bwd_weight)_[a-z0-9]+)_", name)
    if conv:
        return (level, f"{pipeline}_{conv.group(1)}")
    data_type = re.match(r"(?:gemm_standard_a|attention_\w+?)_([a-z0-9]+)_", name)
    return (level, f"{pipeline}_{data_type.group(1)}" if level else pipeline)


def coefficients_of(specs, operation):
    """Those that the specs have: {(level, kernels): {term: cycles}}."""
    found = {}
    for path in specs:
        spec = json.loads(path.read_text(encoding="utf-8"))
        block = spec[BLOCKS[operation]]["model"]["pipelines"]
        found |= {(spec["arch"], name): figures for name, figures in block.items()}
    return found


def traits_of(row):
    """What the names of kernels of a row of CUDA's tile table say of it."""
    words = [f"tile{row['tile'][0]}x{row['tile'][1]}"]
    words += [f"{word}{row[field]}" for field, word in (("stages", "stages"), ("bias_stages", "biasstages"), ("blocks_per_sm", "blocks")) if field in row]
    words += [f"qstages{row['q_stages']}"] if row.get("q_stages", 1) > 1 else []
    return frozenset(words + [word for field, word in (("ping_pong", "pingpong"), ("dynamic_scheduler", "dynamic"), ("late_wait", "latewait"),
                                                       ("late_store", "latestore")) if row.get(field)])


class RowsOfTiles:
    """The rows of CUDA's tile table that have a round_us."""

    def __init__(self, spec):
        pipelines = spec.get("attention_fwd", {}).get("pipelines", {}) if "reference" in spec else {}
        self.rows = [(name, traits_of(row), row) for name, pipeline in pipelines.items() for row in pipeline["tiles"] if "round_us" in row]

    def of(self, name, problem):
        """The number of a kernel's row, or None."""
        pipeline, words = re.search(r"_(warpspec|mma_sm80)_\w+?_(tile\w+)_on_", name).groups() if "attention_fwd" in name else (None, "")
        traits = frozenset(word for word in words.split("_") if not word.startswith("packgqa"))
        dims = {side: int(size) for side, size in re.findall(r"--head-dim-(qk|v) (\d+)", problem)}
        widest = max(dims.values(), default=0)
        for i, (of_pipeline, of_row, row) in enumerate(self.rows):
            low, high = row["head_dim"]
            if of_pipeline == pipeline and of_row == traits and low <= widest <= high and dims.get("v", dims.get("qk", 0)) <= row.get("head_dim_v", [0, high])[1]:
                return i
        return None


class Data:
    """Terms, seconds, problems and ranks of all kernels as arrays. Behind the terms that the program lists stand those of
    rows with a round_us: a kernel's rounds, in the column of its row; then its products by the coefficients in the spec."""

    def __init__(self, rows, program, arch, of_tiles, known):
        listed = {problem: terms_of(program, problem, arch) for problem in sorted({row["problem"] for row in rows})}
        rows = [row for row in rows if row["name"] in listed[row["problem"]]]
        if not rows:
            sys.exit("fit_model.py: the program lists none of the file's kernels with terms")
        races = sorted({row["race"] for row in rows})  # the same problem in another file is one of other kernels, or of another machine
        problems = [problem for problem, _ in races]
        self.operation = problems[0].split()[0].partition("_")[0]
        self.names = list(next(iter(listed[problems[0]].values())))
        self.terms = np.array([[listed[r["problem"]][r["name"]][term] for term in self.names] for r in rows])
        self.of_tiles = of_tiles.rows
        of_row, of_rate = (np.zeros((len(rows), len(self.of_tiles))) for _ in range(2))
        for i, row in enumerate(rows):
            which = of_tiles.of(row["name"], row["problem"]) if self.of_tiles else None
            if which is not None:
                rounds = self.names.index(ROUNDS)
                of_row[i, which] = self.terms[i, rounds] / self.of_tiles[which][2]["round_us"]  # the program counts each as the row's
                self.terms[i, rounds] = 0
                of_rate[i, which] = sum(known[self.of_tiles[which][0]].get(name, 0) * self.terms[i, self.names.index(name)] for name in OF_RATE)
        self.terms = np.hstack([self.terms, of_row, of_rate])
        self.seconds = np.array([row["seconds"] for row in rows])
        kernels = [kernels_of(row["name"]) for row in rows]
        self.pipelines = sorted(set(kernels))
        self.pipeline = np.array([self.pipelines.index(one) for one in kernels])
        self.problem = np.array([races.index(row["race"]) for row in rows])
        files = sorted({file for _, file in races})
        self.file = np.array([files.index(row["race"][1]) for row in rows])
        self.family = np.array([row["family"] for row in rows])
        self.rank = np.array([float(row["rank"]) for row in rows])
        self.timed = np.array([row["status"] != "behind" for row in rows])
        best = np.array([self.seconds[self.problem == i].min() for i in range(len(problems))])
        self.weight = best[self.problem] / self.seconds
        self.problems = problems
        self.fixed = {}

    def keep(self, known, only):
        """Fits some kernels alone, to the others as they are: a race's seconds are divided by what its other kernels took
        of the seconds that are predicted for them, or where it has none by what its file's others took. `only`: how
        LEVEL/PIPELINE of those begins that are fitted."""
        for level, name in self.pipelines:
            if not f"{level}/{name}".startswith(tuple(only)):
                figures = known.get((level, name)) or known[level, name.rsplit("_", 1)[0]]
                self.fixed[level, name] = np.array([figures.get(term, 0) for term in self.names] + [0] * 2 * len(self.of_tiles))
        others = np.isfinite(self.predict({}))
        slower = np.log(self.seconds / np.where(others, self.predict({}), self.seconds))

        def mean(rows):
            return np.average(slower[rows], weights=self.weight[rows]) if rows.any() else None

        by_race = [mean(others & (self.problem == i)) for i in range(len(self.problems))]
        by_file = [mean(others & (self.file == i)) for i in range(self.file.max() + 1)]
        for i, of_race in enumerate(by_race):
            race = self.problem == i
            of_file = by_file[self.file[race][0]]
            self.seconds[race] /= np.exp(next((one for one in (of_race, of_file) if one is not None), 0))

    def fit(self, chosen):
        """Coefficients of each pipeline from the rows of a mask: of as many fits as the operation's kernels take the one
        whose choices lose least, in the mean and in the fiftieth of problems where they lose most."""
        best, own = None, self.weight
        for _ in range(TURNS[self.operation]):
            fitted = self.fit_once(chosen)
            lost = self.regret(self.predict(fitted))
            of_chosen = np.sort(np.log(lost[np.unique(self.problem[chosen])]))
            loss = of_chosen.mean() + of_chosen[-max(1, len(of_chosen) // 50) :].mean() / 10
            if best is None or loss < best[0]:
                best = loss, fitted
            self.weight = np.minimum(self.weight * np.minimum(1 + MORE_FOR_REGRET * (lost[self.problem] - 1), 3), MOST_MORE * own)
        self.weight = own
        return best[1]

    def fit_once(self, chosen):
        """Coefficients of each pipeline from the rows of a mask. CPUs have many pipelines, some of which were seldom
        measured: there each coefficient also counts as if some more rows had told that of all kernels alike. Of
        convolution the latter stand beside them, for types that were not measured."""
        fitted, usual = {}, {}
        for i, (level, name) in enumerate(self.pipelines):
            mask = chosen & (self.pipeline == i)
            if not mask.any() or (level, name) in self.fixed:
                continue
            if not level:
                fitted[level, name] = self.solve(mask, LIMITS | MEASURED_RATES.get(name, {}))
                continue
            limits = CPU_LIMITS[self.operation]
            alike = self.alike(level, name)
            if alike not in usual:
                of_alike = np.array([self.alike(*one) == alike and one not in self.fixed for one in self.pipelines])
                usual[alike] = self.solve(chosen & of_alike[self.pipeline], limits)
            fitted[level, name] = self.solve(mask, limits, usual[alike])
            if self.operation != "attention":
                fitted.setdefault((level, name.rsplit("_", 1)[0]), usual[alike])
        return fitted

    @staticmethod
    def alike(level, name):
        """What kernels have in common whose coefficients are near one another: the pipeline, on tiles or vectors; of
        convolution the direction, and words of one element or of several."""
        if name.count("_") == 1:
            return name.split("_")[0], "amx" in level
        kind, data_type = name.rsplit("_", 1)
        words = level in ("x86_64_amx", "x86_64_v4_bf16") or (data_type == "int8" and kind == "blocked_fwd")
        return kind, words

    def solve(self, mask, limits, usual=None):
        """The bounded least squares of a mask's rows."""
        weight = self.weight[mask]
        scaled = self.terms[mask] / self.seconds[mask][:, None] * weight[:, None]
        counts = np.flatnonzero(scaled.max(axis=0) > 0)
        size = scaled.max(axis=0)[counts]  # terms are microseconds and seconds
        rates = len(self.names) + len(self.of_tiles)
        bounds = [limits.get(self.names[i], (0, np.inf)) if i < len(self.names) else (LEAST_ROUND_US, np.inf) if i < rates else RATE_LIMITS for i in counts]
        low, high = (np.array([bound[end] for bound in bounds]) * size for end in (0, 1))
        rows, wanted = scaled[:, counts], weight
        drawn = np.flatnonzero((counts >= len(self.names)) & (counts < rates))
        if len(drawn):
            from_mean = np.zeros((len(drawn), len(counts)))
            from_mean[:, drawn] = np.eye(len(drawn)) - 1 / len(drawn)
            rows, wanted = np.vstack([rows, DRAWN_TO_MEAN * from_mean]), np.concatenate([wanted, np.zeros(len(drawn))])
            from_rate = DRAWN_TO_RATE * np.eye(len(counts))[counts >= rates]
            rows, wanted = np.vstack([rows, from_rate]), np.concatenate([wanted, np.zeros(len(from_rate))])
        if usual is not None:
            mean = np.diag(rows.mean(axis=0)) * ROWS_OF_ALIKE[self.operation] ** 0.5
            rows, wanted = np.vstack([rows, mean]), np.concatenate([weight, mean @ usual[counts]])
        out = np.zeros(self.terms.shape[1]) if usual is None else usual.copy()
        out[counts] = lsq_linear(rows / size, wanted, bounds=(low, high)).x / size
        return out

    def of_rows(self, fitted):
        """What a round takes of each row of tiles whose kernels were timed, and its rate; of those of the same tile that have
        had the same figures as one of these, the same again."""
        own = sum((coefficients[len(self.names):] for coefficients in fitted.values()), np.zeros(2 * len(self.of_tiles)))
        found = [(row, {"round_us": microseconds, "efficiency": row["efficiency"] / (1 + slower)})
                 for (_, _, row), microseconds, slower in zip(self.of_tiles, own, own[len(self.of_tiles):]) if microseconds > 0]
        timed = [row for row, _ in found]
        as_before = {self.row_key(row): figures for row, figures in reversed(found)}
        alike = [(row, as_before.get(self.row_key(row))) for _, _, row in self.of_tiles if row not in timed]
        return found + [(row, figures) for row, figures in alike if figures]

    @staticmethod
    def row_key(row):
        """The tile and the figures of a row."""
        return json.dumps([row[name] for name in ("tile", "head_dim", "round_us", "efficiency")])

    def predict(self, fitted):
        """Seconds of all rows; of pipelines without coefficients infinite."""
        seconds = np.full(len(self.seconds), np.inf)
        for pipeline, coefficients in (self.fixed | fitted).items():
            if pipeline not in self.pipelines:
                continue
            mask = self.pipeline == self.pipelines.index(pipeline)
            seconds[mask] = self.terms[mask] @ coefficients
        return seconds

    def favoured(self, predicted, share):
        """Predictions in which what went first in the file has its advantage."""
        out = predicted.copy()
        for i in range(len(self.problems)):
            rows = np.flatnonzero(self.problem == i)
            out[rows[np.argmin(self.rank[rows])]] *= share
        return out

    def regret(self, order):
        """Of each problem the seconds of its first kernel over those of the fastest."""
        out = []
        for i in range(len(self.problems)):
            rows = np.flatnonzero(self.problem == i)
            timed = rows[self.timed[rows]]
            best = (self.seconds[timed] if len(timed) else self.seconds[rows]).min()
            out.append(self.seconds[rows[np.argmin(order[rows])]] / best)
        return np.array(out)


def show(name, regret, problems):
    """Prints a policy's line."""
    worst = int(np.argmax(regret))
    print(f"{name:18} mean {np.exp(np.log(regret).mean()):.4f}  p90 {np.quantile(regret, 0.9):.3f}  "
          f"worst {regret[worst]:.3f}  {problems[worst]}")


def figures_of(names, coefficients):
    """Those that are not 0."""
    return {name: float(f"{value:.4g}") for name, value in zip(names, coefficients) if value > 1e-4}


def written(spec_text, fitted, names, counted, command, chips, block):
    """The spec with new coefficients, command and date in the model of a block, or in that of the chips; all other text
    as it was, and coefficients of kernels that the timings do not have, and of terms that none of them counts."""
    begin = max(0, spec_text.find(f'"{block}": {{'))
    begin = spec_text.index(f'"{chips}": {{', spec_text.index('"model_on": {', begin)) if chips else spec_text.index('"model": {', begin)
    at = spec_text.index('"pipelines": {', begin)
    indent = re.search(r"\n( *)$", spec_text[:at]).group(1)
    end = spec_text.index(f"\n{indent}}}\n", at)
    lines = json.loads("{" + spec_text[at:end] + "}}")["pipelines"]
    for pipeline, coefficients in fitted.items():
        before = lines.get(pipeline) or lines.get(pipeline.rsplit("_", 1)[0], {})
        lines[pipeline] = {name: figure for name, figure in before.items() if name not in counted} | figures_of(names, coefficients)
    lines = [f'{indent}  "{pipeline}": {json.dumps(figures)}' for pipeline, figures in sorted(lines.items())]
    head = spec_text[begin:at]
    head = re.sub(r'"command": "[^"]*"', lambda _: f'"command": "{command}"', head)
    head = re.sub(r'"date": "[^"]*"', f'"date": "{datetime.date.today().isoformat()}"', head)
    return spec_text[:begin] + head + '"pipelines": {\n' + ",\n".join(lines) + spec_text[end:]


def with_figures(spec_text, figures):
    """The spec with other figures in rows of tiles, a line each."""
    for row, own in figures:
        line = next((line for line in spec_text.split("\n") if line.strip().rstrip(",") == json.dumps(row)), None)
        if line is None:
            sys.exit(f"fit_model.py: the spec has no line for a row of tiles of its own, as json.dumps writes it, so nothing was written: {json.dumps(row)}")
        rounded = {name: float(f"{value:.3g}") for name, value in own.items()}
        spec_text = spec_text.replace(line, line.replace(json.dumps(row), json.dumps(row | rounded)))
    return spec_text


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("oracle", nargs="+", help="CSV files of bench --oracle")
    parser.add_argument("--spec", required=True, nargs="+", type=Path,
                        help="of a CPU those of all levels that it runs, its own first")
    parser.add_argument("--chips", help="the key of model_on that the coefficients are of")
    parser.add_argument("--only", nargs="+", metavar="LEVEL/PIPELINE", help="fit kernels that begin so alone, to the others as they are")
    parser.add_argument("--program", default="build/bin/tilesmith")
    parser.add_argument("--share", type=float, default=1,
                        help="an advantage for what went first in the file: the share of its time that counts")
    parser.add_argument("--alone", type=float, default=0, metavar="US", help="microseconds that a timing takes more than a call behind another")
    parser.add_argument("--write", action="store_true", help="write the coefficients into the spec")
    given = parser.parse_args()
    os.environ["TILESMITH_SPEC_DIR"] = str(given.spec[0].resolve().parents[1])  # the program counts by these specs, not by those in it
    texts = {path: path.read_text(encoding="utf-8") for path in given.spec}
    rows = [row for file in given.oracle for row in read_rows(file)]
    if not rows:
        sys.exit(f"fit_model.py: no kernel of {', '.join(given.oracle)} ran with a right result: write the files with `tilesmith bench --oracle --csv`")
    spec = json.loads(texts[given.spec[0]])
    known = coefficients_of(given.spec, rows[0]["problem"].split()[0].partition("_")[0])
    data = Data(rows, given.program, spec["arch"], RowsOfTiles(spec), {name: figures for (_, name), figures in known.items()})
    if given.only:
        data.keep(known, given.only)
    everything = np.ones(len(data.seconds), bool)

    show("order in the file", data.regret(data.rank), data.problems)
    fitted = data.fit(everything)
    predicted = data.predict(fitted)
    show("fit", data.regret(data.favoured(predicted, given.share)), data.problems)
    unseen = np.empty(len(data.seconds))
    folds = np.random.default_rng(15).permutation(len(data.problems))
    for i in range(5):
        out = np.isin(data.problem, folds[i::5])
        unseen[out] = data.predict(data.fit(~out))[out]
    show("five folds", data.regret(data.favoured(unseen, given.share)), data.problems)
    for family in sorted(set(data.family)):
        out = data.family == family
        unseen[out] = data.predict(data.fit(~out))[out]
    regret = data.regret(data.favoured(unseen, given.share))
    show("family left out", regret, data.problems)
    of_family = {problem: family for problem, family in zip(data.problem, data.family)}
    for family in sorted(set(data.family)):
        mine = [i for i in range(len(data.problems)) if of_family[i] == family]
        show(f"  {family}", regret[mine], [data.problems[i] for i in mine])
    error = np.log(predicted / data.seconds)
    print(f"error of a prediction: {100 * np.median(np.abs(error)):.0f} % in the median")
    of_rows = data.of_rows(fitted)
    for pipeline, coefficients in fitted.items():
        if given.alone:
            coefficients[data.names.index("launch")] -= given.alone
        if any(pipeline[1] == name for name, _, _ in data.of_tiles):
            coefficients[data.names.index(ROUNDS)] = 1  # rows say the rest
        print(" ".join(pipeline).strip(), figures_of(data.names, coefficients))
    if given.write:
        command = "python3 tools/fit_model.py " + " ".join(file.removeprefix("./") for file in given.oracle) + " --spec"
        for path in given.spec:
            command += f" specs/{path.parent.name}/{path.name}"
        command += (f" --alone {given.alone:g}" if given.alone else "") + (f" --only {' '.join(given.only)}" if given.only else "") + (f" --chips '{given.chips}'" if given.chips else "") + " --write"
        counted = {name for name, most in zip(data.names, data.terms.max(axis=0)) if most > 0}
        for path, text in texts.items():
            level = path.stem if path.parent.name == "cpu" else ""
            mine = {name: figures for (of_level, name), figures in fitted.items() if of_level == level}
            if mine:
                text = written(text, mine, data.names, counted, command, given.chips, BLOCKS[data.operation])
                path.write_text(with_figures(text, of_rows), encoding="utf-8")


if __name__ == "__main__":
    main()
