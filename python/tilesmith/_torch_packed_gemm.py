"""linear of a packed weight as torch's operator: the packed bytes are one of its tensors, and the weight's sizes are numbers."""

from __future__ import annotations

from typing import Any, Callable, Optional

import torch
from torch import Tensor

from tilesmith._packed_weight import PackedWeight
from tilesmith._torch import OPTION_ARGUMENTS, define, under

_ARGUMENTS = (
    "Tensor x, Tensor data, SymInt n, SymInt k, str data_type, Tensor? bias, Tensor? multiply, Tensor? residual, Tensor? scale_x, "
    "Tensor? scale_w, Tensor? zero_w, ScalarType? out_dtype, float alpha, str? activation, str? gate, float[]? clamp, bool tf32, "
    f"bool prefetch_weights, {OPTION_ARGUMENTS}"
)


def linear_operator(gemm: Callable[..., Any], result_dtype: Callable[..., torch.dtype]) -> Callable[..., Any]:
    """Defines it, computed by `gemm` on plain tensors, and returns who calls it."""

    def compute(x: Tensor, data: Tensor, n: int, k: int, data_type: str, bias: Optional[Tensor], multiply: Optional[Tensor],
                residual: Optional[Tensor], scale_x: Optional[Tensor], scale_w: Optional[Tensor], zero_w: Optional[Tensor],
                out_dtype: Optional[torch.dtype], alpha: float, activation: Optional[str], gate: Optional[str], clamp: Any, tf32: bool,
                prefetch_weights: bool, *options: Any, out: Optional[Tensor] = None, amax: Optional[Tensor] = None) -> Any:  # fmt: skip
        with torch.no_grad(), under(options):
            return gemm("packed", x, PackedWeight(data, n, k, data_type), None, bias, multiply, residual, scale_x, scale_w, out, None, zero_w,
                        None, None, amax, out_dtype, alpha, 1.0, activation, gate, None if clamp is None else tuple(clamp), tf32,
                        prefetch_weights)  # fmt: skip

    def fake(x: Tensor, data: Tensor, n: int, k: int, data_type: str, bias: Any, multiply: Any, residual: Any, scale_x: Any, scale_w: Any,
             zero_w: Any, out_dtype: Any, alpha: float, activation: Any, gate: Any, clamp: Any, *more: Any) -> Tensor:  # fmt: skip
        dtype = result_dtype(x, out_dtype, bias, multiply, residual, scale_x, scale_w, activation, gate, clamp)
        return x.new_empty((*x.shape[:-1], n if gate is None else n // 2), dtype=dtype)

    def compute_out(*arguments: Any, out: Tensor, amax: Optional[Tensor] = None) -> None:
        compute(*arguments, out=out, amax=amax)

    def fake_out(*arguments: Any, out: Tensor, amax: Optional[Tensor] = None) -> None:
        pass

    define(f"linear_packed({_ARGUMENTS}) -> Tensor", compute, fake, no_backward="linear of a packed weight")
    define(f"linear_packed_out({_ARGUMENTS}, *, Tensor(a!) out, Tensor(b!)? amax=None) -> ()", compute_out, fake_out)

    def call(x: Tensor, w: PackedWeight, *arguments: Any, out: Optional[Tensor], amax: Optional[Tensor]) -> Any:
        """arguments: those behind data_type. The result, or out."""
        given = (x, w.data, w.n, w.k, w.data_type, *arguments)
        if out is None and amax is None:
            return torch.ops.tilesmith.linear_packed(*given)
        if out is None:
            out = fake(*given)
        torch.ops.tilesmith.linear_packed_out(*given, out=out, amax=amax)
        return out

    return call
