"""grouped_matmul against products group by group, and scales by blocks: what the structure says of them, and results where
the CPU has kernels for them."""

import contextlib

import numpy as np
import pytest

import reference
import tilesmith


def random(rng, *shape):
    return rng.uniform(-1, 1, shape).astype("f4")


def assert_rows(got, expected):
    np.testing.assert_allclose(np.asarray(got, np.float64), expected, rtol=2e-6, atol=4e-5)


ENDS = [[3, 3, 10, 20], [0, 0, 0, 0], [20, 20, 20, 20], [1, 2, 3, 17]]


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("column", [False, True])
def test_contiguous(rng, ends, column):
    a, b = random(rng, 20, 33), random(rng, 4, 33, 14)
    if column:
        b = np.ascontiguousarray(b.swapaxes(1, 2)).swapaxes(1, 2)
    out = np.full((20, 14), 7, np.float32)
    assert tilesmith.grouped_matmul(a, b, group_ends=np.array(ends, np.int32), out=out) is out
    begin = 0
    for group, end in enumerate(ends):
        assert_rows(out[begin:end], reference.matmul(a[begin:end], b[group]))
        begin = end
    assert (out[begin:] == 7).all()  # of no group
    got = tilesmith.grouped_matmul(a, b, group_ends=np.array(ends, np.int32))
    np.testing.assert_array_equal(got[:begin], out[:begin])


@pytest.mark.parametrize("rows", [[5, 0, 2, 4], [0, 0, 0, 0], [5, 5, 5, 5]])
def test_masked(rng, rows):
    a, b = random(rng, 4, 5, 33), random(rng, 4, 33, 14)
    out = np.full((4, 5, 14), 7, np.float32)
    tilesmith.grouped_matmul(a, b, group_rows=np.array(rows, np.int32), out=out)
    for group, count in enumerate(rows):
        assert_rows(out[group, :count], reference.matmul(a[group, :count], b[group]))
        assert (out[group, count:] == 7).all()


def test_the_stride_of_an_only_group_is_nobodys(rng):
    a, b, bias, residual, out = (random(rng, *shape)[::-1] for shape in ((1, 5, 33), (1, 33, 14), (1, 14), (1, 5, 14), (1, 5, 14)))
    assert all(x.strides[0] < 0 for x in (a, b, bias, residual, out))
    expected = reference.matmul(a[0], b[0], bias=bias[0], residual=residual[0])
    rows = np.array([5], np.int32)
    tilesmith.grouped_matmul(a, b, group_rows=rows, bias=bias, residual=residual, out=out)
    assert_rows(out[0], expected)
    assert_rows(tilesmith.grouped_matmul(a[0], b, group_ends=rows, bias=bias, residual=residual[0]), expected)
    out[:] = 0
    tilesmith.matmul(a, b, bias=bias[0], residual=residual, out=out)
    assert_rows(out[0], expected)


def test_epilogues(rng):
    a, b, ends = random(rng, 20, 33), random(rng, 3, 33, 14), np.array([4, 11, 20], np.int32)
    bias, scale_a, scale_b = random(rng, 3, 14), random(rng, 20) + 2, random(rng, 3, 14) + 2
    multiply, residual, c = random(rng, 20, 7), random(rng, 20, 14), random(rng, 20, 14)
    for options in (dict(bias=bias, gate="swiglu", multiply=multiply), dict(bias=bias[1], activation="gelu", residual=residual),
                    dict(scale_a=scale_a, scale_b=scale_b, c=c), dict(scale_b=scale_b[0], alpha=2.0), dict(c=c, beta=-0.5),
                    dict(scale_a=scale_a[:, None], scale_b=0.5)):  # fmt: skip
        got = tilesmith.grouped_matmul(a, b, group_ends=ends, **options)
        for group, (begin, end) in enumerate(zip([0, *ends], ends)):
            mine = {name: value if np.ndim(value) == 0 or np.shape(value) == (14,) else
                    value[group] if len(value) == 3 else value[begin:end] for name, value in options.items()}  # fmt: skip
            if np.ndim(mine.get("scale_a")) == 2:
                mine["scale_a"] = mine["scale_a"][:, 0]
            assert_rows(got[begin:end], reference.matmul(a[begin:end], b[group], **mine))


def test_masked_epilogues(rng):
    a, b, rows = random(rng, 3, 6, 33), random(rng, 3, 33, 14), np.array([6, 6, 6], np.int32)
    options = dict(scale_a=random(rng, 3, 6) + 2, bias=random(rng, 3, 14), activation="relu", residual=random(rng, 3, 6, 14))
    got = tilesmith.grouped_matmul(a, b, group_rows=rows, **options)
    assert_rows(got, reference.matmul(a, b, **(options | dict(bias=options["bias"][:, None]))))
    got = tilesmith.grouped_matmul(a, b, group_rows=rows, scale_a=options["scale_a"][0])  # the groups share it
    assert_rows(got, reference.matmul(a, b, scale_a=options["scale_a"][0]))


def test_integers_and_nothing_to_do(rng):
    a, b = (rng.integers(-128, 128, shape, np.int8) for shape in ((9, 50), (2, 50, 6)))
    got = tilesmith.grouped_matmul(a, b, group_ends=np.array([4, 9], np.int32))
    assert got.dtype == np.int32
    for begin, end, group in ((0, 4, 0), (4, 9, 1)):
        np.testing.assert_array_equal(got[begin:end], a[begin:end].astype(int) @ b[group].astype(int))
    for a, b, ends in ((random(rng, 0, 8), random(rng, 2, 8, 4), [0, 0]), (random(rng, 5, 8), random(rng, 0, 8, 4), []),
                       (random(rng, 5, 8), random(rng, 2, 8, 0), [1, 5])):  # fmt: skip
        assert tilesmith.grouped_matmul(a, b, group_ends=np.array(ends, np.int32)).shape == (a.shape[0], b.shape[2])
    got = tilesmith.grouped_matmul(random(rng, 5, 0), random(rng, 2, 0, 4), group_ends=np.array([1, 5], np.int32))
    assert (got == 0).all()


@pytest.mark.parametrize(
    ("options", "exception", "words"),
    [
        (dict(group_ends=None), ValueError, "neither of group_ends and group_rows is given"),
        (dict(group_rows=np.zeros(3, "i4")), ValueError, "each of group_ends and group_rows is given"),
        (dict(group_ends=np.zeros(3, "i8")), TypeError, "group_ends is int64, (3,) with the strides (1,) (int32, (3,), contiguous"),
        (dict(group_ends=np.zeros(4, "i4")), TypeError, "group_ends is int32, (4,)"),
        (dict(group_ends=np.zeros(6, "i4")[::2]), TypeError, "with the strides (2,)"),
        (dict(group_ends=[1, 2, 3]), TypeError, "group_ends is a list, a is a NumPy array"),
        (dict(group_ends=np.array([4, 3, 20], "i4")), ValueError, "group 1 of 3 ends at row 3"),
        (dict(group_ends=np.array([4, 9, 21], "i4")), ValueError, "group 2 of 3 ends at row 21"),
        (dict(group_ends=np.array([-1, 9, 20], "i4")), ValueError, "group 0 of 3 ends at row -1"),
        (dict(a=np.zeros((3, 5, 8), "f4")), ValueError, "a has the shape (3, 5, 8) ((rows, k) with group_ends)"),
        (dict(group_ends=None, group_rows=np.zeros(3, "i4")), ValueError, "a has the shape (20, 8) ((groups, m, k) with group_rows)"),
        (dict(b=np.zeros((8, 6), "f4")), ValueError, "b has the shape (8, 6) ((groups, k, n))"),
        (dict(b=np.zeros((3, 7, 6), "f4")), ValueError, "a has 8 columns, b 7 rows"),
        (dict(bias=np.zeros((2, 6), "f4")), ValueError, "bias has the shape (2, 6)"),
        (dict(bias=np.zeros((3, 12), "f4")[:, ::2]), ValueError, "((6,) or (3, 6), contiguous: one number a column"),
        (dict(residual=np.zeros((3, 6), "f4")), ValueError, "residual has the shape (3, 6)"),
        (dict(a=np.zeros((8, 20), "f4").T), ValueError, "A of contiguous groups is column-major"),
    ],
)  # fmt: skip
def test_errors(options, exception, words):
    arguments = dict(a=np.zeros((20, 8), "f4"), b=np.zeros((3, 8, 6), "f4"), group_ends=np.array([4, 9, 20], "i4")) | options
    with pytest.raises(exception) as caught:
        tilesmith.grouped_matmul(arguments.pop("a"), arguments.pop("b"), **arguments)
    assert words in str(caught.value)


# --------------------------------------------------------------------------------------------------------------- torch


def test_torch(rng):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    a, w = torch.from_numpy(random(rng, 20, 33)), torch.from_numpy(random(rng, 3, 14, 33))
    ends = torch.tensor([4, 4, 20], dtype=torch.int32)
    got = tilesmith.grouped_matmul(a, w.mT, group_ends=ends, gate="swiglu")
    for begin, end, group in ((0, 4, 0), (4, 20, 2)):
        assert_rows(got[begin:end], reference.matmul(a[begin:end], w[group].T, gate="swiglu"))

    def layer(a, w, ends):
        h = tilesmith.grouped_matmul(a * 2, w.mT, group_ends=ends, activation="relu")
        return tilesmith.grouped_matmul(h.view(1, 20, 14).expand(3, -1, -1), w, group_rows=ends * 0 + 20) + 1

    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(a, w, ends), layer(a, w, ends), rtol=0, atol=0)
    arguments = ("grouped", a, w.mT, *(None,) * 6, ends, *(None,) * 4, 1.0, 1.0, None, None, None, False)
    torch.library.opcheck(torch.ops.tilesmith.gemm, arguments)
    with pytest.raises(TypeError, match="group_ends is a list, a is a torch tensor"):
        tilesmith.grouped_matmul(a, w.mT, group_ends=[4, 4, 20])


# ------------------------------------------------------------------------------------------------------------- blocks


def structure_of(function, *arrays, **options):
    """The structure a call filled in, whether or not there is a kernel for it."""
    from tilesmith import _numpy_gemm

    _numpy_gemm.calls.by_key.clear()
    with contextlib.suppress(tilesmith.Unsupported):
        function(*arrays, **options)
    (call,) = _numpy_gemm.calls.by_key.values()
    return call._call


def numbers(scale):
    return scale.data, scale.row, scale.block, scale.batch


@pytest.fixture
def float8():
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    return lambda *shape: np.zeros(shape, ml_dtypes.float8_e4m3fn)


def test_linear_by_blocks(float8):
    scale_x, scale_w = np.ones((40, 3), "f4"), np.ones((2, 3), "f4")
    call = structure_of(tilesmith.linear, float8(40, 300), float8(200, 300), scale_x=scale_x, scale_w=scale_w)
    assert call.group_size == 128 and [each.op for each in call.epilogue] == [0] * 8
    assert numbers(call.scale_a) == (scale_x.ctypes.data, 3, 1, 0)
    assert numbers(call.scale_b) == (scale_w.ctypes.data, 3, 1, 0)
    # Transposed, as kernels that quantise leave them, and with rows of several dimensions.
    scale_x = np.ones((3, 40), "f4").T
    call = structure_of(tilesmith.linear, float8(40, 300), float8(200, 300), scale_x=scale_x, scale_w=scale_w)
    assert numbers(call.scale_a) == (scale_x.ctypes.data, 1, 40, 0)
    scale_x = np.ones((2, 20, 3), "f4")
    call = structure_of(tilesmith.linear, float8(2, 20, 300), float8(200, 300), scale_x=scale_x, scale_w=scale_w)
    assert (call.batch, call.m) == (1, 40) and numbers(call.scale_a) == (scale_x.ctypes.data, 3, 1, 0)


def test_matmul_by_blocks(float8):
    scale_a, scale_b = np.ones((5, 40, 3), "f4"), np.ones((5, 3, 2), "f4")
    call = structure_of(tilesmith.matmul, float8(5, 40, 300), float8(5, 200, 300).swapaxes(1, 2), scale_a=scale_a,
                        scale_b=scale_b)  # fmt: skip
    assert (call.batch, call.m) == (5, 40)
    assert numbers(call.scale_a) == (scale_a.ctypes.data, 3, 1, 120)
    assert numbers(call.scale_b) == (scale_b.ctypes.data, 1, 2, 6)


def test_groups_by_blocks(float8):
    scale_a, scale_b = np.ones((40, 3), "f4"), np.ones((5, 3, 2), "f4")
    ends = np.array([0, 10, 20, 30, 40], np.int32)
    b = float8(5, 200, 300).swapaxes(1, 2)
    call = structure_of(tilesmith.grouped_matmul, float8(40, 300), b, group_ends=ends, scale_a=scale_a, scale_b=scale_b)
    assert (call.batch, call.m, call.grouping, call.group_ends) == (5, 40, 1, ends.ctypes.data)
    assert numbers(call.scale_a) == (scale_a.ctypes.data, 3, 1, 0)
    assert numbers(call.scale_b) == (scale_b.ctypes.data, 1, 2, 6)
    scale_a = np.ones((5, 8, 3), "f4")
    call = structure_of(tilesmith.grouped_matmul, float8(5, 8, 300), b, group_rows=ends // 5, scale_a=scale_a, scale_b=scale_b)
    assert (call.batch, call.m, call.grouping) == (5, 8, 2)
    assert numbers(call.scale_a) == (scale_a.ctypes.data, 3, 1, 24)


def test_vectors_are_no_blocks(float8):
    call = structure_of(tilesmith.linear, float8(40, 300), float8(200, 300), scale_x=np.ones((40, 1), "f4"),
                        scale_w=np.ones((200, 1), "f4"))  # fmt: skip
    assert call.group_size == 0 and [each.op for each in call.epilogue][:3] == [4, 3, 0]


def test_block_scales_that_cannot_be(float8):
    x, w = float8(40, 300), float8(200, 300)
    by_block = dict(scale_x=np.ones((40, 3), "f4"), scale_w=np.ones((2, 3), "f4"))
    for change, words in ((dict(scale_w=None), r"scale_x is by blocks of 128 and scale_w is not given \(\(2, 3\), by blocks"),
                          (dict(scale_w=np.ones(200, "f4")), r"scale_x is by blocks of 128 and scale_w has the shape \(200,\)"),
                          (dict(scale_x=np.ones(40, "f4")), r"scale_w is by blocks of 128 and scale_x has the shape \(40,\)"),
                          (dict(scale_x=np.ones((40, 2), "f4")), "scale_w is by blocks of 128 and scale_x has")):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            tilesmith.linear(x, w, **(by_block | change))
    with pytest.raises(ValueError, match="scale_w has the shape"):  # blocks are float8's
        tilesmith.linear(x.astype(np.float32), w.astype(np.float32), **by_block)


def served(function, *arrays, **options):
    """Skips where the CPU has no such kernel."""
    try:
        return function(*arrays, **options)
    except tilesmith.Unsupported as error:
        pytest.skip(error.message)


def assert_close(got, expected, epsilon):
    assert got.shape == expected.shape
    np.testing.assert_allclose(np.asarray(got, np.float64), expected, rtol=epsilon, atol=1e-3)


def test_results_by_blocks(rng):
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    x, w = (random(rng, rows, 300).astype(ml_dtypes.float8_e4m3fn) for rows in (40, 200))
    scale_x, scale_w = random(rng, 40, 3) + 1.5, random(rng, 2, 3) + 1.5
    got = served(tilesmith.linear, x, w, scale_x=scale_x, scale_w=scale_w, out_dtype="float32")
    wide_x = x.astype(float) * scale_x.astype(float).repeat(128, 1)[:, :300]
    wide_w = w.astype(float) * scale_w.astype(float).repeat(128, 0)[:200].repeat(128, 1)[:, :300]
    assert_close(got, wide_x @ wide_w.T, 1e-5)
    ends = np.array([10, 40], np.int32)
    weights, scales = np.stack((w[:100], w[100:])), np.stack((scale_w[:1], scale_w[1:]))
    got = tilesmith.grouped_matmul(x, weights.swapaxes(1, 2), group_ends=ends, scale_a=scale_x, scale_b=scales.swapaxes(1, 2),
                                   out_dtype="float32")  # fmt: skip
    for begin, end, group in ((0, 10, 0), (10, 40, 1)):
        wide = weights[group].astype(float) * scales[group].astype(float).repeat(128, 0)[:100].repeat(128, 1)[:, :300]
        assert_close(got[begin:end], wide_x[begin:end] @ wide.T, 1e-5)


# ------------------------------------------------------------------------------------------------------------ weights


def packed(values):
    """int4 in pairs along the last dimension, the first of a pair in the low half."""
    padded = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, values.shape[-1] % 2)]).astype(np.uint8) & 15
    return padded[..., 0::2] | padded[..., 1::2] << 4


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("depth", [32, 64, 320, None])
def test_weights(rng, bits, depth):
    """Integer weights stand for float16 numbers."""
    x = random(rng, 2, 5, 320).astype(np.float16)
    w = rng.integers(-(1 << bits - 1), 1 << bits - 1, (24, 320), np.int8)
    blocks = 1 if depth is None else -(-320 // depth)
    scale_w = (random(rng, 24, blocks) + 1.5).astype(np.float32) / (1 << bits - 1)
    wide = (w * scale_w.repeat(320 // blocks, 1)[:, :320]).astype(np.float16)
    weights = w if bits == 8 else packed(w)
    scale = scale_w[:, 0] if depth is None else scale_w
    bias = random(rng, 24).astype(np.float16)
    got = served(tilesmith.linear, x, weights, bias, "silu", scale_w=scale, out_dtype="float32")
    assert_close(got, reference.matmul(x, wide.T, bias=bias, activation="silu"), 1e-5)
    assert tilesmith.linear(x, weights, scale_w=scale).dtype == np.float16
    got = tilesmith.matmul(x, weights.T, scale_b=scale.T, scale_a=np.full((2, 5), 2, "f4"), alpha=0.5, out_dtype="float32")
    assert_close(got, reference.matmul(x, wide.T), 1e-5)
    most = 8 if bits == 4 else 127
    zeros = rng.integers(-most, most + 1, scale.shape, np.int8)
    from_zeros = (w.astype("f4") - zeros.reshape(24, -1).repeat(320 // blocks, 1)[:, :320]) * scale_w.repeat(320 // blocks, 1)[:, :320]
    expected = reference.matmul(x, from_zeros.astype(np.float16).T)
    assert_close(served(tilesmith.linear, x, weights, scale_w=scale, zero_w=zeros, out_dtype="float32"), expected, 1e-5)
    assert_close(tilesmith.matmul(x, weights.T, scale_b=scale.T, zero_b=zeros.T, out_dtype="float32"), expected, 1e-5)


@pytest.mark.parametrize("bits", [8, 4])
def test_weights_without_a_sign(rng, bits):
    """As AWQ and GPTQ have them."""
    x = random(rng, 3, 64).astype(np.float16)
    q = rng.integers(0, 1 << bits, (10, 64), np.uint8)
    zero, scale = rng.integers(0, (1 << bits) + 1 - bits // 8, (10, 2)), np.abs(random(rng, 10, 2)).astype(np.float16) + np.float16(0.1)
    wide = ((q - zero.repeat(32, 1)).astype("f4") * scale.astype("f4").repeat(32, 1)).astype(np.float16)
    weights = packed(q) ^ 0x88 if bits == 4 else (q ^ 0x80).view(np.int8)
    zeros = (zero - (1 << bits - 1)).astype(np.int8)
    got = tilesmith.linear(x, weights, scale_w=scale, zero_w=zeros, out_dtype="float32")
    assert_close(got, reference.matmul(x, wide.T), 1e-5)


def test_weights_of_an_odd_k_beside_a_column_of_zeros(rng):
    """What the refusal of an odd k tells to do: the last bytes' high halves may hold anything."""
    x, w, scale = random(rng, 5, 65).astype(np.float16), rng.integers(-8, 8, (24, 65), np.int8), random(rng, 24, 3)
    weights = packed(w)
    weights[:, -1] |= 0x70
    padded = np.pad(x, [(0, 0), (0, 1)])
    wide = (w * scale.repeat(32, 1)[:, :65]).astype(np.float16)
    got = tilesmith.linear(padded, weights, scale_w=scale, out_dtype="float32")
    assert_close(got, reference.matmul(x, wide.T), 1e-5)


def test_weights_in_groups(rng):
    x, ends = random(rng, 20, 64).astype(np.float16), np.array([3, 3, 20], np.int32)
    w = rng.integers(-8, 8, (3, 24, 64), np.int8)
    scale_w = random(rng, 3, 24, 2).astype(np.float16)
    wide = (w * scale_w.astype("f4").repeat(32, 2)).astype(np.float16)
    got = served(tilesmith.grouped_matmul, x, packed(w).swapaxes(1, 2), group_ends=ends, scale_b=scale_w.swapaxes(1, 2),
                 out_dtype="float32")  # fmt: skip
    for begin, end, group in ((0, 3, 0), (3, 20, 2)):
        assert_close(got[begin:end], reference.matmul(x[begin:end], wide[group].T), 1e-5)
    zeros = rng.integers(-8, 9, (3, 2, 24), np.int8)
    wide = ((w - zeros.swapaxes(1, 2).astype("f4").repeat(32, 2)) * scale_w.astype("f4").repeat(32, 2)).astype(np.float16)
    got = served(tilesmith.grouped_matmul, x, packed(w).swapaxes(1, 2), group_ends=ends, scale_b=scale_w.swapaxes(1, 2),
                 zero_b=zeros, out_dtype="float32")  # fmt: skip
    for begin, end, group in ((0, 3, 0), (3, 20, 2)):
        assert_close(got[begin:end], reference.matmul(x[begin:end], wide[group].T), 1e-5)
    got = tilesmith.grouped_matmul(x, w.swapaxes(1, 2), group_ends=ends, scale_b=np.ones((3, 24), "f4"), out_dtype="float32")
    assert_close(got[3:], reference.matmul(x[3:], w[2].T), 1e-5)


def test_weights_fill_in_the_structure():
    x, w, scale = np.zeros((5, 96), "f2"), np.zeros((24, 48), np.uint8), np.zeros((24, 3), np.float16)
    call = structure_of(tilesmith.linear, x, w, scale_w=scale)
    assert (call.type_a, call.type_b, call.type_scale, call.group_size) == (1, 6, 1, 32)
    assert (call.k, call.n, call.order_b, call.b.leading) == (96, 24, 1, 96)
    assert numbers(call.scale_b) == (scale.ctypes.data, 3, 1, 0) and numbers(call.scale_a) == (None, 0, 0, 0)
    assert call.flags == 0 and numbers(call.zero_b) == (None, 0, 0, 0)
    zeros = np.zeros((3, 24), np.int8).T
    call = structure_of(tilesmith.linear, x, w, scale_w=scale, zero_w=zeros)
    assert call.flags == 4 and numbers(call.zero_b) == (zeros.ctypes.data, 1, 24, 0)


@pytest.mark.parametrize(
    ("options", "exception", "words"),
    [
        (dict(), ValueError, "w is int8 and x fp16, and scale_w is no tensor ((24,) or (24, blocks of k); blocks of a power of two"),
        (dict(scale_w=0.5), TypeError, "scale_w is a float, x is a NumPy array"),
        (dict(scale_w=np.ones((24, 96), "f4")), ValueError, "scale_w has the shape (24, 96)"),
        (dict(scale_w=np.ones((24, 4), "f4")), ValueError, "scale_w has the shape (24, 4)"),
        (dict(scale_w=np.ones(23, "f4")), ValueError, "scale_w has the shape (23,)"),
        (dict(scale_w=np.ones(24)), TypeError, "scale_w is float64 (float32 or fp16)"),
        (dict(scale_w=np.ones(24, "f4"), zero_w=np.zeros(24, "f4")), TypeError, "zero_w is fp32 (int8)"),
        (dict(scale_w=np.ones(24, "f4"), zero_w=np.zeros((24, 1), "i1")), ValueError, "zero_w has the shape (24, 1) (that of scale_w"),
        (dict(w=np.zeros((24, 96), "f2"), zero_w=np.zeros(24, "i1")), TypeError, "zero_w beside w of fp16"),
        (dict(scale_w=np.ones(24, "f4"), w=np.zeros((24, 47), np.uint8)), ValueError, "x has 96 elements in its last dimension, w 94"),
        (dict(scale_w=np.ones(24, "f4"), w=np.zeros((24, 96), np.uint8)[:, ::2]), ValueError, "w has the strides (96, 2)"),
        (dict(scale_w=np.ones(24, "f4"), w=np.zeros((24, 17), np.uint8), x=np.zeros((5, 33), "f2")), ValueError,
         "two int4 share a byte, and k is 33 (an even k: one more column of A, of zeros"),
        (dict(w=np.zeros((24, 96), np.uint8), x=np.zeros((5, 96), "f4")), TypeError, "x is fp32, w is uint8 (one type for both"),
    ],
)  # fmt: skip
def test_weights_that_cannot_be(options, exception, words):
    arguments = dict(x=np.zeros((5, 96), "f2"), w=np.zeros((24, 96), np.int8)) | options
    with pytest.raises(exception) as caught:
        tilesmith.linear(arguments.pop("x"), arguments.pop("w"), **arguments)
    assert words in str(caught.value)
