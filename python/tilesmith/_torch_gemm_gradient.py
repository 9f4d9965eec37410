"""The gradients of matrix products: what has one, what torch computes behind the product, and the products of the gradient."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Optional, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from tilesmith._errors import InvalidArgument, Unsupported
from tilesmith._torch import NO_OPTIONS, TYPES, named_arguments, refuse_gradient

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
        refuse_gradient("linear of a packed weight")
    if form not in DIFFERENTIABLE:
        refuse_gradient("grouped_matmul of groups")
    if TYPES.get(a.dtype) not in _TYPES:
        refuse_gradient(f"a product of {a.dtype}")
    if isinstance(scale_a, Tensor) or isinstance(scale_b, Tensor):
        refuse_gradient("a product with tensors of scales")
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


class Kept(NamedTuple):
    """What a product's gradients read beside tensors."""

    form: str
    shapes: dict[str, tuple[torch.Size, torch.dtype]]  #: of the operands whose gradients are wanted, by their names
    vectors: tuple[bool, bool]  #: whether a lacks rows, b columns
    dtype: torch.dtype
    alpha: float
    beta: float
    tf32: bool
    options: tuple[Any, ...]
    refused: Optional[str] = None


def gradients(product: Product, kept: Kept, saved: Sequence[Optional[Tensor]], dy: Tensor) -> dict[str, Tensor]:
    """By the operands' names. `saved`: a, b, a2 and b2, those that are read."""
    if kept.refused:
        refuse_gradient(kept.refused)
    a, b, a2, b2 = saved
    shapes = kept.shapes
    # (..., m, n), whatever dimensions a row or a column lacks.
    g = dy
    if kept.vectors[1]:
        g = g.unsqueeze(-1)
    if kept.vectors[0]:
        g = g.unsqueeze(-2)
    computed: dict[str, Tensor] = {}
    for name in ("bias", "c", "residual"):
        if name in shapes:
            sum_of = summed_to(g if name == "bias" else dy, *shapes[name])
            computed[name] = sum_of if name != "c" or kept.beta == 1 else sum_of * kept.beta
    g = g if g.dtype == kept.dtype else g.to(kept.dtype)
    g = as_matrix(g)  # here, as it is in two products
    linear, rest = kept.form == "linear", (kept.alpha, kept.tf32, kept.options)
    for first, second, x, y in (("a", "b", a, b), ("a2", "b2", a2, b2)):
        if y is not None:
            y = y.unsqueeze(-1) if y.dim() == 1 else y
            computed[first] = _multiplied(product, g, y if linear else y.mT, shapes[first], rest)
        if x is not None:
            x = x.unsqueeze(0) if x.dim() == 1 else x
            h = g
            if len(shapes[second][0]) <= 2 and (x.dim() > 2 or h.dim() > 2):  # without a batch: one product over the rows of all
                x, h = x.expand(*h.shape[:-2], *x.shape[-2:]).flatten(0, -2), h.flatten(0, -2)
            left, right = (h.mT, x) if linear else (x.mT, h)
            computed[second] = _multiplied(product, left, right, shapes[second], rest)
    return computed


def gradient_of(names: tuple[str, ...], product: Product) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """(backward, keep) of the operator whose arguments have these names."""
    named = named_arguments(names, (False, *NO_OPTIONS))

    def keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x = named(*inputs)
        needed = dict(zip(names, ctx.needs_input_grad))
        # A matrix is read for the gradient of the one that it is multiplied by.
        ctx.save_for_backward(*(matrix if needed[other] else None for matrix, other in ((x.a, "b"), (x.b, "a"), (x.a2, "b2"), (x.b2, "a2"))))
        shapes = {name: (each.shape, each.dtype) for name, each, wanted in zip(names, inputs, ctx.needs_input_grad) if wanted}
        options = None, x.threads, x.build, x.determinism, x.tuning  # the kernel's name is the forward's own
        ctx.kept = Kept(x.form, shapes, (x.a.dim() == 1, x.b.dim() == 1), x.a.dtype, x.alpha, x.beta, x.tf32, options, _without_gradient(x))

    def backward(ctx: Any, dy: Tensor) -> tuple[Optional[Tensor], ...]:
        computed = gradients(product, ctx.kept, ctx.saved_tensors, dy)
        return tuple(map(computed.get, names[: len(ctx.needs_input_grad)]))

    return backward, keep


def _without_gradient(x: Any) -> Optional[str]:
    """What the operator was called with that has none."""
    for name in ("activation", "gate", "clamp", "multiply", "scale_a", "scale_b", "zero_b"):
        if getattr(x, name) is not None:
            return f"the operator with {name}"
    return None if x.form in DIFFERENTIABLE else "the operator of groups"


def _multiplied(product: Product, x: Tensor, y: Tensor, to: tuple[torch.Size, torch.dtype], rest: tuple[float, bool, tuple[Any, ...]]) -> Tensor:
    """x y, summed to the shape of what was broadcast."""
    size, dtype = to
    alpha, tf32, options = rest
    if y.dim() == 2:
        sums = False
        if x.dim() > 2:  # the rows of all members as one matrix
            x = x.flatten(0, -2)
    else:
        batch = torch.broadcast_shapes(x.shape[:-2], y.shape[:-2])  # type: ignore[no-untyped-call]
        sums = torch.Size((*batch, x.shape[-2], y.shape[-1])).numel() != size.numel()
    made = product(as_matrix(x), as_matrix(y), torch.float32 if sums else None, alpha, tf32, options)
    return summed_to(made, size, dtype) if sums else made if made.shape == size else made.reshape(size)


def summed_to(gradient: Tensor, shape: torch.Size, dtype: torch.dtype) -> Tensor:
    """Over what was broadcast from this shape, in float32, rounded once."""
    missing = gradient.dim() - len(shape)
    over = (*range(missing), *(missing + at for at, size in enumerate(shape) if size == 1 and gradient.shape[missing + at] != 1))
    if over:
        gradient = sum_in_float32(gradient, over, dtype)
    gradient = gradient if gradient.shape == shape else gradient.reshape(shape)
    return gradient if gradient.dtype == dtype else gradient.to(dtype)


def sum_in_float32(gradient: Tensor, over: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Of this type, rounded once."""
    if gradient.dtype is dtype and (dtype is torch.float32 or gradient.is_cuda):
        return gradient.sum(over)
    # On CUDA torch's sums are float32 and rounded once; on the CPU the parts of several threads are rounded too.
    return gradient.sum(over, dtype=torch.float32).to(dtype)


def is_matrix(matrix: Tensor) -> bool:
    """Whether products read it as it is and transposed: one of its last two dimensions is contiguous, and the other's rows lie apart.
    What torch expands does not."""
    *_, row, column = matrix.stride()
    m, n = matrix.shape[-2:]
    return (column == 1 and row >= n) or (row == 1 and column >= m)


def as_matrix(matrix: Tensor) -> Tensor:
    return matrix if is_matrix(matrix) else matrix.contiguous()
