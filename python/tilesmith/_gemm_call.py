"""One GEMM as the C structure: from what the tensors look like to a structure that lacks only its pointers and numbers."""

from __future__ import annotations

import ctypes
import math
from typing import Any, Optional

from tilesmith import _nvrtc
from tilesmith._candidates import entry
from tilesmith._errors import InvalidArgument, Unsupported, WrongType
from tilesmith._gemm_blocks import Blocks
from tilesmith._gemm_matrices import COLUMN, order_of, set_matrices
from tilesmith._gemm_operands import (
    ADD, ADDRESSED, AMAX, BIAS, BIAS_M, CLAMP, PREFETCH_WEIGHTS, FLOAT8, GROUPING, LINEAR, MULTIPLY, NAMES, PACKED_B, PACKED_INT4, SCALE_M, SCALE_N,
    ZERO_POINTS, Names, Operands, Options, Views, has_weights,
)  # fmt: skip
from tilesmith._gemm_shape import Shape, is_column
from tilesmith._library import CUDA, Gemm, raise_last_error, sized
from tilesmith._options import options_now
from tilesmith._repeated import TIMES_KEPT, Output, Repetition
from tilesmith._views import View, check_devices, flag, number, one_of, shown

_CODES = {"fp32": 0, "fp16": 1, "bf16": 2, "fp8": 3, "bf8": 4, "int8": 5, "int4": 6, "int32": 7}
_TF32 = 8
_INPUTS = ("fp32", "fp16", "bf16", "fp8", "bf8", "int8")
_WIDE = ("fp32", "fp16", "bf16")
_TYPES_TEXT = "float32, float16, bfloat16, float8 (e4m3, e5m2) or int8"
ACTIVATIONS = {"relu": 7, "gelu": 8, "gelu_tanh": 9, "silu": 10, "sigmoid": 11, "tanh": 12}
GATES = {"glu": 14, "reglu": 15, "geglu": 16, "geglu_tanh": 17, "swiglu": 18}


class Call:
    """A prepared call. It belongs to the thread that made it: the structure is filled anew for each run."""

    __slots__ = ("_call", "_address", "_compute", "_words", "_floats", "places", "parts", "out_shape", "out_type", "same_type",
                 "stream_device", "repeats")  # fmt: skip

    def __init__(self, call: Gemm, places: list[tuple[int, int]], operands: Views, out_shape: tuple[int, ...],
                 out_type: str) -> None:  # fmt: skip
        self._call = call
        self._address = ctypes.addressof(call)
        self._compute = entry(self, "_compute", call.device.kind, "tilesmith_gemm_plan_for", "tilesmith_gemm_compute",
                              "tilesmith_gemm_candidates")  # fmt: skip
        memory = memoryview((ctypes.c_char * ctypes.sizeof(call)).from_buffer(call)).cast("B")
        self._words, self._floats = memory.cast("Q"), memory.cast("f")
        self.places = places  #: of the operands beside a, b and out: position among them, word of the structure
        #: Positions of the operands that lie as the parts of complex numbers do. torch may negate such a view, and nothing
        #: that a call is found by tells: asking these each time is cheaper than asking all.
        self.parts = tuple(at for at, view in enumerate(operands) if view is not None and _is_part(view))
        self.out_shape = out_shape
        self.out_type = out_type
        self.same_type = out_type == operands.a.data_type
        self.stream_device = call.device.index if call.device.kind == CUDA else -1  #: whose stream; -1: none
        self.repeats = TIMES_KEPT  #: how often it is still told to repeated calls

    def repetition(self, factors: tuple[int, ...], out: Optional[Output]) -> Repetition:
        """What it does with the arguments in the order of ARGUMENTS. factors: scales that alpha is multiplied by. out: how the
        result is made, where it is none of the arguments."""
        pointers = [(A, WORD_A), (_B, WORD_B), *((_ADDRESSED_AT[at], word) for at, word in self.places)]
        if out is None:
            pointers.append((OUT, WORD_D))
        stream = ((self.stream_device, WORD_STREAM),) if self.stream_device >= 0 else ()
        return Repetition("gemm", self._call, tuple(pointers), (_ALPHA, WORD_ALPHA, *factors), stream,
                          OUT if out is None else -1, () if out is None else (out,), tuple(_OPERANDS_AT[at] for at in self.parts))  # fmt: skip

    def run(self, alpha: float, a: int, b: int, out: int, stream: int, bias: Optional[int] = None) -> None:
        """Runs on these addresses. No operand but a bias."""
        words = self._words
        words[WORD_A], words[WORD_B], words[WORD_D], words[WORD_STREAM] = a, b, out, stream
        self._floats[WORD_ALPHA] = alpha
        if bias is not None:  # of a tensor without memory it is 0, which the library names
            words[_EPILOGUE] = bias
        status = self._compute(None, self._address)
        if status:
            raise_last_error(status)

    def store(self, word: int, address: int) -> None:
        """Of an operand beside a, b, out and a bias; `word` is its place's."""
        self._words[word] = address

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

    def __init__(self, call: Gemm, places: list[tuple[int, int]], operands: Views, out_shape: tuple[int, ...],
                 out_type: str, moves: list[dict[str, int]]) -> None:  # fmt: skip
        super().__init__(call, places, operands, out_shape, out_type)
        self.repeats = 0
        self._moves = [tuple(move.get(name, 0) for name in ("a", "b", "out", *ADDRESSED)) for move in moves]

    def run(self, alpha: float, a: int, b: int, out: int, stream: int, bias: Optional[int] = None) -> None:
        self.run_all(alpha, a, b, out, stream, 0, bias or 0, *(0,) * (len(ADDRESSED) - 2))

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

#: What calls are served with, in order.
ARGUMENTS = ("form", "a", "b", "c", "bias", "multiply", "residual", "scale_a", "scale_b", "out", "groups", "zero_b", "a2", "b2", "amax", "out_dtype",
             "alpha", "beta", "activation", "gate", "clamp", "tf32", "prefetch_weights")  # fmt: skip
KINDS = "".join("n" if name == "alpha" else "t" if name in ("a", "b", "out", *ADDRESSED) else "o" for name in ARGUMENTS)
A, _B, OUT, _ALPHA = map(ARGUMENTS.index, ("a", "b", "out", "alpha"))
SCALE_A, SCALE_B = map(ARGUMENTS.index, ("scale_a", "scale_b"))
_ADDRESSED_AT, _OPERANDS_AT = tuple(map(ARGUMENTS.index, ADDRESSED)), tuple(map(ARGUMENTS.index, Operands._fields))


def prepare(x: Views, o: Options, beta: float, threads: int = 0) -> Call:
    """Checks everything that can be checked without the data, and fills in the structure. beta is read where c is there.
    `threads`: as of options_now."""
    names = NAMES[o.form]
    call = sized(Gemm)
    if (given := options_now(x.a.kind, threads)) is not None:
        call.options = ctypes.pointer(given)
    check_devices(names, x.a, x)
    call.device.kind, call.device.index = x.a.kind, x.a.index
    if x.a.kind == CUDA:
        _nvrtc.find()
    _check_choices(o)
    x = _unpacked(x, o, names)
    out_type = _set_types(call, x, o, names)
    shape = Shape.of(x, o)
    blocks = Blocks.of(x, o, shape)
    operands, (x, places) = x, _without_numbers(x)
    places += _set_epilogue(call, x, o, beta, names, shape, blocks)
    _set_groups(call, x, o, names, shape, places)
    moves = set_matrices(call, x, o, names, shape, blocks, out_type)
    if o.form == "packed":
        call.flags |= PACKED_B
        call.b.leading = o.packed_bytes
    if len(moves) > 1:
        return BatchCall(call, places, operands, shape.result, out_type, moves)
    return Call(call, places, operands, shape.result, out_type)


def _without_numbers(x: Views) -> tuple[Views, list[tuple[int, int]]]:
    """The operands but scales without dimensions, which the products are multiplied by, and where the addresses of those go."""
    numbers = [(name, word) for name, word in (("scale_a", _SCALE_A), ("scale_b", _SCALE_B))
               if (view := getattr(x, name)) is not None and not view.shape]  # fmt: skip
    without: dict[str, Any] = {name: None for name, _ in numbers}
    return x._replace(**without), [(ADDRESSED.index(name), word) for name, word in numbers]


def _is_part(view: View) -> bool:
    """Whether its elements may be every other one of what they lie in."""
    return view.data_type in ("fp32", "fp16") and all(stride % 2 == 0 for size, stride in zip(view.shape, view.strides) if size != 1)


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
    call.order_b, call.b.leading = order_of("w", w, (call.k, call.n), w.strides[::-1], COLUMN)
    return call


def _check_choices(o: Options) -> None:
    flag("tf32", o.tf32)
    flag("prefetch_weights", o.prefetch_weights)
    for name, value, known in (("activation", o.activation, ACTIVATIONS), ("gate", o.gate, GATES)):
        if value is not None:
            one_of(name, value, known)
    if o.activation is not None and o.gate is not None:
        raise InvalidArgument(f"activation is {o.activation!r} and gate is {o.gate!r}", "one of the two; gates have one")
    if o.clamp is not None:
        if not isinstance(o.clamp, tuple) or len(o.clamp) != 2:
            raise WrongType(f"clamp is {shown(o.clamp)}", "(low, high)")
        low, high = (number("a bound of clamp", bound) for bound in o.clamp)
        if not low <= high:
            raise InvalidArgument(f"clamp is {shown(o.clamp)}", "(low, high), low at most high")


# ------------------------------------------------------------------------------------------------------------- types


def _set_types(call: Gemm, x: Views, o: Options, names: Names) -> str:
    a, b = x.a.data_type, x.b.data_type
    if a not in _INPUTS:
        raise WrongType(f"{names.a} is {a}", _TYPES_TEXT)
    if a != b and not (a in FLOAT8 and b in FLOAT8) and not has_weights(a, b):
        raise WrongType(f"{names.a} is {a}, {names.b} is {b}",
                        "one type for both, float8 of both kinds, or integer weights of float16 and bfloat16")  # fmt: skip
    if x.a2 is not None and has_weights(a, b):
        raise Unsupported(f"{names.b} holds integer weights of {a}, and there is a second product", "two calls", "unsupported")
    for name, view, data_type in ((names.a2, x.a2, a), (names.b2, x.b2, b)):
        if view is not None and view.data_type != data_type:
            raise WrongType(f"{name} is {view.data_type}", f"{data_type}, as in the first product")
    out_type = _out_type(x, o)
    if o.tf32 and a != "fp32":
        raise InvalidArgument(f"tf32 is set, and {names.a} is {a}", "float32")
    if o.prefetch_weights:
        call.flags |= PREFETCH_WEIGHTS
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
    for name, view in ((names.scale_a, x.scale_a), (names.scale_b, x.scale_b)):
        if view is not None and view.data_type != "fp32":
            if not weights or name != names.scale_b or view.data_type != a:
                raise WrongType(f"{name} is {view.data_type}", f"float32 or {a}" if weights else "float32")
            call.type_scale = _CODES[view.data_type]
    if x.zero_b is not None:
        if not weights:
            raise WrongType(f"{names.zero_b} beside {names.b} of {b}", "int8 weights, or pairs of int4, of float16 and bfloat16")
        if x.zero_b.data_type != "int8":
            raise WrongType(f"{names.zero_b} is {x.zero_b.data_type}", "int8")
        call.flags |= ZERO_POINTS
    return out_type


def _unpacked(x: Views, o: Options, names: Names) -> Views:
    """Bytes of two int4, which lie along k, seen as int4."""
    if x.b.data_type != PACKED_INT4 or not has_weights(x.a.data_type, PACKED_INT4):
        return x
    if len(x.b.shape) < 2:
        raise InvalidArgument(f"{names.b} has the shape {x.b.shape}", "pairs of int4 in a matrix")
    at = len(x.b.shape) - (1 if o.form in LINEAR else 2)
    if x.b.strides[at] != 1 and x.b.shape[at] > 1:
        raise InvalidArgument(f"{names.b} has the strides {x.b.strides}", "pairs of int4 behind one another along k")
    shape, k = list(x.b.shape), x.a.shape[-1] if x.a.shape else 0
    shape[at] = k if 2 * shape[at] == k + 1 else 2 * shape[at]
    strides = [stride if i == at else 2 * stride for i, stride in enumerate(x.b.strides)]
    return x._replace(b=x.b._replace(data_type="int4", shape=tuple(shape), strides=tuple(strides)))


def _out_type(x: Views, o: Options) -> str:
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
        return "bf16" if a in FLOAT8 else a
    if chosen not in _CODES or (chosen in ("int8", "int32") and x.a.data_type != "int8"):
        raise WrongType(f"the output is to be {chosen}",
                        _TYPES_TEXT.replace(" or int8", "") + "; of int8 also int8 and int32")  # fmt: skip
    return chosen


# ---------------------------------------------------------------------------------------------------------- epilogue


def _set_epilogue(call: Gemm, x: Views, o: Options, beta: float, names: Names,
                  s: Shape, blocks: Blocks) -> list[tuple[int, int]]:  # fmt: skip
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
        append(SCALE_M, "scale_a")
    if blocks.depth:
        places.append((ADDRESSED.index("scale_b"), _SCALE_B))
        if x.zero_b is not None:
            places.append((ADDRESSED.index("zero_b"), _ZERO_B))
    elif x.scale_b is not None:
        call.epilogue[at].batch = _column_vector(names.scale_b, x.scale_b, s, o.form in LINEAR)
        append(SCALE_N, "scale_b")
    if x.c is not None and at > 0:
        if beta != 1:  # the sum of products is scaled before c is added
            raise InvalidArgument(f"beta is {beta} beside scales that are vectors", "1, and c multiplied beforehand")
        append(ADD, "c")
    elif x.c is not None:
        call.beta = number("beta", beta)
        places.append((ADDRESSED.index("c"), _C))
    if (bias := x.bias) is not None:
        if is_column(bias, s):
            append(BIAS_M, "bias")
        else:
            call.epilogue[at].batch = _column_vector("bias", bias, s, False)
            append(BIAS, "bias")
    if o.activation is not None:
        append(ACTIVATIONS[o.activation])
    if o.gate is not None:
        append(GATES[o.gate])
    if x.multiply is not None:
        append(MULTIPLY, "multiply")
    if x.residual is not None:
        append(ADD, "residual")
    if o.clamp is not None:
        call.epilogue[at].low, call.epilogue[at].high = o.clamp
        append(CLAMP)
    if x.amax is not None:
        if x.amax.data_type != "fp32" or math.prod(x.amax.shape) != 1:
            raise WrongType(f"amax is {x.amax.data_type} of the shape {x.amax.shape}", "True, or float32 of one element")
        append(AMAX)
        places.append((ADDRESSED.index("amax"), _MOST))
    return places


def _column_vector(name: str, view: View, s: Shape, column: bool) -> int:
    """Checks a vector over columns, (n,), (1, n), or (n, 1) where it is a column; with groups (n,) or (groups, n). Returns the
    stride from group to group."""
    shape, strides = view.shape, view.strides
    batch = 0
    if s.groups is not None and len(shape) == 2 and shape[0] == s.groups:
        batch, shape, strides = strides[0] if s.groups > 1 else 0, shape[1:], strides[1:]
    elif len(shape) == 2 and shape[1 if column else 0] == 1:
        at = 0 if column else 1
        shape, strides = (shape[at],), (strides[at],)
    if shape != (s.n,) or (strides[0] != 1 and s.n > 1) or batch < 0:
        wanted = f"({s.n},)" if s.groups is None else f"({s.n},) or {(s.groups, s.n)}"
        raise InvalidArgument(f"{name} has the shape {view.shape} and the strides {view.strides}",
                              f"{wanted}, contiguous: one number a column of the product")  # fmt: skip
    return batch


def _set_groups(call: Gemm, x: Views, o: Options, names: Names, s: Shape,
                places: list[tuple[int, int]]) -> None:  # fmt: skip
    if s.groups is None:
        return
    groups = x.groups
    if groups is None or groups.data_type != "int32" or groups.shape != (s.groups,) or (
            groups.strides != (1,) and s.groups > 1):  # fmt: skip
        given = "None" if groups is None else f"{groups.data_type}, {groups.shape} with the strides {groups.strides}"
        raise WrongType(f"{names.groups} is {given}", f"int32, ({s.groups},), contiguous: one number a group")
    call.grouping = GROUPING[o.form]
    places.append((ADDRESSED.index("groups"), _GROUPS))
