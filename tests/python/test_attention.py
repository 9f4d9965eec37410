"""Every trait against the float64 reference, on NumPy arrays."""

import numpy as np
import pytest
from conftest import assert_attention, assert_near

import reference
import tilesmith


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_plain(qkv, dtype):
    q, k, v = qkv(dtype=dtype)
    got = tilesmith.attention(q, k, v)
    assert type(got) is np.ndarray and got.dtype == q.dtype
    assert_attention(got, q, k, v)


def test_bfloat16(qkv):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    q, k, v = qkv(dtype=ml_dtypes.bfloat16)
    got = tilesmith.attention(q, k, v)
    assert got.dtype == ml_dtypes.bfloat16
    assert_attention(got, q, k, v)


@pytest.mark.parametrize("mask", ["none", "top_left", "bottom_right"])
@pytest.mark.parametrize("window", [(-1, -1), (5, 0), (0, -1), (7, -1)])
@pytest.mark.parametrize("rows", [(33, 70), (70, 33)])
def test_masks_and_windows(qkv, mask, window, rows):
    q, k, v = qkv(batch=1, rows_q=rows[0], rows_k=rows[1])
    got = tilesmith.attention(q, k, v, mask=mask, window=window, return_lse=True)
    assert_attention(got, q, k, v, mask=mask, window=window)


def test_a_window_to_the_right(qkv):
    q, k, v = qkv()
    assert_attention(tilesmith.attention(q, k, v, window=(3, 9)), q, k, v, window=(3, 9))
    assert_attention(tilesmith.attention(q, k, v, window=[3, 9]), q, k, v, window=(3, 9))


def test_causal_is_bottom_right(qkv):
    q, k, v = qkv()
    causal = tilesmith.attention(q, k, v, causal=True)
    assert_attention(causal, q, k, v, mask="bottom_right")
    np.testing.assert_array_equal(causal, tilesmith.attention(q, k, v, mask="bottom_right"))
    np.testing.assert_array_equal(causal, tilesmith.attention(q, k, v, causal=True, mask="bottom_right"))


def test_rows_that_see_nothing_are_zero(qkv):
    q, k, v = qkv(rows_q=40, rows_k=8)
    o, lse = tilesmith.attention(q, k, v, causal=True, return_lse=True)
    assert (o[:, :, :32] == 0).all() and (lse[:, :, :32] == -np.inf).all()
    assert_attention((o, lse), q, k, v, mask="bottom_right")


@pytest.mark.parametrize("heads", [(8, 1), (6, 2), (3, 3)])
def test_grouped_heads(qkv, heads):
    q, k, v = qkv(heads_q=heads[0], heads_kv=heads[1])
    assert_attention(tilesmith.attention(q, k, v), q, k, v)


def test_head_dims_differ(qkv):
    q, k, v = qkv(dim=96, dim_v=64)
    assert_attention(tilesmith.attention(q, k, v), q, k, v)


@pytest.mark.parametrize("scale", [0.3, -0.2, 0.0, 1])
def test_scale(qkv, scale):
    q, k, v = qkv()
    assert_attention(tilesmith.attention(q, k, v, scale=scale), q, k, v, scale=scale)


def test_softcap(qkv):
    q, k, v = qkv()
    assert_attention(tilesmith.attention(q, k, v, softcap=0.5), q, k, v, softcap=0.5)


@pytest.mark.parametrize("shape", [(2, 4, 33, 70), (1, 4, 33, 70), (2, 1, 1, 70), (33, 70), (70,), (4, 1, 1), ()])
def test_bias_broadcasts(qkv, rng, shape):
    q, k, v = qkv()
    bias = rng.standard_normal(shape).astype(np.float32)
    assert_attention(tilesmith.attention(q, k, v, bias=np.asarray(bias)), q, k, v, bias=bias)


def test_bias_with_any_strides(qkv, rng):
    q, k, v = qkv()
    bias = rng.standard_normal((70, 33)).astype(np.float32).T
    assert_attention(tilesmith.attention(q, k, v, bias=bias), q, k, v, bias=bias)


@pytest.mark.parametrize("per_batch", [False, True])
@pytest.mark.parametrize("mask", ["none", "top_left", "bottom_right"])
def test_alibi(qkv, rng, per_batch, mask):
    q, k, v = qkv()
    alibi = rng.uniform(0, 0.5, (2, 4) if per_batch else (4,)).astype(np.float32)
    assert_attention(tilesmith.attention(q, k, v, alibi=alibi, mask=mask), q, k, v, alibi=alibi, mask=mask)


def test_sink(qkv, rng):
    q, k, v = qkv()
    sink = rng.standard_normal(4).astype(np.float32)
    got = tilesmith.attention(q, k, v, sink=sink, causal=True, return_lse=True)
    assert_attention(got, q, k, v, sink=sink, mask="bottom_right")


def test_dropout_is_the_documented_mask(qkv):
    q, k, v = qkv()
    for seed in (0, 7, (1 << 64) - 1):
        got = tilesmith.attention(q, k, v, dropout_p=0.25, seed=seed)
        assert_attention(got, q, k, v, dropout_p=0.25, seed=seed)


def test_dropout_repeats_with_its_seed_alone(qkv):
    q, k, v = qkv()
    first, again, other, drawn, drawn_again = (
        tilesmith.attention(q, k, v, dropout_p=0.5, seed=seed) for seed in (1, 1, 2, None, None))  # fmt: skip
    np.testing.assert_array_equal(first, again)
    assert (first != other).any() and (drawn != drawn_again).any()


def test_lse(qkv):
    q, k, v = qkv()
    o, lse = tilesmith.attention(q, k, v, return_lse=True)
    assert lse.dtype == np.float32 and lse.shape == (2, 4, 33)
    assert_attention((o, lse), q, k, v)


@pytest.mark.parametrize("dim", [64, 5])
@pytest.mark.parametrize("options", [{}, dict(sink=True), dict(bias=True), dict(bias=True, sink=True), dict(mask="top_left")], ids=str)
def test_a_nan_stays_one(qkv, dim, options):
    """What a row sees must not vanish: not in the output, and not in the log-sum-exp."""
    q, k, v = qkv(dim=dim)
    given = {name: {"sink": np.full(4, -0.5, "f4"), "bias": np.zeros((33, 70), "f4")}.get(name, x) for name, x in options.items()}
    q[1, 2, 30, 1] = np.nan
    k[0, 1, 0, 3] = np.nan
    o, lse = tilesmith.attention(q, k, v, return_lse=True, **given)
    seen = np.zeros((2, 4, 33), bool)
    seen[1, 2, 30] = seen[0, 2:] = True
    np.testing.assert_array_equal(np.isnan(lse), seen)
    np.testing.assert_array_equal(np.isnan(o), np.broadcast_to(seen[..., None], o.shape))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("size", [1e6, 1e10, 1e20, 1e34])
@pytest.mark.parametrize("rows_q", [33, 1])
def test_huge_logits(qkv, dtype, size, rows_q):
    """One key has all the weight, and the exponents of others are below any number."""
    q, k, v = (x.astype(dtype) for x in qkv(rows_q=rows_q, rows_k=300))
    o = tilesmith.attention(q, k, v, scale=size)
    logits = np.einsum("bhid,bhjd->bhij", q.astype("f8"), np.repeat(k, 2, 1).astype("f8"))
    largest = logits.argmax(-1)
    clear = np.diff(np.sort(logits, -1)[..., -2:])[..., 0] > 1e-3
    expected = np.take_along_axis(np.repeat(v, 2, 1), largest[..., None], 2)
    np.testing.assert_allclose(o[clear], expected[clear], rtol=0, atol=1e-3)


@pytest.mark.parametrize("shape", [dict(rows_q=1), dict(rows_k=1), dict(batch=1, heads_q=1, heads_kv=1, rows_q=1, rows_k=1)])
def test_the_smallest(qkv, shape):
    q, k, v = qkv(**shape)
    assert_attention(tilesmith.attention(q, k, v, return_lse=True), q, k, v)


@pytest.mark.parametrize("shape", [dict(batch=0), dict(rows_q=0), dict(rows_k=0)])
def test_nothing_to_do(qkv, shape):
    q, k, v = qkv(**shape)
    o = tilesmith.attention(q, k, v)
    assert o.shape == q.shape and (o == 0).all()


def test_decode_lengths_that_never_repeat(qkv):
    q, k, v = qkv(batch=1, rows_q=1, rows_k=1100)
    for rows in range(1000, 1100):
        got = tilesmith.attention(q, k[:, :, :rows], v[:, :, :rows])
    assert_near(got, reference.attention(q, k[:, :, :rows], v[:, :, :rows])[0])


@pytest.mark.parametrize("diagonal", [-3, -1, 0, 2])
@pytest.mark.parametrize("options", [dict(causal=True), dict(mask="top_left"), dict(window=(2, 1))], ids=str)
def test_a_diagonal_moves_mask_and_window(qkv, diagonal, options):
    q, k, v = qkv(rows_q=40, rows_k=40)
    got = tilesmith.attention(q, k, v, diagonal=diagonal, **options)
    distance = np.arange(40)[None] - np.arange(40)[:, None] - diagonal
    seen = (distance >= -2) & (distance <= 1) if "window" in options else distance <= 0
    bias = np.where(seen, 0, -np.inf).astype(np.float32)
    np.testing.assert_allclose(got, tilesmith.attention(q, k, v, bias=bias), rtol=0, atol=2e-5)


def test_tf32_is_of_float32(qkv):
    with pytest.raises(tilesmith.InvalidArgument, match="tf32 is set, and q is fp16"):
        tilesmith.attention(*qkv(dtype="float16"), tf32=True)
    q, k, v = qkv()  # the CPU has no such instructions
    np.testing.assert_array_equal(tilesmith.attention(q, k, v, tf32=True), tilesmith.attention(q, k, v))
