"""One GEMM as the C structure: from what the tensors look like to a structure that lacks only its pointers and numbers.

The library takes matrices with a contiguous direction and one stride from a member of the batch to the next. Batch
dimensions that do not fit that are joined where the strides allow, with the rows of the result too: x of any leading
dimensions times one matrix is one product. What is left beyond one dimension is walked by several calls.
"""

from __future__ import annotations

import ctypes
import itertools
import math
from typing import NamedTuple, Optional

from tilesmith import _nvrtc
from tilesmith._errors import InvalidArgument, Unsupported, WrongType
from tilesmith._library import CUDA, Gemm, library, raise_last_error, sized
from tilesmith._views import BYTES, View, broadcast, check_devices, dense_strides, number

_CODES = {"fp32": 0, "fp16": 1, "bf16": 2, "fp8": 3, "bf8": 4, "int8": 5, "int4": 6, "int32": 7}
_TF32 = 8
_CONSTANT_B, _PACKED_B, _ZERO_POINTS = 1, 2, 4  # of the structure's flags
_INPUTS = ("fp32", "fp16", "bf16", "fp8", "bf8", "int8")
_FLOAT8 = ("fp8", "bf8")
_WIDE = ("fp32", "fp16", "bf16")
_WEIGHTS = ("int8", "int4")  # of fp16 and bf16
_PACKED = "uint8"  # two int4
_TYPES_TEXT = "float32, float16, bfloat16, float8 (e4m3, e5m2) or int8"
_ROW, _COLUMN = 0, 1
_BIAS, _BIAS_M, _SCALE_N, _SCALE_M, _ADD, _MULTIPLY, _CLAMP, _AMAX = 1, 2, 3, 4, 5, 6, 13, 19
ACTIVATIONS = {"relu": 7, "gelu": 8, "gelu_tanh": 9, "silu": 10, "sigmoid": 11, "tanh": 12}
GATES = {"glu": 14, "reglu": 15, "geglu": 16, "geglu_tanh": 17, "swiglu": 18}
_SCALE_BLOCK = 128
_SHALLOWEST = 32  # blocks of k of weights
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
    groups: Optional[View] = None  #: where each group ends
    zero_b: Optional[View] = None  #: of integer weights
    a2: Optional[View] = None  #: of a second product
    b2: Optional[View] = None
    amax: Optional[View] = None


#: The operands whose addresses run_all takes, in its order.
ADDRESSED = ("c", "bias", "multiply", "residual", "scale_a", "scale_b", "groups", "zero_b", "a2", "b2", "amax")

_BESIDE = ("c", "bias", "multiply", "residual")
_LAST = ("a2", "b2", "amax")
#: What callers know the operands as. grouped: the groups' rows lie behind one another; masked: each has a matrix.
NAMES = {
    "matmul": ("a", "b", *_BESIDE, "scale_a", "scale_b", "out", "groups", "zero_b", *_LAST),
    "mm_plus_mm": ("a", "b", *_BESIDE, "scale_a", "scale_b", "out", "groups", "zero_b", "c", "d", "amax"),
    "linear": ("x", "w", *_BESIDE, "scale_x", "scale_w", "out", "groups", "zero_w", *_LAST),
    "packed": ("x", "w", *_BESIDE, "scale_x", "scale_w", "out", "groups", "zero_w", *_LAST),  # linear of a PackedWeight
    "grouped": ("a", "b", *_BESIDE, "scale_a", "scale_b", "out", "group_ends", "zero_b", *_LAST),
    "masked": ("a", "b", *_BESIDE, "scale_a", "scale_b", "out", "group_rows", "zero_b", *_LAST),
}
_LINEAR = ("linear", "packed")
_GROUPING = {"grouped": 1, "masked": 2}


class Options(NamedTuple):
    """The arguments that are neither tensors nor alpha and beta."""

    form: str  #: of NAMES
    out_type: Optional[str]
    activation: Optional[str]
    gate: Optional[str]
    clamp: Optional[tuple[float, float]]
    tf32: bool
    constant_b: bool
    scaled: bool  #: there are scales, vectors or numbers
    packed_bytes: int = 0  #: of a packed b


class Call:
    """A prepared call. It belongs to the thread that made it: the structure is filled anew for each run."""

    __slots__ = ("_call", "_address", "_compute", "_words", "_floats", "places", "out_shape", "out_type", "same_type",
                 "stream_device")  # fmt: skip

    def __init__(self, call: Gemm, places: list[tuple[int, int]], operands: Operands, out_shape: tuple[int, ...],
                 out_type: str) -> None:  # fmt: skip
        self._call = call
        self._address = ctypes.addressof(call)
        self._compute = library().tilesmith_gemm_compute
        memory = memoryview((ctypes.c_char * ctypes.sizeof(call)).from_buffer(call)).cast("B")
        self._words, self._floats = memory.cast("Q"), memory.cast("f")
        self.places = places  #: of the operands beside a, b and out: position among them, word of the structure
        self.out_shape = out_shape
        self.out_type = out_type
        self.same_type = out_type == operands.a.data_type
        self.stream_device = call.device.index if call.device.kind == CUDA else -1  #: whose stream; -1: none

    def run(self, alpha: float, a: int, b: int, out: int, stream: int, bias: int = 0) -> None:
        """Runs on these addresses. No operand but a bias."""
        words = self._words
        words[WORD_A], words[WORD_B], words[WORD_D], words[WORD_STREAM] = a, b, out, stream
        self._floats[WORD_ALPHA] = alpha
        if bias:
            words[_EPILOGUE] = bias
        status = self._compute(None, self._address)
        if status:
            raise_last_error(status)

    def copy_to(self, address: int) -> None:
        """The structure as it is, to other memory."""
        ctypes.memmove(address, self._address, ctypes.sizeof(Gemm))

    def run_all(self, alpha: float, a: int, b: int, out: int, stream: int, *operands: int) -> None:
        """Runs on these addresses; operands: those of ADDRESSED in order, 0 where there is none."""
        for at, word in self.places:
            self._words[word] = operands[at]
        self.run(alpha, a, b, out, stream)


class BatchCall(Call):
    """A call for each member of a batch that has no one stride: they differ in their addresses alone."""

    __slots__ = ("_moves",)

    def __init__(self, call: Gemm, places: list[tuple[int, int]], operands: Operands, out_shape: tuple[int, ...],
                 out_type: str, moves: list[dict[str, int]]) -> None:  # fmt: skip
        super().__init__(call, places, operands, out_shape, out_type)
        self._moves = [tuple(move.get(name, 0) for name in ("a", "b", "out", *ADDRESSED)) for move in moves]

    def run(self, alpha: float, a: int, b: int, out: int, stream: int, bias: int = 0) -> None:
        self.run_all(alpha, a, b, out, stream, 0, bias, *(0,) * (len(ADDRESSED) - 2))

    def run_all(self, alpha: float, a: int, b: int, out: int, stream: int, *operands: int) -> None:
        for to_a, to_b, to_out, *to_operands in self._moves:
            for at, word in self.places:
                self._words[word] = operands[at] + to_operands[at]
            super().run(alpha, a + to_a, b + to_b, out + to_out, stream)


# Words (of eight bytes; of alpha, four) of the structure.
WORD_A, WORD_B, _C, WORD_D = (Gemm.a.offset // 8, Gemm.b.offset // 8, Gemm.c.offset // 8, Gemm.d.offset // 8)
WORD_STREAM = Gemm.stream.offset // 8
_EPILOGUE = (Gemm.epilogue.offset + 8) // 8  # the data of the first operation
_EPILOGUE_STEP = 5
WORD_ALPHA = Gemm.alpha.offset // 4
_SCALE_A, _SCALE_B, _GROUPS = Gemm.scale_a.offset // 8, Gemm.scale_b.offset // 8, Gemm.group_ends.offset // 8
_A2, _B2, _MOST = Gemm.a2.offset // 8, Gemm.b2.offset // 8, Gemm.amax.offset // 8
_ZERO_B = Gemm.zero_b.offset // 8


def prepare(x: Operands, o: Options, beta: float) -> Call:
    """Checks everything that can be checked without the data, and fills in the structure. beta is read where c is there."""
    names = NAMES[o.form]
    call = sized(Gemm)
    check_devices(names, x)
    call.device.kind, call.device.index = x.a.kind, x.a.index
    if x.a.kind == CUDA:
        _nvrtc.find()
    _check_choices(o)
    x = _unpacked(x, o, names)
    out_type = _set_types(call, x, o, names)
    shape = _Shape.of(x, o)
    blocks = _Blocks.of(x, o, shape)
    places = _set_epilogue(call, x, o, beta, names, shape, blocks)
    _set_groups(call, x, o, names, shape, places)
    moves = _set_matrices(call, x, o, names, shape, blocks, out_type)
    if o.form == "packed":
        call.flags |= _PACKED_B
        call.b.leading = o.packed_bytes
    if len(moves) > 1:
        return BatchCall(call, places, x, shape.result, out_type, moves)
    return Call(call, places, x, shape.result, out_type)


def packing_call(w: View) -> Gemm:
    """The product whose b is to be packed: that of linear with a weight like this, (n, k)."""
    call = sized(Gemm)
    call.device.kind, call.device.index = w.kind, w.index
    if w.data_type not in _INPUTS:
        raise WrongType(f"w is {w.data_type}", _TYPES_TEXT)
    out_type = {"int8": "int32", "fp8": "bf16", "bf8": "bf16"}.get(w.data_type, w.data_type)
    call.type_a = call.type_b = _CODES[w.data_type]
    call.type_c = call.type_d = _CODES[out_type]
    call.type_bias = _CODES["fp32"]
    call.m = call.batch = call.alpha = 1
    call.n, call.k = w.shape
    call.order_b, call.b.leading = _order("w", w, (call.k, call.n), w.strides[::-1], _COLUMN)
    return call


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
    if a != b and not (a in _FLOAT8 and b in _FLOAT8) and not has_weights(a, b):
        raise WrongType(f"{names[0]} is {a}, {names[1]} is {b}",
                        "one type for both, float8 of both kinds, or integer weights of float16 and bfloat16")  # fmt: skip
    if x.a2 is not None and has_weights(a, b):
        raise Unsupported(f"{names[1]} holds integer weights of {a}, and there is a second product", "two calls", "unsupported")
    for name, view, data_type in ((names[11], x.a2, a), (names[12], x.b2, b)):
        if view is not None and view.data_type != data_type:
            raise WrongType(f"{name} is {view.data_type}", f"{data_type}, as in the first product")
    out_type = _out_type(x, o)
    if o.tf32 and a != "fp32":
        raise InvalidArgument(f"tf32 is set, and {names[0]} is {a}", "float32")
    if o.constant_b:
        call.flags |= _CONSTANT_B
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
    weights = has_weights(a, b)
    for name, view in ((names[6], x.scale_a), (names[7], x.scale_b)):
        if view is not None and view.data_type != "fp32":
            if not weights or view is not x.scale_b or view.data_type != a:
                raise WrongType(f"{name} is {view.data_type}", f"float32 or {a}" if weights else "float32")
            call.type_scale = _CODES[view.data_type]
    if x.zero_b is not None:
        if not weights:
            raise WrongType(f"{names[10]} beside {names[1]} of {b}", "int8 weights, or pairs of int4, of float16 and bfloat16")
        if x.zero_b.data_type != "int8":
            raise WrongType(f"{names[10]} is {x.zero_b.data_type}", "int8")
        call.flags |= _ZERO_POINTS
    return out_type


def has_weights(a: str, b: str) -> bool:
    """Whether b holds integers that stand for numbers of a's type."""
    return a in ("fp16", "bf16") and b in (*_WEIGHTS, _PACKED)


def _unpacked(x: Operands, o: Options, names: tuple[str, ...]) -> Operands:
    """Bytes of two int4, which lie along k, seen as int4."""
    if x.b.data_type != _PACKED or not has_weights(x.a.data_type, _PACKED):
        return x
    if len(x.b.shape) < 2:
        raise InvalidArgument(f"{names[1]} has the shape {x.b.shape}", "pairs of int4 in a matrix")
    at = len(x.b.shape) - (1 if o.form in _LINEAR else 2)
    if x.b.strides[at] != 1 and x.b.shape[at] > 1:
        raise InvalidArgument(f"{names[1]} has the strides {x.b.strides}", "pairs of int4 behind one another along k")
    shape, k = list(x.b.shape), x.a.shape[-1] if x.a.shape else 0
    shape[at] = k if 2 * shape[at] == k + 1 else 2 * shape[at]
    strides = [stride if i == at else 2 * stride for i, stride in enumerate(x.b.strides)]
    return x._replace(b=x.b._replace(data_type="int4", shape=tuple(shape), strides=tuple(strides)))


def _out_type(x: Operands, o: Options) -> str:
    chosen = o.out_type
    if x.out is not None:
        if chosen is not None and chosen != x.out.data_type:
            raise WrongType(f"out is {x.out.data_type}, out_dtype {chosen}", "one of the two")
        chosen = x.out.data_type
    if chosen is None:
        a = x.a.data_type
        if a == "int8":
            beside = (x.bias, x.multiply, x.residual, x.amax, o.activation, o.gate, o.clamp)
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
    groups: Optional[int]
    k2: int = 0  #: of a second product

    @staticmethod
    def of(x: Operands, o: Options) -> _Shape:
        a, b = x.a, x.b
        linear = o.form in _LINEAR
        if o.form in _GROUPING:
            _check_group_shapes(a, b, o.form)
        if linear:
            if len(b.shape) != 2:
                raise InvalidArgument(f"w has the shape {b.shape}", "(n, k)")
            b = _transposed(b)
        if x.a2 is not None and x.b2 is not None:
            _check_pair_shapes(x)
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
        batch = a.shape[:-2] if o.form in _GROUPING else _broadcast_shapes("b", a.shape[:-2], b.shape[:-2])
        k2 = 0
        if x.a2 is not None and x.b2 is not None:
            k2 = x.a2.shape[-1]
            batch = _broadcast_shapes("d", _broadcast_shapes("c", batch, x.a2.shape[:-2]), x.b2.shape[:-2])
        columns = n // 2 if o.gate is not None else n
        groups = b.shape[0] if o.form in _GROUPING else None
        return _Shape(batch, m, n, k, columns, drops_row, drops_column, a, b, groups, k2)

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


def _check_pair_shapes(x: Operands) -> None:
    """a (..., m, k), b (..., k, n), c (..., m, k2), d (..., k2, n); a and b are compared where all products are."""
    for name, view in zip("abcd", (x.a, x.b, x.a2, x.b2)):
        if len(view.shape) < 2:
            raise InvalidArgument(f"{name} has the shape {view.shape}", "two dimensions or more")
    (m, k2), (k2_of_d, n) = x.a2.shape[-2:], x.b2.shape[-2:]
    for what, other, hint in ((f"a has {x.a.shape[-2]} rows, c {m}", x.a.shape[-2] == m, "a is (..., m, k) and c is (..., m, k2)"),
                              (f"b has {x.b.shape[-1]} columns, d {n}", x.b.shape[-1] == n,
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


def _transposed(view: View) -> View:
    return view._replace(shape=(*view.shape[:-2], view.shape[-1], view.shape[-2]),
                         strides=(*view.strides[:-2], view.strides[-1], view.strides[-2]))  # fmt: skip


def _broadcast_shapes(name: str, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """Of the batch of a, and of all up to the matrix `name`."""
    longer, shorter = (a, b) if len(a) >= len(b) else (b, a)
    padded = (1,) * (len(longer) - len(shorter)) + shorter
    if any(p != q and 1 not in (p, q) for p, q in zip(longer, padded)):
        raise InvalidArgument(f"the batch of a is {a}, of {name} {b}", "dimensions that are the same, or 1")
    return tuple(q if p == 1 else p for p, q in zip(longer, padded))


# ---------------------------------------------------------------------------------------------------------- epilogue


def _set_epilogue(call: Gemm, x: Operands, o: Options, beta: float, names: tuple[str, ...],
                  s: _Shape, blocks: _Blocks) -> list[tuple[int, int]]:  # fmt: skip
    """The list of operations, and where the addresses of the operands go."""
    call.alpha, call.beta = 1, 0
    places: list[tuple[int, int]] = []
    if s.k2 > 0:
        places += [(ADDRESSED.index("a2"), _A2), (ADDRESSED.index("b2"), _B2)]
    at = 0

    def append(op: int, operand: Optional[str] = None) -> None:
        nonlocal at
        call.epilogue[at].op = op
        if operand is not None:
            places.append((ADDRESSED.index(operand), _EPILOGUE + _EPILOGUE_STEP * at))
        at += 1

    if blocks.of_a:
        places.append((ADDRESSED.index("scale_a"), _SCALE_A))
    elif x.scale_a is not None:
        append(_SCALE_M, "scale_a")
    if blocks.depth:
        places.append((ADDRESSED.index("scale_b"), _SCALE_B))
        if x.zero_b is not None:
            places.append((ADDRESSED.index("zero_b"), _ZERO_B))
    elif x.scale_b is not None:
        call.epilogue[at].batch = _column_vector(names[7], x.scale_b, s, o.form in _LINEAR)
        append(_SCALE_N, "scale_b")
    if x.c is not None and at > 0:
        if beta != 1:  # the sum of products is scaled before c is added
            raise InvalidArgument(f"beta is {beta} beside scales that are vectors", "1, and c multiplied beforehand")
        append(_ADD, "c")
    elif x.c is not None:
        call.beta = number("beta", beta)
        places.append((ADDRESSED.index("c"), _C))
    if (bias := x.bias) is not None:
        if _is_column(bias, s):
            append(_BIAS_M, "bias")
        else:
            call.epilogue[at].batch = _column_vector("bias", bias, s, False)
            append(_BIAS, "bias")
    if o.activation is not None:
        append(ACTIVATIONS[o.activation])
    if o.gate is not None:
        append(GATES[o.gate])
    if x.multiply is not None:
        append(_MULTIPLY, "multiply")
    if x.residual is not None:
        append(_ADD, "residual")
    if o.clamp is not None:
        call.epilogue[at].low, call.epilogue[at].high = o.clamp
        append(_CLAMP)
    if x.amax is not None:
        if x.amax.data_type != "fp32" or math.prod(x.amax.shape) != 1:
            raise WrongType(f"amax is {x.amax.data_type} of the shape {x.amax.shape}", "True, or float32 of one element")
        append(_AMAX)
        places.append((ADDRESSED.index("amax"), _MOST))
    return places


def _is_column(bias: View, s: _Shape) -> bool:
    """Whether a bias has one number a row of the product."""
    return s.groups is None and len(bias.shape) == 2 and bias.shape[1] == 1 and bias.shape[0] > 1


def _column_vector(name: str, view: View, s: _Shape, column: bool) -> int:
    """Checks a vector over columns, (n,), (1, n), or (n, 1) where it is a column; with groups (n,) or (groups, n). Returns the
    stride from group to group."""
    shape, strides = view.shape, view.strides
    batch = 0
    if s.groups is not None and len(shape) == 2 and shape[0] == s.groups:
        batch, shape, strides = strides[0], shape[1:], strides[1:]
    elif len(shape) == 2 and shape[1 if column else 0] == 1:
        at = 0 if column else 1
        shape, strides = (shape[at],), (strides[at],)
    if shape != (s.n,) or (strides[0] != 1 and s.n > 1) or batch < 0:
        wanted = f"({s.n},)" if s.groups is None else f"({s.n},) or {(s.groups, s.n)}"
        raise InvalidArgument(f"{name} has the shape {view.shape} and the strides {view.strides}",
                              f"{wanted}, contiguous: one number a column of the product")  # fmt: skip
    return batch


class _Blocks(NamedTuple):
    """Scales by blocks of k: of float8, 128 elements of a's rows and 128 by 128 of b; of weights, so many of b's columns."""

    depth: int = 0  #: elements of k; 0: there are none
    of_a: bool = False
    strides_b: tuple[int, ...] = ()  #: of b's scales along batch, blocks of k, and lines (columns, or 128 of them)
    strides_zero: tuple[int, ...] = ()  #: of zero points, likewise; (): there are none

    @staticmethod
    def of(x: Operands, o: Options, s: _Shape) -> _Blocks:
        if has_weights(x.a.data_type, x.b.data_type):
            return _weight_blocks(x, o, s)
        scales = x.scale_a, x.scale_b
        if scales == (None, None) or x.a.data_type not in _FLOAT8:
            return _Blocks()
        blocks_k, blocks_n = -(-s.k // _SCALE_BLOCK), -(-s.n // _SCALE_BLOCK)
        lines = (blocks_n, blocks_k) if o.form in _LINEAR else (blocks_k, blocks_n)
        shapes = (*x.a.shape[:-1], blocks_k), (*x.b.shape[:-2], *lines)
        fits = [scale is not None and scale.shape == shape for scale, shape in zip(scales, shapes)]
        if all(fits):
            of_b = _transposed(x.scale_b) if o.form in _LINEAR else x.scale_b
            return _Blocks(_SCALE_BLOCK, True, of_b.strides)
        # What has one block of k may be a vector; what has several is by blocks, and so is the other to be.
        for at, several in enumerate((blocks_k > 1, math.prod(shapes[1]) > 1)):
            if fits[at] and several:
                mine, other = NAMES[o.form][6 + at], NAMES[o.form][7 - at]
                given = "is not given" if scales[1 - at] is None else f"has the shape {scales[1 - at].shape}"
                raise InvalidArgument(f"{mine} is by blocks of 128 and {other} {given}", f"{shapes[1 - at]}, by blocks too")
        return _Blocks()


def _weight_blocks(x: Operands, o: Options, s: _Shape) -> _Blocks:
    """Scales of weights, and zero points of the same shape."""
    names = NAMES[o.form]
    if x.scale_b is None:
        raise InvalidArgument(f"{names[1]} is {x.b.data_type} and {names[0]} {x.a.data_type}, and {names[7]} is no tensor",
                              _weight_shapes(x, o, s))  # fmt: skip
    depth, strides = _weight_strides(names[7], x.scale_b, x, o, s)
    if x.zero_b is None:
        return _Blocks(depth, False, strides)
    if x.zero_b.shape != x.scale_b.shape:
        raise InvalidArgument(f"{names[10]} has the shape {x.zero_b.shape}", f"that of {names[7]}, {x.scale_b.shape}")
    return _Blocks(depth, False, strides, _weight_strides(names[10], x.zero_b, x, o, s)[1])


def _weight_shapes(x: Operands, o: Options, s: _Shape) -> str:
    shapes = f"({s.n}, blocks of k)" if o.form in _LINEAR else f"{(*x.b.shape[:-2], 'blocks of k', s.n)}"
    return f"({s.n},) or {shapes}; blocks of a power of two from {_SHALLOWEST} on, or one"


def _weight_strides(name: str, view: View, x: Operands, o: Options, s: _Shape) -> tuple[int, tuple[int, ...]]:
    """Depth of the blocks and strides along batch, blocks and columns of what is (n,) or by blocks of k: (n, k / depth) for
    linear, else (..., k / depth, n); with groups (groups, n) too."""
    batch = x.b.shape[:-2]
    linear = o.form in _LINEAR
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


def _set_groups(call: Gemm, x: Operands, o: Options, names: tuple[str, ...], s: _Shape,
                places: list[tuple[int, int]]) -> None:  # fmt: skip
    if s.groups is None:
        return
    groups = x.groups
    if groups is None or groups.data_type != "int32" or groups.shape != (s.groups,) or (
            groups.strides != (1,) and s.groups > 1):  # fmt: skip
        given = "None" if groups is None else f"{groups.data_type}, {groups.shape} with the strides {groups.strides}"
        raise WrongType(f"{names[9]} is {given}", f"int32, ({s.groups},), contiguous: one number a group")
    call.grouping = _GROUPING[o.form]
    places.append((ADDRESSED.index("groups"), _GROUPS))


# ---------------------------------------------------------------------------------------------------------- matrices


class _Walk(NamedTuple):
    """How the matrices are walked: `batch` members of `m` rows, and for each operand its stride along both. What the batch has
    beyond one dimension is walked by calls: sizes, and for each operand its strides along them."""

    batch: int
    m: int
    strides: list[tuple[int, int]]
    beyond: tuple[tuple[int, list[int]], ...] = ()

    def moves(self, walked: list[tuple[str, str]]) -> list[dict[str, int]]:
        """Bytes from the first call's operands to those of each, by name; `walked` are their names and types."""
        bits = [4 if data_type == "int4" else 8 * BYTES[data_type] for _, data_type in walked]
        return [{name: sum(index * strides[at] for index, (_, strides) in zip(indices, self.beyond)) * bits[at] // 8
                 for at, (name, _) in enumerate(walked)}
                for indices in itertools.product(*(range(size) for size, _ in self.beyond))]  # fmt: skip


def _set_matrices(call: Gemm, x: Operands, o: Options, names: tuple[str, ...], s: _Shape,
                  blocks: _Blocks, out_type: str) -> list[dict[str, int]]:  # fmt: skip
    """Sizes, orders and strides. Returns where each of the calls has its operands, in bytes from the first's."""
    out = x.out if x.out is not None else View("", s.result, dense_strides(s.result), 0, 0)
    if out.shape != s.result:
        raise InvalidArgument(f"out has the shape {out.shape}", str(s.result))
    views = (s.a, s.b, x.c, x.bias, x.multiply, x.residual, x.scale_a, x.scale_b, out, None, x.zero_b, x.a2, x.b2)
    for name, view in zip(names, views):
        if view is not None and not s.empty and any(stride < 0 for stride in view.strides):
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
    if x.bias is not None and _is_column(x.bias, s):
        vectors["bias"] = _row_vector("bias", x.bias, s)
    if x.scale_a is not None and not blocks.of_a:
        vectors[names[6]] = _row_vector(names[6], x.scale_a, s)
    call.n, call.k, call.k2, call.scale_depth = s.n, s.k, s.k2, blocks.depth
    if s.empty:
        call.m, call.batch = s.m, math.prod(s.batch) if s.groups is None else s.groups
        _set_dense(call, s)
        return [{}]
    rows = [a[:-1], (*b[:-2], 0), d[:-1], *(strides[:-1] for strides in beside.values()), *vectors.values()]
    walked = [("a", x.a.data_type), ("b", x.b.data_type), ("out", out_type),
              *((name, getattr(x, name).data_type) for name in beside),
              *(("bias", x.bias.data_type) if name == "bias" else ("scale_a", "fp32") for name in vectors)]  # fmt: skip
    if blocks.depth:
        batch_shape = x.b.shape[:-2]
        missing = (0,) * (len(s.batch if s.groups is None else (s.groups,)) - len(batch_shape))
        for of_b, name, given in ((call.scale_b, "scale_b", blocks.strides_b), (call.zero_b, "zero_b", blocks.strides_zero)):
            if given:
                own = (0 if size == 1 else stride for size, stride in zip(batch_shape, given))
                rows.append((*missing, *own, 0))
                walked.append((name, getattr(x, name).data_type))
                of_b.block, of_b.row = given[-2:]
    if blocks.of_a:
        rows.append(x.scale_a.strides[:-1])
        walked.append(("scale_a", "fp32"))
        call.scale_a.block = x.scale_a.strides[-1]
    if s.k2 > 0:
        a2, b2 = _in_batch(x.a2, s.batch), _in_batch(x.b2, s.batch)
        rows += [a2[:-1], (*b2[:-2], 0)]
        walked += [("a2", x.a2.data_type), ("b2", x.b2.data_type)]
    walk = _join(s, rows, a, d, beside) if s.groups is None else _groups_walk(s, rows)
    call.m, call.batch = walk.m, walk.batch
    preferred_a, preferred_b = _ROW, _COLUMN
    if s.k2 > 0:
        (call.a2.batch, row), (call.b2.batch, _) = walk.strides[-2:]
        pair = (names[11], x.a2, (walk.m, s.k2), (row, a2[-1])), (names[12], x.b2, (s.k2, s.n), b2[-2:])
        preferred_a, preferred_b = _order(*pair[0], preferred_a)[0], _order(*pair[1], preferred_b)[0]
    call.order_a, call.a.leading = _order(names[0], x.a, (walk.m, s.k), (walk.strides[0][1], a[-1]), preferred_a)
    call.order_b, call.b.leading = _order(names[1], x.b, (s.k, s.n), b[-2:], preferred_b)
    if s.k2 > 0:
        call.a2.leading = _same_order(names[0], x.a, call.order_a, *pair[0])
        call.b2.leading = _same_order(names[1], x.b, call.order_b, *pair[1])
    call.a.batch, call.b.batch = walk.strides[0][0], walk.strides[1][0]
    call.d_leading = _leading("out", out, (walk.m, s.columns), (walk.strides[2][1], d[-1]))
    call.d_batch = walk.strides[2][0]
    operations = [each for each in call.epilogue if each.op in (_ADD, _MULTIPLY)]
    for (name, strides), (batch, row) in zip(beside.items(), walk.strides[3:]):
        first = name == "c" and len(operations) == sum(view is not None for view in (x.multiply, x.residual))
        target = call.c if first else operations.pop(0)
        columns = s.n if name == "c" else s.columns
        target.leading = _leading(name, getattr(x, name), (walk.m, columns), (row, strides[-1]))
        target.batch = batch
    for (name, strides), (batch, row) in zip(vectors.items(), walk.strides[3 + len(beside) :]):
        if s.groups is not None:
            next(each for each in call.epilogue if each.op == _SCALE_M).batch = batch
        elif batch != 0 and walk.batch > 1:
            row = 0
        if row != 1 and walk.m > 1:
            raise InvalidArgument(f"{name} is not one number after the other along the rows of {names[0]}",
                                  f"contiguous, ({s.m},) or the shape of {names[0]} without its last dimension")  # fmt: skip
    if blocks.of_a:
        call.scale_a.batch, call.scale_a.row = walk.strides[-1]
    if blocks.strides_zero:
        call.scale_b.batch, call.zero_b.batch = walk.strides[-2][0], walk.strides[-1][0]
    elif blocks.depth:
        call.scale_b.batch = walk.strides[-2 if blocks.of_a else -1][0]
    return walk.moves(walked)


def _groups_walk(s: _Shape, rows: list[tuple[int, ...]]) -> _Walk:
    """Groups are walked as they are: one matrix for all (but for b and its scales), or one for each."""
    return _Walk(s.groups, s.m, [(each[0] if len(each) == 2 else 0, each[-1]) for each in rows])


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
    (m, inner), *batches = joined or [one]
    *beyond, (batch, outer) = sorted(batches, key=lambda each: each[0]) or [one]
    return _Walk(batch, m, list(zip(outer, inner)), tuple(beyond))


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


def _same_order(first: str, view: View, order: int, name: str, view2: View, shape: tuple[int, int],
                strides: tuple[int, ...]) -> int:  # fmt: skip
    """The leading dimension of a matrix of the second product, in the order of that of the first."""
    order2, leading = _order(name, view2, shape, strides, order)
    if order2 != order:
        raise InvalidArgument(f"{first} has the strides {view.strides} and {name} {view2.strides}",
                              "both contiguous along the same dimension: a copy of one")  # fmt: skip
    return leading


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
