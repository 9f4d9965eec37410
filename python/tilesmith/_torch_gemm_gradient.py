"""The gradients of matrix products: what has one, what torch computes behind the product, and the products of the gradient."""

from __future__ import annotations

from typing import Any, Callable, Optional, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from tilesmith._errors import InvalidArgument, Unsupported
from tilesmith._torch import TYPES, no_gradient

DIFFERENTIABLE = ("matmul", "linear", "mm_plus_mm")
_TYPES = ("fp32", "fp16", "bf16")

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda v: functional.gelu(v, approximate="tanh"),
    "silu": functional.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
}
_GATES = {"glu": "sigmoid", "reglu": "relu", "geglu": "gelu", "geglu_tanh": "gelu_tanh", "swiglu": "silu"}

#: The product of two matrices by matmul's rules: (a, b, out_dtype, alpha, tf32, options).
Product = Callable[[Tensor, Tensor, Optional[torch.dtype], float, bool, tuple[Any, ...]], Tensor]


def check_differentiable(form: str, a: Tensor, scale_a: Any, scale_b: Any, out: Any, amax: Any) -> None:
    """Of a product with an operand that requires a gradient. Errors: Unsupported, what has none."""
    if form == "packed":
        raise no_gradient("linear of a packed weight")
    if form not in DIFFERENTIABLE:
        raise no_gradient("grouped_matmul of groups")
    if TYPES.get(a.dtype) not in _TYPES:
        raise no_gradient(f"a product of {a.dtype}")
    if isinstance(scale_a, Tensor) or isinstance(scale_b, Tensor):
        raise no_gradient("a product with tensors of scales")
    for name, given in (("out", out), ("amax", amax)):
        if given is not None:
            raise Unsupported(f"{name} is given, and a tensor requires a gradient", f"no {name}, or torch.no_grad()", "unsupported")


def finish(v: Tensor, activation: Optional[str], gate: Optional[str], multiply: Optional[Tensor], residual: Optional[Tensor],
           clamp: Optional[Sequence[float]], vectors: bool) -> Tensor:  # fmt: skip
    """What follows a product and its bias, by torch, whose autograd knows it. `vectors`: the product lacks rows or columns."""
    dtype = v.dtype
    if activation is not None:
        v = ACTIVATIONS[activation](v)
    if gate is not None:
        v = ACTIVATIONS[_GATES[gate]](v[..., 0::2]) * v[..., 1::2]
    for name, beside in (("multiply", multiply), ("residual", residual)):
        if beside is not None and not vectors and beside.shape[-2:] != v.shape[-2:]:  # no kernel broadcasts these
            raise InvalidArgument(f"{name} has the shape {tuple(beside.shape)}", f"(..., {v.shape[-2]}, {v.shape[-1]}), as the result")
    if multiply is not None:
        v = v * multiply
    if residual is not None:
        v = v + residual
    if clamp is not None:
        v = v.clamp(*clamp)
    return v.to(dtype)


def gradient_of(names: tuple[str, ...], product: Product) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """(backward, keep) of the operator whose arguments have these names."""

    def keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        given = dict(zip(names, inputs))
        needed = dict(zip(names, ctx.needs_input_grad))
        # A matrix is read for the gradient of the one that it is multiplied by.
        saved = [given[name] if needed[other] else None for name, other in (("a", "b"), ("b", "a"), ("a2", "b2"), ("b2", "a2"))]
        ctx.save_for_backward(*saved)
        ctx.shapes = {name: (value.shape, value.dtype) for name, value in given.items() if isinstance(value, Tensor)}
        ctx.rest = {name: value for name, value in given.items() if not isinstance(value, Tensor)}

    def backward(ctx: Any, dy: Tensor) -> tuple[Optional[Tensor], ...]:
        a, b, a2, b2 = ctx.saved_tensors
        rest, shapes = ctx.rest, ctx.shapes
        form = rest["form"]
        fused = [name for name in ("activation", "gate", "clamp") if rest[name] is not None]
        fused += [name for name in ("multiply", "scale_a", "scale_b", "zero_b") if name in shapes]
        if fused or form not in DIFFERENTIABLE:
            raise no_gradient(f"the operator with {fused[0]}" if fused else "the operator of groups")
        options = (None, rest["threads"], rest["build"], rest["determinism"], rest["tuning"])  # the kernel's name is the forward's own
        needed = dict(zip(names, ctx.needs_input_grad))  # without the last arguments, where they equal their defaults
        # (..., m, n), whatever dimensions a row or a column lacks.
        rows = dy.unsqueeze(-1) if len(shapes["b"][0]) == 1 else dy
        rows = rows.unsqueeze(-2) if len(shapes["a"][0]) == 1 else rows
        g = _as_matrix(rows.to(shapes["a"][1]))

        def multiplied(x: Tensor, y: Tensor, shape: tuple[torch.Size, torch.dtype]) -> Tensor:
            """x y, summed to the shape of what was broadcast."""
            size, dtype = shape
            batch = torch.broadcast_shapes(x.shape[:-2], y.shape[:-2])  # type: ignore[no-untyped-call]
            whole = torch.Size((*batch, x.shape[-2], y.shape[-1]))
            sums = whole.numel() != size.numel()
            made = product(x, y, torch.float32 if sums else None, rest["alpha"], rest["tf32"], options)
            return _summed(made, size, dtype) if sums else made.reshape(size)

        def of_pair(first: str, second: str, x: Optional[Tensor], y: Optional[Tensor]) -> dict[str, Tensor]:
            """The gradients by two matrices that are multiplied; x is needed for the second's, y for the first's."""
            made = {}
            if needed.get(first) and y is not None:
                y = y.unsqueeze(-1) if y.dim() == 1 else y
                made[first] = multiplied(g, y if form == "linear" else y.mT, shapes[first])
            if needed.get(second) and x is not None:
                x = x.unsqueeze(0) if x.dim() == 1 else x
                h = g
                if len(shapes[second][0]) <= 2:  # without a batch: one product over the rows of all
                    x = x.expand(*g.shape[:-2], *x.shape[-2:]).flatten(0, -2)
                    h = g.flatten(0, -2)
                made[second] = multiplied(h.mT, x, shapes[second]) if form == "linear" else multiplied(x.mT, h, shapes[second])
            return made

        computed = of_pair("a", "b", a, b) | of_pair("a2", "b2", a2, b2)
        for name, source, factor in (("bias", rows, 1.0), ("c", dy, rest["beta"]), ("residual", dy, 1.0)):
            if needed.get(name):
                summed = _summed(source, *shapes[name])
                computed[name] = summed if factor == 1 else summed * factor
        return tuple(computed.get(name) if need else None for name, need in needed.items())

    return backward, keep


def _summed(gradient: Tensor, shape: torch.Size, dtype: torch.dtype) -> Tensor:
    """Over what was broadcast from this shape, in float32, rounded once."""
    missing = gradient.dim() - len(shape)
    over = [*range(missing), *(missing + at for at, size in enumerate(shape) if size == 1 and gradient.shape[missing + at] != 1)]
    if over:
        gradient = gradient.sum(over, keepdim=True, dtype=torch.float32)
    return gradient.reshape(shape).to(dtype)


def _as_matrix(gradient: Tensor) -> Tensor:
    """With one of the last two dimensions contiguous, as products read it; what torch expands has none."""
    *_, row, column = gradient.stride()
    m, n = gradient.shape[-2:]
    return gradient if (column == 1 and row >= n) or (row == 1 and column >= m) else gradient.contiguous()
