"""bench/tiles.py has a structure of its own for each set of operands, though the library repeats like calls by itself."""
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import problems  # noqa: E402
import tiles  # noqa: E402


class Host(problems.Torch):
    """Operands where no GPU is needed."""

    def normal(self, kind, *shape):
        return torch.randn(shape).to(self.types[kind])

    def empty(self, kind, *shape):
        return torch.empty(shape, dtype=self.types[kind])


@pytest.mark.parametrize("text", ["gemm fp32 33x64x128", "attention fp32 1x2x2x33x48x64"])
def test_each_set_has_a_call_that_a_plan_runs(text, monkeypatch):
    prepared = tiles.Prepared(Host(), text, 3)
    assert len(prepared.calls) == 3
    results = [operands[-1] for operands in prepared.sets]
    kernel = tiles.Kernel(prepared, prepared.chosen)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: type("Stream", (), {"cuda_stream": 0}))  # the host's plans ask for none
    for call, result in zip(prepared.calls, results):
        expected = result.clone()
        result.fill_(float("nan"))
        kernel(call)
        assert torch.equal(result, expected)
