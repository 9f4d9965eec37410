"""grouped_matmul of lists of torch tensors."""

from __future__ import annotations

import itertools
import numbers
import operator
from typing import Any, Sequence

import torch
from torch import Tensor
from torch.autograd import forward_ad

from tilesmith._errors import WrongType
from tilesmith._gemm_call import Call
from tilesmith._gemm_list import Library, Lists, check_lists, compute, kept_lists
from tilesmith._gemm_operands import NAMES
from tilesmith._torch import (
    DTYPES,
    address,
    check_memory,
    check_no_tangents,
    check_sign,
    grad_enabled,
    is_traced,
    options_here,
    raw_stream,
    tell_all_written,
    torch_threads,
    view_of,
)
from tilesmith._torch_gemm import calls, gemm_op, type_name
from tilesmith._torch_gemm_scales import fold_into_vectors

_dtype = operator.attrgetter("dtype")


def _requires_grad(tensor: Any) -> bool:
    return isinstance(tensor, Tensor) and tensor.requires_grad


def _describe(tensor: Any) -> object:
    return None if tensor is None else (tensor.dtype, tensor.shape, tensor.stride(), tensor.get_device())


def _describe_all(tensors: Sequence[Any]) -> object:
    if set(map(type, tensors)) == {Tensor}:
        dtypes, devices = set(map(_dtype, tensors)), set(map(Tensor.get_device, tensors))
        if len(dtypes) == len(devices) == 1:
            return (*dtypes, *devices, tuple(map(Tensor.size, tensors)), tuple(map(Tensor.stride, tensors)))
    return tuple(map(_describe, tensors))


def _addresses(tensors: Sequence[Any]) -> list[int]:
    return list(map(Tensor.data_ptr if set(map(type, tensors)) == {Tensor} else address, tensors))


def _new(call: Call, a: Tensor) -> Tensor:
    return a.new_empty(call.out_shape) if call.same_type else a.new_empty(call.out_shape, dtype=DTYPES[call.out_type])


def _stream(call: Call) -> int:
    return raw_stream(call.stream_device) if call.stream_device >= 0 else 0


_LIBRARY = Library(_describe, _describe_all, view_of, check_sign, check_memory, _addresses, _new, fold_into_vectors, _stream, torch_threads, calls, kept_lists())


def gemm_list(lists: Lists, out_dtype: Any, alpha: Any, beta: Any, activation: Any, gate: Any, clamp: Any, tf32: Any) -> list[Tensor]:
    """grouped_matmul of lists."""
    types = _checked_types(lists)
    if is_traced() or any(issubclass(kind, Tensor) and kind not in (Tensor, torch.nn.Parameter) for kind in types):
        return _by_operators(lists, out_dtype, alpha, beta, activation, gate, clamp, tf32)
    if grad_enabled() and any(any(map(_requires_grad, each)) for each in lists if each is not None):
        return _by_operators(lists, out_dtype, alpha, beta, activation, gate, clamp, tf32, options_here())
    if forward_ad._current_level >= 0:
        check_no_tangents("grouped_matmul", itertools.chain(*(each for each in lists if each is not None)))
    results = compute(_LIBRARY, lists, type_name(out_dtype), alpha, beta, activation, gate, clamp, tf32)
    if lists.out is not None:
        tell_all_written(*results)
    return results


def gemm_list_op(lists: Lists, out_dtype: Any, alpha: Any, beta: Any, activation: Any, gate: Any, clamp: Any, tf32: Any,
                 options: tuple[Any, ...] = ()) -> list[Tensor]:  # fmt: skip
    """grouped_matmul of lists as operators, one for each product."""
    _checked_types(lists)
    return _by_operators(lists, out_dtype, alpha, beta, activation, gate, clamp, tf32, options)


def _checked_types(lists: Lists) -> set[type]:
    check_lists(lists)
    names = NAMES["matmul"]
    types: set[type] = set().union(*(map(type, each) for each in lists if each is not None))
    if types != {Tensor}:
        for name, each in zip(names, lists):
            numbers_too = name.startswith("scale_")
            for at, tensor in enumerate(each or ()):
                if not (isinstance(tensor, Tensor) or (numbers_too and (tensor is None or isinstance(tensor, numbers.Real)))):
                    raise WrongType(f"{name}[{at}] is a {type(tensor).__name__}, {names.a}[0] is a torch tensor", "torch tensors")
    return types


def _by_operators(lists: Lists, out_dtype: Any, alpha: Any, beta: Any, activation: Any, gate: Any, clamp: Any, tf32: Any,
                  options: tuple[Any, ...] = ()) -> list[Tensor]:  # fmt: skip
    products = zip(*((None,) * len(lists.a) if each is None else each for each in lists))
    return [gemm_op(*("matmul", *product, out_dtype, alpha, beta, activation, gate, clamp, tf32, False, options)) for product in products]
