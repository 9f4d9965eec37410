"""The sizes of a GEMM, from the shapes of its tensors."""

from __future__ import annotations

from typing import NamedTuple, Optional

from tilesmith._errors import InvalidArgument
from tilesmith._gemm_operands import GROUPING, LINEAR, NAMES, Options, Views
from tilesmith._views import View


class Shape(NamedTuple):
    batch: tuple[int, ...]
    m: int
    n: int
    k: int
    columns: int  #: of the result: n, or half of it behind a gate
    drops_row: bool  #: a has one dimension, so the result lacks m
    drops_column: bool
    a: View  #: (..., m, k)
    b: View  #: (..., k, n)
    groups: Optional[int]
    k2: int = 0  #: of a second product

    @staticmethod
    def of(x: Views, o: Options) -> Shape:
        a, b = x.a, x.b
        linear = o.form in LINEAR
        if o.form in GROUPING:
            _check_group_shapes(a, b, o.form)
        if linear:
            if len(b.shape) != 2:
                raise InvalidArgument(f"w has the shape {b.shape}", "(n, k)")
            b = transposed(b)
        if x.a2 is not None and x.b2 is not None:
            _check_pair_shapes(x.a, x.b, x.a2, x.b2)
        if len(a.shape) == 0 or len(b.shape) == 0:
            first, second = NAMES[o.form].a, NAMES[o.form].b
            raise InvalidArgument(f"{first} has the shape {a.shape}, {second} {x.b.shape}", "one dimension or more")
        drops_row, drops_column = len(a.shape) == 1, len(b.shape) == 1
        if drops_row:
            a = a._replace(shape=(1, *a.shape), strides=(0, *a.strides))
        if drops_column:
            b = b._replace(shape=(*b.shape, 1), strides=(*b.strides, 0))
        (m, k), n = a.shape[-2:], b.shape[-1]
        if b.shape[-2] != k:
            raise InvalidArgument(
                f"x has {k} elements in its last dimension, w {b.shape[-2]}" if linear else
                f"a has {k} columns, b {b.shape[-2]} rows", "the same: a is (..., m, k) and b is (..., k, n)"
                if not linear else "the same: x is (..., k) and w is (n, k)")  # fmt: skip
        if o.gate is not None and n % 2:
            raise InvalidArgument(f"gate is {o.gate!r}, and there are {n} columns", "an even number: a gate joins pairs")
        batch = a.shape[:-2] if o.form in GROUPING else _broadcast_shapes("b", a.shape[:-2], b.shape[:-2])
        k2 = 0
        if x.a2 is not None and x.b2 is not None:
            k2 = x.a2.shape[-1]
            batch = _broadcast_shapes("d", _broadcast_shapes("c", batch, x.a2.shape[:-2]), x.b2.shape[:-2])
        columns = n // 2 if o.gate is not None else n
        groups = b.shape[0] if o.form in GROUPING else None
        return Shape(batch, m, n, k, columns, drops_row, drops_column, a, b, groups, k2)

    def without(self, columns: int) -> tuple[int, ...]:
        """The shape of a matrix with so many columns, as callers see it."""
        return self.batch + (() if self.drops_row else (self.m,)) + (() if self.drops_column else (columns,))

    @property
    def result(self) -> tuple[int, ...]:
        return self.without(self.columns)

    def whole(self, strides: tuple[int, ...]) -> tuple[int, ...]:
        """Strides of batch, rows and columns from those of a matrix as callers see it."""
        if self.drops_column:
            strides = (*strides, 0)
        return (*strides[:-1], 0, strides[-1]) if self.drops_row else strides

    @property
    def empty(self) -> bool:
        return 0 in (*self.batch, self.m, self.n, self.groups)


def _check_pair_shapes(a: View, b: View, c: View, d: View) -> None:
    """a (..., m, k), b (..., k, n), c (..., m, k2), d (..., k2, n); a and b are compared where all products are."""
    for name, view in zip("abcd", (a, b, c, d)):
        if len(view.shape) < 2:
            raise InvalidArgument(f"{name} has the shape {view.shape}", "two dimensions or more")
    (m, k2), (k2_of_d, n) = c.shape[-2:], d.shape[-2:]
    for what, other, hint in ((f"a has {a.shape[-2]} rows, c {m}", a.shape[-2] == m, "a is (..., m, k) and c is (..., m, k2)"),
                              (f"b has {b.shape[-1]} columns, d {n}", b.shape[-1] == n,
                               "b is (..., k, n) and d is (..., k2, n)"),
                              (f"c has {k2} columns, d {k2_of_d} rows", k2 == k2_of_d,
                               "c is (..., m, k2) and d is (..., k2, n)")):  # fmt: skip
        if not other:
            raise InvalidArgument(what, f"the same: {hint}")


def _check_group_shapes(a: View, b: View, form: str) -> None:
    """Contiguous: a is (rows, k); masked: (groups, m, k). b is (groups, k, n)."""
    masked = form == "masked"
    if len(a.shape) != (3 if masked else 2):
        raise InvalidArgument(f"a has the shape {a.shape}",
                              "(groups, m, k) with group_rows" if masked else "(rows, k) with group_ends")  # fmt: skip
    if len(b.shape) != 3 or (masked and a.shape[0] != b.shape[0]):
        raise InvalidArgument(f"b has the shape {b.shape}",
                              f"({a.shape[0]}, k, n), a matrix a group" if masked else "(groups, k, n)")  # fmt: skip


def transposed(view: View) -> View:
    return view._replace(shape=(*view.shape[:-2], view.shape[-1], view.shape[-2]),
                         strides=(*view.strides[:-2], view.strides[-1], view.strides[-2]))  # fmt: skip


def _broadcast_shapes(name: str, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """Of the batch of a, and of all up to the matrix `name`."""
    longer, shorter = (a, b) if len(a) >= len(b) else (b, a)
    padded = (1,) * (len(longer) - len(shorter)) + shorter
    if any(p != q and 1 not in (p, q) for p, q in zip(longer, padded)):
        raise InvalidArgument(f"the batch of a is {a}, of {name} {b}", "dimensions that are the same, or 1")
    return tuple(q if p == 1 else p for p, q in zip(longer, padded))


def is_column(bias: View, s: Shape) -> bool:
    """Whether a bias has one number a row of the product."""
    return s.groups is None and len(bias.shape) == 2 and bias.shape[1] == 1 and bias.shape[0] > 1
