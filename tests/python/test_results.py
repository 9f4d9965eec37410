"""The tables of docs/performance.md are those of bench/results."""

import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "bench" / "results"
sys.path.insert(0, str(FOLDER))
import render  # noqa: E402


def test_pages_are_up_to_date():
    assert not render.stale(), "run bench/results/render.py"


@pytest.mark.parametrize("name", render.names())
def test_table(name):
    for line in render.figures(name):
        assert line["commit"] and line["machine"] and line["date"] and line["command"] and line["operation"] and line["problem"], line
        assert not line["value"] or float(line["value"].replace(",", "")) >= 0, line
    lines = render.table(name).splitlines()
    assert len({line.count("|") for line in lines}) == 1 and len(lines) > 2


def test_a_changed_figure_is_noticed(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text(render.PAGES[0].read_text().replace("| 3.130 |", "| 3.131 |", 1))
    monkeypatch.setattr(render, "PAGES", [page])
    assert render.stale() == [page]
