"""Calls that cannot be get an exception of the right class, with words that help, and leave nothing behind."""

import pickle

import numpy as np
import pytest
from conftest import assert_attention

import tilesmith


@pytest.mark.parametrize(
    ("options", "exception", "words"),
    [
        (dict(layout="bsdh"), ValueError, "layout is 'bsdh' ('bhsd' or 'bshd')"),
        (dict(mask="causal"), ValueError, "mask is 'causal'"),
        (dict(causal=True, mask="top_left"), ValueError, "causal=True is mask='bottom_right'"),
        (dict(window=(-2, 0)), ValueError, "window is (-2, 0)"),
        (dict(window=(1.5, 0)), TypeError, "a bound of the window is 1.5"),
        (dict(window=(1, 2, 3)), ValueError, "window is (1, 2, 3)"),
        (dict(window=(1 << 70, 0)), ValueError, "window is"),
        (dict(causal=True, window=(4, 4)), ValueError, "overlapping masks"),
        (dict(scale=float("nan")), ValueError, "scale is nan"),
        (dict(scale="1"), TypeError, "scale is '1' (a number)"),
        (dict(softcap=float("nan")), ValueError, "softcap is nan"),
        (dict(dropout_p=0.5, seed=1.5), TypeError, "seed is 1.5 (a whole number)"),
        (dict(softcap=-1.0), ValueError, "softcap is -1.0"),
        (dict(dropout_p=1.0), ValueError, "dropout_p is 1.0"),
        (dict(dropout_p=-0.1), ValueError, "dropout_p is -0.1"),
        (dict(dropout_p=0.5, seed=-1), ValueError, "seed is -1"),
        (dict(dropout_p=0.5, seed=1 << 64), ValueError, "seed is 18446744073709551616"),
        (dict(bias=np.zeros((33, 71), np.float32)), ValueError, "bias has the shape (33, 71)"),
        (dict(bias=np.zeros((1, 2, 4, 33, 70), np.float32)), ValueError, "bias has the shape (1, 2, 4, 33, 70)"),
        (dict(bias=np.zeros((33, 70), np.float16)), TypeError, "bias is fp16 (float32)"),
        (dict(bias=np.zeros(70, np.float32), alibi=np.zeros(4, np.float32)), ValueError, "bias and alibi are given"),
        (dict(alibi=np.zeros(3, np.float32)), ValueError, "alibi has the shape (3,)"),
        (dict(sink=np.zeros((2, 4), np.float32)), ValueError, "sink has the shape (2, 4)"),
        (dict(sink=np.zeros(8, np.float32)[::2]), ValueError, "sink has the shape (4,) and the strides (2,)"),
        (dict(sink=[0.0] * 4), TypeError, "sink is a list, q is a NumPy array"),
    ],
)
def test_options(qkv, options, exception, words):
    with pytest.raises(exception) as caught:
        tilesmith.attention(*qkv(), **options)
    assert isinstance(caught.value, tilesmith.Error)
    assert words in str(caught.value)


def test_numbers_of_numpy_are_numbers(qkv):
    q, k, v = qkv()
    options = dict(scale=0.25, softcap=2.0, dropout_p=0.5, seed=3, window=(4, 5))
    of_numpy = dict(scale=np.float32(0.25), softcap=np.float64(2), dropout_p=np.float16(0.5), seed=np.int64(3),
                    window=np.array([4, 5]))  # fmt: skip
    np.testing.assert_array_equal(tilesmith.attention(q, k, v, **of_numpy), tilesmith.attention(q, k, v, **options))


def test_tensors(qkv):
    q, k, v = qkv()
    with pytest.raises(TypeError, match="q is a list"):
        tilesmith.attention([[1.0]], k, v)
    for some, name in (((q, None, v), "k"), ((q, k, None), "v")):
        with pytest.raises(tilesmith.WrongType, match=f"{name} is None"):
            tilesmith.attention(*some)
    with pytest.raises(TypeError, match="k is a list, q is a NumPy array"):
        tilesmith.attention(q, [[1.0]], v)
    with pytest.raises(TypeError, match="v is a MaskedArray"):
        tilesmith.attention(q, k, np.ma.masked_array(v))
    with pytest.raises(TypeError, match="^q is a MaskedArray [(]NumPy arrays, none of them masked[)]$"):
        tilesmith.attention(np.ma.masked_array(q), k, v)
    for seed in (-1, 2**64, 10**40):
        with pytest.raises(tilesmith.InvalidArgument, match=r"seed is .* \(0 to 2\*\*64 - 1\)"):
            tilesmith.attention(q, k, v, dropout_p=0.5, seed=seed)
    with pytest.raises(TypeError, match="q is fp32, k is fp16"):
        tilesmith.attention(q, k.astype(np.float16), v)
    with pytest.raises(TypeError, match="q, k and v are float64"):
        tilesmith.attention(*(x.astype(np.float64) for x in (q, k, v)))
    with pytest.raises(TypeError, match="q, k and v are >f4"):
        tilesmith.attention(*(x.astype(">f4") for x in (q, k, v)))
    with pytest.raises(ValueError, match=r"k has the shape \(2, 2, 70, 64\), v \(2, 2, 69, 64\)"):
        tilesmith.attention(q, k, v[:, :, :-1])
    with pytest.raises(ValueError, match="the head dim of q is 64, of k 56"):
        tilesmith.attention(q, k[..., :56], v)
    with pytest.raises(ValueError, match="the batch of q is 1, of k and v 2"):
        tilesmith.attention(q[:1], k, v)
    with pytest.raises(ValueError, match="heads_q 3 is not a multiple of heads_kv 2"):
        tilesmith.attention(q[:, :3], k, v)
    with pytest.raises(ValueError, match=r"q has the shape \(4, 33, 64\)"):
        tilesmith.attention(q[0], k, v)


def test_no_kernel_for_it():
    a = np.ones((3, 4), np.float32)
    with pytest.raises(NotImplementedError) as caught:
        tilesmith.matmul(a, np.ones((4, 6), np.float32), gate="swiglu", out=np.empty((3, 3), np.float32).T)
    assert caught.value.code == "unsupported" and "a column-major D beside a gate" in str(caught.value)


def test_any_head_dim_is_served(qkv):
    q, k, v = qkv(dim=1000)
    assert_attention(tilesmith.attention(q, k, v), q, k, v)


def test_an_exception_travels_between_processes(qkv):
    with pytest.raises(ValueError) as caught:
        tilesmith.attention(*qkv(), layout="x")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert type(copy) is tilesmith.InvalidArgument
    assert (copy.code, copy.message, copy.hint) == ("invalid_argument", "layout is 'x'", "'bhsd' or 'bshd'")


def test_a_failure_does_not_break_the_next_call(qkv):
    q, k, v = qkv()
    before = tilesmith.attention(q, k, v)
    for _ in range(3):
        with pytest.raises(ValueError):
            tilesmith.attention(q, k, v, scale=float("inf"))
    np.testing.assert_array_equal(tilesmith.attention(q, k, v), before)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_offsets_that_are_one_number_in_many_places_are_refused_unread(kind):
    """Differences of 2**45 offsets fill the memory of a machine that lends more than it has."""
    rows, offsets = np.ones((2, 6, 16), np.float32), np.broadcast_to(np.zeros(1, np.int32), (2**45,))
    if kind == "torch":
        torch = pytest.importorskip("torch", reason="torch is not installed")
        rows, offsets = torch.from_numpy(rows), torch.zeros(1, dtype=torch.int32).expand(2**45)
    with pytest.raises(tilesmith.Error, match="cu_seqlens_q"):
        tilesmith.attention(rows, rows, rows, cu_seqlens_q=offsets, cu_seqlens_k=offsets)
    with pytest.raises(tilesmith.Error, match="cu_seqlens_q"):
        tilesmith.attention_backward(rows, rows, rows, rows, rows, rows[..., 0], cu_seqlens_q=offsets, cu_seqlens_k=offsets)
