"""Layouts, views, outputs of the caller: nothing is copied, so every stride has to be honoured."""

import numpy as np
import pytest
from conftest import assert_attention

import tilesmith


def test_bshd(qkv):
    q, k, v = qkv()
    swapped = [np.ascontiguousarray(x.swapaxes(1, 2)) for x in (q, k, v)]
    o, lse = tilesmith.attention(*swapped, layout="bshd", causal=True, return_lse=True)
    assert o.shape == (2, 33, 4, 64) and o.flags.c_contiguous
    assert lse.shape == (2, 4, 33)
    assert_attention((o.swapaxes(1, 2), lse), q, k, v, mask="bottom_right")


def test_a_layout_seen_as_the_other(qkv):
    q, k, v = qkv()
    got = tilesmith.attention(*(x.swapaxes(1, 2) for x in (q, k, v)), layout="bshd")
    assert_attention(got.swapaxes(1, 2), q, k, v)


def test_one_packed_tensor(rng):
    qkv = rng.uniform(-1, 1, (2, 33, 3, 4, 64)).astype(np.float32)
    q, k, v = (qkv[:, :, i] for i in range(3))
    got = tilesmith.attention(q, k, v, layout="bshd")
    assert_attention(got.swapaxes(1, 2), *(x.swapaxes(1, 2) for x in (q, k, v)))


def test_slices_and_broadcasts(rng):
    wide = rng.uniform(-1, 1, (2, 4, 140, 128)).astype(np.float32)
    q, k = wide[:, :, 1:67:2, :64], wide[:, :2, ::2, 64:]
    v = np.broadcast_to(wide[:1, :1, :70, :64], (2, 2, 70, 64))
    assert_attention(tilesmith.attention(q, k, v), q, k, v)


def test_the_stride_of_an_only_member_is_nobodys(qkv):
    q, k, v = (x[:1, :1][::-1, ::-1] for x in qkv())
    assert all(x.strides[0] < 0 and x.strides[1] < 0 for x in (q, k, v))
    assert_attention(tilesmith.attention(q, k, v), q, k, v)
    out = np.empty_like(q)[::-1, ::-1]
    tilesmith.attention(q, k, v, out=out)
    assert_attention(out, q, k, v)


def test_read_only_inputs(qkv):
    q, k, v = qkv()
    for x in (q, k, v):
        x.flags.writeable = False
    assert_attention(tilesmith.attention(q, k, v), q, k, v)


def test_out(qkv):
    q, k, v = qkv()
    wide = np.full((2, 33, 4, 80), np.nan, np.float32)
    out = wide[..., :64].swapaxes(1, 2)
    assert tilesmith.attention(q, k, v, out=out) is out
    assert_attention(out, q, k, v)
    assert np.isnan(wide[..., 64:]).all()


def test_out_that_cannot_be(qkv):
    q, k, v = qkv()
    with pytest.raises(ValueError, match=r"out has the shape \(2, 4, 33, 32\)"):
        tilesmith.attention(q, k, v, out=np.empty((2, 4, 33, 32), np.float32))
    with pytest.raises(TypeError, match="out is fp16"):
        tilesmith.attention(q, k, v, out=np.empty(q.shape, np.float16))
    with pytest.raises(ValueError, match="out and q may share memory"):
        tilesmith.attention(q, k, v, out=q)
    with pytest.raises(ValueError, match="elements of o overlap"):
        tilesmith.attention(q, k, v, out=np.lib.stride_tricks.as_strided(np.empty(64, np.float32), q.shape, (0, 0, 0, 4)))
    whole = np.zeros((3, *q.shape), np.float32)
    assert_attention(tilesmith.attention(whole[0], k, v, out=whole[1]), whole[0], k, v)  # neighbours touch and do not overlap
    with pytest.raises(ValueError, match="out and q may share memory"):
        tilesmith.attention(whole[0], k, v, out=whole.reshape(-1)[64 : 64 + q.size].reshape(q.shape))
    fixed = np.empty_like(q)
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="out is read-only"):
        tilesmith.attention(q, k, v, out=fixed)


def test_strides_that_cannot_be(qkv):
    q, k, v = qkv()
    with pytest.raises(ValueError, match="k has the strides .* contiguous head dim"):
        tilesmith.attention(q, np.asfortranarray(k), v)
    with pytest.raises(ValueError, match="q has the stride -"):
        tilesmith.attention(q[:, :, ::-1], k, v)
    bytes_off = np.empty(q.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(q.shape)
    with pytest.raises(ValueError, match="q is not aligned"):
        tilesmith.attention(bytes_off, k, v)


def test_an_aligned_call_does_not_open_the_door_for_an_unaligned_one(qkv):
    q, k, v = qkv()
    tilesmith.attention(q, k, v)
    bytes_off = np.empty(q.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(q.shape)
    with pytest.raises(ValueError, match="not aligned"):
        tilesmith.attention(bytes_off, k, v)
