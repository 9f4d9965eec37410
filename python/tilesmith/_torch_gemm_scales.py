"""Scales of torch matrices that are one number, which go into alpha or to where a kernel reads them."""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor

from tilesmith._errors import InvalidArgument, WrongType
from tilesmith._gemm_operands import NAMES, has_weights, is_only_block
from tilesmith._torch import TYPES


def fold(form: str, alpha: float, a: Tensor, b: Tensor, scale_a: Any,
          scale_b: Any) -> tuple[float, Optional[Tensor], Optional[Tensor]]:  # fmt: skip
    """Scales of one number become part of alpha, or on a GPU, which alone knows them, tensors without dimensions."""
    names = NAMES[form]
    scales: list[Optional[Tensor]] = [None, None]
    weights = form != "packed" and has_weights(TYPES.get(a.dtype, ""), TYPES.get(b.dtype, ""))  # their scales are kept, of one number too
    for at, scale in enumerate((scale_a, scale_b)):
        if scale is None:
            continue
        if not isinstance(scale, Tensor):
            alpha *= scale
            continue
        if at == 1 and weights:
            scales[at] = scale
            continue
        name = (names.scale_a, names.scale_b)[at]
        if scale.dtype != torch.float32:
            raise WrongType(f"{name} is {scale.dtype}", "float32")
        if scale.device != a.device:
            raise InvalidArgument(f"{names.a} is on {a.device}, {name} on {scale.device}", "one device for all")
        beside = scale_b.numel() if at == 0 and isinstance(scale_b, Tensor) else 0
        if scale.numel() != 1 or is_only_block(TYPES.get(a.dtype, ""), a.shape, scale.shape, beside):
            scales[at] = scale
        elif scale.device.type == "cpu":
            alpha *= scale.item()
        elif weights:  # whose scales along k leave no room for it
            scales[at] = scale.reshape(1).expand(a.shape[:-1]).contiguous()
        else:
            scales[at] = scale.reshape(())
    return alpha, scales[0], scales[1]


def fold_into_vectors(form: str, alpha: float, a: Tensor, b: Tensor, scale_a: Any,
                       scale_b: Any) -> tuple[float, Optional[Tensor], Optional[Tensor]]:  # fmt: skip
    """The same for the products of a list, which share launches: a number of the GPU's becomes part of a vector."""
    alpha, *scales = fold(form, alpha, a, b, scale_a, scale_b)
    numbers = [scale for scale in scales if scale is not None and scale.dim() == 0]
    rows, columns = (None if scale is None or scale.dim() == 0 else scale for scale in scales)
    if not numbers:
        return alpha, rows, columns
    single = numbers[0] if len(numbers) == 1 else numbers[0] * numbers[1]
    if rows is not None:
        return alpha, rows * single, None
    if columns is not None:
        return alpha, None, columns * single
    return alpha, None, single.expand(b.shape[-1] if b.dim() > 1 else 1).contiguous()
