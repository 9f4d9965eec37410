"""Convolution of packed filters as torch's operator: the packed bytes are one of its tensors, and the filters' shape is numbers."""

from __future__ import annotations

from typing import Any, Callable, Optional, Sequence

import torch
from torch import Tensor

from tilesmith._conv_call import Geometry
from tilesmith._packed_conv_weight import PackedConvWeight
from tilesmith._torch import OPTION_ARGUMENTS, define, under
from tilesmith._views import one_of

_ARGUMENTS = (
    "str form, Tensor a, Tensor data, SymInt[] w_shape, str data_type, Tensor? scale, Tensor? bias, Tensor? residual, SymInt[] shape, int[] stride, "
    f"int[] pad, int[] pad_high, int[] dilation, int groups, ScalarType? out_dtype, str? activation, {OPTION_ARGUMENTS}"
)
_FORMS = ("conv", "transposed", "backward_data")  #: those that read filters


def conv_operator(conv: Callable[..., Tensor], fake_conv: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Defines it, computed by `conv` on plain tensors, and returns who calls it. fake_conv: conv's operator by shapes alone."""

    def compute(form: str, a: Tensor, data: Tensor, w_shape: Sequence[int], data_type: str, scale: Optional[Tensor], bias: Optional[Tensor],
                residual: Optional[Tensor], shape: Sequence[int], stride: Sequence[int], pad: Sequence[int], pad_high: Sequence[int],
                dilation: Sequence[int], groups: int, out_dtype: Optional[torch.dtype], activation: Optional[str], *options: Any,
                out: Optional[Tensor] = None) -> Tensor:  # fmt: skip
        one_of("form", form, _FORMS)
        with torch.no_grad(), under(options):
            g = Geometry(tuple(stride), tuple(zip(pad, pad_high)), tuple(dilation), groups)
            w = PackedConvWeight(data, tuple(w_shape), data_type)
            return conv(form, a, w, scale, bias, residual, out, tuple(shape), g, out_dtype, activation)

    def fake(form: str, a: Tensor, data: Tensor, w_shape: Sequence[int], data_type: str, *more: Any) -> Tensor:
        one_of("form", form, _FORMS)
        return fake_conv(form, a, data, *more)

    def compute_out(*arguments: Any, out: Tensor) -> None:
        compute(*arguments, out=out)

    def fake_out(*arguments: Any, out: Tensor) -> None:
        pass

    define(f"conv_packed({_ARGUMENTS}) -> Tensor", compute, fake, no_backward="convolution of packed filters")
    define(f"conv_packed_out({_ARGUMENTS}, *, Tensor(a!) out) -> ()", compute_out, fake_out)

    def call(form: str, a: Tensor, w: PackedConvWeight, *arguments: Any, out: Optional[Tensor]) -> Tensor:
        """arguments: those behind data_type. The result, or out."""
        given = (form, a, w.data, w.shape, w.data_type, *arguments)
        if out is None:
            result: Tensor = torch.ops.tilesmith.conv_packed(*given)
            return result
        torch.ops.tilesmith.conv_packed_out(*given, out=out)
        return out

    return call
