"""Convolution: forward, transposed, and the gradients of the image and of the filters."""

from __future__ import annotations

from typing import Any, Optional, Sequence, TypeVar

from tilesmith._candidates import listed_functions
from tilesmith._conv_call import (
    DATA,
    FORWARD,
    WEIGHT,
    Geometry,
    Padding,
    Sizes,
    check_groups,
    check_rank,
    compute,
    geometry_of,
    out_sizes,
    sizes_of,
)
from tilesmith._errors import InvalidArgument, Unsupported
from tilesmith._given_tensors import GivenTensors
from tilesmith._refusals import refusing
from tilesmith._views import shown, whole
from tilesmith.typing import Activation

Array = TypeVar("Array")  #: torch.Tensor or numpy.ndarray


def _forward(count: int, x: Any, w: Any, bias: Any, stride: Sizes, padding: Padding, dilation: Sizes, groups: int,
             activation: Optional[str], residual: Any, out: Any, out_dtype: Any) -> Any:  # fmt: skip
    tensors = GivenTensors("x", x, "convolution")
    x_view, w_view = tensors.view("x", x), tensors.view("w", w)
    check_rank("x", x_view, count)
    check_rank("w", w_view, count)
    g = geometry_of(stride, padding, dilation, groups, w_view.shape[2:])
    check_groups(g.groups, x_view.shape[1], w_view, "x")
    shape = (x_view.shape[0], w_view.shape[0], *out_sizes(x_view.shape[2:], w_view.shape[2:], g))
    if min(shape[2:]) < 1:
        raise InvalidArgument(f"x has the shape {x_view.shape}, w {w_view.shape}: the result would have the shape {shape}",
                              "a smaller filter or dilation, or more padding")  # fmt: skip
    return compute(tensors, FORWARD, {"x": x, "w": w}, shape, g, x, out=out, out_dtype=out_dtype, bias=bias, residual=residual,
                    activation=activation)  # fmt: skip


def _backward_data(dy: Any, w: Any, x_shape: tuple[int, ...], g: Geometry, **given: Any) -> Any:
    tensors = GivenTensors("dy", dy, "convolution")
    dy_view, w_view = tensors.view("dy", dy), tensors.view("w", w)
    count = len(w_view.shape) - 2
    check_rank("dy", dy_view, count)
    if len(x_shape) != count + 2:
        raise InvalidArgument(f"x_shape is {x_shape}", f"{count + 2} sizes")
    check_groups(g.groups, x_shape[1], w_view, "x")
    expected = (x_shape[0], w_view.shape[0], *out_sizes(x_shape[2:], w_view.shape[2:], g))
    if dy_view.shape != expected:
        raise InvalidArgument(f"dy has the shape {dy_view.shape}", f"{expected}, that of the forward's result")
    return compute(tensors, DATA, {"y": dy, "w": w}, x_shape, g, dy, **given)


def _transpose(count: int, x: Any, w: Any, bias: Any, stride: Sizes, padding: Sizes, output_padding: Sizes, groups: int,
               dilation: Sizes, activation: Optional[str], residual: Any, out: Any, out_dtype: Any) -> Any:  # fmt: skip
    tensors = GivenTensors("x", x, "convolution")
    x_view, w_view = tensors.view("x", x), tensors.view("w", w)
    check_rank("x", x_view, count)
    check_rank("w", w_view, count)
    g = geometry_of(stride, sizes_of("padding", padding, count), dilation, groups, w_view.shape[2:])
    extra = sizes_of("output_padding", output_padding, count)
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
    g = geometry_of(stride, padding, dilation, groups, GivenTensors("dy", dy, "convolution").view("w", w).shape[2:])
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
    tensors = GivenTensors("dy", dy, "convolution")
    dy_view, x_view = tensors.view("dy", dy), tensors.view("x", x)
    shape = tuple(whole("w_shape", each) for each in w_shape)
    check_rank("x", x_view, len(shape) - 2)
    g = geometry_of(stride, padding, dilation, groups, shape[2:])
    check_groups(g.groups, x_view.shape[1], x_view._replace(shape=shape), "x")
    expected = (x_view.shape[0], shape[0], *out_sizes(x_view.shape[2:], shape[2:], g))
    if dy_view.shape != expected:
        raise InvalidArgument(f"dy has the shape {dy_view.shape}", f"{expected}, that of the forward's result")
    result: Array = compute(tensors, WEIGHT, {"x": x, "y": dy}, shape, g, x, out=out, out_dtype=out_dtype)
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
