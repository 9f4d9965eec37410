"""grouped_matmul of lists of DLPack arrays."""

from __future__ import annotations

from typing import Any

from tilesmith._errors import Unsupported


def gemm_list(lists: Any, *options: Any) -> Any:
    raise Unsupported("lists of arrays of this kind", "torch tensors, NumPy arrays, or a call for each", "unsupported")
