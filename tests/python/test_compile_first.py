"""torch.compile(fullgraph=True) of a function whose first call in its process this is."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
import compiled_first  # noqa: E402

NAMES = [*compiled_first.calls(torch, None), *map(compiled_first.with_options, compiled_first.calls_with_options(torch, None)),
         *map(compiled_first.with_gradients, compiled_first.calls_with_gradients(torch, None))]  # fmt: skip


@pytest.fixture(scope="module")
def outcomes():
    program = Path(__file__).with_name("compiled_first.py")
    # To the binding, one kernel is like another. A child of a process that has begun CUDA has none, and torch's tracing begins it.
    environment = {**os.environ, "TILESMITH_BUILD": "never", "CUDA_VISIBLE_DEVICES": ""}
    return json.loads(subprocess.run([sys.executable, program], stdout=subprocess.PIPE, check=True, env=environment).stdout)


@pytest.mark.parametrize("name", NAMES)
def test_first_call(outcomes, name):
    assert outcomes[name] == ""
