"""One convolution as the C structure: its geometry, checks, and prepared calls."""

from __future__ import annotations

import ctypes
import math
from typing import Any, Literal, NamedTuple, Optional, Sequence, Union

from tilesmith._candidates import entry
from tilesmith._errors import InvalidArgument, Unsupported, WrongType
from tilesmith._gemm_call import ACTIVATIONS
from tilesmith._given_tensors import GivenTensors
from tilesmith._kept_calls import KeptCalls
from tilesmith._library import CPU, Conv, ConvStrides, raise_last_error, sized
from tilesmith._options import options_now
from tilesmith._views import View, check_devices, dense_strides, one_of, shown, whole

Sizes = Union[int, Sequence[int]]
Padding = Union[int, Sequence[Union[int, Sequence[int]]], Literal["same", "valid"]]

_CODES = {"fp32": 0, "fp16": 1, "bf16": 2}
FORWARD, DATA, WEIGHT = 0, 1, 2
_BIAS, _ADD = 1, 5


class Geometry(NamedTuple):
    """Of as many coordinates as the call has."""

    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    groups: int


def sizes_of(name: str, value: Sizes, count: int) -> tuple[int, ...]:
    if hasattr(value, "__iter__"):
        sizes = tuple(whole(name, each) for each in value)
        if len(sizes) == 1:
            sizes *= count
    else:
        sizes = (whole(name, value),) * count
    if len(sizes) != count:
        raise InvalidArgument(f"{name} is {shown(value)}", f"one number, or {count}")
    return sizes


def geometry_of(stride: Sizes, padding: Padding, dilation: Sizes, groups: int, filter: tuple[int, ...]) -> Geometry:
    count = len(filter)
    strides, dilations = sizes_of("stride", stride, count), sizes_of("dilation", dilation, count)
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise InvalidArgument(f"padding is {shown(padding)}", "numbers, 'same' or 'valid'")
        if padding == "same" and any(each != 1 for each in strides):
            raise InvalidArgument(f"padding is 'same' and stride {shown(stride)}", "a stride of 1")
        reach = [(d * (f - 1) if padding == "same" else 0) for d, f in zip(dilations, filter)]
        pads = tuple((each // 2, each - each // 2) for each in reach)
    elif hasattr(padding, "__iter__") and any(hasattr(each, "__iter__") for each in padding):
        pads = tuple((low, high) for low, high in (sizes_of("padding", each, 2) for each in padding))
        if len(pads) != count:
            raise InvalidArgument(f"padding is {shown(padding)}", f"a number, {count}, or {count} pairs")
    else:
        pads = tuple((each, each) for each in sizes_of("padding", padding, count))  # type: ignore[arg-type]
    return Geometry(strides, pads, dilations, whole("groups", groups))


def out_sizes(sizes: Sequence[int], filter: Sequence[int], g: Geometry) -> tuple[int, ...]:
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


class Described(NamedTuple):
    """A call without its addresses: what a prepared call is found by."""

    direction: int
    x: View
    w: View
    y: View
    geometry: Geometry
    bias: Optional[View]
    residual: Optional[View]
    activation: Optional[str]
    threads: int  #: that the tensors' library wants

    @property
    def out(self) -> View:
        return (self.y, self.x, self.w)[self.direction]


class Call:
    """A prepared call. It belongs to the thread that made it: the structure is filled anew for each run."""

    def __init__(self, d: Described) -> None:
        call = self._call = sized(Conv)
        self._address = ctypes.addressof(call)
        if (options := options_now(d.x.kind, d.threads)) is not None:
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
            call.epilogue[at].op = ACTIVATIONS[d.activation]
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


_calls: KeptCalls[Call] = KeptCalls()


def compute(tensors: GivenTensors, direction: int, read: dict[str, Any], shape: tuple[int, ...], g: Geometry, like: Any, *,
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
        one_of("activation", activation, ACTIVATIONS)
    named = {**views, ("y", "x", "w")[direction]: result_view}
    described = Described(direction, named["x"], named["w"], named["y"], g, bias_view, residual_view, activation,
                          tensors.threads())  # fmt: skip
    call = _calls.by_key.get(described)
    if call is None:
        call = _calls.keep(described, Call(described))
    at = {name: tensors.address(tensor) for name, tensor in read.items()}
    call.run(at.get("x", 0), at.get("w", 0), at.get("y", 0), tensors.address(result), 0 if bias is None else tensors.address(bias),
             0 if residual is None else tensors.address(residual))  # fmt: skip
    return result


def _bias(tensors: GivenTensors, bias: Any, channels: int) -> View:
    view = tensors.view("bias", bias)
    if view.shape != (channels,) or (channels > 1 and view.strides[0] != 1):
        raise InvalidArgument(f"bias has the shape {view.shape} and the strides {view.strides}", f"({channels},), contiguous")
    if view.data_type not in _CODES:
        raise WrongType(f"bias is {view.data_type}", "float32, float16 or bfloat16")
    return view


def _new(tensors: GivenTensors, like: Any, shape: tuple[int, ...], data_type: str) -> Any:
    """A tensor in the order of dimensions that `like` has in memory: torch's channels_last stays."""
    view = tensors.view("x", like)
    strides = view.strides
    last = len(shape) > 2 and view.shape[1] > 1 and strides[1] == 1 and math.prod(view.shape[2:]) > 1
    if not last:
        return tensors.new(like, shape, data_type)
    made = tensors.new(like, (shape[0], *shape[2:], shape[1]), data_type)
    order = (0, len(shape) - 1, *range(1, len(shape) - 1))
    return made.permute(order) if tensors.kind == "torch" else made.transpose(order)


def check_groups(groups: int, channels: int, w: View, of: str) -> None:
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


def check_rank(name: str, view: View, count: int) -> None:
    if len(view.shape) != count + 2:
        raise InvalidArgument(f"{name} has the shape {view.shape}", f"{count + 2} dimensions")
