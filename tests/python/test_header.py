"""include/tilesmith.h is what the package believes it is: every code, every field, every function's number of arguments."""

import ctypes
import re
from pathlib import Path

import pytest

from tilesmith import _append_attention_call, _append_call, _attention_backward_call, _attention_structure, _gemm_call, _gemm_matrices, _gemm_operands, _library

HEADER = Path(__file__).resolve().parents[2] / "include" / "tilesmith.h"
TEXT = re.sub(r"/\*.*?\*/|//[^\n]*", "", HEADER.read_text(), flags=re.DOTALL)
CONSTANTS = {name: int(value) for name, value in re.findall(r"#define (TILESMITH_\w+) (\d+)\n", TEXT)}
ENUMS = {
    name: {key.strip(): int(value) for key, value in (entry.split("=") for entry in body.split(",") if entry.strip())}
    for name, body in re.findall(r"enum (tilesmith_\w+) \{(.*?)\}", TEXT, re.DOTALL)
}
STRUCTS = {name: body for name, body in re.findall(r"struct (tilesmith_\w+) \{(.*?)\n?\}", TEXT, re.DOTALL)}
MIRRORS = {
    "tilesmith_attention": _library.Attention,
    "tilesmith_attention_gradients": _library.AttentionGradients,
    "tilesmith_backend_info": _library.BackendInfo,
    "tilesmith_bias_strides": _library.BiasStrides,
    "tilesmith_candidate": _library.CandidateInfo,
    "tilesmith_candidates": _library.CandidateList,
    "tilesmith_refusal": _library.RefusalInfo,
    "tilesmith_block_scale": _library.BlockScale,
    "tilesmith_context_options": _library.ContextOptions,
    "tilesmith_conv": _library.Conv,
    "tilesmith_conv_operand": _library.ConvOperand,
    "tilesmith_conv_strides": _library.ConvStrides,
    "tilesmith_device": _library.DeviceId,
    "tilesmith_device_info": _library.DeviceInfo,
    "tilesmith_epilogue": _library.Epilogue,
    "tilesmith_error": _library.LastError,
    "tilesmith_fact": _library.Fact,
    "tilesmith_gemm": _library.Gemm,
    "tilesmith_kv_append": _library.KvAppend,
    "tilesmith_matrix": _library.Matrix,
    "tilesmith_plan_info": _library.PlanInfo,
    "tilesmith_plan_stage": _library.PlanStage,
    "tilesmith_plan_step": _library.PlanStep,
    "tilesmith_scale": _library.Scale,
    "tilesmith_states": _library.States,
    "tilesmith_store_stats": _library.StoreStats,
    "tilesmith_strides": _library.Strides,
    "tilesmith_skipped_problem": _library.SkippedProblem,
    "tilesmith_tree": _library.Tree,
    "tilesmith_tune_report": _library.TuneReport,
    "tilesmith_tune_request": _library.TuneRequest,
    "tilesmith_tuned_problem": _library.TunedProblem,
    "tilesmith_workspace_region": _library.WorkspaceRegion,
}
SCALARS = {"int32_t": ctypes.c_int32, "uint32_t": ctypes.c_uint32, "int64_t": ctypes.c_int64, "uint64_t": ctypes.c_uint64,
           "float": ctypes.c_float, "double": ctypes.c_double, "tilesmith_status": ctypes.c_int32}  # fmt: skip


def fields_of(body):
    """(name, its ctypes type; of an array the element's and the length) of a structure's text."""
    for declaration in filter(None, map(str.strip, body.split(";"))):
        kind, many, name, length = re.fullmatch(r"(?:const )?(\w+\*?)( const\*)?\s+(\w+)(?:\[(\w+)\])?", " ".join(declaration.split())).groups()
        if kind == "char*":
            field = ctypes.POINTER(ctypes.c_char_p) if many else ctypes.c_char_p
        elif kind.endswith("*"):
            mirror = MIRRORS.get(kind[:-1])
            field = ctypes.POINTER(mirror) if mirror else ctypes.c_void_p
        else:
            field = SCALARS.get(kind) or MIRRORS[kind]
        yield name, field * (CONSTANTS.get(length) or int(length)) if length else field


@pytest.mark.parametrize("name", sorted(MIRRORS))
def test_structure(name):
    assert MIRRORS[name]._fields_ == list(fields_of(STRUCTS[name]))


def test_every_structure_has_a_mirror():
    assert set(STRUCTS) == set(MIRRORS)


def without_prefix(enum, prefix):
    return {key.removeprefix(prefix).lower(): value for key, value in ENUMS[enum].items()}


def test_data_types():
    codes = without_prefix("tilesmith_data_type", "TILESMITH_")
    known = {**_gemm_call._CODES, "tf32": _gemm_call._TF32, **{f"fp8{out}": code for out, code in _attention_structure._FP8_CODES.items()}}
    assert known == codes and _attention_structure._TF32 == _gemm_call._TF32
    assert _attention_structure._INPUT_CODES.items() <= codes.items()


def test_attention_codes():
    assert _attention_structure._MASKS == {key.removeprefix("mask_"): value for key, value in without_prefix("tilesmith_mask", "TILESMITH_").items()}
    traits = without_prefix("tilesmith_attention_trait", "TILESMITH_")
    assert traits.pop("append") == _append_attention_call._APPEND
    assert traits.pop("lengths_after") == _append_call._LENGTHS_AFTER
    chosen = without_prefix("tilesmith_chosen_scale", "TILESMITH_CHOOSE_")
    assert chosen == {"k_scale": _append_attention_call._CHOOSE_K_SCALE, "v_scale": _append_attention_call._CHOOSE_V_SCALE}
    assert traits == {name: getattr(_attention_structure, f"_{name.upper()}") for name in ("soft_cap", "sink", "dropout", "lse", "block_scale", "page_scale", "latent", "batch_invariant", "vectorized_pages")}
    gradients = without_prefix("tilesmith_gradient_trait", "TILESMITH_")
    assert gradients == {name: getattr(_attention_backward_call, f"_{name.upper()}") for name in ("dlse", "dbias", "dalibi", "dsink")}
    biases = without_prefix("tilesmith_bias_kind", "TILESMITH_BIAS_")
    assert biases == {"none": 0, "elementwise": _attention_structure._ELEMENTWISE, "alibi": _attention_structure._ALIBI}
    assert without_prefix("tilesmith_sequence_mode", "TILESMITH_") == {"batch": False, "group": True}  # what _set_mode stores


def test_epilogue_codes():
    single = {name: getattr(_gemm_operands, name.upper()) for name in ("bias", "bias_m", "scale_n", "scale_m", "add", "multiply", "clamp", "amax")}
    codes = without_prefix("tilesmith_epilogue_op", "TILESMITH_EPILOGUE_")
    assert codes == {"none": 0, **single, **_gemm_call.ACTIVATIONS, **_gemm_call.GATES}


def test_gemm_codes():
    names = ("prefetch_weights", "packed_b", "zero_points", "column_d")
    codes = list(ENUMS["tilesmith_gemm_flag"].values())
    assert codes == [getattr(_gemm_operands, name.upper()) for name in names]
    assert without_prefix("tilesmith_matrix_order", "TILESMITH_") == {"row": _gemm_matrices.ROW, "column": _gemm_matrices.COLUMN}
    groupings = without_prefix("tilesmith_grouping", "TILESMITH_GROUPS_")
    assert groupings == {"none": 0, "contiguous": _gemm_operands.GROUPING["grouped"], "masked": _gemm_operands.GROUPING["masked"]}


def test_devices_and_version():
    assert ENUMS["tilesmith_device_kind"] == {"TILESMITH_DEVICE_DEFAULT": 0, "TILESMITH_CPU": _library.CPU, "TILESMITH_CUDA": _library.CUDA, "TILESMITH_HIP": _library.HIP}
    assert CONSTANTS["TILESMITH_ABI_VERSION"] == _library.ABI_VERSION


def test_functions_have_as_many_arguments():
    declared = {name: arguments for name, arguments in re.findall(r"(tilesmith_\w+)\(([^()]*)\);", TEXT)}
    for name, (_, arguments) in _library._FUNCTIONS.items():
        assert len(arguments) == (0 if declared[name].strip() == "void" else declared[name].count(",") + 1), name
