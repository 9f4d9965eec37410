"""Scales, and zero points, that elements of k have in common."""

from __future__ import annotations

import math
from typing import NamedTuple

from tilesmith._errors import InvalidArgument
from tilesmith._gemm_operands import FLOAT8, LINEAR, NAMES, Options, Views, has_weights
from tilesmith._gemm_shape import Shape, transposed
from tilesmith._views import View

_SCALE_BLOCK = 128
_SHALLOWEST = 32  # blocks of k of weights


class Blocks(NamedTuple):
    """Scales by blocks of k: of float8, 128 elements of a's rows and 128 by 128 of b; of weights, so many of b's columns."""

    depth: int = 0  #: elements of k; 0: there are none
    of_a: bool = False
    strides_b: tuple[int, ...] = ()  #: of b's scales along batch, blocks of k, and lines (columns, or 128 of them)
    strides_zero: tuple[int, ...] = ()  #: of zero points, likewise; (): there are none

    @staticmethod
    def of(x: Views, o: Options, s: Shape) -> Blocks:
        if has_weights(x.a.data_type, x.b.data_type):
            return _weight_blocks(x, o, s)
        scales = x.scale_a, x.scale_b
        if scales == (None, None) or x.a.data_type not in FLOAT8:
            return Blocks()
        blocks_k, blocks_n = -(-s.k // _SCALE_BLOCK), -(-s.n // _SCALE_BLOCK)
        lines = (blocks_n, blocks_k) if o.form in LINEAR else (blocks_k, blocks_n)
        shapes = (*x.a.shape[:-1], blocks_k), (*x.b.shape[:-2], *lines)
        fits = [scale is not None and scale.shape == shape for scale, shape in zip(scales, shapes)]
        if x.scale_b is not None and all(fits):
            of_b = transposed(x.scale_b) if o.form in LINEAR else x.scale_b
            return Blocks(_SCALE_BLOCK, True, of_b.strides)
        # What has one block of k may be a vector; what has several is by blocks, and so is the other to be.
        for at, several in enumerate((blocks_k > 1, math.prod(shapes[1]) > 1)):
            if fits[at] and several:
                names = NAMES[o.form].scale_a, NAMES[o.form].scale_b
                mine, other = names[at], names[1 - at]
                beside = scales[1 - at]
                given = "is not given" if beside is None else f"has the shape {beside.shape}"
                raise InvalidArgument(f"{mine} is by blocks of 128 and {other} {given}", f"{shapes[1 - at]}, by blocks too")
        return Blocks()


def _weight_blocks(x: Views, o: Options, s: Shape) -> Blocks:
    """Scales of weights, and zero points of the same shape."""
    names = NAMES[o.form]
    if x.scale_b is None:
        raise InvalidArgument(f"{names.b} is {x.b.data_type} and {names.a} {x.a.data_type}, and {names.scale_b} is no tensor",
                              _weight_shapes(x, o, s))  # fmt: skip
    depth, strides = _weight_strides(names.scale_b, x.scale_b, x, o, s)
    if x.zero_b is None:
        return Blocks(depth, False, strides)
    if x.zero_b.shape != x.scale_b.shape:
        raise InvalidArgument(f"{names.zero_b} has the shape {x.zero_b.shape}", f"that of {names.scale_b}, {x.scale_b.shape}")
    return Blocks(depth, False, strides, _weight_strides(names.zero_b, x.zero_b, x, o, s)[1])


def _weight_shapes(x: Views, o: Options, s: Shape) -> str:
    shapes = f"({s.n}, blocks of k)" if o.form in LINEAR else f"{(*x.b.shape[:-2], 'blocks of k', s.n)}"
    return f"({s.n},) or {shapes}; blocks of a power of two from {_SHALLOWEST} on, or one"


def _weight_strides(name: str, view: View, x: Views, o: Options, s: Shape) -> tuple[int, tuple[int, ...]]:
    """Depth of the blocks and strides along batch, blocks and columns of what is (n,) or by blocks of k: (n, k / depth) for
    linear, else (..., k / depth, n); with groups (groups, n) too."""
    batch = x.b.shape[:-2]
    linear = o.form in LINEAR
    shape, strides = view.shape, view.strides
    if shape == (s.n,) or (shape == (*batch, s.n) and s.groups is not None):
        shape, strides = (*shape[:-1], 1, s.n), (*strides[:-1], 0, strides[-1])
    elif linear and len(shape) == 2:
        shape, strides = shape[::-1], strides[::-1]
    if len(shape) == 2:
        strides = (0,) * len(batch) + strides
    elif shape[:-2] != batch:
        shape = ()
    depths = [s.k] + [1 << bit for bit in range(5, 40)]
    depth = next((depth for depth in depths if shape[-2:] == (-(-s.k // max(depth, 1)), s.n)), 0)
    if s.k == 0 and shape[-1:] == (s.n,):
        depth = _SHALLOWEST
    if depth == 0:
        raise InvalidArgument(f"{name} has the shape {view.shape}", _weight_shapes(x, o, s))
    return depth, strides
