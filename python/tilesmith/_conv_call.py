"""One convolution as the C structure: its geometry, checks, and prepared calls."""

from __future__ import annotations

import ctypes
import math
import threading
from typing import Any, Iterable, Literal, NamedTuple, Optional, Sequence, Union

from tilesmith._candidates import entry
from tilesmith._errors import InvalidArgument, WrongType
from tilesmith._gemm_call import ACTIVATIONS
from tilesmith._library import CUDA, Conv, ConvStrides, raise_last_error, sized
from tilesmith._options import options_now
from tilesmith._repeated import TIMES_KEPT, Output, Repetition
from tilesmith._views import View, check_devices, dense_strides, one_of, shown, whole

Sizes = Union[int, Sequence[int]]
Padding = Union[int, Sequence[Union[int, Sequence[int]]], Literal["same", "valid"]]

_CODES = {"fp32": 0, "fp16": 1, "bf16": 2, "fp8": 3, "int8": 5}
_BIAS, _SCALE, _ADD = 1, 3, 5
#: The types of results, the usual one first.
_RESULTS = {"fp32": ("fp32",), "fp16": ("fp16", "fp32"), "bf16": ("bf16", "fp32"), "fp8": ("bf16", "fp16", "fp32"),
            "int8": ("fp32", "bf16", "fp16", "int8")}  # fmt: skip
_FLOATS = ("fp32", "fp16", "bf16")
PACKED_TYPES = tuple(_CODES)
_PACKED_W = 1
_SMALL = 1 << 31  # numbers below it need no further look
NARROW = ("fp8", "int8")  #: types that are read forward alone, and have scales


class Form(NamedTuple):
    """What a function computes: a direction of the convolution, of two tensors that the function knows by these names."""

    direction: int
    names: tuple[str, str]
    reads: tuple[str, str]  #: the same by their places in the forward convolution
    writes: str


FORMS = {
    "conv": Form(0, ("x", "w"), ("x", "w"), "y"),
    "transposed": Form(1, ("x", "w"), ("y", "w"), "x"),
    "backward_data": Form(1, ("dy", "w"), ("y", "w"), "x"),
    "backward_weight": Form(2, ("dy", "x"), ("y", "x"), "w"),
}
#: The tensors of a call behind the two that are convolved.
BESIDE = ("scale", "bias", "residual", "out")


class Geometry(NamedTuple):
    """Of as many coordinates as the call has."""

    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    groups: int


def members_of(name: str, value: Any, wanted: str) -> tuple[Any, ...]:
    try:
        return tuple(value)
    except Exception:  # the value's own class may raise anything
        raise WrongType(f"{name} is {shown(value)}", wanted) from None


def shape_given(name: str, value: Any) -> tuple[int, ...]:
    return tuple(whole(name, each) for each in members_of(name, value, "the sizes of a tensor, as its shape has them"))


def sizes_of(name: str, value: Sizes, count: int) -> tuple[int, ...]:
    # torch.compile, which may take a number for a symbol, knows that it is an int, and not that it lacks an attribute.
    if not isinstance(value, int) and hasattr(value, "__iter__") and getattr(value, "ndim", 1) != 0:  # NumPy's and torch's scalars are not iterable, though they say so
        sizes = tuple(whole(name, each) for each in members_of(name, value, f"one number, or {count}"))
        if len(sizes) == 1:
            sizes *= count
    else:
        sizes = (whole(name, value),) * count
    if len(sizes) != count:
        raise InvalidArgument(f"{name} is {shown(value)}", f"one number, or {count}")
    return sizes


def geometry_of(stride: Sizes, padding: Padding, dilation: Sizes, groups: int, filter: tuple[int, ...]) -> Geometry:
    count = len(filter)
    if stride.__class__ is int and padding.__class__ is int and dilation.__class__ is int and groups.__class__ is int:
        if 0 <= stride < _SMALL and 0 <= padding < _SMALL and 0 <= dilation < _SMALL and 0 <= groups < _SMALL:
            return Geometry((stride,) * count, ((padding, padding),) * count, (dilation,) * count, groups)
    strides, dilations = sizes_of("stride", stride, count), sizes_of("dilation", dilation, count)
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise InvalidArgument(f"padding is {shown(padding)}", "numbers, 'same' or 'valid'")
        if padding == "same" and any(each != 1 for each in strides):
            raise InvalidArgument(f"padding is 'same' and stride {shown(stride)}", "a stride of 1")
        reach = [(d * (f - 1) if padding == "same" else 0) for d, f in zip(dilations, filter)]
        pads = tuple((each // 2, each - each // 2) for each in reach)
    elif not isinstance(padding, int) and hasattr(padding, "__iter__") and any(not isinstance(each, int) and hasattr(each, "__iter__") for each in padding):
        pads = tuple((low, high) for low, high in (sizes_of("padding", each, 2) for each in padding))
        if len(pads) != count:
            raise InvalidArgument(f"padding is {shown(padding)}", f"a number, {count}, or {count} pairs")
    else:
        pads = tuple((each, each) for each in sizes_of("padding", padding, count))  # type: ignore[arg-type]
    return Geometry(strides, pads, dilations, whole("groups", groups))


def out_sizes(sizes: Sequence[int], filter: Sequence[int], g: Geometry) -> tuple[int, ...]:
    return tuple([(size + low + high - d * (taps - 1) - 1) // (s if s > 1 else 1) + 1
                  for size, taps, s, (low, high), d in zip(sizes, filter, g.stride, g.padding, g.dilation)])  # fmt: skip


def in_memory_as(shape: Sequence[int], strides: Sequence[int], like: Sequence[int]) -> tuple[int, ...]:
    """Strides of a dense tensor of the shape `like`, in the order in memory of a tensor of this shape and these strides:
    channels last where they are, which torch calls channels_last, else first."""
    channels = shape[1]
    last = strides[1] == 1 and strides[-1] == channels and (channels > 1 or math.prod(shape[2:]) > 1)
    if not last:
        return dense_strides(like)
    first, *inner, channel = dense_strides((like[0], *like[2:], like[1]))
    return (first, channel, *inner)


def _strides(view: View, groups: int, filters: bool) -> ConvStrides:
    """Of a tensor (batch or filters, channels, pixels or taps)."""
    strides = dense_strides(view.shape) if 0 in view.shape else view.strides
    first, channel, *inner = strides
    per_group = max(view.shape[0 if filters else 1] // max(groups, 1), 1)
    group = per_group * (first if filters else channel)
    return ConvStrides(first, group, channel, (ctypes.c_int64 * 3)(*(0,) * (3 - len(inner)), *inner))


def _coordinates(values: Sequence[int], absent: int) -> Any:
    return (ctypes.c_int64 * 3)(*(absent,) * (3 - len(values)), *values)


class Views(NamedTuple):
    """The tensors of a call, named by FORMS and BESIDE."""

    a: View  #: the two that are convolved
    b: View
    scale: Optional[View]
    bias: Optional[View]
    residual: Optional[View]
    out: Optional[View]  #: None: a new tensor


class Described(NamedTuple):
    """A call without its addresses: what a prepared call is found by."""

    form: str
    tensors: Views
    shape: tuple[int, ...]  #: of the result
    geometry: Geometry
    out_type: Optional[str]  #: None: as out has it, or as a
    activation: Optional[str]
    threads: int  #: that the tensors' library wants; 0: it has no wish
    packed_bytes: int = 0  #: of filters that are packed


class Call:
    """A prepared call. It belongs to the thread that made it: the structure is filled anew for each run."""

    def __init__(self, d: Described) -> None:
        self.out_type = _checked(d)
        self.kind, self.index = d.tensors.a.kind, d.tensors.a.index  #: the device's
        form, g, given = FORMS[d.form], d.geometry, d.tensors
        like = given.b if d.form == "backward_weight" else given.a
        self.out_strides = in_memory_as(like.shape, like.strides, d.shape) if given.out is None else given.out.strides
        call = self._call = sized(Conv)
        self._address = ctypes.addressof(call)
        if (options := options_now(given.a.kind, d.threads)) is not None:
            call.options = ctypes.pointer(options)
        out = View(self.out_type, d.shape, self.out_strides, given.a.kind, given.a.index)
        at = dict(zip((*form.reads, form.writes), (given.a, given.b, out)))
        x, w, y = at["x"], at["w"], at["y"]
        call.device.kind, call.device.index = given.a.kind, given.a.index
        call.direction, call.data_type, call.type_out = form.direction, _CODES[given.a.data_type], _CODES[self.out_type]
        of_bias = self.out_type if given.bias is None else given.bias.data_type
        call.type_bias = _CODES[of_bias if of_bias in _FLOATS else "fp32"]
        call.batch, call.groups = x.shape[0], g.groups
        call.c, call.k = w.shape[1], w.shape[0] // g.groups
        call.image, call.filter = _coordinates(x.shape[2:], 1), _coordinates(w.shape[2:], 1)
        call.stride, call.dilation = _coordinates(g.stride, 1), _coordinates(g.dilation, 1)
        call.pad = _coordinates([low for low, _ in g.padding], 0)
        call.pad_high = _coordinates([high for _, high in g.padding], 0)
        call.x_strides, call.y_strides = _strides(x, g.groups, False), _strides(y, g.groups, False)
        call.w_strides = _strides(w, g.groups, True)
        if d.packed_bytes:
            call.flags, call.w_strides = _PACKED_W, ConvStrides(d.packed_bytes)
        self.repeats = TIMES_KEPT  #: how often it is still told to repeated calls
        self._first, self._second = form.reads
        self._scale = self._bias = self._residual = -1  #: their places among the operations
        operations = 0
        if given.scale is not None:
            call.epilogue[operations].op, self._scale = _SCALE, operations
            operations += 1
        if given.bias is not None:
            call.epilogue[operations].op, self._bias = _BIAS, operations
            operations += 1
        if given.residual is not None:
            call.epilogue[operations].op, self._residual = _ADD, operations
            call.epilogue[operations].strides = _strides(given.residual, g.groups, False)
            operations += 1
        if d.activation is not None:
            call.epilogue[operations].op = ACTIVATIONS[d.activation]
        self._run = entry(self, "_run", given.a.kind, "tilesmith_conv_plan_for", "tilesmith_conv_compute",
                          "tilesmith_conv_candidates")  # fmt: skip

    def repetition(self, scale: Any, out: Output) -> Repetition:
        """What a forward call of x and w alone does, its arguments in the order of KINDS. scale: the tensor that both scales were
        made into, if any."""
        pointers = ((X, Conv.x.offset // 8), (_W, Conv.w.offset // 8))
        stream = ((self.index, Conv.stream.offset // 8),) if self.kind == CUDA else ()
        return Repetition("conv", self._call, pointers, (), stream, outputs=(out,), kept=(scale,))

    def run(self, addresses: Iterable[int], stream: int) -> None:
        """Runs on the addresses of the six tensors; 0 where there is none."""
        call = self._call
        a, b, scale, bias, residual, out = addresses
        setattr(call, self._first, a)
        setattr(call, self._second, b)
        call.out, call.stream = out, stream
        if self._scale >= 0:
            call.epilogue[self._scale].data = scale
        if self._bias >= 0:
            call.epilogue[self._bias].data = bias
        if self._residual >= 0:
            call.epilogue[self._residual].data = residual
        status = self._run(None, self._address)
        if status:
            raise_last_error(status)


#: Letters of the arguments of a forward call that may be repeated, as of RepeatedCalls: count, x, w (of packed filters, their bytes),
#: how those are packed, stride, padding, dilation, groups, scale_x, scale_w, out_dtype.
KINDS = "ottoooooooo"
X, _W = 1, 2
WORD_OUT = Conv.out.offset // 8


class _Latest(threading.local):
    call: Optional[Call] = None


#: This thread's call before.
latest = _Latest()


def packing_call(w: View, groups: int, dilation: tuple[int, ...], transposed: bool) -> Conv:
    """The convolution whose w is to be packed."""
    call = sized(Conv)
    call.device.kind, call.device.index = w.kind, w.index
    if w.data_type not in (_FLOATS if transposed else _CODES):
        raise WrongType(f"w is {w.data_type}", "float32, float16 or bfloat16" + ("" if transposed else ", float8 (e4m3) or int8"))
    if groups < 1 or w.shape[0] % groups:
        raise InvalidArgument(f"w has the shape {w.shape}, and groups is {groups}", "groups that divide the filters")
    call.direction, call.data_type = FORMS["transposed" if transposed else "conv"].direction, _CODES[w.data_type]
    call.type_out = call.type_bias = _CODES["fp32"]
    call.batch, call.groups = 1, groups
    call.c, call.k = w.shape[1], w.shape[0] // groups
    taps = w.shape[2:]
    call.image = _coordinates([d * (f - 1) + 1 for d, f in zip(dilation, taps)], 1)
    call.filter, call.dilation = _coordinates(taps, 1), _coordinates(dilation, 1)
    call.stride, call.w_strides = _coordinates((), 1), _strides(w, groups, True)
    return call


def _checked(d: Described) -> str:
    """The type of the result of a call whose tensors go together."""
    form, (a_name, b_name) = FORMS[d.form], FORMS[d.form].names
    a, b, scale, bias, residual, out = d.tensors
    check_devices([a_name, b_name, *BESIDE], a, d.tensors)
    if a.data_type not in (_CODES if form.direction == 0 else _FLOATS):
        raise WrongType(f"{a_name} is {a.data_type}", "float32, float16 or bfloat16" + ("" if form.direction else ", float8 (e4m3) or int8"))
    if b.data_type != a.data_type:
        raise WrongType(f"{b_name} is {b.data_type}", f"{a.data_type}, as {a_name}")
    shapes = dict(zip((*form.reads, form.writes), (a.shape, b.shape, d.shape)))
    x, w, y = shapes["x"], shapes["w"], shapes["y"]
    check_groups(d.geometry.groups, x[1], w, b_name if form.reads[1] == "x" else "x")
    if y != (expected := (x[0], w[0], *out_sizes(x[2:], w[2:], d.geometry))):
        raise InvalidArgument(f"x has the shape {x}, w {w} and y {y}", f"{expected} for y")
    out_type = d.out_type or (_RESULTS[a.data_type][0] if out is None else out.data_type)
    if out is not None and out.shape != d.shape:
        raise InvalidArgument(f"out has the shape {out.shape}", f"{d.shape}")
    if out_type not in _RESULTS[a.data_type] or (out is not None and out.data_type != out_type):
        raise WrongType(f"the result is to be {out_type if out is None else out.data_type}", f"{' or '.join(_RESULTS[a.data_type])}, as out_dtype")
    channels = d.shape[1]
    for name, vector, types in (("scale_w", scale, ("fp32",)), ("bias", bias, _FLOATS)):
        if vector is None:
            continue
        if vector.shape != (channels,) or (channels > 1 and vector.strides[0] != 1):
            raise InvalidArgument(f"{name} has the shape {vector.shape} and the strides {vector.strides}", f"({channels},), contiguous")
        if vector.data_type not in types:
            raise WrongType(f"{name} is {vector.data_type}", "float32, float16 or bfloat16" if vector is bias else "float32")
    if scale is not None and a.data_type not in NARROW:
        raise WrongType(f"scales beside {a_name} of {a.data_type}", "none; they are for float8 and int8")
    if residual is not None and (residual.shape, residual.data_type) != (d.shape, out_type):
        raise InvalidArgument(f"residual has the shape {residual.shape} and the type {residual.data_type}", f"{d.shape}, {out_type}")
    if d.activation is not None:
        one_of("activation", d.activation, ACTIVATIONS)
    return out_type


def check_groups(groups: int, channels: int, w: tuple[int, ...], of: str) -> None:
    if groups < 1 or channels % groups or channels // groups != w[1] or w[0] % groups:
        raise InvalidArgument(f"{of} has {channels} channels, w the shape {w}, and groups is {groups}",
                              "channels that are groups times w's second size, and filters for each group")  # fmt: skip


def shape_of(name: str, tensor: Any, count: Optional[int] = None) -> tuple[int, ...]:
    """Of a tensor of `count` coordinates; None: of any one to three."""
    try:
        shape = tuple(tensor.shape)
    except (AttributeError, TypeError):
        raise WrongType(f"{name} is a {type(tensor).__name__}", "a tensor") from None
    check_rank(name, shape, count)
    return shape


def check_rank(name: str, shape: tuple[int, ...], count: Optional[int]) -> None:
    if len(shape) != count + 2 if count is not None else not 3 <= len(shape) <= 5:
        raise InvalidArgument(f"{name} has the shape {shape}", f"{'3 to 5' if count is None else count + 2} dimensions")


def default_type(data_type: str) -> str:
    """Of a new result of a call that asks for none."""
    return _RESULTS[data_type][0] if data_type in _RESULTS else data_type
