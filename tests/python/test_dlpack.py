"""Arrays of a library that neither NumPy nor torch is: seen through DLPack alone."""

import types

import numpy as np
import pytest
from conftest import assert_attention

import tilesmith


class Foreign:
    """An array that shows only the array API's interchange."""

    def __init__(self, array):
        self.array = array
        self.dtype, self.shape = array.dtype, array.shape

    def __dlpack__(self, **options):
        options.pop("max_version", None)  # NumPy 1 does not know it, and it must not matter
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __array_namespace__(self):
        return types.SimpleNamespace(float32=np.float32, empty=lambda shape, dtype: Foreign(np.empty(shape, dtype)))


class Older(Foreign):
    """From before DLPack 1: knows no max_version."""

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()


@pytest.mark.parametrize("kind", [Foreign, Older])
def test_foreign(qkv, kind, rng):
    q, k, v = qkv()
    bias = rng.standard_normal((33, 70)).astype(np.float32)
    o, lse = tilesmith.attention(kind(q), kind(k), kind(v), bias=kind(bias), return_lse=True)
    assert type(o) is Foreign and type(lse) is Foreign
    assert_attention((o.array, lse.array), q, k, v, bias=bias)
    again = tilesmith.attention(kind(q), kind(k), kind(v), bias=kind(bias))
    np.testing.assert_array_equal(again.array, o.array)


def test_strides_and_out(qkv):
    q, k, v = qkv()
    out = np.empty((2, 33, 4, 64), np.float32).swapaxes(1, 2)
    foreign_out = Foreign(out)
    swapped = [Foreign(np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2)) for x in (q, k, v)]
    assert tilesmith.attention(*swapped, out=foreign_out) is foreign_out
    assert_attention(out, q, k, v)
    with pytest.raises(ValueError, match="out and q may share memory"):
        tilesmith.attention(Foreign(q), Foreign(k), Foreign(v), out=Foreign(q))


def test_group(qkv):
    q, k, v = (x[0] for x in qkv())
    cu_q, cu_k = (np.array(x, np.int32) for x in ([0, 13, 33], [0, 40, 70]))
    expected = tilesmith.attention(q, k, v, cu_seqlens_q=cu_q, cu_seqlens_k=cu_k)
    got = tilesmith.attention(Foreign(q), Foreign(k), Foreign(v), cu_seqlens_q=Foreign(cu_q), cu_seqlens_k=Foreign(cu_k),
                              max_seqlen_q=20, max_seqlen_k=40)  # fmt: skip
    np.testing.assert_array_equal(got.array, expected)
    with pytest.raises(ValueError, match="max_seqlen_q or max_seqlen_k is not given"):
        tilesmith.attention(Foreign(q), Foreign(k), Foreign(v), cu_seqlens_q=Foreign(cu_q), cu_seqlens_k=Foreign(cu_k))


def test_what_cannot_be(qkv):
    q, k, v = qkv()
    with pytest.raises(TypeError, match="k is a list"):
        tilesmith.attention(Foreign(q), [1.0], Foreign(v))
    with pytest.raises(TypeError, match="DLPack type 2 of 64 bits"):
        tilesmith.attention(*(Foreign(x.astype(np.float64)) for x in (q, k, v)))


@pytest.mark.parametrize("name", ["array_api_strict", "jax"])
def test_libraries(qkv, name, monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    pytest.importorskip(name)
    import importlib

    q, k, v = qkv()
    space = importlib.import_module("jax.numpy" if name == "jax" else name)
    tensors = [space.asarray(x) for x in (q, k, v)]
    o, lse = tilesmith.attention(*tensors, causal=True, return_lse=True)
    assert type(o) is type(tensors[0]) and type(lse) is type(tensors[0])
    assert_attention((np.asarray(o), np.asarray(lse)), q, k, v, mask="bottom_right")
    np.testing.assert_array_equal(np.asarray(tensors[0]), q)


class Unchanging(Foreign):
    """Exports read-only views, as JAX does; NumPy marks them so since its second version."""

    def __init__(self, array):
        super().__init__(array.copy())
        self.array.flags.writeable = False

    def __array_namespace__(self):
        return types.SimpleNamespace(float32=np.float32, from_dlpack=Unchanging,
                                     empty=lambda shape, dtype: Unchanging(np.empty(shape, dtype)))  # fmt: skip

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)


exports_read_only = pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.1.0",
                                       reason="this NumPy does not export read-only arrays")  # fmt: skip


@exports_read_only
def test_arrays_that_never_change(qkv):
    q, k, v = qkv()
    got = tilesmith.attention(*(Unchanging(x) for x in (q, k, v)))
    assert type(got) is Unchanging
    assert_attention(got.array, q, k, v)
    with pytest.raises(ValueError, match="out is read-only"):
        tilesmith.attention(*(Unchanging(x) for x in (q, k, v)), out=Unchanging(q))


def test_matmul(rng):
    a, b, residual = (rng.uniform(-1, 1, shape).astype("f4") for shape in ((2, 6, 20), (10, 20), (2, 6, 10)))
    scale = np.full(10, 2, np.float32)
    got = tilesmith.linear(Foreign(a), Foreign(b), residual=Foreign(residual), scale_w=Foreign(scale), scale_x=0.5)
    assert type(got) is Foreign
    np.testing.assert_allclose(got.array, a.astype("f8") @ b.T.astype("f8") + residual, atol=1e-5)
    out = Foreign(np.empty((2, 6, 10), np.float32))
    assert tilesmith.matmul(Foreign(a), Foreign(b.T), out=out) is out
    np.testing.assert_allclose(out.array, a.astype("f8") @ b.T.astype("f8"), atol=1e-5)
    with pytest.raises(TypeError, match="w is a list"):
        tilesmith.linear(Foreign(a), [1.0])
    with pytest.raises(NotImplementedError, match="out_dtype"):
        tilesmith.matmul(Foreign(a), Foreign(b.T), out_dtype="float16")


@exports_read_only
def test_what_matmul_writes_to_may_change(rng):
    a, b = rng.uniform(-1, 1, (6, 20)).astype("f4"), rng.uniform(-1, 1, (20, 10)).astype("f4")
    most, frozen = np.zeros(1, np.float32), Unchanging(np.zeros(1, np.float32))
    got = tilesmith.mm_plus_mm(*map(Unchanging, (a, b, a, b)), out=Foreign(np.empty((6, 10), np.float32)), amax=Foreign(most))
    expected = 2 * (a.astype("f8") @ b)
    np.testing.assert_allclose(got.array, expected, atol=1e-5)
    np.testing.assert_allclose(most, [np.abs(expected).max()], rtol=1e-5)
    for written in (dict(amax=frozen), dict(out=Unchanging(got.array))):
        with pytest.raises(ValueError, match=f"{next(iter(written))} is read-only"):
            tilesmith.matmul(Foreign(a), Foreign(b), **written)
    assert frozen.array == 0


@pytest.mark.parametrize("name", ["array_api_strict", "jax"])
def test_matmul_of_libraries(name, rng):
    pytest.importorskip(name)
    import importlib

    space = importlib.import_module("jax.numpy" if name == "jax" else name)
    a, b = (rng.uniform(-1, 1, shape).astype("f4") for shape in ((6, 20), (20, 10)))
    got = tilesmith.matmul(space.asarray(a), space.asarray(b))
    assert type(got) is type(space.asarray(a))
    np.testing.assert_allclose(np.asarray(got), a.astype("f8") @ b.astype("f8"), atol=1e-5)


@pytest.mark.parametrize("kind", [Foreign, Older])
def test_convolution(rng, kind):
    x, w, bias = (rng.standard_normal(shape).astype(np.float32) for shape in ((2, 4, 7, 6), (6, 2, 3, 3), (6,)))
    options = {"padding": 1, "groups": 2}
    y = tilesmith.conv2d(kind(x), kind(w), kind(bias), activation="relu", **options)
    assert type(y) is Foreign
    np.testing.assert_array_equal(y.array, tilesmith.conv2d(x, w, bias, activation="relu", **options))
    dw = kind(np.empty_like(w))
    assert tilesmith.conv_backward_weight(y, kind(x), w.shape, out=dw, **options) is dw
    np.testing.assert_array_equal(dw.array, tilesmith.conv_backward_weight(y.array, x, w.shape, **options))
    with pytest.raises(NotImplementedError, match="bias=True"):
        tilesmith.conv_backward_weight(y, kind(x), w.shape, bias=True, **options)
    with pytest.raises(NotImplementedError, match="out_dtype"):
        tilesmith.conv2d(kind(x), kind(w), out_dtype="float32", **options)
