"""Tilesmith: from a problem to the fastest verified kernel.

    >>> import numpy as np, tilesmith
    >>> q, k, v = (np.random.rand(1, 8, 128, 64).astype("float32") for _ in range(3))
    >>> o = tilesmith.attention(q, k, v, causal=True)
    >>> tilesmith.last_plan().kernel
    'attention_fwd_fp32_...'
    >>> y = tilesmith.linear(np.ones((4, 64), "float32"), np.ones((16, 64), "float32"), activation="gelu")

Tensors are torch tensors (CPU and CUDA), NumPy arrays, or anything else that speaks DLPack; results are of the same kind,
on the same device and stream. Nothing is copied and no framework is imported: torch support is there when torch is.
Kernels are chosen for the machine at hand, and compiled when they are not in the store yet (TILESMITH_CACHE_DIR).
"""

from tilesmith._attention import attention, mla_decode
from tilesmith._attention_backward import attention_backward
from tilesmith._candidates import Candidate, Candidates, Refusal, candidates
from tilesmith._cascade import cascade_attention
from tilesmith._conv import (
    conv1d,
    conv2d,
    conv3d,
    conv_backward_data,
    conv_backward_weight,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)
from tilesmith._devices import Device, devices, missing
from tilesmith._errors import Error, Failure, InvalidArgument, OutOfMemory, Unsupported, WrongType
from tilesmith._gemm import grouped_matmul, linear, matmul, mm_plus_mm
from tilesmith._library import library_path, version
from tilesmith._options import options
from tilesmith._packed_conv_weight import PackedConvWeight, pack_conv_weight
from tilesmith._packed_weight import PackedWeight, pack_weight
from tilesmith._plan import Plan, Region, Stage, Step, last_plan
from tilesmith._sdpa import scaled_dot_product_attention
from tilesmith._serving import append_kv, merge_states
from tilesmith._store_stats import StoreStats, store_stats
from tilesmith._tensor_library import watch_for_tracing
from tilesmith._tune import TunedProblem, TuneReport, tune, tuning

__all__ = [
    "Candidate", "Candidates", "Device", "Error", "Failure", "InvalidArgument", "OutOfMemory", "PackedConvWeight", "PackedWeight", "Plan",
    "Refusal", "Region", "Stage", "Step", "StoreStats", "TuneReport", "TunedProblem", "Unsupported", "WrongType",
    "append_kv", "attention", "attention_backward", "candidates", "cascade_attention", "conv1d", "conv2d", "conv3d", "conv_backward_data",
    "conv_backward_weight", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "devices", "grouped_matmul", "last_plan",
    "library_path", "linear", "matmul", "merge_states", "missing", "mla_decode", "mm_plus_mm", "options", "pack_conv_weight", "pack_weight",
    "scaled_dot_product_attention", "store_stats", "tune", "tuning", "version",
]

watch_for_tracing()


def __getattr__(name: str) -> str:
    if name == "__version__":
        return version()
    raise AttributeError(f"module 'tilesmith' has no attribute '{name}'")
