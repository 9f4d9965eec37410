"""Convolution: forward, transposed, and the gradients of the image and of the filters."""

from __future__ import annotations

import ctypes
import math
from typing import Any, Literal, NamedTuple, Optional, Sequence, TypeVar, Union

from tilesmith._candidates import entry, listed_functions
from tilesmith._errors import InvalidArgument, Unsupported, WrongType
from tilesmith._kept_calls import KeptCalls
from tilesmith._library import CPU, Conv, ConvStrides, raise_last_error, sized
from tilesmith._options import options_now
from tilesmith._refusals import refusing
from tilesmith._serving import _Tensors
from tilesmith._views import View, check_devices, dense_strides, one_of, shown, whole
from tilesmith.typing import Activation

Array = TypeVar("Array")  #: torch.Tensor or numpy.ndarray
Sizes = Union[int, Sequence[int]]
Padding = Union[int, Sequence[Union[int, Sequence[int]]], Literal["same", "valid"]]

_CODES = {"fp32": 0, "fp16": 1, "bf16": 2}
_FORWARD, _DATA, _WEIGHT = 0, 1, 2
_BIAS, _ADD = 1, 5
_ACTIVATIONS = {"relu": 7, "gelu": 8, "gelu_tanh": 9, "silu": 10, "sigmoid": 11, "tanh": 12}


class _Geometry(NamedTuple):
    """Of as many coordinates as the call has."""

    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    groups: int


def _sizes(name: str, value: Sizes, count: int) -> tuple[int, ...]:
    if hasattr(value, "__iter__"):
        sizes = tuple(whole(name, each) for each in value)  # type: ignore[union-attr]
        if len(sizes) == 1:
            sizes *= count
    else:
        sizes = (whole(name, value),) * count
    if len(sizes) != count:
        raise InvalidArgument(f"{name} is {shown(value)}", f"one number, or {count}")
    return sizes


def _geometry(stride: Sizes, padding: Padding, dilation: Sizes, groups: int, filter: tuple[int, ...]) -> _Geometry:
    count = len(filter)
    strides, dilations = _sizes("stride", stride, count), _sizes("dilation", dilation, count)
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise InvalidArgument(f"padding is {shown(padding)}", "numbers, 'same' or 'valid'")
        if padding == "same" and any(each != 1 for each in strides):
            raise InvalidArgument(f"padding is 'same' and stride {shown(stride)}", "a stride of 1")
        reach = [(d * (f - 1) if padding == "same" else 0) for d, f in zip(dilations, filter)]
        pads = tuple((each // 2, each - each // 2) for each in reach)
    elif hasattr(padding, "__iter__") and any(hasattr(each, "__iter__") for each in padding):  # type: ignore[union-attr]
        pads = tuple((low, high) for low, high in (_sizes("padding", each, 2) for each in padding))  # type: ignore
        if len(pads) != count:
            raise InvalidArgument(f"padding is {shown(padding)}", f"a number, {count}, or {count} pairs")
    else:
        pads = tuple((each, each) for each in _sizes("padding", padding, count))  # type: ignore[arg-type]
    return _Geometry(strides, pads, dilations, whole("groups", groups))


def _out_sizes(sizes: Sequence[int], filter: Sequence[int], g: _Geometry) -> tuple[int, ...]:
    return tuple((size + sum(pads) - d * (taps - 1) - 1) // max(s, 1) + 1
                 for size, taps, s, pads, d in zip(sizes, filter, g.stride, g.padding, g.dilation))  # fmt: skip


def _strides(view: View, groups: int, filters: bool) -> ConvStrides:
    """Of a tensor (batch or filters, channels, pixels or taps)."""
    strides = dense_strides(view.shape) if 0 in view.shape else view.strides
    first, channel, *inner = strides
    per_group = max(view.shape[0 if filters else 1] // max(groups, 1), 1)
    group = per_group * (first if filters else channel)
    return ConvStrides(first, group, channel, (ctypes.c_int64 * 3)(*(0,) * (3 - len(inner)), *inner))


def _coordinates(values: Sequence[int], absent: int) -> Any:
    return (ctypes.c_int64 * 3)(*(absent,) * (3 - len(values)), *values)


class _Described(NamedTuple):
    """A call without its addresses: what a prepared call is found by."""

    direction: int
    x: View
    w: View
    y: View
    geometry: _Geometry
    bias: Optional[View]
    residual: Optional[View]
    activation: Optional[str]

    @property
    def out(self) -> View:
        return (self.y, self.x, self.w)[self.direction]


class _Call:
    """A prepared call. It belongs to the thread that made it: the structure is filled anew for each run."""

    def __init__(self, d: _Described) -> None:
        call = self._call = sized(Conv)
        self._address = ctypes.addressof(call)
        if (options := options_now(d.x.kind)) is not None:
            call.options = ctypes.pointer(options)
        read = next(view for view in (d.x, d.w) if view is not d.out)
        g, out_type = d.geometry, d.out.data_type
        call.device.kind, call.device.index = d.x.kind, d.x.index
        call.direction, call.data_type, call.type_out = d.direction, _CODES[read.data_type], _CODES[out_type]
        call.type_bias = _CODES[out_type if d.bias is None else d.bias.data_type]
        call.batch, call.groups = d.x.shape[0], g.groups
        call.c, call.k = d.w.shape[1], d.w.shape[0] // g.groups
        call.image, call.filter = _coordinates(d.x.shape[2:], 1), _coordinates(d.w.shape[2:], 1)
        call.stride, call.dilation = _coordinates(g.stride, 1), _coordinates(g.dilation, 1)
        call.pad = _coordinates([low for low, _ in g.padding], 0)
        call.pad_high = _coordinates([high for _, high in g.padding], 0)
        call.x_strides, call.y_strides = _strides(d.x, g.groups, False), _strides(d.y, g.groups, False)
        call.w_strides = _strides(d.w, g.groups, True)
        self._bias = self._residual = -1  #: their places among the operations
        at = 0
        if d.bias is not None:
            call.epilogue[at].op, self._bias = _BIAS, at
            at += 1
        if d.residual is not None:
            call.epilogue[at].op, self._residual = _ADD, at
            call.epilogue[at].strides = _strides(d.residual, g.groups, False)
            at += 1
        if d.activation is not None:
            call.epilogue[at].op = _ACTIVATIONS[d.activation]
        self._run = entry(self, "_run", d.x.kind, "tilesmith_conv_plan_for", "tilesmith_conv_compute",
                          "tilesmith_conv_candidates")  # fmt: skip

    def run(self, x: int, w: int, y: int, out: int, bias: int, residual: int) -> None:
        """Runs on these addresses; 0 where there is none."""
        call = self._call
        call.x, call.w, call.y, call.out = x, w, y, out
        if self._bias >= 0:
            call.epilogue[self._bias].data = bias
        if self._residual >= 0:
            call.epilogue[self._residual].data = residual
        status = self._run(None, self._address)
        if status:
            raise_last_error(status)


_calls: KeptCalls[_Call] = KeptCalls()


def _compute(tensors: _Tensors, direction: int, read: dict[str, Any], shape: tuple[int, ...], g: _Geometry, like: Any, *,
             out: Any = None, out_dtype: Any = None, bias: Any = None, residual: Any = None,
             activation: Optional[str] = None) -> Any:  # fmt: skip
    """Of the tensors x, w and y, the two that are read; `shape` is the third's, which is made like `like`, or is out."""
    views = {name: tensors.view(name, tensor) for name, tensor in read.items()}
    first = next(iter(views.values()))
    check_devices([*views, "bias", "residual", "out"], first,
                  [*views.values(), *(None if each is None else tensors.view("", each) for each in (bias, residual, out))])  # fmt: skip
    if first.kind != CPU:
        raise Unsupported("there are no kernels of convolution for CUDA devices", "tensors on the CPU", "unsupported")
    if first.data_type not in _CODES:
        raise WrongType(f"{next(iter(views))} is {first.data_type}", "float32, float16 or bfloat16")
    for name, view in views.items():
        if view.data_type != first.data_type:
            raise WrongType(f"{name} is {view.data_type}", f"{first.data_type}, as {next(iter(views))}")
    wanted = _type_name(out_dtype)
    result = _new(tensors, like, shape, wanted or first.data_type) if out is None else out
    result_view = tensors.view("out", result)
    if result_view.shape != shape:
        raise InvalidArgument(f"out has the shape {result_view.shape}", f"{shape}")
    if result_view.data_type not in (first.data_type, "fp32") or result_view.data_type != (wanted or result_view.data_type):
        raise WrongType(f"the result is to be {result_view.data_type}", f"{first.data_type} or float32, as out_dtype")
    bias_view = None if bias is None else _bias(tensors, bias, shape[1])
    residual_view = None if residual is None else tensors.view("residual", residual)
    if residual_view is not None and (residual_view.shape != shape or residual_view.data_type != result_view.data_type):
        raise InvalidArgument(f"residual has the shape {residual_view.shape} and the type {residual_view.data_type}",
                              f"{shape}, {result_view.data_type}")  # fmt: skip
    if activation is not None:
        one_of("activation", activation, _ACTIVATIONS)
    named = {**views, ("y", "x", "w")[direction]: result_view}
    described = _Described(direction, named["x"], named["w"], named["y"], g, bias_view, residual_view, activation)
    call = _calls.by_key.get(described)
    if call is None:
        call = _calls.keep(described, _Call(described))
    at = {name: tensors.address(tensor) for name, tensor in read.items()}
    call.run(at.get("x", 0), at.get("w", 0), at.get("y", 0), tensors.address(result), 0 if bias is None else tensors.address(bias),
             0 if residual is None else tensors.address(residual))  # fmt: skip
    return result


def _bias(tensors: _Tensors, bias: Any, channels: int) -> View:
    view = tensors.view("bias", bias)
    if view.shape != (channels,) or (channels > 1 and view.strides[0] != 1):
        raise InvalidArgument(f"bias has the shape {view.shape} and the strides {view.strides}", f"({channels},), contiguous")
    if view.data_type not in _CODES:
        raise WrongType(f"bias is {view.data_type}", "float32, float16 or bfloat16")
    return view


def _new(tensors: _Tensors, like: Any, shape: tuple[int, ...], data_type: str) -> Any:
    """A tensor in the order of dimensions that `like` has in memory: torch's channels_last stays."""
    view = tensors.view("x", like)
    strides = view.strides
    last = len(shape) > 2 and view.shape[1] > 1 and strides[1] == 1 and math.prod(view.shape[2:]) > 1
    if not last:
        return tensors.new(like, shape, data_type)
    made = tensors.new(like, (shape[0], *shape[2:], shape[1]), data_type)
    order = (0, len(shape) - 1, *range(1, len(shape) - 1))
    return made.permute(order) if tensors.kind == "torch" else made.transpose(order)


def _ranks(count: int, **given: View) -> None:
    for name, view in given.items():
        if len(view.shape) != count + 2:
            raise InvalidArgument(f"{name} has the shape {view.shape}", f"{count + 2} dimensions")


def _check_groups(groups: int, channels: int, w: View, of: str) -> None:
    if groups < 1 or channels % groups or channels // groups != w.shape[1] or w.shape[0] % groups:
        raise InvalidArgument(f"{of} has {channels} channels, w the shape {w.shape}, and groups is {groups}",
                              "channels that are groups times w's second size, and filters for each group")  # fmt: skip


def _type_name(data_type: Any) -> Optional[str]:
    if data_type is None:
        return None
    name = str(getattr(data_type, "__name__", data_type)).removeprefix("torch.")
    known = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
    if name not in known:
        raise WrongType(f"out_dtype is {shown(data_type)}", "float32, float16 or bfloat16")
    return known[name]


def _rank(name: str, view: View, count: int) -> None:
    if len(view.shape) != count + 2:
        raise InvalidArgument(f"{name} has the shape {view.shape}", f"{count + 2} dimensions")


def _forward(count: int, x: Any, w: Any, bias: Any, stride: Sizes, padding: Padding, dilation: Sizes, groups: int,
             activation: Optional[str], residual: Any, out: Any, out_dtype: Any) -> Any:  # fmt: skip
    tensors = _Tensors("x", x, "convolution")
    x_view, w_view = tensors.view("x", x), tensors.view("w", w)
    _rank("x", x_view, count)
    _rank("w", w_view, count)
    g = _geometry(stride, padding, dilation, groups, w_view.shape[2:])
    _check_groups(g.groups, x_view.shape[1], w_view, "x")
    shape = (x_view.shape[0], w_view.shape[0], *_out_sizes(x_view.shape[2:], w_view.shape[2:], g))
    if min(shape[2:]) < 1:
        raise InvalidArgument(f"x has the shape {x_view.shape}, w {w_view.shape}: the result would have the shape {shape}",
                              "a smaller filter or dilation, or more padding")  # fmt: skip
    return _compute(tensors, _FORWARD, {"x": x, "w": w}, shape, g, x, out=out, out_dtype=out_dtype, bias=bias, residual=residual,
                    activation=activation)  # fmt: skip


def _backward_data(dy: Any, w: Any, x_shape: tuple[int, ...], g: _Geometry, **given: Any) -> Any:
    tensors = _Tensors("dy", dy, "convolution")
    dy_view, w_view = tensors.view("dy", dy), tensors.view("w", w)
    count = len(w_view.shape) - 2
    _rank("dy", dy_view, count)
    if len(x_shape) != count + 2:
        raise InvalidArgument(f"x_shape is {x_shape}", f"{count + 2} sizes")
    _check_groups(g.groups, x_shape[1], w_view, "x")
    expected = (x_shape[0], w_view.shape[0], *_out_sizes(x_shape[2:], w_view.shape[2:], g))
    if dy_view.shape != expected:
        raise InvalidArgument(f"dy has the shape {dy_view.shape}", f"{expected}, that of the forward's result")
    return _compute(tensors, _DATA, {"y": dy, "w": w}, x_shape, g, dy, **given)


def _transpose(count: int, x: Any, w: Any, bias: Any, stride: Sizes, padding: Sizes, output_padding: Sizes, groups: int,
               dilation: Sizes, activation: Optional[str], residual: Any, out: Any, out_dtype: Any) -> Any:  # fmt: skip
    tensors = _Tensors("x", x, "convolution")
    x_view, w_view = tensors.view("x", x), tensors.view("w", w)
    _rank("x", x_view, count)
    _rank("w", w_view, count)
    g = _geometry(stride, _sizes("padding", padding, count), dilation, groups, w_view.shape[2:])
    extra = _sizes("output_padding", output_padding, count)
    if any(not 0 <= each < max(s, d) for each, s, d in zip(extra, g.stride, g.dilation)):
        raise InvalidArgument(f"output_padding is {shown(output_padding)}", "from 0 to below the stride or the dilation")
    # The forward's padding behind x that leaves these sizes to it.
    sizes = tuple((n - 1) * s - 2 * p[0] + d * (f - 1) + e + 1
                  for n, s, p, d, f, e in zip(x_view.shape[2:], g.stride, g.padding, g.dilation, w_view.shape[2:], extra))  # fmt: skip
    if min(sizes) < 1:
        raise InvalidArgument(f"x has the shape {x_view.shape}: the result would have the sizes {sizes}", "less padding")
    shape = (x_view.shape[0], w_view.shape[1] * g.groups, *sizes)
    if any(e >= s for e, s in zip(extra, g.stride)):
        # Pixels behind the last window: less padding behind the forward's image keeps them out of its result.
        if any(e > high for (_, high), e in zip(g.padding, extra)):
            raise Unsupported(f"output_padding is {shown(output_padding)} and stride {shown(stride)}",
                              "less than the stride, or padding of as much", "unsupported")  # fmt: skip
        g = g._replace(padding=tuple((low, high - e) for (low, high), e in zip(g.padding, extra)))
    return _backward_data(x, w, shape, g, out=out, out_dtype=out_dtype, bias=bias, residual=residual, activation=activation)


@refusing
def conv_backward_data(dy: Array, w: Array, x_shape: Sequence[int], *, stride: Sizes = 1, padding: Padding = 0,
                       dilation: Sizes = 1, groups: int = 1, out: Optional[Array] = None, out_dtype: Any = None) -> Array:  # fmt: skip
    """The gradient by the image of conv1d, conv2d or conv3d (by the number of dimensions), from that by the result.

    dy: (batch, filters, ...), of the forward's result. w and the other arguments: the forward's. x_shape: of its image.
    out, out_dtype: as of conv2d.

    Returns a tensor of x_shape, of dy's kind; in memory as dy is, channels last or first. Errors: as of conv2d.
    """
    g = _geometry(stride, padding, dilation, groups, _Tensors("dy", dy, "convolution").view("w", w).shape[2:])
    shape = tuple(whole("x_shape", each) for each in x_shape)
    result: Array = _backward_data(dy, w, shape, g, out=out, out_dtype=out_dtype)
    return result


@refusing
def conv_backward_weight(dy: Array, x: Array, w_shape: Sequence[int], *, stride: Sizes = 1, padding: Padding = 0,
                         dilation: Sizes = 1, groups: int = 1, out: Optional[Array] = None, out_dtype: Any = None) -> Array:  # fmt: skip
    """The gradient by the filters of conv1d, conv2d or conv3d, from that by the result.

    dy: (batch, filters, ...), of the forward's result. x and the other arguments: the forward's. w_shape: of its filters.
    out, out_dtype: as of conv2d.

    Returns a tensor of w_shape, of x's kind; in memory as x is, channels last or first. Errors: as of conv2d.
    """
    tensors = _Tensors("dy", dy, "convolution")
    dy_view, x_view = tensors.view("dy", dy), tensors.view("x", x)
    shape = tuple(whole("w_shape", each) for each in w_shape)
    _rank("x", x_view, len(shape) - 2)
    g = _geometry(stride, padding, dilation, groups, shape[2:])
    _check_groups(g.groups, x_view.shape[1], x_view._replace(shape=shape), "x")
    expected = (x_view.shape[0], shape[0], *_out_sizes(x_view.shape[2:], shape[2:], g))
    if dy_view.shape != expected:
        raise InvalidArgument(f"dy has the shape {dy_view.shape}", f"{expected}, that of the forward's result")
    result: Array = _compute(tensors, _WEIGHT, {"x": x, "y": dy}, shape, g, x, out=out, out_dtype=out_dtype)
    return result


@refusing
def conv2d(x: Array, w: Array, bias: Optional[Array] = None, *, stride: Sizes = 1, padding: Padding = 0, dilation: Sizes = 1,
           groups: int = 1, activation: Optional[Activation] = None, residual: Optional[Array] = None,
           out: Optional[Array] = None, out_dtype: Any = None) -> Array:  # fmt: skip
    """Convolution of images, as torch's (the filter is not turned), with a bias, a residual and an activation.

    x: (batch, channels, height, width), float32, float16 or bfloat16, any strides; on the CPU.
    w: (filters, channels / groups, height, width), of x's type.
    bias: (filters,), contiguous; float32, float16 or bfloat16.
    stride, dilation: a number or one for each coordinate. padding: likewise, or pairs (before, behind), "same" or "valid".
    groups: channels and filters fall into so many groups. As many as channels: a depthwise convolution.
    residual: a tensor of the result's shape and type, added after the bias. activation: of the sum of all.
    out: where to write the result. out_dtype: of the result, x's type or float32.

    Returns (batch, filters, height, width), of x's kind; in memory as x is, channels last or first. Sums are float32,
    rounded once.

    Errors: InvalidArgument (shapes, sizes), WrongType, Unsupported (a device without kernels of it).
    """
    result: Array = _forward(2, x, w, bias, stride, padding, dilation, groups, activation, residual, out, out_dtype)
    return result


@refusing
def conv1d(x: Array, w: Array, bias: Optional[Array] = None, *, stride: Sizes = 1, padding: Padding = 0, dilation: Sizes = 1,
           groups: int = 1, activation: Optional[Activation] = None, residual: Optional[Array] = None,
           out: Optional[Array] = None, out_dtype: Any = None) -> Array:  # fmt: skip
    """conv2d of one coordinate: x (batch, channels, length), w (filters, channels / groups, length)."""
    result: Array = _forward(1, x, w, bias, stride, padding, dilation, groups, activation, residual, out, out_dtype)
    return result


@refusing
def conv3d(x: Array, w: Array, bias: Optional[Array] = None, *, stride: Sizes = 1, padding: Padding = 0, dilation: Sizes = 1,
           groups: int = 1, activation: Optional[Activation] = None, residual: Optional[Array] = None,
           out: Optional[Array] = None, out_dtype: Any = None) -> Array:  # fmt: skip
    """conv2d of three coordinates: x (batch, channels, depth, height, width), w likewise."""
    result: Array = _forward(3, x, w, bias, stride, padding, dilation, groups, activation, residual, out, out_dtype)
    return result


@refusing
def conv_transpose2d(x: Array, w: Array, bias: Optional[Array] = None, *, stride: Sizes = 1, padding: Sizes = 0,
                     output_padding: Sizes = 0, groups: int = 1, dilation: Sizes = 1,
                     activation: Optional[Activation] = None, residual: Optional[Array] = None,
                     out: Optional[Array] = None, out_dtype: Any = None) -> Array:  # fmt: skip
    """Transposed convolution, as torch's: what conv2d's gradient by its image computes.

    x: (batch, channels, height, width). w: (channels, filters / groups, height, width). bias: (filters,).
    output_padding: pixels behind the result's last, below the stride or the dilation. The others: as of conv2d.

    Returns (batch, filters, ...) of the sizes (size - 1) stride - 2 padding + dilation (filter - 1) + output_padding + 1.
    Errors: as of conv2d.
    """
    result: Array = _transpose(2, x, w, bias, stride, padding, output_padding, groups, dilation, activation, residual, out,
                               out_dtype)  # fmt: skip
    return result


@refusing
def conv_transpose1d(x: Array, w: Array, bias: Optional[Array] = None, *, stride: Sizes = 1, padding: Sizes = 0,
                     output_padding: Sizes = 0, groups: int = 1, dilation: Sizes = 1,
                     activation: Optional[Activation] = None, residual: Optional[Array] = None,
                     out: Optional[Array] = None, out_dtype: Any = None) -> Array:  # fmt: skip
    """conv_transpose2d of one coordinate."""
    result: Array = _transpose(1, x, w, bias, stride, padding, output_padding, groups, dilation, activation, residual, out,
                               out_dtype)  # fmt: skip
    return result


@refusing
def conv_transpose3d(x: Array, w: Array, bias: Optional[Array] = None, *, stride: Sizes = 1, padding: Sizes = 0,
                     output_padding: Sizes = 0, groups: int = 1, dilation: Sizes = 1,
                     activation: Optional[Activation] = None, residual: Optional[Array] = None,
                     out: Optional[Array] = None, out_dtype: Any = None) -> Array:  # fmt: skip
    """conv_transpose2d of three coordinates."""
    result: Array = _transpose(3, x, w, bias, stride, padding, output_padding, groups, dilation, activation, residual, out,
                               out_dtype)  # fmt: skip
    return result


listed_functions.update((conv1d, conv2d, conv3d, conv_backward_data, conv_backward_weight, conv_transpose1d, conv_transpose2d,
                         conv_transpose3d))  # fmt: skip
