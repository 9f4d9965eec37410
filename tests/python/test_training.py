"""The examples that train: results as torch's, and the same bits again."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
EXAMPLES = Path(__file__).parents[2] / "examples"


def run(example, *arguments):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}  # of torch, and so of a call: threads that wait for one another are slow beside other tests
    return subprocess.run([sys.executable, EXAMPLES / example, "--short", *arguments], capture_output=True, text=True, env=environment)


def test_losses_are_torchs_and_repeat_bit_for_bit():
    ran = run("train_gpt.py", "--steps", "8", "--batch", "4", "--repeat")
    assert ran.returncode == 0 and "the same bits again: yes" in ran.stdout, ran.stdout + ran.stderr
    rows = [line.split() for line in ran.stdout.splitlines()]
    losses = [(float(row[1]), float(row[2])) for row in rows if len(row) == 3 and row[0].isdigit()]
    assert len(losses) == 8 and losses[-1][0] < losses[0][0] - 0.5, ran.stdout
    assert all(abs(ours - theirs) < 1e-3 for ours, theirs in losses), ran.stdout


def test_networks_of_convolutions():
    """Gradients of all weights, and what is inferred."""
    ran = run("image_networks.py", "--batch", "2")
    assert ran.returncode == 0 and all(f"{network}: " in ran.stdout for network in ("resnet50", "mobilenet_v3")), ran.stdout + ran.stderr
