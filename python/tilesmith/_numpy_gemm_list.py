"""grouped_matmul of lists of NumPy arrays."""

from __future__ import annotations

import numbers
from typing import Any, Sequence

import numpy as np

from tilesmith._errors import InvalidArgument, WrongType
from tilesmith._gemm_list import Library, Lists, check_lists, compute, kept_lists
from tilesmith._gemm_operands import NAMES
from tilesmith._numpy import address, check_arrays, describe, view_of
from tilesmith._numpy_gemm import calls, fold, given_dtype, new_result, type_name


def _describe_all(arrays: Sequence[Any]) -> object:
    return tuple(map(describe, arrays))


def _addresses(arrays: Sequence[Any]) -> list[int]:
    return list(map(address, arrays))


def _check(name: str, array: np.ndarray) -> None:
    """Arrays have memory, and what lies there is what they are."""


_LIBRARY = Library(describe, _describe_all, view_of, _check, _check, _addresses, new_result, fold, lambda call: 0, lambda: 0, calls, kept_lists())


def gemm_list(lists: Lists, out_dtype: Any, alpha: Any, beta: Any, activation: Any, gate: Any, clamp: Any, tf32: Any) -> list[np.ndarray]:
    """grouped_matmul of lists."""
    check_lists(lists)
    names = NAMES["matmul"]
    for name, each in zip(names, lists):
        numbers_too = name.startswith("scale_")
        for at, array in enumerate(each or ()):
            if not (numbers_too and (array is None or isinstance(array, numbers.Real))):
                check_arrays((f"{names.a}[0]", f"{name}[{at}]"), (lists.a[0], array))
            if array is None and not numbers_too:
                raise WrongType(f"{name}[{at}] is None", "a NumPy array")
            if name == "out" and not array.flags.writeable:
                raise InvalidArgument(f"out[{at}] is read-only", "a writable array")
    return compute(_LIBRARY, lists, type_name(given_dtype(out_dtype)), alpha, beta, activation, gate, clamp, tf32)
