"""Products as training makes them, rows by a weight with a bias and a residual, prepared for their shapes both ways: a repeated call
and its gradients only make the results and store addresses. Everything else goes by _torch_gemm_gradient, which describes each matrix anew.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

import torch
from torch import Tensor
from torch.autograd import Function

from tilesmith._gemm_call import Call, prepare
from tilesmith._gemm_operands import ADDRESSED, Operands, Options
from tilesmith._kept_calls import KeptCalls
from tilesmith._torch import grad_enabled, raw_stream, torch_threads, under, view_of
from tilesmith._torch_gemm_gradient import Kept, Product, gradients, is_matrix, sum_in_float32
from tilesmith._views import View, dense_strides

_RESIDUAL = ADDRESSED.index("residual")


class _GradientCalls(NamedTuple):
    """Of one thread; None: not wanted."""

    of_a: Optional[Call]
    of_b: Optional[Call]
    of_bias: Optional[Call]  #: a row of ones times dy; None too where torch sums
    ones: Optional[Tensor]


_gradient_calls: KeptCalls[_GradientCalls] = KeptCalls()


class TrainedProduct:
    """A prepared product whose gradients can be prepared too. It belongs to the thread that made it, but for `gradient_calls`."""

    __slots__ = ("call", "alpha", "kept", "needs_a", "needs_b", "summed", "adds_residual", "at_residual", "a", "b", "general")

    def __init__(self, call: Call, kept: Kept, a: View, b: View, general: Product) -> None:
        self.call, self.alpha, self.kept = call, kept.alpha, kept
        self.needs_a, self.needs_b = "a" in kept.shapes, "b" in kept.shapes
        self.summed = tuple(range(len(call.out_shape) - 1)) if "bias" in kept.shapes else None  #: dy's dimensions, for the bias's gradient
        self.adds_residual = "residual" in kept.shapes
        self.at_residual = dict(call.places).get(_RESIDUAL, 0)
        self.a, self.b = a, b
        self.general = general

    def run(self, a: Tensor, b: Tensor, bias: Optional[Tensor], residual: Optional[Tensor]) -> Tensor:
        call = self.call
        result = a.new_empty(*call.out_shape)
        stream = raw_stream(call.stream_device) if call.stream_device >= 0 else 0
        if residual is not None:
            call.store(self.at_residual, residual.data_ptr())
        call.run(self.alpha, a.data_ptr(), b.data_ptr(), result.data_ptr(), stream, None if bias is None else bias.data_ptr())
        return result

    def gradient_calls(self) -> _GradientCalls:
        """This thread's: autograd has threads of its own for GPUs."""
        key = self, torch_threads()
        calls = _gradient_calls.by_key.get(key)
        return self._prepare(key) if calls is None else calls

    def _prepare(self, key: tuple[object, int]) -> _GradientCalls:
        columns = self.call.out_shape[-1]
        dy = self.a._replace(shape=(self.a.shape[0], columns), strides=(columns, 1))
        linear = self.kept.form == "linear"
        with under(self.kept.options):
            of_a = self._product(dy, self.b if linear else _transposed(self.b), key[1]) if self.needs_a else None
            of_b = self._product(*((_transposed(dy), self.a) if linear else (_transposed(self.a), dy)), key[1]) if self.needs_b else None
            ones = self._ones(dy)
            of_bias = None if ones is None else self._product(view_of("ones", ones), dy, key[1])
        calls = _GradientCalls(of_a, of_b, of_bias, ones)
        return calls if self._captures() else _gradient_calls.keep(key, calls)

    def _captures(self) -> bool:
        """Whether a graph is being captured, which would own what is made now."""
        return self.call.stream_device >= 0 and torch.cuda.is_current_stream_capturing()

    def _ones(self, dy: View) -> Optional[Tensor]:
        """For the bias's gradient, ready on every stream; None where torch sums. On a GPU a product with ones has the same float32 sums,
        rounded once, and takes half of the time that torch's sum takes (docs/log/2026-11-backward.md)."""
        plain = dy.data_type in ("bf16", "fp16") and self.summed is not None and self.kept.shapes["bias"][1] is self.kept.dtype
        if not plain or self.call.stream_device < 0 or self._captures():
            return None
        ones = torch.ones(1, dy.shape[0], dtype=self.kept.dtype, device=f"cuda:{self.call.stream_device}")
        torch.cuda.current_stream(ones.device).synchronize()
        return ones

    def _product(self, x: View, y: View, threads: int) -> Call:
        return prepare(Operands(x, y), Options("matmul", None, None, None, None, self.kept.tf32, False, False), 1.0, threads)


def _transposed(matrix: View) -> View:
    return matrix._replace(shape=matrix.shape[::-1], strides=matrix.strides[::-1])


def trained_product(call: Call, form: str, a: Tensor, b: Tensor, bias: Optional[Tensor], residual: Optional[Tensor], alpha: float, tf32: bool,
                    options: tuple[Any, ...], general: Product) -> Optional[TrainedProduct]:  # fmt: skip
    """Of a call that was prepared for these tensors; None where its gradients are no two products of prepared shapes."""
    if a.dim() < 2 or b.dim() != 2 or call.out_shape != (*a.shape[:-1], call.out_shape[-1]) or 0 in a.shape or 0 in b.shape:
        return None
    if not (a.dtype == b.dtype and call.same_type and (is_matrix(a) if a.dim() == 2 else a.is_contiguous()) and is_matrix(b)):
        return None
    if call.parts or type(call) is not Call:
        return None
    if bias is not None and bias.dim() != 1 or residual is not None and (residual.shape != call.out_shape or residual.dtype is not a.dtype):
        return None
    rows, columns = a.numel() // a.shape[-1], a.shape[-1]
    matrix = view_of("a", a)._replace(shape=(rows, columns), strides=a.stride() if a.dim() == 2 else dense_strides((rows, columns)))
    named = {"a": a, "b": b, "bias": bias, "residual": residual}
    shapes = {name: (each.shape, each.dtype) for name, each in named.items() if each is not None and each.requires_grad}
    kept = Kept(form, shapes, (False, False), a.dtype, alpha, 1.0, tf32, (None, *options[1:]), None)
    return TrainedProduct(call, kept, matrix, view_of("b", b), general)


class _Differentiated(Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, bias: Optional[Tensor], residual: Optional[Tensor], product: TrainedProduct) -> Tensor:
        # A matrix is read for the gradient of the one that it is multiplied by.
        ctx.save_for_backward(a if product.needs_b else None, b if product.needs_a else None)
        ctx.product = product
        return product.run(a, b, bias, residual)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Optional[Tensor], ...]:
        product: TrainedProduct = ctx.product
        kept = product.kept
        a, b = ctx.saved_tensors
        if grad_enabled() or type(dy) is not Tensor or dy.dtype is not kept.dtype or not dy.is_contiguous():
            computed = gradients(product.general, kept, (a, b, None, None), dy)
            return computed.get("a"), computed.get("b"), computed.get("bias"), computed.get("residual"), None
        of_a, of_b, of_bias, ones = product.gradient_calls()
        device = product.call.stream_device
        stream = raw_stream(device) if device >= 0 else 0
        at = dy.data_ptr()
        da = db = bias = None
        if of_a is not None:
            da = dy.new_empty(*kept.shapes["a"][0])
            of_a.run(product.alpha, at, b.data_ptr(), da.data_ptr(), stream)
        if of_b is not None:
            db = dy.new_empty(*kept.shapes["b"][0])
            x, y = (at, a.data_ptr()) if kept.form == "linear" else (a.data_ptr(), at)
            of_b.run(product.alpha, x, y, db.data_ptr(), stream)
        if of_bias is not None and ones is not None:
            bias = dy.new_empty(*kept.shapes["bias"][0])
            of_bias.run(1.0, ones.data_ptr(), at, bias.data_ptr(), stream)
        elif product.summed is not None:
            bias = sum_in_float32(dy, product.summed, kept.shapes["bias"][1])
        return da, db, bias, dy if product.adds_residual else None, None


differentiated: Any = _Differentiated.apply
