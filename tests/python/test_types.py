"""The package's types: of its own code, and for users who check theirs."""

import os
import pathlib
import subprocess
import sys
import typing

import pytest

import tilesmith
import tilesmith.typing as words
from tilesmith import _attention_structure, _gemm_call, _options
from tilesmith._conditions import OptionValues

HERE = pathlib.Path(__file__).parent
PACKAGE = pathlib.Path(tilesmith.__file__).parent


def test_words_are_those_that_calls_take():
    for typed, known in ((words.Activation, _gemm_call.ACTIVATIONS), (words.Gate, _gemm_call.GATES),
                         (words.Mask, _attention_structure._MASKS), (words.Build, _options.BUILD),
                         (words.Determinism, _options.DETERMINISM)):  # fmt: skip
        assert list(typing.get_args(typed)) == list(known)
    assert {layout for layout, _ in _attention_structure._DIMS} == set(typing.get_args(words.Layout))
    assert tuple(words.CallOptions.__annotations__) == OptionValues._fields
    assert (PACKAGE / "py.typed").is_file()


def test_strictly_typed(tmp_path):
    """The package itself, and typed_user.py. What mypy finds out of torch takes it half a minute, once for a build folder."""
    pytest.importorskip("mypy", reason="mypy is not installed: pip install mypy")
    pytest.importorskip("torch", reason="torch is not installed, and the package's code for it cannot be checked")
    store = os.environ.get("TILESMITH_CACHE_DIR")
    kept = pathlib.Path(store).parent / "mypy" if store else tmp_path
    checked = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", str(kept),
                              "-p", "tilesmith", "-m", "typed_user"], cwd=tmp_path, capture_output=True, text=True,
                             env={**os.environ, "MYPYPATH": f"{PACKAGE.parent}:{HERE}"})  # fmt: skip
    assert checked.returncode == 0, checked.stdout + checked.stderr
