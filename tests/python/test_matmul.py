"""matmul and linear against float64, on NumPy arrays."""

import numpy as np
import pytest

import reference
import tilesmith

# What rounding to the type loses, relative to a value.
EPSILON = {"float32": 2.0**-20, "float16": 2.0**-11, "bfloat16": 2.0**-8, "int8": 0, "int32": 0}


def dtype_of(name):
    if name == "bfloat16":
        return pytest.importorskip("ml_dtypes").bfloat16
    return np.dtype(name)


@pytest.fixture
def make(rng):
    def random(*shape, dtype="float32"):
        if dtype == "int8":
            return rng.integers(-128, 128, shape, np.int8)
        return rng.uniform(-1, 1, shape).astype(dtype_of(dtype))

    return random


def assert_product(got, expected, dtype="float32"):
    assert got.dtype == dtype_of(dtype) and got.shape == expected.shape
    # Sums of float32 products whose absolute values are below 1 each, beside the result's own rounding.
    np.testing.assert_allclose(np.asarray(got, np.float64), expected, rtol=EPSILON[dtype], atol=4e-5)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 37, 129), (2, 3, 5), (13, 1, 17), (31, 67, 1), (7, 11, 130), (96, 200, 64)])
def test_shapes(make, dtype, shape):
    m, n, k = shape
    a, b = make(m, k, dtype=dtype), make(k, n, dtype=dtype)
    assert_product(tilesmith.matmul(a, b), reference.matmul(a, b), dtype)
    assert tilesmith.last_plan().operation == "gemm"


@pytest.mark.parametrize("shape", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)])
def test_nothing_to_sum(make, shape):
    m, n, k = shape
    got = tilesmith.matmul(make(m, k), make(k, n))
    assert got.shape == (m, n) and (got == 0).all()
    bias = make(n)
    np.testing.assert_array_equal(tilesmith.matmul(make(m, k), make(k, n), bias=bias), np.broadcast_to(bias, (m, n)))
    assert tilesmith.matmul(make(0, 2, 3), make(3, 4)).shape == (0, 2, 4)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("shape", [(1, 1, 67), (67, 1, 1), (1, 67, 1), (67, 1, 300), (1, 67, 300), (67, 45, 1), (5, 1, 3)])
def test_sizes_of_one(make, dtype, shape):
    """Their strides mean nothing, so they are read in the direction that costs least."""
    m, n, k = shape
    out_dtype = "int32" if dtype == "int8" else dtype
    for a in (make(m, k, dtype=dtype), make(k, m, dtype=dtype).T, make(m, k + 3, dtype=dtype)[:, 1:-2]):
        for b in (make(k, n, dtype=dtype), make(n, k, dtype=dtype).T, make(k, n + 3, dtype=dtype)[:, 1:-2]):
            assert_product(tilesmith.matmul(a, b), reference.matmul(a, b), out_dtype)
            out = np.zeros((m, 2 * n + 1), dtype_of(out_dtype))  # rows apart
            tilesmith.matmul(a, b, out=out[:, :n])
            assert_product(out[:, :n], reference.matmul(a, b), out_dtype)
            assert not out[:, n:].any()


def test_one_column_is_a_row_of_the_transposed_product(make):
    a, b, bias = make(70, 300), make(300, 1), make(1)
    got = tilesmith.matmul(a, b, bias=bias, activation="relu")
    assert "of the transposed GEMM" in tilesmith.last_plan().reason
    assert_product(got, np.maximum(reference.matmul(a, b) + bias, 0))
    c = make(70, 1)
    assert_product(tilesmith.matmul(a, b, c=c, beta=2.0), reference.matmul(a, b) + 2 * c.astype(np.float64))
    got, most = tilesmith.matmul(a, b, amax=True)
    np.testing.assert_allclose(most, np.abs(reference.matmul(a, b)).max(), rtol=1e-5)
    a[3, 5] = np.nan
    assert np.isnan(tilesmith.matmul(a, b)).nonzero()[0].tolist() == [3]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("left", ["row", "column", "padded", "padded column"])
@pytest.mark.parametrize("right", ["row", "column", "padded", "padded column"])
def test_layouts(make, dtype, left, right):
    def laid(layout, rows, columns):
        if "column" in layout:
            return laid(layout.replace("column", "row"), columns, rows).T
        return make(rows, columns + 3, dtype=dtype)[:, 2:-1] if "padded" in layout else make(rows, columns, dtype=dtype)

    a, b = laid(left, 13, 40), laid(right, 40, 21)
    assert_product(tilesmith.matmul(a, b), reference.matmul(a, b), dtype)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_results_of_contiguous_columns(make, dtype):
    a, b = make(13, 40, dtype=dtype), make(40, 21, dtype=dtype)
    out_dtype = "int32" if dtype == "int8" else dtype
    for shape, view in (((21, 13), lambda x: x.T), ((21, 20), lambda x: x[:, 3:16].T)):
        memory = np.zeros(shape, dtype_of(out_dtype))
        out = view(memory)
        assert tilesmith.matmul(a, b, out=out) is out
        assert_product(out, reference.matmul(a, b), out_dtype)
        out[...] = 0
        assert not memory.any()  # nothing beside it was touched
    if dtype == "int8":
        return
    # What is along n and m has changed places inside; what is added lies as out does.
    c, residual, bias = make(21, 13, dtype=dtype).T, make(21, 13, dtype=dtype).T, make(21, dtype=dtype)
    out = np.zeros((21, 13), dtype_of(dtype)).T
    given = dict(c=c, beta=0.5, bias=bias, activation="gelu", residual=residual)
    tilesmith.matmul(a, b, out=out, **given)
    assert_product(out, reference.matmul(a, b, **given), dtype)
    row_bias = make(13, 1, dtype=dtype)
    assert_product(tilesmith.matmul(a, b, out=out, bias=row_bias), reference.matmul(a, b, bias=row_bias), dtype)
    with pytest.raises(ValueError, match="c has the shape .* and the strides") as caught:
        tilesmith.matmul(a, b, out=out, c=make(13, 21, dtype=dtype))
    assert caught.value.hint == "contiguous columns, as out has: a copy of one"
    with pytest.raises(Exception, match="a column-major D beside a gate"):
        tilesmith.matmul(a, make(40, 42, dtype=dtype), out=out, gate="swiglu")
    # Batches: matrices of columns, and rows of one matrix of columns.
    a = make(2, 5, 40, dtype=dtype)
    for out in (np.zeros((2, 21, 5), dtype_of(dtype)).transpose(0, 2, 1), np.zeros((21, 10), dtype_of(dtype)).T.reshape(2, 5, 21)):
        assert_product(tilesmith.matmul(a, b, out=out), reference.matmul(a, b), dtype)


def test_strides_that_cannot_be(make):
    a, b = make(8, 10), make(10, 6)
    for wrong, name in ((a[:, ::-1], "a"), (a[::-1], "a"), (make(8, 20)[:, ::2], "a"),
                        (np.broadcast_to(make(10), (8, 10)), "a")):  # fmt: skip
        with pytest.raises(ValueError, match=f"{name} has the shape .* and the strides|{name} has the strides") as caught:
            tilesmith.matmul(wrong, b)
        assert "copy" in caught.value.hint
    with pytest.raises(ValueError, match=r"b has the strides \(-6, 1\)"):
        tilesmith.matmul(a, b[::-1])
    with pytest.raises(ValueError, match="out has the shape"):
        tilesmith.matmul(a, b, out=np.empty((8, 12), np.float32)[:, ::2])
    with pytest.raises(ValueError, match="c has the shape"):
        tilesmith.matmul(a, b, c=make(6))
    with pytest.raises(ValueError, match="a is not aligned"):
        tilesmith.matmul(np.frombuffer(bytes(8 * 10 * 4 + 1), np.uint8)[1:].view(np.float32).reshape(8, 10), b)
    # Of several calls, too.
    with pytest.raises(ValueError, match="elements of out overlap"):
        shared = np.lib.stride_tricks.as_strided(np.empty((3, 8, 6), np.float32), (2, 3, 8, 6), (0, 192, 24, 4))
        tilesmith.matmul(make(2, 1, 8, 10), make(3, 10, 6), out=shared)
    # A dimension of one element has no stride to speak of.
    out = np.empty((1, 6), np.float32)
    assert_product(tilesmith.matmul(a[:1][::-1], b, out=out[::-1]), reference.matmul(a[:1], b))
    assert_product(tilesmith.matmul(a[:1, ::-1][:, ::-1], b), reference.matmul(a[:1], b))
    assert_product(tilesmith.matmul(make(8, 20)[:, ::20] * 0 + 1, make(1, 6) * 0 + 2), np.full((8, 6), 2.0))


@pytest.mark.parametrize("left, right", [
    ((3, 5, 7), (3, 7, 9)), ((3, 5, 7), (7, 9)), ((5, 7), (3, 7, 9)), ((2, 3, 5, 7), (2, 3, 7, 9)), ((2, 3, 5, 7), (7, 9)),
    ((1, 5, 7), (3, 7, 9)), ((2, 3, 1, 7), (7, 9)), ((3, 1, 7), (3, 7, 1)), ((1, 1, 5, 7), (7, 9)), ((2, 1, 5, 7), (2, 1, 7, 9)),
    ((7,), (7, 9)), ((5, 7), (7,)), ((7,), (7,)), ((3, 5, 7), (7,)), ((7,), (3, 7, 9)),
])  # fmt: skip
def test_batches(make, left, right):
    a, b = make(*left), make(*right)
    expected = np.matmul(a.astype(np.float64), b.astype(np.float64))
    assert_product(tilesmith.matmul(a, b), np.asarray(expected))
    out = np.empty(expected.shape, np.float32)
    assert tilesmith.matmul(a, b, out=out) is out
    assert_product(out, np.asarray(expected))


def test_rows_and_batch_are_one_where_strides_allow(make):
    """x of any leading dimensions is one product: its rows are the rows of one matrix."""
    from tilesmith import _numpy_gemm

    w = make(9, 7)

    def walked(x, **options):
        _numpy_gemm.calls.by_key.clear()
        assert_product(tilesmith.linear(x, w, **options), reference.matmul(x, w.T, **options))
        (call,) = _numpy_gemm.calls.by_key.values()
        return call._call.batch, call._call.m

    assert walked(make(2, 3, 5, 7)) == (1, 30)
    assert walked(make(4, 1, 7)) == (1, 4)
    assert walked(make(4, 3, 7)[:, :1]) == (1, 4)
    assert walked(make(5, 4, 7).swapaxes(0, 1)) == (4, 5)
    assert walked(make(4, 6, 7)[:, :5]) == (4, 5)
    assert walked(make(4, 5, 7), residual=make(5, 9)) == (4, 5)
    assert walked(make(4, 5, 7), residual=make(4, 5, 9)) == (1, 20)


def test_batches_that_have_no_one_stride(make):
    """They are several calls."""
    for left, right in (((2, 1), (3,)), ((2, 1, 4), (3, 1)), ((1, 5, 1), (2, 1, 3)), ((2, 1), (1, 3))):
        a, b = make(*left, 5, 7), make(*right, 7, 9)
        expected = reference.matmul(a, b)
        assert_product(tilesmith.matmul(a, b), expected)
        residual, scale = make(*expected.shape), make(9)
        assert_product(tilesmith.matmul(a, b, residual=residual, scale_b=scale), expected * scale + residual)
        bias, c = make(9), make(*expected.shape[-3:])
        assert_product(tilesmith.matmul(a, b, c=c, bias=bias), expected + c + bias)
    a, b = make(2, 1, 5, 7), make(3, 7, 9)
    out = np.full((2, 3, 5, 12), 7, np.float32)
    got, amax = tilesmith.matmul(a, b, out=out[..., :9], amax=True)
    assert_product(got, reference.matmul(a, b))
    assert (out[..., 9:] == 7).all() and amax == np.abs(got).max()
    with pytest.raises(ValueError, match=r"the batch of a is \(2,\), of b \(3,\)"):
        tilesmith.matmul(make(2, 5, 7), make(3, 7, 9))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (13, 1, 17, 3), (7, 11, 130, 0), (7, 11, 0, 130), (31, 67, 5, 257), (3, 2, 0, 0)])
def test_two_products(make, dtype, shape):
    m, n, k, k2 = shape
    a, b, c, d = (make(*shape, dtype=dtype) for shape in ((m, k), (k, n), (m, k2), (k2, n)))
    expected = sum(x.astype(np.float64) @ y.astype(np.float64) for x, y in ((a, b), (c, d)))
    assert_product(tilesmith.mm_plus_mm(a, b, c, d), expected, "int32" if dtype == "int8" else dtype)


@pytest.mark.compiles
def test_two_products_of_every_layout_and_batch(make):
    def laid(turned, *shape):
        return make(*shape[:-2], shape[-1], shape[-2]).swapaxes(-1, -2) if turned else make(*shape)

    for left in (False, True):
        for right in (False, True):
            for batches in (((), (), (), ()), ((3,), (), (), (3,)), ((2, 1), (3,), (), (1, 3))):
                shapes = ((5, 20), (20, 9), (5, 33), (33, 9))
                turned = (left, right, left, right)
                a, b, c, d = (laid(turn, *batch, *shape) for turn, batch, shape in zip(turned, batches, shapes))
                expected = reference.matmul(a, b) + reference.matmul(c, d)
                assert_product(tilesmith.mm_plus_mm(a, b, c, d), expected)
                bias, residual = make(9), make(*expected.shape)
                got = tilesmith.mm_plus_mm(a, b, c, d, alpha=2.0, bias=bias, activation="relu", residual=residual)
                assert_product(got, np.maximum(2 * expected + bias, 0) + residual)
    assert tilesmith.last_plan().kernel.count("mmplusmm")
    # Matrices of one row or column lie either way.
    a, b, c, d = make(1, 20).T.copy().T, make(20, 9), make(1, 33), make(33, 9)
    assert_product(tilesmith.mm_plus_mm(a, b, c, d), reference.matmul(a, b) + reference.matmul(c, d))


def test_the_second_product_of_single_elements_has_a_batch_too(make):
    a, b, c, d = make(5, 1, 4), make(4, 1), make(5, 1, 1), make(5, 1, 1)
    expected = np.float64(a) @ b + np.float64(c) @ d
    np.testing.assert_allclose(tilesmith.mm_plus_mm(a, b, c, d), expected, atol=1e-6)


def test_two_products_that_cannot_be(make):
    a, b, c, d = make(5, 20), make(20, 9), make(5, 33), make(33, 9)
    for wrong, what in (((a, b, make(4, 33), d), "a has 5 rows, c 4"), ((a, b, c, make(33, 8)), "b has 9 columns, d 8"),
                        ((a, b, c, make(32, 9)), "c has 33 columns, d 32 rows"), ((a, b, c[0], d), "c has the shape"),
                        ((a, b, make(33, 5).T, d), r"c has the shape .* .contiguous rows, as a has"), ((a, b, c, make(9, 33).T), "d has the shape .* .contiguous rows, as b has"),
                        ((a, b, make(2, 5, 33), make(3, 33, 9)), r"the batch of a is \(2,\), of d \(3,\)")):  # fmt: skip
        with pytest.raises(ValueError, match=what):
            tilesmith.mm_plus_mm(*wrong)
    with pytest.raises(TypeError, match="c is fp16"):
        tilesmith.mm_plus_mm(a, b, c.astype(np.float16), d)
    with pytest.raises(TypeError, match="d is None"):
        tilesmith.mm_plus_mm(a, b, c, None)
    with pytest.raises(ValueError, match="d overlaps b2"):
        tilesmith.mm_plus_mm(a, b, c, d, out=d[:5])


def test_amax(make):
    a, b = make(13, 40), make(40, 21)
    got, amax = tilesmith.matmul(a, b, amax=True)
    assert amax.shape == () and amax.dtype == np.float32 and amax == np.abs(got).max()
    most = np.array([100], np.float32)
    tilesmith.matmul(a, b, amax=most)
    assert most == 100  # the larger of the two
    most[0] = 0
    y = tilesmith.linear(a, b.T, activation="silu", out_dtype=np.float16, amax=most)
    exact = reference.matmul(a, b, activation="silu")
    np.testing.assert_allclose(most, np.abs(exact).max(), rtol=1e-5)
    assert y.dtype == np.float16
    got, amax = tilesmith.matmul(make(5, 6, dtype="int8"), make(6, 7, dtype="int8"), amax=True)
    assert got.dtype == np.float32 and amax == np.abs(got).max()
    for wrong in (np.zeros(2, np.float32), np.zeros((), np.float64)):
        with pytest.raises(TypeError, match="amax is"):
            tilesmith.matmul(a, b, amax=wrong)
    most.flags.writeable = False
    with pytest.raises(ValueError, match="amax is read-only"):
        tilesmith.matmul(a, b, amax=most)


@pytest.mark.parametrize("activation", [None, *reference.ACTIVATIONS])
def test_linear(make, activation):
    x, w, bias = make(3, 5, 33), make(19, 33), make(19)
    got = tilesmith.linear(x, w, bias, activation)
    assert_product(got, reference.matmul(x, w.T, bias=bias, activation=activation))


@pytest.mark.parametrize("gate", reference.GATES)
def test_gates(make, gate):
    """Two weights, their rows interleaved as the documentation does it."""
    x, first, second = make(5, 33), make(12, 33), make(12, 33)
    w = np.stack((first, second), 1).reshape(24, 33)
    bias = make(24)
    got = tilesmith.linear(x, w, bias, gate=gate)
    assert_product(got, reference.matmul(x, w.T, bias=bias, gate=gate))
    activation = reference.ACTIVATIONS[reference.GATES[gate]]
    wide = [reference.matmul(x, half.T, bias=bias[at::2]) for at, half in enumerate((first, second))]
    assert_product(got, activation(wide[0]) * wide[1])


def test_everything_at_once(make, rng):
    a, b, bias, residual = make(6, 20), make(20, 10), make(10), make(6, 10)
    options = dict(alpha=0.5, beta=-2, c=make(6, 10), bias=bias, activation="silu", residual=residual, clamp=(-0.5, np.inf))
    assert_product(tilesmith.matmul(a, b, **options), reference.matmul(a, b, **options))
    options = dict(alpha=2, c=make(6, 10), gate="swiglu", multiply=make(6, 5))
    assert_product(tilesmith.matmul(a, b, **options), reference.matmul(a, b, **options))
    for alpha, beta in ((0, 1), (1, 0), (0, 0), (-1.5, 3)):  # numbers are no part of what is prepared
        options = dict(alpha=alpha, beta=beta, c=residual)
        assert_product(tilesmith.matmul(a, b, **options), reference.matmul(a, b, **options))


def test_limits_may_be_a_list(make):
    a, b = make(6, 20), make(20, 10)
    expected = tilesmith.matmul(a, b, clamp=(-0.5, 0.25))
    np.testing.assert_array_equal(tilesmith.matmul(a, b, clamp=[-0.5, 0.25]), expected)
    assert_product(tilesmith.linear(a, np.ascontiguousarray(b.T), clamp=[-0.5, 0.25]), expected)


def test_bias_for_each_row(make):
    a, b = make(6, 20), make(20, 10)
    bias = make(6, 1)
    assert_product(tilesmith.matmul(a, b, bias=bias), reference.matmul(a, b, bias=bias))
    a = make(3, 6, 20)  # shared by the batch, whose rows are then not joined
    assert_product(tilesmith.matmul(a, b, bias=bias), reference.matmul(a, b, bias=bias))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_scales(make, rng, dtype):
    a, b = make(2, 6, 20, dtype=dtype), make(20, 10, dtype=dtype)
    by_row, by_column = rng.uniform(0.5, 2, (2, 6)).astype("f4"), rng.uniform(0.5, 2, 10).astype("f4")
    options = dict(scale_a=by_row, scale_b=by_column)
    expected = reference.matmul(a, b, **options)
    assert_product(tilesmith.matmul(a, b, out_dtype=np.float32, **options), expected)
    options = dict(scale_a=by_row[..., None], scale_b=by_column[None])
    assert_product(tilesmith.matmul(a, b, out_dtype="float32", **options), expected)
    assert_product(tilesmith.matmul(a, b, out_dtype="float32", scale_a=by_row[0], scale_b=np.float32(3)),
                   reference.matmul(a, b, scale_a=by_row[0], alpha=3))  # fmt: skip
    assert_product(tilesmith.matmul(a, b, out_dtype="float32", scale_a=np.full((1, 1), 3, "f4"), scale_b=0.5),
                   reference.matmul(a, b, alpha=1.5))  # fmt: skip
    w = np.ascontiguousarray(b.T)
    assert_product(tilesmith.linear(a, w, out_dtype="float32", scale_w=by_column[:, None], scale_x=by_row), expected)


@pytest.mark.parametrize("rows", [1, 4])
def test_scales_that_members_do_not_share(make, rng, rows):
    scales = rng.uniform(0.5, 2, (2, 3, rows)).astype("f4")
    a, b, c = make(2, 3, rows, 20), make(20, 10), make(2, 3, rows, 10)
    for right in (b, make(3, 20, 10), make(2, 3, 20, 10), np.broadcast_to(b, (2, 3, 20, 10)).copy()):
        for scale in (scales, np.broadcast_to(scales[:1], scales.shape), np.broadcast_to(scales[:, :1], scales.shape)):
            expected = reference.matmul(a, right, scale_a=scale) + np.float64(c)
            assert_product(tilesmith.matmul(a, right, scale_a=scale, residual=c), expected)


def test_scales_of_single_rows(make):
    a, b = make(3, 1, 1, 20), make(20, 10)
    scale = make(3, 1, 1)
    for given in (scale, scale[..., None]):
        assert_product(tilesmith.matmul(a, b, scale_a=given), reference.matmul(a, b) * scale[..., None])


def test_scales_then_c(make, rng):
    a, b, c = make(6, 20), make(20, 10), make(6, 10)
    options = dict(scale_a=rng.uniform(0.5, 2, 6).astype("f4"), c=c, bias=make(10))
    assert_product(tilesmith.matmul(a, b, **options), reference.matmul(a, b, **options))
    with pytest.raises(ValueError, match="beta is 2 beside scales"):
        tilesmith.matmul(a, b, beta=2, **options)


def test_integers(make, rng):
    a, b = make(7, 100, dtype="int8"), make(100, 9, dtype="int8")
    exact = a.astype(np.int64) @ b.astype(np.int64)
    assert_product(tilesmith.matmul(a, b), exact.astype(np.float64), "int32")
    c = rng.integers(-1000, 1000, (7, 9), np.int32)
    assert_product(tilesmith.matmul(a, b, c=c, beta=-3), (exact - 3 * c).astype(np.float64), "int32")
    scale_b = rng.uniform(0.5, 2, 9).astype("f4") / 1e4
    got = tilesmith.matmul(a, b, scale_a=0.5, scale_b=scale_b)
    assert_product(got, reference.matmul(a, b, alpha=0.5, scale_b=scale_b))
    assert_product(tilesmith.matmul(a, b, scale_a=0.5), reference.matmul(a, b, alpha=0.5))
    rounded = tilesmith.matmul(a, b, out_dtype=np.int8, alpha=1e-3)
    np.testing.assert_array_equal(rounded, np.clip(np.rint(exact * np.float64(np.float32(1e-3))), -128, 127).astype(np.int8))
    with pytest.raises(ValueError, match="alpha of an int32 result is 2"):
        tilesmith.matmul(a, b, alpha=2)


def test_data_types_of_the_rest(make):
    """The result, bias and the tensors beside need not have the inputs' type."""
    pytest.importorskip("ml_dtypes")
    a, b = make(6, 20, dtype="bfloat16"), make(20, 10, dtype="bfloat16")
    bias, residual = make(10), make(6, 10)
    assert_product(tilesmith.matmul(a, b, bias=bias, residual=residual, out_dtype="float32"),
                   reference.matmul(a, b, bias=bias, residual=residual))  # fmt: skip
    assert_product(tilesmith.matmul(a, b, out=np.empty((6, 10), np.float32)), reference.matmul(a, b))


def test_outputs_that_are_operands(make):
    a, b = make(6, 20), make(20, 10)
    c = make(6, 10)
    expected = reference.matmul(a, b, c=c)
    assert tilesmith.matmul(a, b, c=c, out=c) is c
    assert_product(c, expected)
    whole = make(20, 40)
    with pytest.raises(ValueError, match="d overlaps a"):
        tilesmith.matmul(whole[:6, :20], b, out=whole[:6, 10:20])
    part = make(6, 30)[:, 3:13]
    expected = reference.matmul(a, b)
    assert tilesmith.matmul(a, b, out=part) is part
    assert_product(part, expected)
    frozen = np.empty((6, 10), np.float32)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="out is read-only"):
        tilesmith.matmul(a, b, out=frozen)


@pytest.mark.parametrize(
    ("options", "exception", "words"),
    [
        (dict(activation="gelu_fast"), ValueError, "activation is 'gelu_fast' ('relu', 'gelu'"),
        (dict(gate="silu"), ValueError, "gate is 'silu' ('glu', 'reglu'"),
        (dict(gate="swiglu", activation="relu"), ValueError, "activation is 'relu' and gate is 'swiglu'"),
        (dict(gate="swiglu", b=np.ones((20, 9), "f4")), ValueError, "gate is 'swiglu', and there are 9 columns"),
        (dict(b=np.ones((19, 10), "f4")), ValueError, "a has 20 columns, b 19 rows"),
        (dict(b=np.ones((20, 10), "f2")), TypeError, "a is fp32, b is fp16 (one type for both"),
        (dict(b=np.ones((20, 10))), TypeError, "a is fp32, b is float64"),
        (dict(a=np.ones((6, 20))), TypeError, "a is float64 (float32, float16"),
        (dict(a=np.float32(3)), TypeError, "a is a float32 (a torch tensor"),
        (dict(a=np.array(3, "f4")), ValueError, "a has the shape (), b (20, 10)"),
        (dict(b=[[1.0]]), TypeError, "b is a list, a is a NumPy array"),
        (dict(alpha="2"), TypeError, "alpha is '2' (a number)"),
        (dict(alpha=float("nan")), ValueError, "alpha is nan"),
        (dict(beta="2", c=np.ones((6, 10), "f4")), TypeError, "beta is '2' (a number)"),
        (dict(bias=np.ones(9, "f4")), ValueError, "bias has the shape (9,) and the strides (1,) ((10,), contiguous"),
        (dict(bias=np.ones(20, "f4")[::2]), ValueError, "bias has the shape (10,) and the strides (2,)"),
        (dict(bias=np.ones((5, 1), "f4")), ValueError, "bias has the shape (5, 1) ((6,): one number a row)"),
        (dict(bias=np.ones(10, "i4")), TypeError, "bias is int32 (float32, float16 or bfloat16)"),
        (dict(c=np.ones((5, 10), "f4")), ValueError, "c has the shape (5, 10) (what broadcasts to the product's shape"),
        (dict(residual=np.ones((6, 10), "f4"), gate="glu"), ValueError, "residual has the shape (6, 10)"),
        (dict(residual=np.ones((6, 10), "f4"), c=np.ones((6, 10), "f2")), TypeError, "c is fp16 and residual is fp32"),
        (dict(residual=np.ones((6, 10))), TypeError, "residual is float64"),
        (dict(clamp=(1, 0)), ValueError, "clamp is (1, 0)"),
        (dict(b=None), TypeError, "b is None"),
        (dict(clamp=[1, 0]), ValueError, "clamp is (1, 0)"),
        (dict(clamp=3), TypeError, "clamp is 3 ((low, high))"),
        (dict(scale_a=np.ones(5, "f4")), ValueError, "scale_a has the shape (5,)"),
        (dict(scale_a=np.ones(12, "f4")[::2]), ValueError, "scale_a is not one number after the other"),
        (dict(scale_b=np.ones(6, "f4")), ValueError, "scale_b has the shape (6,)"),
        (dict(scale_b=np.ones(10)), TypeError, "scale_b is float64 (float32)"),
        (dict(scale_a="1"), TypeError, "scale_a is a str (a number or a NumPy array)"),
        (dict(out=np.empty((6, 9), "f4")), ValueError, "out has the shape (6, 9) ((6, 10))"),
        (dict(out_dtype="int8"), TypeError, "the output is to be int8"),
        (dict(out_dtype="float64"), TypeError, "the output is to be float64"),
        (dict(out_dtype="float31"), TypeError, "out_dtype is 'float31'"),
        (dict(out=np.empty((6, 10), "f4"), out_dtype="float16"), TypeError, "out is fp32, out_dtype fp16"),
        (dict(a=np.ones((6, 20), "f2"), b=np.ones((20, 10), "f2"), tf32=True), ValueError, "tf32 is set, and a is fp16"),
    ],
)  # fmt: skip
def test_errors(make, options, exception, words):
    arguments = dict(a=make(6, 20), b=make(20, 10)) | options
    with pytest.raises(exception) as caught:
        tilesmith.matmul(arguments.pop("a"), arguments.pop("b"), **arguments)
    assert isinstance(caught.value, tilesmith.Error)
    assert words in str(caught.value)


def test_errors_of_linear_have_its_names(make):
    with pytest.raises(ValueError, match="x has 20 elements in its last dimension, w 21"):
        tilesmith.linear(make(6, 20), make(10, 21))
    with pytest.raises(ValueError, match=r"w has the shape \(2, 10, 20\) \(\(n, k\)\)"):
        tilesmith.linear(make(6, 20), make(2, 10, 20))
    with pytest.raises(TypeError, match="w is a list, x is a NumPy array"):
        tilesmith.linear(make(6, 20), [1.0])
    with pytest.raises(tilesmith.WrongType, match="w is None"):
        tilesmith.linear(make(6, 20), None)
    with pytest.raises(ValueError, match="scale_w has the shape"):
        tilesmith.linear(make(6, 20), make(10, 20), scale_w=np.ones(11, "f4"))


def test_the_generic_kernel_computes_what_no_other_does(make):
    a, b, factor, residual = make(6, 20), make(20, 10), make(6, 10), make(6, 10)
    product = np.asarray(a) @ np.asarray(b)
    tf32 = tilesmith.matmul(a, b, tf32=True)
    assert "_generic_" in tilesmith.last_plan().kernel
    np.testing.assert_allclose(np.asarray(tf32), product, atol=1e-4)
    both = tilesmith.matmul(a, b, multiply=factor, residual=residual)
    assert "_generic_" in tilesmith.last_plan().kernel
    np.testing.assert_allclose(np.asarray(both), product * np.asarray(factor) + np.asarray(residual), atol=1e-4)


def test_shapes_that_never_repeat(make):
    b = make(64, 8)
    for m in range(1, 60):
        a = make(m, 64)
        assert_product(tilesmith.matmul(a, b), reference.matmul(a, b))
