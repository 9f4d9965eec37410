"""One GEMM as the C structure: from what the tensors look like to a structure that lacks only its pointers and numbers.

The library takes matrices with a contiguous direction and one stride from a member of the batch to the next. Batch
dimensions that do not fit that are joined where the strides allow, with the rows of the result too: x of any leading
dimensions times one matrix is one product.
"""

from __future__ import annotations

import ctypes
import math
from typing import NamedTuple, Optional

from tilesmith import _nvrtc
from tilesmith._errors import InvalidArgument, WrongType
from tilesmith._library import CUDA, Gemm, library, raise_last_error, sized
from tilesmith._views import View, broadcast, check_devices, dense_strides, number

_CODES = {"fp32": 0, "fp16": 1, "bf16": 2, "fp8": 3, "bf8": 4, "int8": 5, "int32": 7}
_TF32 = 8
_INPUTS = ("fp32", "fp16", "bf16", "fp8", "bf8", "int8")
_FLOAT8 = ("fp8", "bf8")
_WIDE = ("fp32", "fp16", "bf16")
_TYPES_TEXT = "float32, float16, bfloat16, float8 (e4m3, e5m2) or int8"
_ROW, _COLUMN = 0, 1
_BIAS, _BIAS_M, _SCALE_N, _SCALE_M, _ADD, _MULTIPLY, _CLAMP = 1, 2, 3, 4, 5, 6, 13
ACTIVATIONS = {"relu": 7, "gelu": 8, "gelu_tanh": 9, "silu": 10, "sigmoid": 11, "tanh": 12}
GATES = {"glu": 14, "reglu": 15, "geglu": 16, "geglu_tanh": 17, "swiglu": 18}
_ALIGNMENT = 16  # elements: of a row nobody goes on from


class Operands(NamedTuple):
    """Of linear, a is x and b is w."""

    a: View
    b: View
    c: Optional[View] = None
    bias: Optional[View] = None
    multiply: Optional[View] = None
    residual: Optional[View] = None
    scale_a: Optional[View] = None  #: a vector; single numbers are part of alpha
    scale_b: Optional[View] = None
    out: Optional[View] = None


NAMES = {"matmul": Operands._fields, "linear": ("x", "w", "c", "bias", "multiply", "residual", "scale_x", "scale_w", "out")}


class Options(NamedTuple):
    """The arguments that are neither tensors nor alpha and beta."""

    form: str  #: "matmul" or "linear"
    out_type: Optional[str]
    activation: Optional[str]
    gate: Optional[str]
    clamp: Optional[tuple[float, float]]
    tf32: bool
    scaled: bool  #: there are scales, vectors or numbers


class Call:
    """A prepared call. It belongs to the thread that made it: the structure is filled anew for each run."""

    __slots__ = ("_call", "_address", "_compute", "_words", "_floats", "_places", "out_shape", "out_type", "same_type",
                 "stream_device")  # fmt: skip

    def __init__(self, call: Gemm, places: list[tuple[int, int]], operands: Operands, out_shape: tuple[int, ...],
                 out_type: str) -> None:  # fmt: skip
        self._call = call
        self._address = ctypes.addressof(call)
        self._compute = library().tilesmith_gemm_compute
        memory = memoryview((ctypes.c_char * ctypes.sizeof(call)).from_buffer(call)).cast("B")
        self._words, self._floats = memory.cast("Q"), memory.cast("f")
        self._places = places  #: of the operands from c to scale_b: position among them, word of the structure
        self.out_shape = out_shape
        self.out_type = out_type
        self.same_type = out_type == operands.a.data_type
        self.stream_device = call.device.index if call.device.kind == CUDA else -1  #: whose stream; -1: none

    def run(self, alpha: float, a: int, b: int, out: int, stream: int, bias: int = 0) -> None:
        """Runs on these addresses. No operand but a bias."""
        words = self._words
        words[_A], words[_B], words[_D], words[_STREAM] = a, b, out, stream
        self._floats[_ALPHA] = alpha
        if bias:
            words[_EPILOGUE] = bias
        status = self._compute(None, self._address)
        if status:
            raise_last_error(status)

    def run_all(self, alpha: float, a: int, b: int, out: int, stream: int, *operands: int) -> None:
        """Runs on these addresses; operands: c, bias, multiply, residual, scale_a, scale_b, 0 where there is none."""
        for at, word in self._places:
            self._words[word] = operands[at]
        self.run(alpha, a, b, out, stream)


_A, _B, _C, _D = (Gemm.a.offset // 8, Gemm.b.offset // 8, Gemm.c.offset // 8, Gemm.d.offset // 8)
_STREAM = Gemm.stream.offset // 8
_EPILOGUE = (Gemm.epilogue.offset + 8) // 8  # the data of the first operation
_EPILOGUE_STEP = 5
_ALPHA = Gemm.alpha.offset // 4


def prepare(x: Operands, o: Options, beta: float) -> Call:
    """Checks everything that can be checked without the data, and fills in the structure. beta is read where c is there."""
    names = NAMES[o.form]
    call = sized(Gemm)
    check_devices(names, x)
    call.device.kind, call.device.index = x.a.kind, x.a.index
    if x.a.kind == CUDA:
        _nvrtc.find()
    _check_choices(o)
    out_type = _set_types(call, x, o, names)
    shape = _Shape.of(x, o)
    places = _set_epilogue(call, x, o, beta, names, shape)
    _set_matrices(call, x, o, names, shape)
    return Call(call, places, x, shape.result, out_type)


def _check_choices(o: Options) -> None:
    for name, value, known in (("activation", o.activation, ACTIVATIONS), ("gate", o.gate, GATES)):
        if value is not None and value not in known:
            raise InvalidArgument(f"{name} is {value!r}", ", ".join(map(repr, known)))
    if o.activation is not None and o.gate is not None:
        raise InvalidArgument(f"activation is {o.activation!r} and gate is {o.gate!r}", "one of the two; gates have one")
    if o.clamp is not None:
        if not isinstance(o.clamp, tuple) or len(o.clamp) != 2:
            raise WrongType(f"clamp is {o.clamp!r}", "(low, high)")
        low, high = (number("a bound of clamp", bound) for bound in o.clamp)
        if not low <= high:
            raise InvalidArgument(f"clamp is {o.clamp!r}", "(low, high), low at most high")


# ------------------------------------------------------------------------------------------------------------- types


def _set_types(call: Gemm, x: Operands, o: Options, names: tuple[str, ...]) -> str:
    a, b = x.a.data_type, x.b.data_type
    if a not in _INPUTS:
        raise WrongType(f"{names[0]} is {a}", _TYPES_TEXT)
    if a != b and not (a in _FLOAT8 and b in _FLOAT8):
        raise WrongType(f"{names[0]} is {a}, {names[1]} is {b}", "one type for both, or float8 of both kinds")
    out_type = _out_type(x, o)
    if o.tf32 and a != "fp32":
        raise InvalidArgument(f"tf32 is set, and {names[0]} is {a}", "float32")
    call.type_a = _TF32 if o.tf32 else _CODES[a]
    call.type_b = _TF32 if o.tf32 else _CODES[b]
    call.type_d = _CODES[out_type]
    beside = {name: view.data_type for name, view in (("c", x.c), ("multiply", x.multiply), ("residual", x.residual))
              if view is not None}  # fmt: skip
    if len(set(beside.values())) > 1:
        raise WrongType(" and ".join(f"{name} is {data_type}" for name, data_type in beside.items()), "one type for all")
    type_c = next(iter(beside.values()), out_type)
    if type_c not in _CODES:
        raise WrongType(f"{next(iter(beside))} is {type_c}", "the output's type, or another one of matrices")
    call.type_c = _CODES[type_c]
    type_bias = out_type if out_type in _WIDE else "fp32"
    if x.bias is not None:
        type_bias = x.bias.data_type
        if type_bias not in _WIDE:
            raise WrongType(f"bias is {type_bias}", "float32, float16 or bfloat16")
    call.type_bias = _CODES[type_bias]
    for name, view in ((names[6], x.scale_a), (names[7], x.scale_b)):
        if view is not None and view.data_type != "fp32":
            raise WrongType(f"{name} is {view.data_type}", "float32")
    return out_type


def _out_type(x: Operands, o: Options) -> str:
    chosen = o.out_type
    if x.out is not None:
        if chosen is not None and chosen != x.out.data_type:
            raise WrongType(f"out is {x.out.data_type}, out_dtype {chosen}", "one of the two")
        chosen = x.out.data_type
    if chosen is None:
        a = x.a.data_type
        if a == "int8":
            beside = (x.bias, x.multiply, x.residual, o.activation, o.gate, o.clamp)
            return "fp32" if o.scaled or any(each is not None for each in beside) else "int32"
        return "bf16" if a in _FLOAT8 else a
    if chosen not in _CODES or (chosen in ("int8", "int32") and x.a.data_type != "int8"):
        raise WrongType(f"the output is to be {chosen}",
                        _TYPES_TEXT.replace(" or int8", "") + "; of int8 also int8 and int32")  # fmt: skip
    return chosen


# ------------------------------------------------------------------------------------------------------------ shapes


class _Shape(NamedTuple):
    batch: tuple[int, ...]
    m: int
    n: int
    k: int
    columns: int  #: of the result: n, or half of it behind a gate
    drops_row: bool  #: a has one dimension, so the result lacks m
    drops_column: bool
    a: View  #: (..., m, k)
    b: View  #: (..., k, n)

    @staticmethod
    def of(x: Operands, o: Options) -> _Shape:
        a, b = x.a, x.b
        linear = o.form == "linear"
        if linear:
            if len(b.shape) != 2:
                raise InvalidArgument(f"w has the shape {b.shape}", "(n, k)")
            b = _transposed(b)
        if len(a.shape) == 0 or len(b.shape) == 0:
            first, second = NAMES[o.form][:2]
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
        batch = _broadcast_shapes(a.shape[:-2], b.shape[:-2])
        columns = n // 2 if o.gate is not None else n
        return _Shape(batch, m, n, k, columns, drops_row, drops_column, a, b)

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
        return 0 in (*self.batch, self.m, self.n)


def _transposed(view: View) -> View:
    return view._replace(shape=(*view.shape[:-2], view.shape[-1], view.shape[-2]),
                         strides=(*view.strides[:-2], view.strides[-1], view.strides[-2]))  # fmt: skip


def _broadcast_shapes(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    longer, shorter = (a, b) if len(a) >= len(b) else (b, a)
    padded = (1,) * (len(longer) - len(shorter)) + shorter
    if any(p != q and 1 not in (p, q) for p, q in zip(longer, padded)):
        raise InvalidArgument(f"the batch of a is {a}, of b {b}", "dimensions that are the same, or 1")
    return tuple(q if p == 1 else p for p, q in zip(longer, padded))


# ---------------------------------------------------------------------------------------------------------- epilogue


def _set_epilogue(call: Gemm, x: Operands, o: Options, beta: float, names: tuple[str, ...],
                  s: _Shape) -> list[tuple[int, int]]:  # fmt: skip
    """The list of operations, and where the addresses of the operands go."""
    call.alpha, call.beta = 1, 0
    places: list[tuple[int, int]] = []
    at = 0

    def append(op: int, operand: Optional[int] = None) -> None:
        nonlocal at
        call.epilogue[at].op = op
        if operand is not None:
            places.append((operand - 2, _EPILOGUE + _EPILOGUE_STEP * at))
        at += 1

    scaled = x.scale_a is not None or x.scale_b is not None
    if x.scale_a is not None:
        append(_SCALE_M, 6)
    if x.scale_b is not None:
        _check_vector(names[7], x.scale_b, _line(x.scale_b, o.form == "linear"), s.n, "columns of the product")
        append(_SCALE_N, 7)
    if x.c is not None and scaled:
        if beta != 1:  # the sum of products is scaled before c is added
            raise InvalidArgument(f"beta is {beta} beside scales that are vectors", "1, and c multiplied beforehand")
        append(_ADD, 2)
    elif x.c is not None:
        call.beta = number("beta", beta)
        places.append((0, _C))
    if (bias := x.bias) is not None:
        if _is_column(bias):
            append(_BIAS_M, 3)
        else:
            _check_vector("bias", bias, _line(bias, False), s.n, "columns of the product; (m, 1) for one a row")
            append(_BIAS, 3)
    if o.activation is not None:
        append(ACTIVATIONS[o.activation])
    if o.gate is not None:
        append(GATES[o.gate])
    if x.multiply is not None:
        append(_MULTIPLY, 4)
    if x.residual is not None:
        append(_ADD, 5)
    if o.clamp is not None:
        call.epilogue[at].low, call.epilogue[at].high = o.clamp
        append(_CLAMP)
    return places


def _is_column(bias: View) -> bool:
    """Whether a bias has one number a row of the product."""
    return len(bias.shape) == 2 and bias.shape[1] == 1 and bias.shape[0] > 1


def _line(view: View, column: bool) -> Optional[int]:
    """The stride of a vector: one dimension, or two of which one is 1 (the last where it is a column)."""
    if len(view.shape) == 1:
        return view.strides[0]
    if len(view.shape) == 2 and view.shape[1 if column else 0] == 1:
        return view.strides[0 if column else 1]
    return None


def _check_vector(name: str, view: View, stride: Optional[int], length: int, text: str) -> None:
    if stride is None or math.prod(view.shape) != length or (stride != 1 and length > 1):
        raise InvalidArgument(f"{name} has the shape {view.shape} and the strides {view.strides}",
                              f"({length},), contiguous: the {text}")  # fmt: skip


# ---------------------------------------------------------------------------------------------------------- matrices


class _Walk(NamedTuple):
    """How the matrices are walked: `batch` members of `m` rows, and for each operand its stride along both."""

    batch: int
    m: int
    strides: list[tuple[int, int]]


def _set_matrices(call: Gemm, x: Operands, o: Options, names: tuple[str, ...], s: _Shape) -> None:
    # Strides of every operand along batch, rows and columns; vectors over rows have no columns.
    out = x.out if x.out is not None else View("", s.result, dense_strides(s.result), 0, 0)
    if out.shape != s.result:
        raise InvalidArgument(f"out has the shape {out.shape}", str(s.result))
    a = _in_batch(s.a, s.batch)
    b = _in_batch(s.b, s.batch)
    beside = {name: s.whole(broadcast(name, view, text, s.without(columns)))
              for name, view, text, columns in (("c", x.c, "the product's shape", s.n),
                                                ("multiply", x.multiply, "the output's shape", s.columns),
                                                ("residual", x.residual, "the output's shape", s.columns))
              if view is not None}  # fmt: skip
    vectors = {name: _row_vector(name, view, s) for name, view in ((names[6], x.scale_a), ("bias", x.bias))
               if view is not None and (name != "bias" or _is_column(view))}  # fmt: skip
    d = s.whole(out.strides)
    for name, view in ((names[0], s.a), (names[1], s.b), ("out", out), ("c", x.c), ("multiply", x.multiply),
                       ("residual", x.residual)):  # fmt: skip
        if view is not None and not s.empty and any(stride < 0 for stride in view.strides):
            raise InvalidArgument(f"{name} has the strides {view.strides}", "no negative ones: a copy of it")
    call.n, call.k = s.n, s.k
    if s.empty:
        call.m, call.batch = s.m, math.prod(s.batch)
        return _set_dense(call, s)
    rows = [(*a[:-1],), (*b[:-2], 0), d[:-1], *(strides[:-1] for strides in beside.values()), *vectors.values()]
    walk = _join(s, rows, a, d, beside)
    call.m, call.batch = walk.m, walk.batch
    shape = walk.m, s.k
    call.order_a, call.a.leading = _order(names[0], x.a, shape, (walk.strides[0][1], a[-1]), _ROW)
    call.order_b, call.b.leading = _order(names[1], x.b, (s.k, s.n), b[-2:], _COLUMN)
    call.a.batch, call.b.batch = walk.strides[0][0], walk.strides[1][0]
    call.d_leading = _leading("out", out, (walk.m, s.columns), (walk.strides[2][1], d[-1]))
    call.d_batch = walk.strides[2][0]
    scaled = x.scale_a is not None or x.scale_b is not None
    operations = [each for each in call.epilogue if each.op in (_ADD, _MULTIPLY)]
    for (name, strides), (batch, row) in zip(beside.items(), walk.strides[3:]):
        columns = s.n if name == "c" else s.columns
        target = call.c if name == "c" and not scaled else operations.pop(0)
        target.leading = _leading(name, getattr(x, name), (walk.m, columns), (row, strides[-1]))
        target.batch = batch
    for name, (batch, row) in zip(vectors, walk.strides[3 + len(beside) :]):
        if (batch != 0 and walk.batch > 1) or (row != 1 and walk.m > 1):
            raise InvalidArgument(f"{name} is not one number after the other along the rows of {names[0]}",
                                  f"contiguous, ({s.m},) or the shape of {names[0]} without its last dimension")  # fmt: skip


def _in_batch(view: View, batch: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a matrix in all of the batch's dimensions."""
    if 0 in view.shape:  # no element has a place, and libraries write what they like here
        view = view._replace(strides=dense_strides(view.shape))
    missing = len(batch) - (len(view.shape) - 2)
    own = (0 if size == 1 else stride for size, stride in zip(view.shape[:-2], view.strides))
    return (0,) * missing + (*own, *view.strides[-2:])


def _row_vector(name: str, view: View, s: _Shape) -> tuple[int, ...]:
    """Strides of a vector over rows along batch and rows: (m,), (m, 1), (..., m) or (..., m, 1)."""
    full = (*s.batch, s.m)
    shape, strides = view.shape, view.strides
    if len(shape) > 1 and shape[-1] == 1 and (len(shape) > len(full) or shape[-2] == s.m):
        shape, strides = shape[:-1], strides[:-1]
    if shape[-1:] != (s.m,) or (len(shape) > 1 and shape != full):
        shapes = f"({s.m},)" if len(full) == 1 else f"({s.m},) or {full}"
        raise InvalidArgument(f"{name} has the shape {view.shape}", f"{shapes}: one number a row")
    return (0,) * (len(full) - len(shape)) + strides


def _join(s: _Shape, rows: list[tuple[int, ...]], a: tuple[int, ...], d: tuple[int, ...],
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
        size, strides = joined[0]
        apart = all(width <= 1 or (step == 1 and stride >= width)
                    for stride, step, width in zip(strides, last, widths))  # fmt: skip
        if strides[1] != 0 or not apart or any(stride != 1 for stride in strides[len(last) :]):
            joined.insert(0, one)
    elif s.m == 1:
        joined.insert(0, one)
    if len(joined) > 2:
        raise InvalidArgument(f"the batch {s.batch} cannot be walked with one stride for each tensor",
                              "contiguous tensors, or tensors whose batch is one dimension")  # fmt: skip
    joined += [one] * (2 - len(joined))
    (m, inner), (batch, outer) = joined
    return _Walk(batch, m, list(zip(outer, inner)))


def _order(name: str, view: View, shape: tuple[int, int], strides: tuple[int, ...], preferred: int) -> tuple[int, int]:
    """The order of a matrix of rows and columns, and its leading dimension."""
    (rows, columns), (row, column) = shape, strides
    fits = {_ROW: (column == 1 or columns <= 1) and (rows <= 1 or row >= columns),
            _COLUMN: (row == 1 or rows <= 1) and (columns <= 1 or column >= rows)}  # fmt: skip
    order = preferred if fits[preferred] else 1 - preferred
    if not fits[order]:
        raise InvalidArgument(f"{name} has the shape {view.shape} and the strides {view.strides}",
                              "one of the last two dimensions contiguous, and the other's rows apart: a copy of it")  # fmt: skip
    lines, length, step = (rows, columns, row) if order == _ROW else (columns, rows, column)
    return order, step if lines > 1 else _padded(length)


def _leading(name: str, view: Optional[View], shape: tuple[int, int], strides: tuple[int, int]) -> int:
    """The leading dimension of a row-major matrix."""
    (rows, columns), (row, column) = shape, strides
    if (column != 1 and columns > 1) or (row < columns and rows > 1):
        raise InvalidArgument(f"{name} has the shape {view.shape} and the strides {view.strides}",
                              "contiguous rows apart from one another: a copy of it")  # fmt: skip
    return row if rows > 1 else _padded(columns)


def _padded(length: int) -> int:
    # Nothing follows the only line of a matrix, and a multiple is what the copy engines of a GPU ask for.
    return max(-(-length // _ALIGNMENT), 1) * _ALIGNMENT


def _set_dense(call: Gemm, s: _Shape) -> None:
    """No element is read or written; the library wants leading dimensions that could be."""
    call.order_a, call.order_b = _ROW, _COLUMN
    call.a.leading, call.b.leading, call.d_leading = max(s.k, 1), max(s.k, 1), max(s.columns, 1)
    call.c.leading = max(s.n, 1)
    for each in call.epilogue:
        if each.op in (_ADD, _MULTIPLY):
            each.leading = max(s.n, 1)
