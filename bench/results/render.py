#!/usr/bin/env python3
"""Measured figures as Markdown tables.

    bench/results/render.py                 writes the tables into docs/performance.md, docs/backward.md and docs/conv_performance.md, between their markers
    bench/results/render.py --check         says whether they are up to date; status 1 if not
    bench/results/render.py NAME...         prints tables; without a name that is known, the names

bench/results/NAME.csv has a line for each figure: commit (that first noted it), machine, date, command, operation, problem, kernel, figure (what it is, with its
unit), value, peer (whose it is, or with which it is compared; empty: ours), and its place in the table: row ("heading=label", with | between), column, and, on the first
figure of a place, cell: the text there, with {} for each figure. A page has <!-- results: NAME --> before a table and <!-- end of results --> behind it.
"""
import argparse
import csv
import re
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
PAGES = [FOLDER.parents[1] / "docs" / page for page in ("performance.md", "backward.md", "conv_performance.md")]
COLUMNS = ["commit", "machine", "date", "command", "operation", "problem", "kernel", "figure", "value", "peer", "row", "column", "cell"]
BLOCK = re.compile(r"(<!-- results: (\S+) -->\n).*?(<!-- end of results -->)", re.DOTALL)


def names():
    return sorted(path.stem for path in FOLDER.glob("*.csv"))


def figures(name):
    with open(FOLDER / f"{name}.csv", newline="") as file:
        lines = csv.DictReader(file)
        if lines.fieldnames != COLUMNS:
            raise SystemExit(f"{name}.csv has the columns {lines.fieldnames}, not {COLUMNS}")
        return list(lines)


def places(name):
    """{row: {column: (text of the cell, its figures)}}, in the file's order."""
    rows = {}
    for line in figures(name):
        cells = rows.setdefault(line["row"], {})
        if line["column"] not in cells:
            cells[line["column"]] = (line["cell"], [])
        if line["value"]:
            cells[line["column"]][1].append(line["value"])
    for row, cells in rows.items():
        for column, (text, values) in cells.items():
            if text.count("{}") != len(values):
                raise SystemExit(f"{name}.csv: the cell {text!r} of {row}, {column} has {len(values)} figures")
    return rows


def table(name):
    rows = places(name)
    labels = [part.split("=", 1)[0] for part in next(iter(rows)).split("|")]
    columns = list(dict.fromkeys(column for cells in rows.values() for column in cells))
    lines = [[*labels, *columns], ["---"] * (len(labels) + len(columns))]
    for row, cells in rows.items():
        own = [part.split("=", 1)[1] for part in row.split("|")]
        lines.append([*own, *(text.format(*values) for text, values in (cells.get(column, ("", [])) for column in columns))])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def rendered(page):
    """The page's text with today's tables."""
    return BLOCK.sub(lambda block: block[1] + table(block[2]) + block[3], page.read_text())


def stale():
    return [page for page in PAGES if rendered(page) != page.read_text()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in names()]:
        raise SystemExit(f"there is no {', '.join(unknown)}; there are {', '.join(names())}")
    if options.names:
        print("\n".join(f"{name}\n\n{table(name)}" for name in options.names))
    elif options.check:
        for page in stale():
            print(f"{page}: run bench/results/render.py")
        sys.exit(bool(stale()))
    else:
        for page in PAGES:
            page.write_text(rendered(page))


if __name__ == "__main__":
    main()
