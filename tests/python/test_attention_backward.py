"""tilesmith.attention_backward against the float64 reference, on NumPy arrays; and what it refuses."""

import numpy as np
import pytest

import reference
import tilesmith

# Relative to the gradient's largest value: rounding of the result, and of o, from which delta comes.
TOLERANCE = {"float32": 3e-5, "float16": 6e-3, "bfloat16": 4e-2}
WANTED = {"bias": "need_dbias", "alibi": "need_dalibi", "sink": "need_dsink"}


def gradients(q, k, v, do, dlse=None, layout="bhsd", **traits):
    """Those of a call and its log-sum-exp, by name: of every trait's tensor too."""
    o, lse = tilesmith.attention(q, k, v, layout=layout, return_lse=True, **traits)
    wanted = [name for name in WANTED if traits.get(name) is not None]
    got = tilesmith.attention_backward(do, q, k, v, o, lse, layout=layout, dlse=dlse, **traits, **{WANTED[name]: True for name in wanted})
    names = ["dq", "dk", "dv", *(f"d{name}" for name in wanted)]
    assert isinstance(got, tuple) and len(got) == len(names)
    return dict(zip(names, got))


def assert_gradients(got, expected, dtype="float32"):
    for name, value in got.items():
        wanted = expected[name]
        if wanted.shape != value.shape:  # what the call's tensor broadcasts is summed
            missing = wanted.ndim - value.ndim
            axes = tuple(range(missing)) + tuple(a for a in range(missing, wanted.ndim) if value.shape[a - missing] == 1)
            wanted = wanted.sum(axes, keepdims=True).reshape(value.shape)
        limit = TOLERANCE[str(np.dtype(dtype))] * max(1.0, np.abs(wanted).max(initial=0))
        np.testing.assert_allclose(np.asarray(value, np.float64), wanted, rtol=0, atol=limit, err_msg=name)


def check(qkv, rng, dtype="float32", shape=None, with_dlse=False, **traits):
    q, k, v = qkv(dtype=dtype, **(shape or {}))
    do = rng.standard_normal((*q.shape[:3], v.shape[3])).astype(dtype)
    dlse = rng.standard_normal(q.shape[:3]).astype("float32") if with_dlse else None
    given = {"mask": "bottom_right"} if traits.get("causal") else {}
    described = {name: value for name, value in traits.items() if name != "causal"} | given
    expected = reference.attention_backward(do, q, k, v, dlse=0.0 if dlse is None else np.asarray(dlse, np.float64), **described)
    assert_gradients(gradients(q, k, v, do, dlse, **traits), expected, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_plain(qkv, rng, dtype):
    check(qkv, rng, dtype)


def test_bfloat16(qkv, rng):
    check(qkv, rng, pytest.importorskip("ml_dtypes").bfloat16)


@pytest.mark.parametrize("traits", [
    dict(causal=True), dict(mask="top_left"), dict(window=(5, 0)), dict(mask="bottom_right", window=(7, -1)),
    dict(causal=True, diagonal=-3), dict(softcap=0.5), dict(scale=-0.3), dict(dropout_p=0.25, seed=(1 << 64) - 1), dict(with_dlse=True),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("shape", [dict(), dict(rows_q=70, rows_k=33, heads_q=3, heads_kv=1, dim=40, dim_v=24)], ids=str)
def test_traits(qkv, rng, traits, shape):
    check(qkv, rng, shape=shape, **traits)


@pytest.mark.parametrize("shape", [(2, 4, 33, 70), (1, 4, 33, 70), (2, 1, 1, 70), (33, 70), (70,), (4, 1, 1), (33, 1), ()])
def test_bias_broadcasts(qkv, rng, shape):
    check(qkv, rng, bias=np.asarray(rng.standard_normal(shape), np.float32), sink=rng.standard_normal(4).astype("float32"))


@pytest.mark.parametrize("slopes", [(4,), (2, 4)])
def test_alibi(qkv, rng, slopes):
    check(qkv, rng, alibi=rng.uniform(0, 0.5, slopes).astype("float32"), mask="bottom_right", with_dlse=True)


def test_everything_at_once(qkv, rng):
    check(qkv, rng, shape=dict(rows_q=65, rows_k=40), softcap=1.5, bias=rng.standard_normal((4, 65, 40)).astype("float32"),
          sink=rng.standard_normal(4).astype("float32"), dropout_p=0.5, seed=3, causal=True, window=(30, -1), with_dlse=True)  # fmt: skip


@pytest.mark.parametrize("shape", [dict(batch=0), dict(rows_q=0), dict(rows_k=0), dict(rows_q=1, rows_k=1)], ids=str)
def test_the_smallest(qkv, rng, shape):
    check(qkv, rng, shape=shape)


def test_layout(qkv, rng):
    q, k, v = qkv()
    do = rng.standard_normal(q.shape).astype("float32")
    turned = gradients(*(np.ascontiguousarray(x.swapaxes(1, 2)) for x in (q, k, v, do)), layout="bshd", causal=True)
    for name, value in gradients(q, k, v, do, causal=True).items():
        np.testing.assert_array_equal(turned[name].swapaxes(1, 2), value)


@pytest.mark.parametrize("rows", [70, 200])  # a tile that is copied; whole ones, which are read where they lie
def test_strides(qkv, rng, rows):
    q, k, v = qkv(rows_q=rows)
    do = rng.standard_normal(q.shape).astype("float32")
    packed = np.concatenate((q.repeat(2, 3), do.repeat(2, 3)), 3)
    q2, do2 = packed[..., :64], packed[..., 128:192]
    q2[:], do2[:] = q, do
    got, expected = gradients(q2, k, v, do2), gradients(q, k, v, do)
    for name in expected:
        np.testing.assert_array_equal(got[name], expected[name])


def test_variable_lengths(qkv, rng):
    q, k, v = (x[0] for x in qkv(batch=1, rows_q=40, rows_k=60))
    do = rng.standard_normal(q.shape).astype("float32")
    ends_q, ends_k = [0, 13, 13, 33], [0, 20, 31, 54]  # a sequence without queries, and rows of none
    got = gradients(q, k, v, do, cu_seqlens_q=np.array(ends_q, np.int32), cu_seqlens_k=np.array(ends_k, np.int32), causal=True)
    expected = {"dq": np.zeros(q.shape), "dk": np.zeros(k.shape), "dv": np.zeros(v.shape)}
    for b in range(3):
        rows_q, rows_k = slice(ends_q[b], ends_q[b + 1]), slice(ends_k[b], ends_k[b + 1])
        one = reference.attention_backward(*(x[None, :, rows] for x, rows in ((do, rows_q), (q, rows_q), (k, rows_k), (v, rows_k))),
                                           mask="bottom_right")  # fmt: skip
        for name, rows in (("dq", rows_q), ("dk", rows_k), ("dv", rows_k)):
            expected[name][:, rows] = one[name][0]
    assert_gradients(got, expected)


@pytest.mark.parametrize("rows_q, rows_k", ((0, 0), (0, 7), (5, 0)))
def test_packed_sequences_without_rows(rows_q, rows_k):
    q, k, v = np.ones((rows_q, 4, 64), "float32"), np.ones((rows_k, 2, 64), "float32"), np.ones((rows_k, 2, 64), "float32")
    options = dict(cu_seqlens_q=np.array([0, rows_q, rows_q], np.int32), cu_seqlens_k=np.array([0, rows_k, rows_k], np.int32),
                   max_seqlen_q=16, max_seqlen_k=16, layout="bshd")  # fmt: skip
    o, lse = tilesmith.attention(q, k, v, return_lse=True, **options)
    assert o.shape == q.shape and not o.any() and np.isneginf(lse).all()
    for x, gradient in zip((q, k, v), tilesmith.attention_backward(np.ones_like(o), q, k, v, o, lse, **options)):
        assert gradient.shape == x.shape and not gradient.any()


def test_results_of_your_own(qkv, rng):
    q, k, v = qkv()
    do = rng.standard_normal(q.shape).astype("float32")
    o, lse = tilesmith.attention(q, k, v, return_lse=True)
    expected = tilesmith.attention_backward(do, q, k, v, o, lse)
    dq, dk, dv = np.full((2, 33, 4, 64), np.nan, "float32").swapaxes(1, 2), np.empty_like(k), np.empty_like(v)
    got = tilesmith.attention_backward(do, q, k, v, o, lse, dq=dq, dk=dk, dv=dv)
    assert got[0] is dq and got[1] is dk and got[2] is dv
    for mine, theirs in zip(got, expected):
        np.testing.assert_array_equal(mine, theirs)


def test_options_and_plan(qkv):
    q, k, v = qkv()
    o, lse = tilesmith.attention(q, k, v, return_lse=True)
    found = tilesmith.candidates(tilesmith.attention_backward, o, q, k, v, o, lse)
    assert found.candidates and found.candidates[0].kernel.startswith("attention_bwd")
    two = tilesmith.attention_backward(o, q, k, v, o, lse, threads=2)
    plan = tilesmith.last_plan()
    assert plan.operation == "attention_bwd" and plan.problem.startswith("attention_bwd ")
    one = tilesmith.attention_backward(o, q, k, v, o, lse, kernel=plan.kernel, threads=1, deterministic=True)
    for mine, theirs in zip(one, two):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("changes, error, words", [
    (dict(do=None), TypeError, "do is a NoneType"),
    (dict(lse=None), TypeError, "lse is None"),
    (dict(do=np.zeros((2, 4, 33, 32), "float32")), ValueError, r"do has the shape \(2, 4, 33, 32\)"),
    (dict(o=np.zeros((2, 4, 33, 64), "float16")), TypeError, "o is fp16"),
    (dict(lse=np.zeros((2, 4, 34), "float32")), ValueError, r"lse has the shape \(2, 4, 34\)"),
    (dict(lse=np.zeros((2, 4, 33), "float16")), TypeError, "lse is fp16"),
    (dict(dlse=np.zeros((2, 4), "float32")), ValueError, r"dlse has the shape \(2, 4\)"),
    (dict(dq=np.zeros((2, 4, 33, 32), "float32")), ValueError, "dq has the shape"),
    (dict(dv=np.zeros((2, 2, 70, 64), "float32")[..., ::-1]), ValueError, "dv has the strides"),
    (dict(need_dbias=True), ValueError, "need_dbias is set, and there is no bias"),
    (dict(need_dsink="yes"), TypeError, "need_dsink is 'yes'"),
    (dict(dropout_p=0.5), ValueError, "there is no seed"),
    (dict(deterministic=True, determinism="bitwise"), ValueError, "deterministic and determinism are given"),
    (dict(mask="causal"), ValueError, "mask is 'causal'"),
    (dict(page_size=3), TypeError, "no argument 'page_size'"),
], ids=str)  # fmt: skip
def test_refused(qkv, changes, error, words):
    q, k, v = qkv()
    o, lse = tilesmith.attention(q, k, v, return_lse=True)
    arguments = dict(do=o, q=q, k=k, v=v, o=o, lse=lse) | changes
    with pytest.raises(error, match=words) as raised:
        tilesmith.attention_backward(**arguments)
    assert isinstance(raised.value, tilesmith.Error) and raised.value.hint


def test_results_lie_apart(qkv):
    q, k, v = qkv()
    o, lse = tilesmith.attention(q, k, v, return_lse=True)
    with pytest.raises(ValueError, match="dq and q may share memory"):
        tilesmith.attention_backward(o, q, k, v, o, lse, dq=q)
    with pytest.raises(ValueError, match="dv and dk may share memory"):
        tilesmith.attention_backward(o, q, k, v, o, lse, dk=(both := np.empty_like(k)), dv=both)
    both = np.empty_like(q)
    both.flags.writeable = False
    with pytest.raises(ValueError, match="dq is read-only"):
        tilesmith.attention_backward(o, q, k, v, o, lse, dq=both)


def test_dlpack(qkv, rng):
    from test_dlpack import Foreign

    q, k, v = qkv()
    do, bias = rng.standard_normal(q.shape).astype("float32"), rng.standard_normal((33, 70)).astype("float32")
    expected = gradients(q, k, v, do, bias=bias)
    o, lse = tilesmith.attention(q, k, v, bias=bias, return_lse=True)
    own = Foreign(np.empty_like(k))
    got = tilesmith.attention_backward(*map(Foreign, (do, q, k, v, o, lse)), bias=Foreign(bias), need_dbias=True, dk=own)
    assert got[1] is own
    for mine, wanted in zip(got, expected.values()):
        np.testing.assert_array_equal(mine.array, wanted)
    packed = [Foreign(x[0]) for x in (do, q, k, v, o, lse)]
    offsets = dict(cu_seqlens_q=Foreign(np.array([0, 33], np.int32)), cu_seqlens_k=Foreign(np.array([0, 70], np.int32)))
    with pytest.raises(ValueError, match="max_seqlen_q or max_seqlen_k is not given"):
        tilesmith.attention_backward(*packed, **offsets)
    with pytest.raises(ValueError, match="dq, dk or dv is not given"):
        tilesmith.attention_backward(*packed, **offsets, max_seqlen_q=33, max_seqlen_k=70)
