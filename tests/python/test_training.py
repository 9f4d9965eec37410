"""The example that trains: losses as torch's, and the same bits again."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
EXAMPLE = Path(__file__).parents[2] / "examples" / "train_gpt.py"


def test_losses_are_torchs_and_repeat_bit_for_bit():
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}  # of torch, and so of a call: threads that wait for one another are slow beside other tests
    ran = subprocess.run([sys.executable, EXAMPLE, "--short", "--steps", "8", "--batch", "4", "--repeat"], capture_output=True, text=True,
                         env=environment)  # fmt: skip
    assert ran.returncode == 0 and "the same bits again: yes" in ran.stdout, ran.stdout + ran.stderr
    rows = [line.split() for line in ran.stdout.splitlines()]
    losses = [(float(row[1]), float(row[2])) for row in rows if len(row) == 3 and row[0].isdigit()]
    assert len(losses) == 8 and losses[-1][0] < losses[0][0] - 0.5, ran.stdout
    assert all(abs(ours - theirs) < 1e-3 for ours, theirs in losses), ran.stdout
