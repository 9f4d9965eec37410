"""Convolution: forward, transposed, and the gradients of the image and of the filters."""

from __future__ import annotations

from typing import Any, Optional, Sequence, TypeVar, Union, Unpack

from tilesmith._candidates import listed_functions
from tilesmith._conv_call import Geometry, Padding, Sizes, check_groups, check_rank, geometry_of, out_sizes, shape_given, shape_of, sizes_of
from tilesmith._errors import InvalidArgument, Unsupported
from tilesmith._options import under
from tilesmith._packed_conv_weight import PackedConvWeight
from tilesmith._refusals import refusing
from tilesmith._tensor_library import Servers
from tilesmith._views import flag, shown
from tilesmith.typing import Activation, CallOptions

Array = TypeVar("Array")  #: torch.Tensor or numpy.ndarray
Filters = Union[Array, PackedConvWeight]

_servers = Servers("conv", "conv")
_bias_servers = Servers("conv", "bias_gradient")
_scale_servers = Servers("conv", "joined_scales")
#: By the type of x: what repeats a forward call, and what keeps one that is to be repeated, added by _torch_conv and _numpy_conv.
repeating: dict[type, tuple[Any, Any]] = {}


def _serve(function: str, options: CallOptions, form: str, a: Any, b: Any, shape: tuple[int, ...], g: Geometry, *, scale: Any = None,
           bias: Any = None, residual: Any = None, out: Any = None, out_dtype: Any = None, activation: Optional[str] = None) -> Any:  # fmt: skip
    """By the library of the first tensor: `form`, a key of FORMS, of a and b; `shape` is the result's."""
    if b.__class__ is PackedConvWeight and not b.is_packed:
        b = b.data
    serve = _servers.by_type.get(type(a)) or _servers.find("x" if form in ("conv", "transposed") else "dy", a)
    if options:
        serve = under(function, options, _servers, serve)
    return serve(form, a, b, scale, bias, residual, out, shape, g, out_dtype, activation)


def _forward(count: int, x: Any, w: Any, bias: Any, stride: Sizes, padding: Padding, dilation: Sizes, groups: int,
             activation: Optional[str], residual: Any, scale_x: Any, scale_w: Any, out: Any, out_dtype: Any, options: CallOptions) -> Any:  # fmt: skip
    key = None
    if bias is None and residual is None and activation is None and out is None and not options:
        if (found := repeating.get(type(x))) is not None:
            again, remember = found
            key, repeated = again(count, x, w, stride, padding, dilation, groups, scale_x, scale_w, out_dtype)
            if repeated is not None:
                return repeated
    x_shape, w_shape = shape_of("x", x, count), shape_of("w", w, count)
    g = geometry_of(stride, padding, dilation, groups, w_shape[2:])
    check_groups(g.groups, x_shape[1], w_shape, "x")
    shape = (x_shape[0], w_shape[0], *out_sizes(x_shape[2:], w_shape[2:], g))
    if min(shape[2:]) < 1:
        raise InvalidArgument(f"x has the shape {x_shape}, w {w_shape}: the result would have the shape {shape}",
                              "a smaller filter or dilation, or more padding")  # fmt: skip
    scale = None
    if scale_x is not None or scale_w is not None:
        joined = _scale_servers.by_type.get(type(x)) or _scale_servers.find("x", x)
        scale = joined(x, w_shape[0], scale_x, scale_w)
    result = _serve(f"conv{count}d", options, "conv", x, w, shape, g, scale=scale, bias=bias, residual=residual, out=out,
                    out_dtype=out_dtype, activation=activation)  # fmt: skip
    if key is not None:
        remember(key, (count, x, w, stride, padding, dilation, groups, scale_x, scale_w, out_dtype), scale, result)
    return result


def _transpose(count: int, x: Any, w: Any, bias: Any, stride: Sizes, padding: Sizes, output_padding: Sizes, groups: int,
               dilation: Sizes, activation: Optional[str], residual: Any, out: Any, out_dtype: Any, options: CallOptions) -> Any:  # fmt: skip
    x_shape, w_shape = shape_of("x", x, count), shape_of("w", w, count)
    g = geometry_of(stride, sizes_of("padding", padding, count), dilation, groups, w_shape[2:])
    if g.groups < 1 or x_shape[1] != w_shape[0] or w_shape[0] % g.groups:
        raise InvalidArgument(f"x has {x_shape[1]} channels, w the shape {w_shape}, and groups is {g.groups}",
                              "as many channels as w's first size, and groups that divide them")  # fmt: skip
    extra = sizes_of("output_padding", output_padding, count)
    if any(not 0 <= each < max(s, d) for each, s, d in zip(extra, g.stride, g.dilation)):
        raise InvalidArgument(f"output_padding is {shown(output_padding)}", "from 0 to below the stride or the dilation")
    # The forward's padding behind x that leaves these sizes to it.
    sizes = tuple((n - 1) * s - 2 * p[0] + d * (f - 1) + e + 1
                  for n, s, p, d, f, e in zip(x_shape[2:], g.stride, g.padding, g.dilation, w_shape[2:], extra))  # fmt: skip
    if min(sizes) < 1:
        raise InvalidArgument(f"x has the shape {x_shape}: the result would have the sizes {sizes}", "less padding")
    shape = (x_shape[0], w_shape[1] * g.groups, *sizes)
    if any(e >= s for e, s in zip(extra, g.stride)):
        # Pixels behind the last window: less padding behind the forward's image keeps them out of its result.
        if any(e > high for (_, high), e in zip(g.padding, extra)):
            raise Unsupported(f"output_padding is {shown(output_padding)} and stride {shown(stride)}",
                              "less than the stride, or padding of as much", "unsupported")  # fmt: skip
        g = g._replace(padding=tuple((low, high - e) for (low, high), e in zip(g.padding, extra)))
    return _serve(f"conv_transpose{count}d", options, "transposed", x, w, shape, g, bias=bias, residual=residual, out=out,
                  out_dtype=out_dtype, activation=activation)  # fmt: skip


def _check_gradient(dy: Any, x: tuple[int, ...], w: tuple[int, ...], g: Geometry) -> None:
    check_groups(g.groups, x[1], w, "x")
    expected = (x[0], w[0], *out_sizes(x[2:], w[2:], g))
    if (shape := shape_of("dy", dy, len(w) - 2)) != expected:
        raise InvalidArgument(f"dy has the shape {shape}", f"{expected}, that of the forward's result")


@refusing
def conv_backward_data(dy: Array, w: Filters[Array], x_shape: Sequence[int], *, stride: Sizes = 1, padding: Padding = 0,
                       dilation: Sizes = 1, groups: int = 1, out: Optional[Array] = None, out_dtype: Any = None,
                       **options: Unpack[CallOptions]) -> Array:  # fmt: skip
    """The gradient by the image of conv1d, conv2d or conv3d (by the number of dimensions), from that by the result.

    dy: (batch, filters, ...), of the forward's result. w and the other arguments: the forward's. x_shape: of its image.
    out, out_dtype: as of conv2d.

    Returns a tensor of x_shape, of dy's kind; in memory as dy is, channels last or first. Errors: as of conv2d.
    """
    w_shape = shape_of("w", w)
    shape = shape_given("x_shape", x_shape)
    check_rank("x_shape", shape, len(w_shape) - 2)
    g = geometry_of(stride, padding, dilation, groups, w_shape[2:])
    _check_gradient(dy, shape, w_shape, g)
    result: Array = _serve("conv_backward_data", options, "backward_data", dy, w, shape, g, out=out, out_dtype=out_dtype)
    return result


@refusing
def conv_backward_weight(dy: Array, x: Array, w_shape: Sequence[int], *, stride: Sizes = 1, padding: Padding = 0,
                         dilation: Sizes = 1, groups: int = 1, out: Optional[Array] = None, out_dtype: Any = None,
                         bias: bool = False, **options: Unpack[CallOptions]) -> Any:  # fmt: skip
    """The gradient by the filters of conv1d, conv2d or conv3d, from that by the result.

    dy: (batch, filters, ...), of the forward's result. x and the other arguments: the forward's. w_shape: of its filters.
    out, out_dtype: as of conv2d. bias: whether the gradient by the forward's bias is wanted too.

    Returns a tensor of w_shape, of x's kind; in memory as x is, channels last or first. With `bias`, that and a tensor
    (filters,) of the same type: the sum of dy over images and pixels, which the tensors' library adds up in float32.
    Errors: as of conv2d.
    """
    shape = shape_given("w_shape", w_shape)
    check_rank("w_shape", shape, None)
    x_shape = shape_of("x", x, len(shape) - 2)
    g = geometry_of(stride, padding, dilation, groups, shape[2:])
    _check_gradient(dy, x_shape, shape, g)
    dw: Any = _serve("conv_backward_weight", options, "backward_weight", dy, x, shape, g, out=out, out_dtype=out_dtype)
    if not flag("bias", bias):
        return dw
    summed = _bias_servers.by_type.get(type(dy)) or _bias_servers.find("dy", dy)
    return dw, summed(dy, dw.dtype)


@refusing
def conv2d(x: Array, w: Filters[Array], bias: Optional[Array] = None, *, stride: Sizes = 1, padding: Padding = 0, dilation: Sizes = 1,
           groups: int = 1, activation: Optional[Activation] = None, residual: Optional[Array] = None, scale_x: Any = None,
           scale_w: Any = None, out: Optional[Array] = None, out_dtype: Any = None, **options: Unpack[CallOptions]) -> Array:  # fmt: skip
    """Convolution of images, as torch's (the filter is not turned), with a bias, a residual and an activation.

    x: (batch, channels, height, width), float32, float16, bfloat16, float8 (e4m3) or int8, any strides; torch, NumPy or
        DLPack.
    w: (filters, channels / groups, height, width), of x's type; or what pack_conv_weight made of such filters.
    bias: (filters,), contiguous; float32, float16 or bfloat16.
    stride, dilation: a number or one for each coordinate. padding: likewise, or pairs (before, behind), "same" or "valid".
    groups: channels and filters fall into so many groups. As many as channels: a depthwise convolution.
    residual: a tensor of the result's shape and type, added after the bias. activation: of the sum of all.
    scale_x, scale_w: of float8 and int8, what the stored values of x and w are multiplied by: numbers or float32 tensors of
        one element; scale_w also (filters,). They multiply the sums, before the bias. A contiguous scale_w of (filters,)
        alone is read as it is; else the tensors' library makes one of both for each call.
    out: where to write the result. out_dtype: of the result, x's type or float32; of float8 bfloat16 (the default), float16
        or float32, of int8 float32 (the default), bfloat16, float16 or int8 (rounded to nearest, limited to the range).

    Options of a call (kernel, threads, ...): as of tilesmith.options.

    Returns (batch, filters, height, width), of x's kind; in memory as x is, channels last or first. Sums are float32, of
    int8 int32 (modulo 2^32), rounded once. Of wider types than 8 bits torch differentiates it by x, w, bias and residual, to any order; the activation is then a step of
    torch's own behind the rounding.

    Errors: InvalidArgument (shapes, sizes), WrongType, Unsupported (a device without kernels of it; out and a gradient).
    """
    result: Array = _forward(2, x, w, bias, stride, padding, dilation, groups, activation, residual, scale_x, scale_w, out,
                             out_dtype, options)  # fmt: skip
    return result


@refusing
def conv1d(x: Array, w: Filters[Array], bias: Optional[Array] = None, *, stride: Sizes = 1, padding: Padding = 0, dilation: Sizes = 1,
           groups: int = 1, activation: Optional[Activation] = None, residual: Optional[Array] = None, scale_x: Any = None,
           scale_w: Any = None, out: Optional[Array] = None, out_dtype: Any = None, **options: Unpack[CallOptions]) -> Array:  # fmt: skip
    """conv2d of one coordinate: x (batch, channels, length), w (filters, channels / groups, length)."""
    result: Array = _forward(1, x, w, bias, stride, padding, dilation, groups, activation, residual, scale_x, scale_w, out,
                             out_dtype, options)  # fmt: skip
    return result


@refusing
def conv3d(x: Array, w: Filters[Array], bias: Optional[Array] = None, *, stride: Sizes = 1, padding: Padding = 0, dilation: Sizes = 1,
           groups: int = 1, activation: Optional[Activation] = None, residual: Optional[Array] = None, scale_x: Any = None,
           scale_w: Any = None, out: Optional[Array] = None, out_dtype: Any = None, **options: Unpack[CallOptions]) -> Array:  # fmt: skip
    """conv2d of three coordinates: x (batch, channels, depth, height, width), w likewise."""
    result: Array = _forward(3, x, w, bias, stride, padding, dilation, groups, activation, residual, scale_x, scale_w, out,
                             out_dtype, options)  # fmt: skip
    return result


@refusing
def conv_transpose2d(x: Array, w: Filters[Array], bias: Optional[Array] = None, *, stride: Sizes = 1, padding: Sizes = 0,
                     output_padding: Sizes = 0, groups: int = 1, dilation: Sizes = 1,
                     activation: Optional[Activation] = None, residual: Optional[Array] = None,
                     out: Optional[Array] = None, out_dtype: Any = None, **options: Unpack[CallOptions]) -> Array:  # fmt: skip
    """Transposed convolution, as torch's: what conv2d's gradient by its image computes.

    x: (batch, channels, height, width). w: (channels, filters / groups, height, width), or what
        pack_conv_weight(transposed=True) made of it. bias: (filters,).
    output_padding: pixels behind the result's last, below the stride or the dilation. The others: as of conv2d.

    Returns (batch, filters, ...) of the sizes (size - 1) stride - 2 padding + dilation (filter - 1) + output_padding + 1.
    Errors: as of conv2d.
    """
    result: Array = _transpose(2, x, w, bias, stride, padding, output_padding, groups, dilation, activation, residual, out,
                               out_dtype, options)  # fmt: skip
    return result


@refusing
def conv_transpose1d(x: Array, w: Filters[Array], bias: Optional[Array] = None, *, stride: Sizes = 1, padding: Sizes = 0,
                     output_padding: Sizes = 0, groups: int = 1, dilation: Sizes = 1,
                     activation: Optional[Activation] = None, residual: Optional[Array] = None,
                     out: Optional[Array] = None, out_dtype: Any = None, **options: Unpack[CallOptions]) -> Array:  # fmt: skip
    """conv_transpose2d of one coordinate."""
    result: Array = _transpose(1, x, w, bias, stride, padding, output_padding, groups, dilation, activation, residual, out,
                               out_dtype, options)  # fmt: skip
    return result


@refusing
def conv_transpose3d(x: Array, w: Filters[Array], bias: Optional[Array] = None, *, stride: Sizes = 1, padding: Sizes = 0,
                     output_padding: Sizes = 0, groups: int = 1, dilation: Sizes = 1,
                     activation: Optional[Activation] = None, residual: Optional[Array] = None,
                     out: Optional[Array] = None, out_dtype: Any = None, **options: Unpack[CallOptions]) -> Array:  # fmt: skip
    """conv_transpose2d of three coordinates."""
    result: Array = _transpose(3, x, w, bias, stride, padding, output_padding, groups, dilation, activation, residual, out,
                               out_dtype, options)  # fmt: skip
    return result


listed_functions.update((conv1d, conv2d, conv3d, conv_backward_data, conv_backward_weight, conv_transpose1d, conv_transpose2d,
                         conv_transpose3d))  # fmt: skip
