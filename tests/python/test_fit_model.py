"""tools/fit_model.py finds the coefficients, and the rounds and the rate of each row of tiles, that timings were made of."""
import csv
import itertools
import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("scipy")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import fit_model  # noqa: E402

ALONE = 3.5
COEFFICIENTS = {"warpspec": {"launch": 7, "products": 1, "narrower": 0.5, "memory": 0.7}, "mma_sm80": {"launch": 6, "rounds": 0.4, "products": 2, "memory": 0.7}}
TERMS = ("launch", "rounds", "products", "narrower", "memory")
ROWS = [({"tile": [64, 64], "stages": 3, "head_dim": [8, 64], "efficiency": 0.5, "round_us": 1.0}, 0.6, 1.1),
        ({"tile": [192, 128], "stages": 2, "q_stages": 2, "ping_pong": True, "head_dim": [8, 64], "efficiency": 0.5, "round_us": 2.0}, 1.5, 0.92),
        ({"tile": [64, 64], "stages": 3, "head_dim": [65, 128], "efficiency": 0.5, "round_us": 1.0}, 1.1, 1.0)]  # and what a round and the products take in truth; fmt: skip
KERNELS = {"warpspec_wgmma_tile64x64_stages3": 1, "warpspec_wgmma_tile192x128_stages2_qstages2_pingpong": 0.4, "mma_sm80_mma_tile32x64": 2.5}


def kernel_name(dim, rest):
    return f"attention_fwd_bf16_h{dim}_{rest}_on_sm_90a"


def row_of(dim, rest):
    """The number of the kernel's row, or None."""
    if "192x128" in rest:
        return 1 if dim <= 64 else None
    return (0 if dim <= 64 else 2) if "warpspec" in rest else None


def counted(problem):
    """Of each kernel the terms but for what its row says of a round, all in seconds."""
    words = problem.split()
    queries, keys, dim = (int(words[words.index(option) + 1]) for option in ("--seqlen-q", "--seqlen-k", "--head-dim-qk"))
    found = {}
    for rest, work in KERNELS.items():
        if "192x128" in rest and dim > 64:
            continue
        found[rest] = {"launch": 1e-6, "rounds": 1e-6 * max(1, queries // int(256 * work)), "products": 4e-9 * queries * work * dim / 64,
                       "narrower": 1e-9 * queries * work * (64 - dim % 64) / 64 if "warpspec" in rest else 0, "memory": 1e-9 * keys}  # fmt: skip
    return dim, found


def listed(program, problem, arch):
    dim, found = counted(problem)
    for rest, terms in found.items():
        if row_of(dim, rest) is not None:
            terms["rounds"] *= ROWS[row_of(dim, rest)][0]["round_us"]
    return {kernel_name(dim, rest): terms for rest, terms in found.items()}


def seconds_of(dim, rest, terms):
    row = row_of(dim, rest)
    weights = COEFFICIENTS["warpspec" if row is not None else "mma_sm80"] | ({"rounds": ROWS[row][1]} if row is not None else {})
    slower = {term: ROWS[row][2] for term in fit_model.OF_RATE} if row is not None else {}
    return sum(weights.get(term, 0) * slower.get(term, 1) * seconds for term, seconds in terms.items())


def spec_text(rows):
    lines = ",\n".join("          " + json.dumps(row) for row in rows)
    return ('{\n  "arch": "sm_90a", "reference": {},\n  "attention_fwd": {\n    "model": {\n      "command": "none", "date": "2026-01-01",\n      "pipelines": {\n'
            '        "warpspec": {"launch": 1, "products": 1, "narrower": 0.5}\n      }\n    },\n    "pipelines": {\n      "warpspec": {\n        "tiles": [\n' + lines + "\n        ]\n      }\n    }\n  }\n}\n")  # fmt: skip


def test_finds_coefficients_and_the_rounds_and_rates_of_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(fit_model, "terms_of", listed)
    for drawn in ("DRAWN_TO_MEAN", "DRAWN_TO_RATE"):
        monkeypatch.setattr(fit_model, drawn, 0.01)  # these timings have no error
    oracle, spec = tmp_path / "oracle.csv", tmp_path / "cuda" / "sm_90a.json"
    spec.parent.mkdir()
    spec.write_text(spec_text([row for row, _, _ in ROWS]))
    with open(oracle, "w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["problem", "name", "family", "status", "rank", "first_s", "second_s", "look_s"])
        for i, dim in itertools.product(range(20), (40, 64, 72, 96, 128)):
            queries, keys = 16 * 3**i // 2**i, (100, 3000, 20000)[i % 3]
            problem = f"attention_fwd --seqlen-q {queries} --seqlen-k {keys} --head-dim-qk {dim} --dtype bf16"
            for rank, (rest, terms) in enumerate(counted(problem)[1].items()):
                rows.writerow([problem, kernel_name(dim, rest), "prefill", "verified", rank, seconds_of(dim, rest, terms), "", ""])
    monkeypatch.setattr(sys, "argv", ["fit_model.py", str(oracle), "--spec", str(spec), "--alone", str(ALONE), "--write"])
    fit_model.main()

    found = json.loads(spec.read_text())["attention_fwd"]
    assert f"--alone {ALONE:g}" in found["model"]["command"]
    for pipeline, coefficients in COEFFICIENTS.items():
        wanted = coefficients | {"launch": coefficients["launch"] - ALONE} | ({"rounds": 1} if pipeline == "warpspec" else {})
        assert found["model"]["pipelines"][pipeline] == pytest.approx(wanted, rel=0.12)
    for row, (before, round_us, slower) in zip(found["pipelines"]["warpspec"]["tiles"], ROWS):
        assert row["round_us"] == pytest.approx(round_us, rel=0.1)
        assert found["model"]["pipelines"]["warpspec"]["products"] / row["efficiency"] == pytest.approx(slower / before["efficiency"], rel=0.05)
        fitted = {"round_us": 0, "efficiency": 0}
        assert row | fitted == before | fitted


def test_a_row_that_has_no_line_of_its_own_is_named():
    row = ROWS[0][0]
    with pytest.raises(SystemExit, match="no line for a row.*64, 64"):
        fit_model.with_figures(json.dumps({"tiles": [row]}), [(row, {"round_us": 0.7})])
    assert '"round_us": 0.7' in fit_model.with_figures(json.dumps(row), [(row, {"round_us": 0.7})])


def test_a_file_without_results_is_named(tmp_path, monkeypatch):
    oracle, spec = tmp_path / "none.csv", tmp_path / "cuda" / "sm_90a.json"
    spec.parent.mkdir()
    spec.write_text(spec_text([ROWS[0][0]]))
    oracle.write_text("problem,name,family,status,rank,first_s,second_s,look_s\nattention_fwd,k,prefill,failed,0,,,\n")
    monkeypatch.setattr(sys, "argv", ["fit_model.py", str(oracle), "--spec", str(spec), "--write"])
    with pytest.raises(SystemExit, match="no kernel of .*none.csv ran"):
        fit_model.main()
    assert spec.read_text() == spec_text([ROWS[0][0]])


def test_a_row_that_was_not_timed_goes_with_that_of_its_tile_and_figures():
    row = ROWS[0][0]
    rows = [row, row | {"stages": 2}, row | {"stages": 2, "efficiency": 0.4}, row | {"tile": [64, 128]}]
    data = fit_model.Data.__new__(fit_model.Data)
    data.names, data.of_tiles = ("launch",), [("warpspec", frozenset(), one) for one in rows]
    found = data.of_rows({("", "warpspec"): fit_model.np.array([1, 0.7, 0, 0, 0, 0.25, 0, 0, 0])})
    assert [(one, figures["round_us"], figures["efficiency"]) for one, figures in found] == [(rows[0], 0.7, 0.4), (rows[1], 0.7, 0.4)]


def test_a_race_without_other_kernels_is_scaled_as_its_file():
    """Kernels of level a are fitted, those of b take twice what is predicted in one race of file 0 and four times in another."""
    np = fit_model.np
    data = fit_model.Data.__new__(fit_model.Data)
    data.names, data.of_tiles = ("call",), []
    data.pipelines = [("a", "direct_fwd_int8"), ("b", "direct_fwd_int8")]
    data.problems, data.fixed = [""] * 4, {}
    data.problem, data.file = np.array([0, 0, 1, 1, 2, 3]), np.array([0, 0, 0, 0, 0, 1])
    data.pipeline = np.array([0, 1, 0, 1, 0, 0])
    data.terms, data.weight = np.ones((6, 1)), np.ones(6)
    data.seconds = np.array([6.0, 2.0, 8.0, 4.0, np.sqrt(8.0), 5.0])
    data.keep({("b", "direct_fwd_int8"): {"call": 1.0}}, ["a/direct"])
    assert np.allclose(data.seconds, [3, 1, 2, 1, 1, 5])
