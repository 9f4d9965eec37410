"""Convolutions of filters packed beforehand."""

import copy
import pickle

import numpy as np
import pytest

import tilesmith

pytestmark = pytest.mark.compiles


@pytest.fixture
def make(rng):
    return lambda *shape: rng.uniform(-1, 1, shape).astype(np.float32)


#: x, w, options: few and many channels, folded taps, groups, depthwise, channels of a vector, one tap.
CALLS = [
    ((2, 3, 9, 11), (70, 3, 5, 7), {"stride": 2, "padding": (2, 3)}),
    ((1, 20, 8, 8), (33, 20, 3, 3), {"padding": 1, "dilation": (1, 2)}),
    ((2, 12, 6, 7), (18, 4, 3, 3), {"groups": 3, "stride": (1, 2), "padding": 1}),
    ((1, 19, 8, 9), (19, 1, 3, 5), {"groups": 19, "padding": (1, 2)}),
    ((1, 24, 8, 9), (24, 8, 3, 3), {"groups": 3, "padding": 1}),
    ((3, 40, 5, 5), (100, 40, 1, 1), {}),
]


@pytest.mark.parametrize("x_shape, w_shape, options", CALLS)
def test_calls_read_one_buffer(make, x_shape, w_shape, options):
    w, bias = make(*w_shape), make(w_shape[0])
    kept = {name: options[name] for name in ("groups", "dilation") if name in options}
    packed = tilesmith.pack_conv_weight(w, **kept)
    assert packed.shape == w_shape and packed.data_type == "fp32" and packed.is_packed and packed.nbytes > w.nbytes
    for batch in (1, x_shape[0] + 1):
        x = make(batch, *x_shape[1:])
        for image in (x, np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1), x[:, :, :, :-1]):
            got = tilesmith.conv2d(image, packed, bias, activation="relu", **options)
            np.testing.assert_allclose(got, tilesmith.conv2d(image, w, bias, activation="relu", **options), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("x_shape, w_shape, options", CALLS)
def test_transposed(make, x_shape, w_shape, options):
    w, dy = make(*w_shape), make(2, w_shape[0], 6, 5)
    kept = {name: options[name] for name in ("groups", "dilation") if name in options}
    packed = tilesmith.pack_conv_weight(w, transposed=True, **kept)
    got = tilesmith.conv_transpose2d(dy, packed, **options)
    want = tilesmith.conv_transpose2d(dy, w, **options)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-4)
    if options.get("stride", 1) == 1:
        again = tilesmith.conv_backward_data(dy, packed, want.shape, **options)
        np.testing.assert_array_equal(again, got)


def test_one_and_three_dimensions(make):
    x, w = make(2, 4, 30), make(6, 4, 5)
    np.testing.assert_allclose(tilesmith.conv1d(x, tilesmith.pack_conv_weight(w), padding=2), tilesmith.conv1d(x, w, padding=2), rtol=1e-5, atol=1e-5)
    x, w = make(1, 4, 5, 6, 7), make(6, 4, 2, 3, 3)
    np.testing.assert_allclose(tilesmith.conv3d(x, tilesmith.pack_conv_weight(w)), tilesmith.conv3d(x, w), rtol=1e-5, atol=1e-5)


def test_integers(rng):
    for c in (3, 24):
        x, w = rng.integers(-100, 100, (2, c, 7, 8), np.int8), rng.integers(-100, 100, (9, c, 3, 3), np.int8)
        got = tilesmith.conv2d(x, tilesmith.pack_conv_weight(w), padding=1, scale_x=0.5)
        np.testing.assert_array_equal(got, tilesmith.conv2d(x, w, padding=1, scale_x=0.5))


def test_pickles_and_copies(make):
    x, w = make(1, 20, 6, 6), make(37, 20, 3, 3)
    packed = tilesmith.pack_conv_weight(w)
    expected = tilesmith.conv2d(x, packed)
    for again in (pickle.loads(pickle.dumps(packed)), copy.deepcopy(packed)):
        assert again.data.ctypes.data % 64 == 0 and again.shape == (37, 20, 3, 3)
        np.testing.assert_array_equal(tilesmith.conv2d(x, again), expected)
    assert repr(packed).startswith("PackedConvWeight((37, 20, 3, 3), fp32, packed in ")


def test_refusals(make):
    w, x = make(30, 8, 3, 3), make(1, 16, 6, 6)
    packed = tilesmith.pack_conv_weight(w, groups=2)
    assert tilesmith.conv2d(x, packed, groups=2).shape == (1, 30, 4, 4)
    with pytest.raises(tilesmith.InvalidArgument, match="w was packed for fwd of fp32, groups 2, c 8, k 15, filter 1x3x3"):
        tilesmith.conv2d(x[:, :8], packed)
    with pytest.raises(tilesmith.InvalidArgument, match="w was packed for fwd"):
        tilesmith.conv_transpose2d(make(1, 30, 6, 6), packed, groups=2)
    with pytest.raises(tilesmith.WrongType, match="w is fp32"):
        tilesmith.conv2d(x.astype(np.float16), packed, groups=2)
    with pytest.raises(tilesmith.InvalidArgument, match="channels"):
        tilesmith.conv2d(x[:, :14], packed, groups=2)
    damaged = packed.data.copy()
    damaged[50] ^= 1
    with pytest.raises(tilesmith.InvalidArgument, match="damaged"):
        tilesmith.conv2d(x, tilesmith.PackedConvWeight(damaged, packed.shape, "fp32"), groups=2)
    with pytest.raises(tilesmith.InvalidArgument, match="of which"):
        tilesmith.conv2d(x, tilesmith.PackedConvWeight(packed.data[:-64], packed.shape, "fp32"), groups=2)
    with pytest.raises(tilesmith.InvalidArgument, match="no buffer that pack_w made"):
        tilesmith.conv2d(x, tilesmith.PackedConvWeight(np.zeros(packed.nbytes, np.uint8), packed.shape, "fp32"), groups=2)
    with pytest.raises(tilesmith.InvalidArgument, match="dimensions"):
        tilesmith.pack_conv_weight(make(3, 4))
    with pytest.raises(tilesmith.InvalidArgument, match="groups is 4"):
        tilesmith.pack_conv_weight(w, groups=4)
    with pytest.raises(tilesmith.WrongType, match="w is int32"):
        tilesmith.pack_conv_weight(np.zeros((3, 4, 1, 1), np.int32))
    with pytest.raises(tilesmith.WrongType, match="w is int8"):
        tilesmith.pack_conv_weight(np.zeros((3, 4, 1, 1), np.int8), transposed=True)
    with pytest.raises(tilesmith.Error):
        tilesmith.linear(make(5, 8), packed)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_torch(dtype, tmp_path):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    torch.manual_seed(4)
    layer = torch.nn.Conv2d(20, 70, 3, padding=1).to(getattr(torch, dtype)).to(memory_format=torch.channels_last)
    packed = tilesmith.pack_conv_weight(layer.weight)
    torch.save(packed, tmp_path / "weight")
    loaded = torch.load(tmp_path / "weight", weights_only=False)
    x = torch.randn(2, 20, 9, 8).to(getattr(torch, dtype)).to(memory_format=torch.channels_last)
    with torch.no_grad():
        expected = layer.double()(x.double()).relu()
        layer.to(x.dtype)
        for weight in (packed, loaded):
            got = tilesmith.conv2d(x, weight, layer.bias.detach(), padding=1, activation="relu")
            assert got.is_contiguous(memory_format=torch.channels_last)
            tolerance = dict(rtol=1e-5, atol=1e-4) if dtype == "float32" else dict(rtol=2e-2, atol=2e-2)
            torch.testing.assert_close(got.double(), expected, **tolerance)
    with pytest.raises(tilesmith.WrongType):
        tilesmith.conv2d(x.float().numpy(), packed, padding=1)
    with pytest.raises(tilesmith.Unsupported, match="requires a gradient"):
        tilesmith.conv2d(x.requires_grad_(), packed, padding=1)


def test_filters_on_a_gpu_are_kept_as_they_are():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    w, x = torch.randn(64, 32, 3, 3, device="cuda").bfloat16(), torch.randn(2, 32, 8, 8, device="cuda").bfloat16()
    packed = tilesmith.pack_conv_weight(w)
    assert not packed.is_packed and packed.data.data_ptr() == w.data_ptr()
    assert torch.equal(tilesmith.conv2d(x, packed), tilesmith.conv2d(x, w))
