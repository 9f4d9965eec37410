"""Convolution beside torch's, on torch tensors and NumPy arrays, in all directions."""

import numpy as np
import pytest

import tilesmith

torch = pytest.importorskip("torch")

TYPES = {"float32": 2e-5, "bfloat16": 2e-2, "float16": 3e-3}


def tensor(rng, *shape, dtype="float32", last=True):
    x = torch.from_numpy(rng.standard_normal(shape).astype(np.float32)).to(getattr(torch, dtype))
    if last and x.dim() == 4:
        x = x.to(memory_format=torch.channels_last)
    return x


def close(got, want, dtype):
    scale = want.float().abs().max().item() + 1e-6
    assert got.shape == want.shape
    assert (got.float() - want.float()).abs().max().item() <= TYPES[dtype] * scale


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("last", [True, False])
def test_conv2d_is_torchs(rng, dtype, last):
    x, w = tensor(rng, 2, 6, 9, 11, dtype=dtype, last=last), tensor(rng, 8, 3, 3, 2, dtype=dtype, last=last)
    bias = tensor(rng, 8, dtype=dtype)
    options = {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 2), "groups": 2}
    got = tilesmith.conv2d(x, w, bias, **options)
    close(got, torch.conv2d(x.float(), w.float(), bias.float(), **options), dtype)
    assert got.dtype == x.dtype and got.is_contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)
    activated = tilesmith.conv2d(x, w, bias, activation="relu", residual=got, **options)
    close(activated, torch.relu(torch.conv2d(x.float(), w.float(), bias.float(), **options) + got.float()), dtype)


@pytest.mark.parametrize("kind", ["float32", "int8", "packed"])
def test_a_repeated_call_is_the_same(rng, kind):
    given = {"padding": 1, "groups": 2}
    x, w = tensor(rng, 1, 6, 5, 7), tensor(rng, 4, 3, 3, 3)
    if kind == "int8":
        x, w = (each.mul(20).to(torch.int8).contiguous(memory_format=torch.channels_last) for each in (x, w))
        given |= {"scale_x": 0.25, "scale_w": 0.5, "out_dtype": torch.int8}
    other = x.flip(0, 2).contiguous(memory_format=torch.channels_last)
    filters = tilesmith.pack_conv_weight(w, groups=2) if kind == "packed" else w
    results = [tilesmith.conv2d(each, filters, **given) for each in (x, x, other, x)]
    assert len({each.data_ptr() for each in results}) == 4 and len({each.stride() for each in results}) == 1
    assert torch.equal(results[1], results[0]) and torch.equal(results[3], results[0]) and not torch.equal(results[2], results[0])
    assert torch.equal(tilesmith.conv2d(other, filters, out=torch.empty_like(results[0]), **given), results[2])
    if kind == "int8":
        assert not torch.equal(tilesmith.conv2d(x, w, **given | {"scale_w": 0.125}), results[0])
        assert tilesmith.conv2d(x, w, **given | {"out_dtype": torch.float32}).dtype == torch.float32


def test_a_call_like_one_before_is_looked_at_where_it_differs(rng):
    x, w = tensor(rng, 1, 4, 6, 6), tensor(rng, 4, 4, 3, 3)
    for _ in range(2):
        y = tilesmith.conv2d(x, w, padding=1)
    for odd in ({"padding": 1.0}, {"padding": True, "stride": 1.5}, {"padding": 1, "groups": 3}):
        with pytest.raises(tilesmith.Error):
            tilesmith.conv2d(x, w, **odd)
    with pytest.raises(tilesmith.InvalidArgument):
        tilesmith.conv1d(x, w, padding=1)
    assert torch.equal(tilesmith.conv2d(x, w, padding=[1]), y)
    assert tilesmith.conv2d(x, w, padding=1, threads=1, activation="relu").min() >= 0
    needs = w.clone().requires_grad_()
    tilesmith.conv2d(x, needs, padding=1).sum().backward()
    assert needs.grad is not None
    with torch.no_grad():
        assert torch.equal(tilesmith.conv2d(x, needs, padding=1), y)
    with pytest.raises(tilesmith.Error), torch.autograd.forward_ad.dual_level():
        tilesmith.conv2d(torch.autograd.forward_ad.make_dual(x, x), w, padding=1)


def test_one_and_three_dimensions(rng):
    x, w = tensor(rng, 2, 4, 30), tensor(rng, 6, 4, 5)
    close(tilesmith.conv1d(x, w, stride=2, padding=3), torch.conv1d(x, w, stride=2, padding=3), "float32")
    close(tilesmith.conv1d(x, w, padding="same"), torch.conv1d(x, w, padding="same"), "float32")
    x, w = tensor(rng, 1, 4, 5, 6, 7), tensor(rng, 6, 4, 2, 3, 3)
    close(tilesmith.conv3d(x, w, padding=(1, 0, 2)), torch.conv3d(x, w, padding=(1, 0, 2)), "float32")


@pytest.mark.parametrize("output_padding", [0, 1])
def test_transposed(rng, output_padding):
    x, w, bias = tensor(rng, 2, 6, 5, 7), tensor(rng, 6, 4, 3, 4), tensor(rng, 8)
    options = {"stride": (2, 3), "padding": (1, 0), "output_padding": output_padding, "groups": 2}
    close(tilesmith.conv_transpose2d(x, w, bias, **options), torch.conv_transpose2d(x, w, bias, **options), "float32")
    x, w = tensor(rng, 2, 6, 5), tensor(rng, 6, 4, 3)
    close(tilesmith.conv_transpose1d(x, w, dilation=2, padding=1, output_padding=1),
          torch.conv_transpose1d(x, w, dilation=2, padding=1, output_padding=1), "float32")  # fmt: skip


def test_gradients(rng):
    x, w = tensor(rng, 2, 6, 9, 11).requires_grad_(), tensor(rng, 8, 3, 3, 2).requires_grad_()
    options = {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 2), "groups": 2}
    y = torch.conv2d(x, w, **options)
    dy = tensor(rng, *y.shape)
    dx, dw = torch.autograd.grad(y, (x, w), dy)
    with torch.no_grad():
        close(tilesmith.conv_backward_data(dy, w, x.shape, **options), dx, "float32")
        close(tilesmith.conv_backward_weight(dy, x, w.shape, **options), dw, "float32")


def test_asymmetric_padding_and_numpy(rng):
    x, w = rng.standard_normal((2, 3, 8, 9)).astype(np.float32), rng.standard_normal((5, 3, 3, 3)).astype(np.float32)
    got = tilesmith.conv2d(x, w, padding=((0, 2), (3, 1)))
    padded = np.pad(x, ((0, 0), (0, 0), (0, 2), (3, 1)))
    assert isinstance(got, np.ndarray)
    close(torch.from_numpy(got), torch.conv2d(torch.from_numpy(padded), torch.from_numpy(w)), "float32")
    assert tilesmith.last_plan().kernel.startswith("conv_fwd_fp32")
    out = np.empty_like(got)
    assert tilesmith.conv2d(x, w, padding=((0, 2), (3, 1)), out=out) is out
    np.testing.assert_array_equal(out, got)


def test_mistakes_are_named(rng):
    x, w = tensor(rng, 2, 6, 9, 11), tensor(rng, 8, 3, 3, 2)
    with pytest.raises(ValueError, match="x has 6 channels"):
        tilesmith.conv2d(x, w)
    with pytest.raises(ValueError, match="x has the shape"):
        tilesmith.conv1d(x, w)
    with pytest.raises(ValueError, match="would have the shape"):
        tilesmith.conv2d(x, w, groups=2, dilation=9)
    with pytest.raises(TypeError, match="w is bf16"):
        tilesmith.conv2d(x, w.bfloat16(), groups=2)
    with pytest.raises(ValueError, match="bias has the shape"):
        tilesmith.conv2d(x, w, tensor(rng, 7), groups=2)
    with pytest.raises(ValueError, match="dy has the shape"):
        tilesmith.conv_backward_data(x, w, (2, 6, 9, 11), groups=2)
    with pytest.raises(TypeError, match="x is torch.float64"):
        tilesmith.conv2d(x.double(), w.double(), groups=2)
    with pytest.raises(TypeError, match="w is a ndarray"):
        tilesmith.conv2d(x, w.numpy(), groups=2)
    with pytest.raises(TypeError, match="x is a list"):
        tilesmith.conv2d([1.0], w)
    with pytest.raises(TypeError, match="out_dtype"):
        tilesmith.conv2d(x, w, groups=2, out_dtype="float32")
    with pytest.raises(TypeError, match="no argument 'strides'"):
        tilesmith.conv2d(x, w, groups=2, strides=2)
    with pytest.raises(ValueError, match="activation is 'mish'"):
        tilesmith.conv2d(x, w, groups=2, activation="mish")
    with pytest.raises(ValueError, match="activation is 'mish'"):
        tilesmith.conv2d(x, w.clone().requires_grad_(), groups=2, activation="mish")
    with pytest.raises(ValueError, match="x has 6 channels, w the shape"):
        tilesmith.conv_transpose2d(x, w)
    with pytest.raises(ValueError, match="x_shape has the shape"):
        tilesmith.conv_backward_data(x, w, (2, 6, 9), groups=2)
    with pytest.raises(NotImplementedError, match="out is given"):
        tilesmith.conv2d(x, w.clone().requires_grad_(), groups=2, out=torch.empty(2, 8, 7, 10))
    with pytest.raises(NotImplementedError, match="tangent"), torch.autograd.forward_ad.dual_level():
        tilesmith.conv2d(torch.autograd.forward_ad.make_dual(x, x), w, groups=2)


def test_the_bias_gradient(rng):
    x, dy = tensor(rng, 2, 6, 9, 11), tensor(rng, 2, 8, 7, 10)
    dw, db = tilesmith.conv_backward_weight(dy, x, (8, 3, 3, 2), groups=2, bias=True)
    close(db, dy.sum((0, 2, 3)), "float32")
    np.testing.assert_array_equal(dw, tilesmith.conv_backward_weight(dy, x, (8, 3, 3, 2), groups=2))
    ours = tilesmith.conv_backward_weight(dy.numpy(), x.numpy(), (8, 3, 3, 2), groups=2, bias=True)
    np.testing.assert_allclose(ours[1], db, rtol=1e-5, atol=1e-5)


def test_order_in_memory(rng):
    """Channels last stay last, whatever sizes are 1."""
    for channels, filters, size in ((1, 3, (4, 5)), (3, 1, (4, 5)), (3, 5, (1, 1)), (3, 5, (4, 1)), (1, 1, (1, 1))):
        w = tensor(rng, filters, channels, 1, 1)
        for order in (torch.channels_last, torch.contiguous_format):
            x = torch.randn(2, channels, *size).to(memory_format=order)
            want = torch.conv2d(x, w.to(memory_format=order))
            got = tilesmith.conv2d(x, w)
            assert got.is_contiguous(memory_format=order), (channels, filters, size, order, got.stride())
            close(got, want, "float32")


def test_options_of_a_call(rng):
    x, w = tensor(rng, 2, 6, 9, 11), tensor(rng, 8, 6, 3, 2)
    found = tilesmith.candidates(tilesmith.conv2d, x, w)
    kernel = found.candidates[-1].kernel
    got = tilesmith.conv2d(x, w, kernel=kernel, threads=1)
    assert tilesmith.last_plan().kernel == kernel
    close(got, torch.conv2d(x, w), "float32")
    with pytest.raises(tilesmith.Error, match="no_such_kernel"):
        tilesmith.conv2d(x, w, kernel="no_such_kernel")


GEOMETRY = {"stride": (2, 1), "padding": (1, 2), "groups": 2}


def whole(rng, *shape):
    return torch.from_numpy(rng.integers(-100, 101, shape).astype(np.int8))


def test_int8_with_scales(rng):
    """Sums are whole; a result of int8 is rounded to nearest and limited to its range."""
    x, w, bias = whole(rng, 2, 6, 9, 11), whole(rng, 8, 3, 3, 2), tensor(rng, 8)
    scales = torch.from_numpy(rng.random(8).astype(np.float32)) * 1e-3
    sums = torch.conv2d(x.double(), w.double(), **GEOMETRY)
    got = tilesmith.conv2d(x, w, **GEOMETRY)
    assert got.dtype == torch.float32 and torch.equal(got.double(), sums)
    got = tilesmith.conv2d(x, w, bias, scale_x=0.5, scale_w=scales, activation="relu", **GEOMETRY)
    close(got, torch.relu(sums * 0.5 * scales[:, None, None] + bias[:, None, None]), "float32")
    got = tilesmith.conv2d(x, w, bias, scale_x=torch.tensor(2.0), scale_w=scales, out_dtype=torch.int8, **GEOMETRY)
    want = sums * 2 * scales[:, None, None] + bias[:, None, None]
    assert got.dtype == torch.int8 and (got - want.clamp(-128, 127)).abs().max() <= 0.5001
    ours = tilesmith.conv2d(x.numpy(), w.numpy(), scale_w=scales.numpy(), scale_x=0.5, **GEOMETRY)
    np.testing.assert_array_equal(ours, tilesmith.conv2d(x, w, scale_w=scales * 0.5, **GEOMETRY))


def test_scales_of_one_number(rng):
    """The vector of a number is kept: for each number and count of filters, whatever mode asks first."""
    x = whole(rng, 2, 6, 9, 11)
    compiled = torch.compile(lambda x, w: tilesmith.conv2d(x, w, scale_x=0.5, scale_w=0.75, **GEOMETRY), fullgraph=True, backend="eager")
    for filters in (8, 4, 8):
        w = whole(rng, filters, 3, 3, 2)
        sums = torch.conv2d(x.double(), w.double(), **GEOMETRY)
        assert torch.equal(compiled(x, w), (sums * 0.375).float())
        for scale in (0.375, 0.75, 0.375):
            with torch.inference_mode():
                assert torch.equal(tilesmith.conv2d(x, w, scale_w=scale, **GEOMETRY), (sums * scale).float())
            assert torch.equal(tilesmith.conv2d(x, w, scale_x=scale, scale_w=1, **GEOMETRY), (sums * scale).float())


def test_float8_with_scales(rng):
    x, w = (tensor(rng, *shape).to(torch.float8_e4m3fn) for shape in ((2, 6, 9, 11), (8, 3, 3, 2)))
    want = torch.conv2d(x.float(), w.float(), **GEOMETRY)
    got = tilesmith.conv2d(x, w, scale_w=0.25, **GEOMETRY)
    assert got.dtype == torch.bfloat16
    close(got, want * 0.25, "bfloat16")
    close(tilesmith.conv2d(x, w, out_dtype=torch.float32, **GEOMETRY), want, "float32")


def test_scales_are_checked(rng):
    x, w = whole(rng, 2, 6, 9, 11), whole(rng, 8, 3, 3, 2)
    for options, words in (({"scale_w": torch.ones(3)}, "scale_w has the shape"), ({"scale_x": torch.ones(8)}, "scale_x has the shape"),
                           ({"scale_w": torch.ones(8).double()}, "scale_w is torch.float64"), ({"out_dtype": torch.float64}, "the result is to be")):
        with pytest.raises((tilesmith.InvalidArgument, tilesmith.WrongType), match=words):
            tilesmith.conv2d(x, w, **options, **GEOMETRY)
    with pytest.raises(tilesmith.WrongType, match="they are for float8 and int8"):
        tilesmith.conv2d(x.float(), w.float(), scale_w=2.0, **GEOMETRY)
    with pytest.raises(tilesmith.WrongType, match="dy is int8"):
        tilesmith.conv_backward_data(whole(rng, 2, 8, 5, 14), w, x.shape, **GEOMETRY)
    x8 = x.float().to(torch.float8_e4m3fn).requires_grad_()
    with pytest.raises(tilesmith.Unsupported, match="a gradient of a convolution of torch.float8"):
        tilesmith.conv2d(x8, w.float().to(torch.float8_e4m3fn), **GEOMETRY)


def test_the_operator_with_scales(rng):
    x, w = whole(rng, 2, 6, 9, 11), whole(rng, 8, 3, 3, 2)
    arguments = ("conv", x, w, torch.ones(8), None, None, [2, 8, 5, 14], [2, 1], [1, 2], [1, 2], [1, 1], 2, None, "relu")
    torch.library.opcheck(torch.ops.tilesmith.conv, arguments)
    compiled = torch.compile(lambda x, w, s: tilesmith.conv2d(x, w, scale_x=2.0, scale_w=s, **GEOMETRY), fullgraph=True, backend="eager")
    assert torch.equal(compiled(x, w, torch.ones(8)), tilesmith.conv2d(x, w, scale_w=2.0, **GEOMETRY))


@pytest.mark.parametrize("call, message", [
    (lambda x, w, dy: tilesmith.conv_backward_data(dy, w, None), "x_shape is None"),
    (lambda x, w, dy: tilesmith.conv_backward_weight(dy, x, 3), "w_shape is 3"),
    (lambda x, w, dy: tilesmith.conv_backward_weight(dy, x, w.shape, out_dtype="\ud800"), "out_dtype is"),
    (lambda x, w, dy: tilesmith.conv2d(x, w, out_dtype=3.5), "out_dtype is 3.5"),
    (lambda x, w, dy: tilesmith.conv2d(x, w, stride=np.ones((1, 1))), "stride is"),
], ids=str)  # fmt: skip
def test_what_is_no_shape_and_no_type_is_named(call, message):
    with pytest.raises(tilesmith.WrongType, match=message):
        call(np.ones((1, 3, 8, 8), "f4"), np.ones((4, 3, 3, 3), "f4"), np.ones((1, 4, 6, 6), "f4"))


def test_numbers_of_numpy_are_numbers():
    x, w = np.ones((1, 3, 8, 8), "f4"), np.ones((4, 3, 3, 3), "f4")
    assert tilesmith.conv2d(x, w, stride=np.array(2), padding=np.int64(1)).shape == (1, 4, 4, 4)


def test_a_result_beyond_all_memory_is_no_crash():
    with pytest.raises(tilesmith.OutOfMemory, match="array is too big"):
        tilesmith.conv3d(np.ones((1, 3, 4, 4, 4), "f4"), np.ones((4, 3, 3, 3, 3), "f4"), padding=1 << 31)


@pytest.mark.compiles
@pytest.mark.parametrize("shape, order", [((32, 1, 2, 1, 3), (4, 2, 3, 1, 0)), ((64, 4, 3, 1, 1), (4, 1, 0, 2, 3))])
def test_the_stride_of_an_only_tap_says_nothing(shape, order):
    """Filters that lie in any order: a kernel that packs them must not take them for lines by such a stride."""
    torch.manual_seed(1)
    groups = shape[0] // shape[1]
    w = torch.randn(shape).permute(order).contiguous().permute(*np.argsort(order))
    x = torch.randn(1, groups * shape[1], 5, 7, 4)
    expected = torch.nn.functional.conv3d(x, w.contiguous(), padding=(1, 1, 2), groups=groups)
    torch.testing.assert_close(tilesmith.conv3d(x, w, padding=(1, 1, 2), groups=groups), expected, rtol=1e-4, atol=1e-4)
    dy = torch.randn_like(expected)
    dw = torch.empty_like(w)  # of w's strides
    tilesmith.conv_backward_weight(dy, x, shape, padding=(1, 1, 2), groups=groups, out=dw)
    expected = torch.nn.grad.conv3d_weight(x, shape, dy, padding=(1, 1, 2), groups=groups)
    torch.testing.assert_close(dw, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("last", [False, True], ids=["nchw", "nhwc"])
def test_a_result_on_what_is_read_is_refused(rng, last):
    """Other images' pixels would be written before they are read."""
    order = (lambda x: np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)) if last else np.ascontiguousarray
    buffer = order(rng.standard_normal((3, 16, 6, 7)).astype(np.float32))
    w = rng.standard_normal((8, 8, 3, 3)).astype(np.float32)
    wide, half = buffer[:2, :8], buffer[:2, 8:]
    wanted = tilesmith.conv2d(wide.copy(), w, padding=1)
    for out in (wide, buffer[1:, :8], buffer[:2, 4:12]):
        with pytest.raises(tilesmith.InvalidArgument, match="out overlaps x"):
            tilesmith.conv2d(wide, w, padding=1, out=out)
    with pytest.raises(tilesmith.InvalidArgument, match="out overlaps a tensor of the epilogue"):
        tilesmith.conv2d(wide, w, padding=1, residual=buffer[1:, 8:], out=half)
    residual = half.copy()
    np.testing.assert_array_equal(tilesmith.conv2d(wide, w, padding=1, out=half), wanted)  # other channels of the same pixels
    half[...] = residual
    tilesmith.conv2d(wide, w, padding=1, residual=half, out=half)
    np.testing.assert_allclose(half, wanted + residual, rtol=1e-5, atol=1e-5)
