"""Every example of examples/python does what it says: each checks its own results."""

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "python"
COMPILE = {"candidates", "matmul", "tuned"}  #: they take kernels that are not linked in
RACE = {"tuned"}
EXAMPLES = [pytest.param(name, marks=[pytest.mark.compiles] if name in COMPILE else [])
            for name in sorted(each.stem for each in FOLDER.glob("*.py"))]  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name, request):
    if name in RACE:
        request.getfixturevalue("program")
    text = (FOLDER / f"{name}.py").read_text()
    if "import torch" in text:
        pytest.importorskip("torch")
    ran = subprocess.run([sys.executable, FOLDER / f"{name}.py"], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0 and ran.stdout, ran.stdout + ran.stderr


def test_the_index_names_every_example():
    index = (FOLDER.parent / "README.md").read_text()
    for each in [*FOLDER.glob("*.py"), *FOLDER.parent.glob("*.py"), *(FOLDER.parent / "cpp").glob("*.cpp")]:
        assert f"({each.relative_to(FOLDER.parent)})" in index, f"{each.name} is not in examples/README.md"
        assert each.parent == FOLDER.parent or len(each.read_text().splitlines()) < 60, each
