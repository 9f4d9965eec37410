"""Tuning from Python: the program's races, the record of a call's problems, and calls that obey a tuning file."""

import signal
import time

import numpy as np
import pytest

import tilesmith

pytestmark = pytest.mark.compiles  # the races compile

A = np.ones((37, 40), np.float32)
B = np.ones((40, 24), np.float32)
SHORT = {"candidates": 1, "budget": 0.1}


@pytest.fixture
def place(tmp_path, program):
    return tmp_path


def test_a_call_is_tuned_and_later_calls_obey(place):
    met = []

    def model(a, *, scale):
        with tilesmith.options(threads=1):
            met.append(tilesmith.matmul(a * scale, B))
            tilesmith.matmul(a, B)  # the same problem again
        q = np.ones((1, 2, 5, 32), np.float32)
        return tilesmith.attention(q, q, q)

    report = tilesmith.tune(model, A, scale=2, file=place / "choices.json", database=place / "a.db", **SHORT)
    assert (met[0] == 80).all() and len(met) == 1
    assert [each.problem.split()[0] for each in report.problems] == ["gemm", "attention_fwd"]
    assert all(each.chosen_seconds > 0 and each.gain >= 1 for each in report.problems)
    assert report.file == str(place / "choices.json") and report.database == str(place / "a.db")
    assert "2 raced, 0 known, 0 skipped" in str(report)
    with tilesmith.tuning(report.file):
        tilesmith.matmul(A, B, threads=1)
        plan = tilesmith.last_plan()
        assert plan.source == "measurement" and plan.kernel == report.problems[0].chosen and plan.measured_seconds > 0
    tilesmith.matmul(A, B, threads=1)
    assert tilesmith.last_plan().source != "measurement"
    again = tilesmith.tune(model, A, scale=2, database=place / "a.db", **SHORT)
    assert not again.problems and again.known == 2 and again.file == ""


def test_lines_and_ranges(place):
    rest = "-n 24 -k 40 --dtype fp32 --layout rrr"
    report = tilesmith.tune([f"gemm -m 19 {rest}", f"gemm -m 20:24 {rest}"], threads=1, database=place / "a.db",
                            file=place / "c.json", **SHORT)  # fmt: skip
    assert len(report.problems) >= 3
    with tilesmith.tuning(place / "c.json"), tilesmith.options(threads=1):
        tilesmith.matmul(A[:22], B)
        assert tilesmith.last_plan().source in ("interval", "measurement")


def test_what_cannot_be_tuned(place, monkeypatch):
    at = {"database": place / "a.db", **SHORT}
    for wrong, kind in (((3,), tilesmith.WrongType), (("gemm",), tilesmith.InvalidArgument), (([],), tilesmith.InvalidArgument),
                        (([b"gemm -m 3"],), tilesmith.WrongType), (("gemm -m 3", 4), tilesmith.WrongType),
                        ((lambda: None,), tilesmith.InvalidArgument)):  # fmt: skip
        with pytest.raises(kind) as said:
            tilesmith.tune(*wrong, **at)
        assert said.value.hint
    for named in ({"budget": 0}, {"budget": float("nan")}, {"candidates": -1}, {"file": ""}, {"database": "\0"}):
        with pytest.raises(tilesmith.InvalidArgument):
            tilesmith.tune("gemm -m 3 -n 3 -k 3", **{**at, **named})
    with pytest.raises(tilesmith.InvalidArgument, match="beside a callable"):
        tilesmith.tune(lambda: tilesmith.matmul(A, B), threads=2, **at)
    with pytest.raises(tilesmith.InvalidArgument, match="gemm has no option -q.*did you mean"):
        tilesmith.tune("gemm -q 3", **at)
    with pytest.raises(tilesmith.Error, match="tilesmith tune: .*nowhere"):
        tilesmith.tune("gemm -m 3 -n 3 -k 3", **{**at, "database": place / "nowhere" / "a.db"})
    with monkeypatch.context() as without_kernels:
        without_kernels.setenv("TILESMITH_BUILD", "never")
        without_kernels.setenv("TILESMITH_CACHE_DIR", str(place))
        with pytest.raises(tilesmith.Unsupported, match="no problem could be tuned: gemm -m 3"):
            tilesmith.tune("gemm -m 3 -n 333 -k 34 --dtype int8", **at)
    with pytest.raises(tilesmith.WrongType):
        tilesmith.tuning(None)
    with pytest.raises(ZeroDivisionError):
        tilesmith.tune(lambda: 1 / 0, **at)
    assert (tilesmith.matmul(A, B) == 40).all()  # and calls compute as before


def test_the_program_is_looked_for(place, monkeypatch):
    monkeypatch.setenv("TILESMITH_PROGRAM", str(place / "nothing"))
    with pytest.raises(tilesmith.Failure, match="nothing"):
        tilesmith.tune("gemm -m 3 -n 3 -k 3", database=place / "a.db", **SHORT)


def test_a_signal_ends_the_races(place):
    def stop(number, frame):
        raise InterruptedError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    began = time.monotonic()
    try:
        with pytest.raises(InterruptedError):
            tilesmith.tune("gemm -m 64:4096 -n 512 -k 512", budget=1000, candidates=0, database=place / "a.db")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - began < 300  # not to the end of its budget


def test_compiled_with_dynamic_shapes_meets_the_tuned_sizes(place):
    torch = pytest.importorskip("torch")
    line = "gemm -m 20:40 -n 24 -k 40 --dtype fp32"
    tilesmith.tune(line, threads=1, database=place / "a.db", file=place / "c.json", **SHORT)
    weight, graphs = torch.ones(24, 40), []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph

    layer = torch.compile(lambda x: tilesmith.linear(x, weight), fullgraph=True, dynamic=True, backend=backend)
    sources = set()
    with tilesmith.tuning(place / "c.json"), tilesmith.options(threads=1):
        for rows in (20, 23, 31, 37, 40):
            assert (layer(torch.ones(rows, 40)) == 40).all()
            sources.add(tilesmith.last_plan().source)
        assert sources <= {"measurement", "interval"} and "measurement" in sources
        layer(torch.ones(50, 40))
        assert tilesmith.last_plan().source not in ("measurement", "interval")
    assert len(graphs) == 1  # no guard on the number of rows
