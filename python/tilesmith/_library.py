"""The shared library: where it is, its functions, its structures (include/tilesmith.h, field by field)."""

from __future__ import annotations

import ctypes
import functools
import os
from ctypes import c_char_p, c_double, c_float, c_int32, c_int64, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from tilesmith._errors import Failure, error_of

ABI_VERSION = 1

CPU, CUDA, HIP = 1, 2, 10  # tilesmith_device_kind, DLPack's numbers
KIND_NAMES = {CPU: "cpu", CUDA: "cuda", HIP: "hip"}


class DeviceId(ctypes.Structure):
    _fields_ = [("kind", c_int32), ("index", c_int32)]

    def __str__(self) -> str:
        name = KIND_NAMES.get(self.kind, f"kind {self.kind}")
        return name if self.kind == CPU else f"{name}:{self.index}"


class Strides(ctypes.Structure):
    _fields_ = [("batch", c_int64), ("head", c_int64), ("row", c_int64)]


class BiasStrides(ctypes.Structure):
    _fields_ = [("batch", c_int64), ("head", c_int64), ("row", c_int64), ("column", c_int64)]


class Scale(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("batch", c_int64), ("head", c_int64), ("block", c_int64)]


class ContextOptions(ctypes.Structure):
    _fields_ = [("struct_size", c_uint64), ("device", DeviceId), ("threads", c_int32), ("build", c_int32), ("kernel", c_char_p),
                ("determinism", c_int32), ("reserved", c_int32), ("tuning", c_char_p)]  # fmt: skip


class Attention(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint64),
        ("device", DeviceId), ("data_type", c_int32), ("mode", c_int32), ("mask", c_int32), ("bias_kind", c_int32),
        ("traits", c_uint32), ("reserved", c_uint32),
        ("batch", c_int64), ("heads_q", c_int64), ("heads_kv", c_int64), ("seqlen_q", c_int64), ("seqlen_k", c_int64),
        ("head_dim_qk", c_int64), ("head_dim_v", c_int64), ("window_left", c_int64), ("window_right", c_int64),
        ("total_q", c_int64), ("total_k", c_int64),
        ("q_strides", Strides), ("k_strides", Strides), ("v_strides", Strides), ("o_strides", Strides),
        ("lse_strides", Strides), ("bias_strides", BiasStrides), ("alibi_batch_stride", c_int64),
        ("scale", c_float), ("soft_cap", c_float), ("dropout_probability", c_float), ("reserved_number", c_float),
        ("q", c_void_p), ("k", c_void_p), ("v", c_void_p), ("o", c_void_p), ("lse", c_void_p), ("bias", c_void_p),
        ("alibi", c_void_p), ("sink", c_void_p), ("cu_seqlens_q", c_void_p), ("cu_seqlens_k", c_void_p),
        ("stream", c_void_p), ("workspace", c_void_p), ("workspace_bytes", c_uint64), ("seed", c_uint64),
        ("offset", c_uint64), ("q_scale", Scale), ("k_scale", Scale), ("v_scale", Scale), ("diagonal", c_int64),
        ("options", ctypes.POINTER(ContextOptions)),
        ("page_size", c_int64), ("num_pages", c_int64), ("page_stride", c_int64), ("seqlens_k", c_void_p),
        ("page_numbers", c_void_p), ("page_offsets", c_void_p), ("splits", c_int64),
        ("cache", c_int64),
        ("k_new", c_void_p), ("v_new", c_void_p), ("q_out", c_void_p), ("k_new_strides", Strides), ("v_new_strides", Strides),
        ("q_out_strides", Strides), ("slots", c_void_p), ("positions", c_void_p), ("seqlens_before", c_void_p),
        ("rotary_cos", c_void_p), ("rotary_sin", c_void_p), ("rotary_dim", c_int64), ("rotary_positions", c_int64),
        ("rotary_row_stride", c_int64), ("rotary_style", c_int32), ("chosen_scales", c_uint32),
    ]  # fmt: skip


class AttentionGradients(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint64), ("device", DeviceId), ("traits", c_uint32), ("reserved", c_uint32),
        ("forward", ctypes.POINTER(Attention)), ("dout_strides", Strides), ("dlse_strides", Strides),
        ("dq_strides", Strides), ("dk_strides", Strides), ("dv_strides", Strides), ("dbias_strides", BiasStrides),
        ("dalibi_batch_stride", c_int64), ("dout", c_void_p), ("dlse", c_void_p), ("dq", c_void_p), ("dk", c_void_p),
        ("dv", c_void_p), ("dbias", c_void_p), ("dalibi", c_void_p), ("dsink", c_void_p), ("stream", c_void_p),
        ("workspace", c_void_p), ("workspace_bytes", c_uint64), ("options", ctypes.POINTER(ContextOptions)),
    ]  # fmt: skip


class ConvStrides(ctypes.Structure):
    _fields_ = [("batch", c_int64), ("group", c_int64), ("channel", c_int64), ("spatial", c_int64 * 3)]


class ConvOperand(ctypes.Structure):
    _fields_ = [("op", c_int32), ("reserved", c_int32), ("data", c_void_p), ("strides", ConvStrides), ("low", c_float),
                ("high", c_float)]  # fmt: skip


class Conv(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint64), ("device", DeviceId), ("direction", c_int32), ("data_type", c_int32), ("type_out", c_int32),
        ("type_bias", c_int32), ("batch", c_int64), ("groups", c_int64), ("c", c_int64), ("k", c_int64),
        ("image", c_int64 * 3), ("filter", c_int64 * 3), ("stride", c_int64 * 3), ("dilation", c_int64 * 3),
        ("pad", c_int64 * 3), ("pad_high", c_int64 * 3), ("x", c_void_p), ("w", c_void_p), ("y", c_void_p),
        ("out", c_void_p), ("x_strides", ConvStrides), ("w_strides", ConvStrides), ("y_strides", ConvStrides),
        ("stream", c_void_p), ("workspace", c_void_p), ("workspace_bytes", c_uint64), ("epilogue", ConvOperand * 8),
        ("options", ctypes.POINTER(ContextOptions)), ("flags", c_uint64),
    ]  # fmt: skip


class States(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint64), ("device", DeviceId), ("data_type", c_int32), ("reserved", c_uint32),
        ("states", c_int64), ("batch", c_int64), ("heads", c_int64), ("seqlen", c_int64), ("head_dim", c_int64),
        ("output_strides", Strides), ("input_lse_strides", Strides), ("o_strides", Strides), ("lse_strides", Strides),
        ("outputs", c_void_p), ("lses", c_void_p), ("o", c_void_p), ("lse", c_void_p), ("stream", c_void_p),
    ]  # fmt: skip


class Tree(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint64), ("batch", c_int64), ("seqlen_q", c_int64), ("seqlen_k", c_int64), ("words", c_int64),
        ("bits", c_void_p), ("cu_seqlens_q", c_void_p), ("seqlens_k", c_void_p),
    ]  # fmt: skip


class KvAppend(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint64), ("device", DeviceId), ("data_type", c_int32), ("mode", c_int32),
        ("rotary_style", c_int32), ("cache", c_uint32), ("batch", c_int64), ("heads_q", c_int64), ("heads_kv", c_int64),
        ("seqlen", c_int64), ("head_dim_qk", c_int64), ("head_dim_v", c_int64), ("page_size", c_int64),
        ("num_pages", c_int64), ("page_stride", c_int64), ("rotary_dim", c_int64), ("rotary_positions", c_int64),
        ("rotary_row_stride", c_int64), ("q_strides", Strides), ("k_strides", Strides), ("v_strides", Strides),
        ("q_out_strides", Strides), ("k_cache_strides", Strides), ("v_cache_strides", Strides), ("q", c_void_p),
        ("k", c_void_p), ("v", c_void_p), ("q_out", c_void_p), ("k_cache", c_void_p), ("v_cache", c_void_p),
        ("cu_seqlens", c_void_p), ("seqlens_k", c_void_p), ("page_numbers", c_void_p), ("page_offsets", c_void_p),
        ("slots", c_void_p), ("positions", c_void_p), ("rotary_cos", c_void_p), ("rotary_sin", c_void_p),
        ("k_scale", Scale), ("v_scale", Scale), ("total", c_int64), ("stream", c_void_p),
        ("traits", c_uint32), ("reserved", c_uint32), ("k_row_scale", c_void_p), ("v_row_scale", c_void_p),
        ("k_row_scale_strides", Strides), ("v_row_scale_strides", Strides),
    ]  # fmt: skip


class Matrix(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("leading", c_int64), ("batch", c_int64)]


class Epilogue(ctypes.Structure):
    _fields_ = [("op", c_int32), ("reserved", c_int32), ("data", c_void_p), ("leading", c_int64), ("batch", c_int64),
                ("low", c_float), ("high", c_float)]  # fmt: skip


class BlockScale(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("row", c_int64), ("block", c_int64), ("batch", c_int64)]


class Gemm(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint64),
        ("device", DeviceId), ("type_a", c_int32), ("type_b", c_int32), ("type_c", c_int32), ("type_d", c_int32),
        ("type_bias", c_int32), ("order_a", c_int32), ("order_b", c_int32), ("flags", c_uint32),
        ("m", c_int64), ("n", c_int64), ("k", c_int64), ("batch", c_int64), ("alpha", c_float), ("beta", c_float),
        ("a", Matrix), ("b", Matrix), ("c", Matrix), ("d", c_void_p), ("d_leading", c_int64), ("d_batch", c_int64),
        ("amax", c_void_p), ("stream", c_void_p), ("workspace", c_void_p), ("workspace_bytes", c_uint64),
        ("epilogue", Epilogue * 8), ("grouping", c_int32), ("type_scale", c_int32), ("group_size", c_int64),
        ("scale_a", BlockScale), ("scale_b", BlockScale), ("group_ends", c_void_p), ("k2", c_int64), ("a2", Matrix),
        ("b2", Matrix), ("zero_b", BlockScale), ("options", ctypes.POINTER(ContextOptions)),
    ]  # fmt: skip


class LastError(ctypes.Structure):
    _fields_ = [("struct_size", c_uint64), ("code", c_int32), ("reserved", c_int32), ("message", c_char_p),
                ("hint", c_char_p)]  # fmt: skip


class Fact(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("value", c_int64)]


class DeviceInfo(ctypes.Structure):
    _fields_ = [("struct_size", c_uint64), ("device", DeviceId), ("name", c_char_p), ("arch", c_char_p),
                ("facts", ctypes.POINTER(Fact)), ("fact_count", c_int64)]  # fmt: skip


class BackendInfo(ctypes.Structure):
    _fields_ = [("struct_size", c_uint64), ("kind", c_int32), ("device_count", c_int32), ("missing", c_char_p),
                ("hint", c_char_p)]  # fmt: skip


class PlanStage(ctypes.Structure):
    _fields_ = [("kernel", c_char_p), ("stage", c_char_p)]


class PlanStep(ctypes.Structure):
    _fields_ = [("kernel", c_char_p), ("role", c_char_p), ("what", c_char_p)]


class WorkspaceRegion(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("offset", c_uint64), ("bytes", c_uint64), ("library_only", c_uint64)]


class PlanInfo(ctypes.Structure):
    _fields_ = [("struct_size", c_uint64), ("device", DeviceId), ("operation", c_char_p), ("kernel", c_char_p),
                ("reason", c_char_p), ("stages", ctypes.POINTER(PlanStage)), ("stage_count", c_int64),
                ("workspace_bytes", c_uint64), ("predicted_seconds", c_double), ("steps", ctypes.POINTER(PlanStep)),
                ("step_count", c_int64), ("regions", ctypes.POINTER(WorkspaceRegion)),
                ("region_count", c_int64), ("source", c_char_p), ("measured_seconds", c_double), ("bound", c_double),
                ("problem", c_char_p)]  # fmt: skip


class CandidateInfo(ctypes.Structure):
    _fields_ = [("kernel", c_char_p), ("predicted_seconds", c_double)]


class RefusalInfo(ctypes.Structure):
    _fields_ = [("kernel", c_char_p), ("rule", c_char_p), ("figures", c_char_p)]


class CandidateList(ctypes.Structure):
    _fields_ = [("struct_size", c_uint64), ("policy", c_char_p), ("candidates", ctypes.POINTER(CandidateInfo)),
                ("candidate_count", c_int64), ("refusals", ctypes.POINTER(RefusalInfo)),
                ("refusal_count", c_int64)]  # fmt: skip


class StoreStats(ctypes.Structure):
    _fields_ = [("struct_size", c_uint64), ("hits", c_uint64), ("misses", c_uint64), ("builds", c_uint64),
                ("failed_builds", c_uint64), ("fallbacks", c_uint64), ("build_seconds", c_double)]  # fmt: skip


class TuneRequest(ctypes.Structure):
    _fields_ = [("struct_size", c_uint64), ("problems", ctypes.POINTER(c_char_p)), ("problem_count", c_int64),
                ("device", DeviceId), ("threads", c_int32), ("candidates", c_int32), ("again", c_int32), ("reserved", c_int32),
                ("budget_seconds", c_double), ("database", c_char_p), ("file", c_char_p)]  # fmt: skip


class TunedProblem(ctypes.Structure):
    _fields_ = [("problem", c_char_p), ("before", c_char_p), ("chosen", c_char_p), ("before_seconds", c_double),
                ("chosen_seconds", c_double), ("gain", c_double)]  # fmt: skip


class SkippedProblem(ctypes.Structure):
    _fields_ = [("problem", c_char_p), ("reason", c_char_p)]


class TuneReport(ctypes.Structure):
    _fields_ = [("struct_size", c_uint64), ("problems", ctypes.POINTER(TunedProblem)), ("problem_count", c_int64),
                ("skipped", ctypes.POINTER(SkippedProblem)), ("skipped_count", c_int64), ("known", c_int64),
                ("database", c_char_p)]  # fmt: skip


_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "tilesmith_version": (c_char_p, []),
    "tilesmith_abi_version": (c_int32, []),
    "tilesmith_code_name": (c_char_p, [c_int32]),
    "tilesmith_last_error": (c_int32, [c_void_p]),
    "tilesmith_device_count": (c_int32, [c_void_p]),
    "tilesmith_device_at": (c_int32, [c_int64, c_void_p]),
    "tilesmith_backend": (c_int32, [c_int32, c_void_p]),
    "tilesmith_context_create": (c_int32, [c_void_p, c_void_p]),
    "tilesmith_context_get_options": (c_int32, [c_void_p, c_void_p]),
    "tilesmith_attention_candidates": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "tilesmith_gemm_candidates": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "tilesmith_attention_forward": (c_int32, [c_void_p, c_void_p]),
    "tilesmith_attention_plan_for": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "tilesmith_attention_run": (c_int32, [c_void_p, c_void_p]),
    "tilesmith_attention_backward": (c_int32, [c_void_p, c_void_p]),
    "tilesmith_attention_backward_plan_for": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "tilesmith_attention_backward_candidates": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "tilesmith_conv_compute": (c_int32, [c_void_p, c_void_p]),
    "tilesmith_conv_plan_for": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "tilesmith_conv_candidates": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "tilesmith_merge_states": (c_int32, [c_void_p, c_void_p]),
    "tilesmith_append_kv": (c_int32, [c_void_p, c_void_p]),
    "tilesmith_tree_bias": (c_int32, [c_void_p, c_void_p]),
    "tilesmith_gemm_compute": (c_int32, [c_void_p, c_void_p]),
    "tilesmith_gemm_plan_for": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "tilesmith_gemm_run": (c_int32, [c_void_p, c_void_p]),
    "tilesmith_gemm_compute_list": (c_int32, [c_void_p, c_void_p, c_int64]),
    "tilesmith_gemm_packed_bytes": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "tilesmith_conv_packed_bytes": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "tilesmith_gemm_pack_b": (c_int32, [c_void_p, c_void_p, c_void_p, c_uint64]),
    "tilesmith_conv_pack_w": (c_int32, [c_void_p, c_void_p, c_void_p, c_uint64]),
    "tilesmith_last_plan": (c_int32, [c_void_p]),
    "tilesmith_get_store_stats": (c_int32, [c_void_p]),
    "tilesmith_tune": (c_int32, [c_void_p, c_void_p]),
    "tilesmith_cancel_waits": (None, [c_int64]),
    "tilesmith_describe_tensors": (c_int64, [c_void_p, c_void_p, c_int64, c_void_p, c_void_p, c_int64]),
    "tilesmith_python_repeated_calls": (ctypes.py_object, [ctypes.py_object]),
}


def _candidates() -> list[str]:
    """Where the library may be: where the caller says, beside this file (a wheel), in the build tree of the sources this
    file belongs to, and where the system looks."""
    if chosen := os.environ.get("TILESMITH_LIBRARY"):
        return [chosen]
    package = Path(__file__).resolve().parent
    places = [package / "libtilesmith.so", package.parents[1] / "build" / "lib" / "libtilesmith.so"]
    return [str(place) for place in places if place.is_file()] + ["libtilesmith.so.0"]


@functools.cache
def library() -> ctypes.CDLL:
    """The loaded library, its functions declared."""
    failures = []
    for path in _candidates():
        try:
            loaded = ctypes.CDLL(path)
        except OSError as error:
            failures.append(str(error))
            continue
        try:
            for name, (result, arguments) in _FUNCTIONS.items():
                function = getattr(loaded, name)
                function.restype, function.argtypes = result, arguments
        except AttributeError as error:
            raise Failure(f"{path} is not this package's library: {error}", "one of the same version",
                          "load_failed") from None  # fmt: skip
        if (found := loaded.tilesmith_abi_version()) != ABI_VERSION:
            raise Failure(f"{path} has the ABI version {found}", f"{ABI_VERSION}, as this package", "load_failed")
        return loaded
    raise Failure("the library cannot be loaded: " + "; ".join(failures),
                  "reinstall the package, or set TILESMITH_LIBRARY to libtilesmith.so", "load_failed")  # fmt: skip


@functools.cache
def locked_library() -> ctypes.PyDLL:
    """The same for functions that are called with the interpreter's lock held."""
    loaded = ctypes.PyDLL(library_path())
    for name in ("tilesmith_describe_tensors", "tilesmith_python_repeated_calls"):
        function = getattr(loaded, name)
        function.restype, function.argtypes = _FUNCTIONS[name]
    return loaded


def library_path() -> str:
    """The file the library was loaded from, as the loader was told."""
    name: str = library()._name
    return name


def version() -> str:
    """Of the library: "0.1.0"."""
    text: bytes = library().tilesmith_version()
    return text.decode()


_Struct = TypeVar("_Struct", bound=ctypes.Structure)


def sized(struct: type[_Struct]) -> _Struct:
    """A new structure of zeros that knows its size."""
    made = struct()
    setattr(made, "struct_size", ctypes.sizeof(struct))
    return made


def raise_last_error(status: int) -> NoReturn:
    """Raises what the library says about the last failure of this thread."""
    last = sized(LastError)
    library().tilesmith_last_error(ctypes.addressof(last))
    raise error_of(library().tilesmith_code_name(status).decode(), last.message.decode(), last.hint.decode())


def check(status: int) -> None:
    if status:
        raise_last_error(status)
