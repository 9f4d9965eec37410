#!/usr/bin/env python3
"""README's picture, from the figures in bench/results.

    bench/plot.py            draws docs/speed.svg
    bench/plot.py --check    says whether it is up to date; status 1 if not

Left: attention on an H200, TFLOP/s over the sequence length, beside the faster of its peers. Right: the speed of GEMMs over that of cuBLAS on an H200, a dot for each shape and a line at the
geometric mean. It uses the standard library alone; the colours follow the reader's choice of light or dark.
"""
import csv
import math
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"
PICTURE = ROOT / "docs" / "speed.svg"

WIDTH, HEIGHT = 980, 360
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #4b5563; } .title { font-size: 15px; font-weight: 600; fill: #111827; }
.grid { stroke: #d8dde4; } .a { stroke: #2563b0; fill: #2563b0; } .b { stroke: #c2570c; fill: #c2570c; } .c { stroke: #2e7d46; fill: #2e7d46; }
.line { fill: none; stroke-width: 2.5; } .peer { stroke-dasharray: 5 4; stroke-width: 1.8; } .dot { stroke: none; fill-opacity: .55; } .mean { stroke-width: 3; }
.even { stroke: #6b7280; stroke-dasharray: 3 3; } text.a, text.b, text.c { stroke: none; font-weight: 600; }
@media (prefers-color-scheme: dark) { text { fill: #aab4c0; } .title { fill: #eef1f5; } .grid { stroke: #353c46; }
.a { stroke: #6ea8ea; fill: #6ea8ea; } .b { stroke: #f0964f; fill: #f0964f; } .c { stroke: #6cc187; fill: #6cc187; } }
"""


def figures(name):
    with open(RESULTS / f"{name}.csv", newline="") as file:
        return list(csv.DictReader(file))


def geometric(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def text(x, y, words, anchor="middle", kind=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{f" class={chr(34)}{kind}{chr(34)}" if kind else ""}>{words}</text>'


def line(x1, y1, x2, y2, kind):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def attention():
    """{head dim: {"": [(length, TFLOP/s)], "peer": [the fastest peer's]}} without a mask; the geometric mean of all quotients, their number."""
    lines, pairs = {}, {}
    for row in figures("cuda-attention"):
        if not row["figure"].startswith("TFLOP/s; "):
            continue
        head_dim, mask = (part.split("=")[1] for part in row["row"].split("|"))
        pair = pairs.setdefault((head_dim, mask, int(row["column"])), {})
        peer = "peer" if row["peer"] else ""
        pair[peer] = max(pair.get(peer, 0.0), float(row["value"]))
    for (head_dim, mask, length), pair in pairs.items():
        for peer, rate in pair.items() if mask == "full" else ():
            lines.setdefault(int(head_dim), {}).setdefault(peer, []).append((length, rate))
    quotients = [pair[""] / pair["peer"] for pair in pairs.values() if len(pair) == 2]
    return lines, geometric(quotients), len(quotients)


def draw_attention(out):
    lines, mean, count = attention()
    left, right, top, bottom, most = 52, 500, 62, 310, 900

    def x(length):
        return left + (right - left) * math.log2(length / 512) / math.log2(16384 / 512)

    def y(rate):
        return bottom - (bottom - top) * rate / most

    out.append(text(left - 40, 24, f"Attention forward, bf16, H200: {mean:.2f} x the faster peer", "start", "title"))
    out.append(text(left - 40, 44, "no mask, TFLOP/s; dashed: the faster of cuDNN and FlashAttention-3", "start"))
    for rate in range(0, most, 200):
        out += [line(left, y(rate), right, y(rate), "grid"), text(left - 8, y(rate) + 4, rate, "end")]
    for length in (512, 1024, 2048, 4096, 8192, 16384):
        out.append(text(x(length), bottom + 20, length))
    out.append(text((left + right) / 2, bottom + 42, f"sequence length; the mean is of {count} shapes, half of them causal"))
    for kind, head_dim in zip("abc", sorted(lines)):
        for peer, points in lines[head_dim].items():
            path = " ".join(f"{x(length):.1f},{y(rate):.1f}" for length, rate in sorted(points))
            out.append(f'<polyline points="{path}" class="{kind} line {peer}" style="fill:none"/>')
        length, rate = max(lines[head_dim][""])
        out.append(text(right + 6, y(rate) + 4, f"d {head_dim}", "start", kind))


def draw_gemm(out):
    names = ["bf16", "fp8", "int8"]
    quotients = {name: [] for name in names}
    for row in figures("cuda-gemm-bursts"):
        if row["figure"].startswith("TFLOP/s, ours over") and row["column"] in names:
            quotients[row["column"]].append(float(row["value"]))
    left, right, top, bottom, low, high = 640, 940, 62, 310, 0.93, 2.6

    def y(quotient):
        return bottom - (bottom - top) * math.log(min(quotient, high) / low) / math.log(high / low)

    out.append(text(left - 50, 24, "GEMM, H200: speed over cuBLAS", "start", "title"))
    out.append(text(left - 50, 44, "a dot for each shape; the bar is the geometric mean", "start"))
    for quotient in (1, 1.25, 1.5, 2, 2.5):
        out += [line(left, y(quotient), right, y(quotient), "even" if quotient == 1 else "grid"), text(left - 8, y(quotient) + 4, f"{quotient:g} x", "end")]
    for place, (kind, column) in enumerate(zip("abc", names)):
        middle = left + (right - left) * (place + 0.5) / len(names)
        values = sorted(quotients[column])
        for i, value in enumerate(values):
            out.append(f'<circle cx="{middle + ((i * 7) % 11 - 5) * 4:.1f}" cy="{y(value):.1f}" r="4" class="{kind} dot"/>')
        mean = geometric(values)
        out += [line(middle - 34, y(mean), middle + 34, y(mean), kind + " mean"), text(middle, bottom + 20, f"{column}: {mean:.3f} x", kind=kind)]


def picture():
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Speed of attention beside cuDNN and FlashAttention-3, and of GEMM beside cuBLAS, on an H200">',
           f"<style>{STYLE}</style>"]
    draw_attention(out)
    draw_gemm(out)
    return "\n".join(out + ["</svg>", ""])


def main():
    if sys.argv[1:] == ["--check"]:
        if not PICTURE.exists() or PICTURE.read_text() != picture():
            raise SystemExit(f"{PICTURE.relative_to(ROOT)} is not what the figures give: run bench/plot.py")
    elif sys.argv[1:]:
        raise SystemExit(__doc__)
    else:
        PICTURE.write_text(picture())


if __name__ == "__main__":
    main()
