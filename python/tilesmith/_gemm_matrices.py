"""How a GEMM's matrices are walked.

The library takes matrices with a contiguous direction and one stride from a member of the batch to the next. Batch
dimensions that do not fit that are joined where the strides allow, with the rows of the result too: x of any leading
dimensions times one matrix is one product. What is left beyond one dimension is walked by several calls.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

from tilesmith._errors import InvalidArgument
from tilesmith._gemm_blocks import Blocks
from tilesmith._gemm_operands import ADD, COLUMN_D, MULTIPLY, SCALE_M, Names, Options, Views, has_weights
from tilesmith._gemm_shape import Shape, is_column
from tilesmith._library import CPU, Gemm
from tilesmith._views import BYTES, View, broadcast, dense_strides

ROW, COLUMN = 0, 1
_ALIGNMENT = 16  # elements: of a row nobody goes on from


class _Walk(NamedTuple):
    """How the matrices are walked: `batch` members of `m` rows, and for each operand its stride along both. What the batch has
    beyond one dimension is walked by calls: sizes, and for each operand its strides along them."""

    batch: int
    m: int
    strides: list[tuple[int, int]]
    beyond: tuple[tuple[int, list[int]], ...] = ()

    def in_turn(self) -> _Walk:
        """A call for each member of the batch too."""
        outer, inner = zip(*self.strides)
        return _Walk(1, self.m, [(0, stride) for stride in inner], (*self.beyond, (self.batch, list(outer))))

    def moves(self, walked: list[tuple[str, str]]) -> list[dict[str, int]]:
        """Bytes from the first call's operands to those of each, by name; `walked` are their names and types."""
        bits = [4 if data_type == "int4" else 8 * BYTES[data_type] for _, data_type in walked]
        return [{name: sum(index * strides[at] for index, (_, strides) in zip(indices, self.beyond)) * bits[at] // 8
                 for at, (name, _) in enumerate(walked)}
                for indices in itertools.product(*(range(size) for size, _ in self.beyond))]  # fmt: skip


def set_matrices(call: Gemm, x: Views, o: Options, names: Names, s: Shape,
                  blocks: Blocks, out_type: str) -> list[dict[str, int]]:  # fmt: skip
    """Sizes, orders and strides. Returns where each of the calls has its operands, in bytes from the first's."""
    out = x.out if x.out is not None else View("", s.result, dense_strides(s.result), 0, 0)
    if out.shape != s.result:
        raise InvalidArgument(f"out has the shape {out.shape}", str(s.result))
    views = (s.a, s.b, x.c, x.bias, x.multiply, x.residual, x.scale_a, x.scale_b, out, None, x.zero_b, x.a2, x.b2)
    for name, view in zip(names, views):
        if view is not None and not s.empty and any(stride < 0 and size > 1 for stride, size in zip(view.strides, view.shape)):
            raise InvalidArgument(f"{name} has the strides {view.strides}", "no negative ones: a copy of it")
    # Strides of every operand along batch and rows, and a matrix's along columns; b does not change with rows.
    a, d = _in_batch(s.a, s.batch), s.whole(out.strides)
    b = _in_batch(s.b, s.batch if s.groups is None else (s.groups,))
    beside = {name: s.whole(broadcast(name, view, text, s.without(columns)))
              for name, view, text, columns in (("c", x.c, "the product's shape", s.n),
                                                ("multiply", x.multiply, "the output's shape", s.columns),
                                                ("residual", x.residual, "the output's shape", s.columns))
              if view is not None}  # fmt: skip
    vectors: dict[str, tuple[int, ...]] = {}  # over rows
    if x.bias is not None and is_column(x.bias, s):
        vectors["bias"] = _row_vector("bias", x.bias, s)
    if x.scale_a is not None and not blocks.of_a:
        vectors[names.scale_a] = _row_vector(names.scale_a, x.scale_a, s)
    call.n, call.k, call.k2, call.group_size = s.n, s.k, s.k2, blocks.depth
    if s.empty:
        call.m, call.batch = s.m, math.prod(s.batch) if s.groups is None else s.groups
        _set_dense(call, s)
        return [{}]
    rows = [a[:-1], (*b[:-2], 0), d[:-1], *(strides[:-1] for strides in beside.values()), *vectors.values()]
    walked = [("a", x.a.data_type), ("b", x.b.data_type), ("out", out_type),
              *((name, getattr(x, name).data_type) for name in beside),
              *(("bias", x.bias.data_type) if name == "bias" and x.bias is not None else ("scale_a", "fp32") for name in vectors)]  # fmt: skip
    if blocks.depth:
        batch_shape = x.b.shape[:-2]
        missing = (0,) * (len(s.batch if s.groups is None else (s.groups,)) - len(batch_shape))
        for of_b, name, given in ((call.scale_b, "scale_b", blocks.strides_b), (call.zero_b, "zero_b", blocks.strides_zero)):
            if given:
                own = (0 if size == 1 else stride for size, stride in zip(batch_shape, given))
                rows.append((*missing, *own, 0))
                walked.append((name, getattr(x, name).data_type))
                of_b.block, of_b.row = given[-2:]
    if blocks.of_a and x.scale_a is not None:
        scales = x.scale_a
        if s.drops_row:
            scales = scales._replace(shape=(1, *scales.shape), strides=(0, *scales.strides))
        *of_rows, call.scale_a.block = _in_batch(scales, s.batch)
        rows.append(tuple(of_rows))
        walked.append(("scale_a", "fp32"))
    if s.k2 > 0 and x.a2 is not None and x.b2 is not None:
        a2, b2 = _in_batch(x.a2, s.batch), _in_batch(x.b2, s.batch)
        rows += [a2[:-1], (*b2[:-2], 0)]
        walked += [("a2", x.a2.data_type), ("b2", x.b2.data_type)]
    walk = _join(s, rows, a, d, beside) if s.groups is None else _groups_walk(s, rows)
    if s.groups is None and any(outer for outer, _ in walk.strides[3 + len(beside) :][: len(vectors)]):
        walk = walk.in_turn()  # a call's batch shares a vector
    call.m, call.batch = walk.m, walk.batch
    if walk.beyond:
        _check_apart("out", out)
    # The CPU reads runs: with one element of k those of the other direction are long, and one column of results is a row
    # of the transposed product.
    free = call.device.kind == CPU and o.form != "packed" and not (
        blocks.depth or blocks.of_a or x.zero_b is not None or has_weights(x.a.data_type, x.b.data_type))  # fmt: skip
    preferred_a, preferred_b = (COLUMN, ROW) if free and s.k == 1 else (ROW, COLUMN)
    preferred_d = COLUMN if free and s.n == 1 and walk.m > 1 and s.groups is None and not beside else ROW
    if s.k2 > 0 and x.a2 is not None and x.b2 is not None:
        (call.a2.batch, row), (call.b2.batch, _) = walk.strides[-2:]
        pair = (names.a2, x.a2, (walk.m, s.k2), (row, a2[-1])), (names.b2, x.b2, (s.k2, s.n), b2[-2:])
        preferred_a, preferred_b = order_of(*pair[0], preferred_a)[0], order_of(*pair[1], preferred_b)[0]
    call.order_a, call.a.leading = order_of(names.a, x.a, (walk.m, s.k), (walk.strides[0][1], a[-1]), preferred_a)
    call.order_b, call.b.leading = order_of(names.b, x.b, (s.k, s.n), b[-2:], preferred_b)
    if s.k2 > 0 and x.a2 is not None and x.b2 is not None:
        call.a2.leading = _in_order(call.order_a, names.a, *pair[0])
        call.b2.leading = _in_order(call.order_b, names.b, *pair[1])
    call.a.batch, call.b.batch = walk.strides[0][0], walk.strides[1][0]
    order_d, call.d_leading = order_of("out", out, (walk.m, s.columns), (walk.strides[2][1], d[-1]), preferred_d)
    if order_d == COLUMN:
        call.flags |= COLUMN_D
    call.d_batch = walk.strides[2][0]
    operations = [each for each in call.epilogue if each.op in (ADD, MULTIPLY)]
    for (name, strides), (batch, row) in zip(beside.items(), walk.strides[3:]):
        first = name == "c" and len(operations) == sum(view is not None for view in (x.multiply, x.residual))
        target = call.c if first else operations.pop(0)
        columns = s.n if name == "c" else s.columns
        target.leading = _in_order(order_d, "out", name, getattr(x, name), (walk.m, columns), (row, strides[-1]))
        target.batch = batch
    for (name, strides), (batch, row) in zip(vectors.items(), walk.strides[3 + len(beside) :]):
        if s.groups is not None:
            next(each for each in call.epilogue if each.op == SCALE_M).batch = batch
        if row != 1 and walk.m > 1:
            raise InvalidArgument(f"{name} is not one number after the other along the rows of {names.a}",
                                  f"contiguous, ({s.m},) or the shape of {names.a} without its last dimension")  # fmt: skip
    if blocks.of_a:
        call.scale_a.batch, call.scale_a.row = walk.strides[-1]
    if blocks.strides_zero:
        call.scale_b.batch, call.zero_b.batch = walk.strides[-2][0], walk.strides[-1][0]
    elif blocks.depth:
        call.scale_b.batch = walk.strides[-2 if blocks.of_a else -1][0]
    return walk.moves(walked)


def _groups_walk(s: Shape, rows: list[tuple[int, ...]]) -> _Walk:
    """Groups are walked as they are: one matrix for all (but for b and its scales), or one for each."""
    return _Walk(s.groups or 0, s.m, [(each[0] if len(each) == 2 else 0, each[-1]) for each in rows])


def _in_batch(view: View, batch: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a matrix in all of the batch's dimensions."""
    if 0 in view.shape:  # no element has a place, and libraries write what they like here
        view = view._replace(strides=dense_strides(view.shape))
    missing = len(batch) - (len(view.shape) - 2)
    own = (0 if size == 1 else stride for size, stride in zip(view.shape[:-2], view.strides))
    return (0,) * missing + (*own, *view.strides[-2:])


def _row_vector(name: str, view: View, s: Shape) -> tuple[int, ...]:
    """Strides of a vector over rows along batch and rows: (m,), (m, 1), (..., m) or (..., m, 1)."""
    full = (*s.batch, s.m)
    shape, strides = view.shape, view.strides
    if shape != full and len(shape) > 1 and shape[-1] == 1 and (len(shape) > len(full) or shape[-2] == s.m):
        shape, strides = shape[:-1], strides[:-1]
    if shape[-1:] != (s.m,) or (len(shape) > 1 and shape != full):
        shapes = f"({s.m},)" if len(full) == 1 else f"({s.m},) or {full}"
        raise InvalidArgument(f"{name} has the shape {view.shape}", f"{shapes}: one number a row")
    return (0,) * (len(full) - len(shape)) + strides


def _join(s: Shape, rows: list[tuple[int, ...]], a: tuple[int, ...], d: tuple[int, ...],
          beside: dict[str, tuple[int, ...]]) -> _Walk:  # fmt: skip
    """Joins neighbouring dimensions of batch and rows wherever every operand's strides go on from one into the other."""
    joined: list[tuple[int, list[int]]] = []  # from the inside out: size, strides
    sizes = (*s.batch, s.m)
    for at in reversed(range(len(sizes))):
        strides = [each[at] for each in rows]
        if sizes[at] == 1:
            continue
        if joined and all(outer == inner * joined[-1][0] for outer, inner in zip(strides, joined[-1][1])):
            joined[-1] = (joined[-1][0] * sizes[at], joined[-1][1])
        else:
            joined.append((sizes[at], strides))
    one = (1, [0] * len(rows))
    # Matrices of one row each are the rows of one matrix, if b is the same for all and rows do not overlap.
    last = [a[-1], 0, d[-1], *(strides[-1] for strides in beside.values())]
    widths = [s.k, 0, s.columns, *(s.n if name == "c" else s.columns for name in beside)]
    if s.m == 1 and joined:
        strides = joined[0][1]
        shares_b = strides[1] == 0 and (s.k2 == 0 or strides[-1] == 0)
        apart = all(width <= 1 or (step == 1 and stride >= width)
                    for stride, step, width in zip(strides, last, widths))  # fmt: skip
        if not shares_b or not apart or any(stride != 1 for stride in strides[len(last) :]):
            joined.insert(0, one)
    elif s.m == 1:
        joined.insert(0, one)
    (m, inner), *batches = joined or [one]
    *beyond, (batch, outer) = sorted(batches, key=lambda each: each[0]) or [one]
    return _Walk(batch, m, list(zip(outer, inner)), tuple(beyond))


def order_of(name: str, view: View, shape: tuple[int, int], strides: tuple[int, ...], preferred: int) -> tuple[int, int]:
    """The order of a matrix of rows and columns, and its leading dimension."""
    (rows, columns), (row, column) = shape, strides
    fits = {ROW: (column == 1 or columns <= 1) and (rows <= 1 or row >= columns),
            COLUMN: (row == 1 or rows <= 1) and (columns <= 1 or column >= rows)}  # fmt: skip
    order = preferred if fits[preferred] else 1 - preferred
    if not fits[order]:
        raise InvalidArgument(f"{name} has the shape {view.shape} and the strides {view.strides}",
                              "one of the last two dimensions contiguous, and the other's rows apart: a copy of it")  # fmt: skip
    lines, length, step = (rows, columns, row) if order == ROW else (columns, rows, column)
    return order, step if lines > 1 else _padded(length)


def _in_order(order: int, of: str, name: str, view: View, shape: tuple[int, int], strides: tuple[int, ...]) -> int:
    """The leading dimension of a matrix that must have the order of the matrix `of`."""
    own, leading = order_of(name, view, shape, strides, order)
    if own != order:
        way = "rows" if order == ROW else "columns"
        raise InvalidArgument(f"{name} has the shape {view.shape} and the strides {view.strides}",
                              f"contiguous {way}, as {of} has: a copy of one")  # fmt: skip
    return leading


def _check_apart(name: str, view: View) -> None:
    """Every element has a place of its own. The library checks what a single call writes."""
    reached = 0
    for stride, size in sorted(zip(view.strides, view.shape)):
        if size > 1 and stride <= reached:
            raise InvalidArgument(f"elements of {name} overlap: it has the shape {view.shape} and the strides {view.strides}",
                                  "a place for each element")  # fmt: skip
        reached += (size - 1) * stride


def _padded(length: int) -> int:
    # Nothing follows the only line of a matrix, and a multiple is what the copy engines of a GPU ask for.
    return max(-(-length // _ALIGNMENT), 1) * _ALIGNMENT


def _set_dense(call: Gemm, s: Shape) -> None:
    """No element is read or written; the library wants leading dimensions that could be."""
    call.order_a, call.order_b = ROW, COLUMN
    call.a.leading, call.b.leading, call.d_leading = max(s.k, 1), max(s.k, 1), max(s.columns, 1)
    call.c.leading = max(s.n, 1)
    for each in call.epilogue:
        if each.op in (ADD, MULTIPLY):
            each.leading = max(s.n, 1)
