"""The library itself: devices, plans, threads, processes, and what importing it does."""

import ctypes
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from conftest import assert_attention, wrong_in_threads

import tilesmith
from tilesmith import _library


def test_devices():
    cpu = tilesmith.devices()[0]
    assert (cpu.kind, cpu.index, str(cpu)) == ("cpu", 0, "cpu")
    assert cpu.name and cpu.arch.startswith("x86_64") and cpu.facts["threads"] >= 1
    kinds = {device.kind for device in tilesmith.devices()}
    assert ("cuda" in kinds or "cuda" in tilesmith.missing()) and "cpu" not in tilesmith.missing()


def test_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+", tilesmith.__version__)


def test_last_plan(qkv):
    tilesmith.attention(*qkv())
    plan = tilesmith.last_plan()
    assert plan.operation == "attention_fwd" and plan.device == "cpu" and "fp32" in plan.kernel
    assert plan.stages[0].kernel == plan.kernel and plan.reason and plan.workspace_bytes >= 0
    assert plan.steps[0].role == "compute" and plan.steps[0].what and plan.stages == plan.steps
    assert plan.predicted_seconds > 0
    assert plan.workspace_bytes == max((r.offset + r.bytes for r in plan.workspace), default=0)


def test_last_plan_is_this_threads(qkv):
    tilesmith.attention(*qkv())
    failures = []

    def ask():
        try:
            tilesmith.last_plan()
        except RuntimeError as error:
            failures.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert "nothing yet" in str(failures[0]) and failures[0].code == "not_found"


def test_many_threads(qkv):
    problems = [qkv(rows_k=rows) for rows in (20, 40, 70)]
    assert not wrong_in_threads(lambda *problem: tilesmith.attention(*problem, causal=True), problems, calls=60)


def test_a_forked_child_computes(qkv):
    q, k, v = qkv(rows_q=200, rows_k=200)
    expected = tilesmith.attention(q, k, v)  # the threads that helped here are not in the child
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(tilesmith.attention(q, k, v), expected) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_shapes_that_never_repeat_keep_few_calls(qkv, monkeypatch):
    from tilesmith import _numpy_attention

    monkeypatch.setattr(_numpy_attention._calls, "most", 8)
    q, k, v = qkv(batch=1, rows_q=1)
    for rows in range(40, 60):
        tilesmith.attention(q, k[:, :, :rows], v[:, :, :rows])
    assert len(_numpy_attention._calls.by_key) <= 8
    assert_attention(tilesmith.attention(q, k, v), q, k, v)


def python(code, **variables):
    """Runs code in a fresh interpreter with this one's path, and nothing a site would add or import."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | variables
    return subprocess.run([sys.executable, "-S", "-c", code], env=environment, capture_output=True, text=True)


def test_importing_does_nothing():
    code = "import sys, tilesmith; print([m for m in ('torch', 'numpy', 'ctypes.util') if m in sys.modules])"
    assert python(code, TILESMITH_LIBRARY="/nowhere").stdout == "[]\n"


def test_numpy_alone_imports_no_torch():
    code = "import sys, numpy, tilesmith; x = numpy.ones((1, 1, 8, 64), 'f4'); tilesmith.attention(x, x, x); print('torch' in sys.modules)"
    ran = python(code)
    assert ran.stdout == "False\n", ran.stderr


def test_a_library_that_is_not_there():
    ran = python("import tilesmith; tilesmith.version()", TILESMITH_LIBRARY="/nowhere/libtilesmith.so")
    assert "tilesmith._errors.Failure: the library cannot be loaded: /nowhere/libtilesmith.so" in ran.stderr


def test_a_library_that_is_another():
    other = next(line.split()[-1] for line in open("/proc/self/maps") if "libc.so" in line)
    ran = python("import tilesmith; tilesmith.version()", TILESMITH_LIBRARY=other)
    assert "is not this package's library" in ran.stderr


def test_the_structures_are_the_headers():
    """Names and order of every field, from the header's text; sizes, from the library's own checks of struct_size."""
    header = Path(__file__).parents[2] / "include" / "tilesmith.h"
    text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
    structures = {
        "tilesmith_device": _library.DeviceId, "tilesmith_strides": _library.Strides,
        "tilesmith_bias_strides": _library.BiasStrides, "tilesmith_scale": _library.Scale,
        "tilesmith_attention": _library.Attention, "tilesmith_matrix": _library.Matrix,
        "tilesmith_epilogue": _library.Epilogue, "tilesmith_block_scale": _library.BlockScale,
        "tilesmith_gemm": _library.Gemm, "tilesmith_states": _library.States, "tilesmith_kv_append": _library.KvAppend,
        "tilesmith_error": _library.LastError, "tilesmith_fact": _library.Fact,
        "tilesmith_device_info": _library.DeviceInfo, "tilesmith_backend_info": _library.BackendInfo,
        "tilesmith_plan_stage": _library.PlanStage, "tilesmith_plan_step": _library.PlanStep,
        "tilesmith_workspace_region": _library.WorkspaceRegion, "tilesmith_plan_info": _library.PlanInfo,
    }  # fmt: skip
    for name, structure in structures.items():
        body = re.search(rf"typedef struct {name} {{(.*?)}} {name};", text, flags=re.S)[1]
        assert re.findall(r"(\w+)(?:\[\w+\])?;", body) == [field[0] for field in structure._fields_], name
    assert ctypes.sizeof(_library.Attention) == 768 and _library.Attention.q.offset == 304
    assert ctypes.sizeof(_library.Gemm) == 720 and _library.Gemm.epilogue.offset == 216


def test_nvrtc_of_a_package_is_found(tmp_path):
    folder = tmp_path / "nvidia" / "cu13" / "lib"
    folder.mkdir(parents=True)
    for name in ("libnvrtc.so.13", "libnvrtc-builtins.so.13.0", "libnvrtc.alt.so.13"):
        (folder / name).touch()
    package = str(Path(tilesmith.__file__).parents[1])
    code = "import os; from tilesmith import _nvrtc; _nvrtc.find(); print(os.environ.get('TILESMITH_NVRTC'))"

    def found(*folders, variable=""):
        return python(code, PYTHONPATH=os.pathsep.join((*folders, package)), TILESMITH_NVRTC=variable).stdout.strip()

    assert found(str(tmp_path)) == str(folder / "libnvrtc.so.13")
    assert found(str(tmp_path), variable="/mine") == "/mine"
    none_here = found()  # unless this interpreter has the package
    assert none_here == "" or Path(none_here).is_file()
