"""Servers' lives (serving_life.py) on the CPU: a few hundred steps, in the thorough form 10,000. TILESMITH_SOAK_STEPS says how
many, of all ways to call together."""

import os

import pytest
from serving_life import NumPy, Way, live

STEPS = int(os.environ.get("TILESMITH_SOAK_STEPS") or (10000 if os.environ.get("TILESMITH_TEST_THOROUGH") else 300))
WAYS = [
    Way(one_call=False),
    Way(rotary="half", listed=True),
    Way("float16", window=9, rotary="interleaved", tolerance=8e-3),
    Way(cache="int8"),
    Way(cache="int8", one_call=False, listed=True, rotary="half", tolerance=4e-2),  # where a rounding differs a row's value does
]


@pytest.mark.parametrize("number", range(len(WAYS)))
def test_joins_leaves_and_evictions(number):
    steps = STEPS // len(WAYS)
    seen = live(WAYS[number], NumPy(), steps, seed=11 + number, pages=30 if WAYS[number].window else 60)
    expected = {"finished", "evicted", "forked", "taken back", "padded"} | ({"windowed"} if WAYS[number].window else set())
    assert steps < 50 or all(seen[each] > 0 for each in expected), seen
