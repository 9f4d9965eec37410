"""tools/fit_conv.py finds the figures that timings were made of."""
import csv
import json
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import fit_conv  # noqa: E402
import fitting  # noqa: E402

FIGURES = {"clock_ghz": 1.7, "load_cycles": 2, "copy_cycles": 3, "result_cycles": 4, "box_cycles": 0.5, "filter_cycles": 1, "begin_us": 3}
LINES = [f"conv -k {k} --seed 1" for k in (1, 2, 5, 9, 17, 33, 50, 80)]


def spec_of(figures):
    return json.dumps({"conv": {"models": {"gather": {"begin_us": 7}, "direct": figures}}})


def predicted(program, spec, arch, lines):
    """In place of the program's: three kernels by three of the figures, and one of another pipeline."""
    figures = json.loads(spec)["conv"]["models"]["direct"]

    def one(line):
        k = int(re.search(r"-k (\d+)", line)[1])
        seconds = lambda tile: 1e-6 * (figures["begin_us"] + figures["load_cycles"] * k / tile + figures["box_cycles"] * tile)  # noqa: E731
        found = {f"conv_fwd_direct_tile{tile}": seconds(tile) for tile in (1, 4, 16)} | {"conv_fwd_halo": 1e-4}
        return dict(sorted(found.items(), key=lambda one: one[1]))

    return {line: one(line) for line in lines}


@pytest.fixture
def fit(tmp_path, monkeypatch):
    """Runs the tool on timings by FIGURES and a spec with other figures; gives the spec's models afterwards."""
    monkeypatch.setattr(fitting, "predicted", predicted)
    oracle, spec = tmp_path / "oracle.csv", tmp_path / "toy.json"
    with open(oracle, "w", newline="") as stream:
        stream.write("# device: cuda:0\n")
        rows = csv.writer(stream)
        rows.writerow(["problem", "name", "status", "turns_s"])
        for line, kernels in predicted("", spec_of(FIGURES), "", LINES).items():
            for name, seconds in kernels.items():
                rows.writerow([line, name, "verified", f"{seconds} {seconds} {seconds}"])
            rows.writerow([line, "conv_fwd_direct_tile2", "failed", ""])
    spec.write_text(spec_of(FIGURES | {"load_cycles": 4.4, "box_cycles": 0.3, "begin_us": 0.6}))

    def run(*options):
        monkeypatch.setattr(sys, "argv", ["fit_conv.py", str(oracle), "--spec", str(spec), *options])
        fitting.main(fit_conv.__doc__, fit_conv.fit_of, fit_conv.arguments)
        return json.loads(spec.read_text())["conv"]["models"]

    return run


def test_finds_the_figures_that_made_the_timings(fit, capsys):
    found = fit("--pipeline", "direct", "--write")
    said = capsys.readouterr().out
    before, fitted, unseen = map(float, re.search(r"before ([0-9.]+), fitted ([0-9.]+), unseen ([0-9.]+)", said).groups())
    assert before > 0.3 and fitted < 0.03 and unseen < 0.06, said
    for figure, want in FIGURES.items():
        assert abs(found["direct"][figure] / want - 1) < 0.1, (figure, found)
    # What nothing depends on stays as it was, and the clock always does.
    assert all(found["direct"][figure] == FIGURES[figure] for figure in ("clock_ghz", "copy_cycles", "result_cycles", "filter_cycles"))
    assert found["gather"] == {"begin_us": 7}


def test_fits_to_the_regret(fit, capsys):
    fit("--pipeline", "direct", "--regret")
    said = capsys.readouterr().out
    before, fitted = (float(re.search(rf"{what}: 8 problems, mean ([0-9.]+)", said)[1]) for what in ("before", "fitted"))
    assert before > 1.08 and fitted < 1.04 and "error" not in said, said


def test_the_spec_stays_without_write(fit):
    assert fit("--pipeline", "direct")["direct"]["load_cycles"] == 4.4


def test_timings_without_the_pipelines_kernels_are_refused(fit, capsys):
    with pytest.raises(SystemExit):
        fit("--pipeline", "gather")
    assert "no problem" in capsys.readouterr().err
