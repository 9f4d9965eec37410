"""torch tensors on the CPU, and the operator torch.compile sees."""

import numpy as np
import pytest
from conftest import assert_attention, wrong_in_threads

import tilesmith

torch = pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture
def tensors(qkv):
    return lambda **options: tuple(torch.from_numpy(x) for x in qkv(**options))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_data_types(tensors, dtype):
    q, k, v = (x.to(dtype) for x in tensors())
    o = tilesmith.attention(q, k, v, causal=True)
    assert type(o) is torch.Tensor and o.dtype == dtype and o.device == q.device and o.is_contiguous()
    expected = torch.nn.functional.scaled_dot_product_attention(
        *(x.double() for x in (q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1))),
        attn_mask=torch.ones(33, 70, dtype=torch.bool).tril(70 - 33))  # fmt: skip
    torch.testing.assert_close(o.double(), expected, rtol=0, atol={torch.float32: 2e-5, torch.float16: 4e-3}.get(dtype, 3e-2))


def test_the_same_as_numpy(tensors, rng):
    q, k, v = tensors()
    options = dict(bias=rng.standard_normal((33, 70)).astype("f4"), sink=np.ones(4, "f4"))
    expected = tilesmith.attention(q.numpy(), k.numpy(), v.numpy(), window=(3, 4), return_lse=True, **options)
    got = tilesmith.attention(q, k, v, window=[3, 4], return_lse=True,
                              **{name: torch.from_numpy(x) for name, x in options.items()})  # fmt: skip
    for mine, theirs in zip(got, expected):
        np.testing.assert_array_equal(mine.numpy(), theirs)


def test_views(tensors):
    q, k, v = tensors()
    swapped = [x.transpose(1, 2).contiguous() for x in (q, k, v)]
    expected = tilesmith.attention(q, k, v)
    torch.testing.assert_close(tilesmith.attention(*(x.transpose(1, 2) for x in swapped)), expected, rtol=0, atol=0)
    torch.testing.assert_close(tilesmith.attention(*swapped, layout="bshd").transpose(1, 2), expected, rtol=0, atol=0)
    torch.testing.assert_close(tilesmith.attention(q, k[:, :1].expand(-1, 2, -1, -1), v),
                               tilesmith.attention(q, k[:, :1].repeat(1, 2, 1, 1), v), rtol=0, atol=0)  # fmt: skip


def test_group(tensors):
    q, k, v = (x[0].contiguous() for x in tensors())
    cu_q, cu_k = (torch.tensor(x, dtype=torch.int32) for x in ([0, 13, 33], [0, 40, 70]))
    o = tilesmith.attention(q, k, v, cu_seqlens_q=cu_q, cu_seqlens_k=cu_k)
    expected = [tilesmith.attention(q[None, :, a:b].contiguous(), k[None, :, c:d].contiguous(), v[None, :, c:d].contiguous())
                for a, b, c, d in ((0, 13, 0, 40), (13, 33, 40, 70))]  # fmt: skip
    torch.testing.assert_close(o, torch.cat(expected, 2)[0], rtol=0, atol=1e-6)


def test_sequences_without_rows_have_no_memory():
    """An empty tensor of torch lies at null."""
    none, offsets, longest = torch.empty(4, 0, 64), torch.zeros(3, dtype=torch.int32), {"max_seqlen_q": 5, "max_seqlen_k": 9}
    group = {"cu_seqlens_q": offsets, "cu_seqlens_k": offsets, **longest}
    o, lse = tilesmith.attention(none, none, none, return_lse=True, **group)
    assert o.shape == (4, 0, 64) and lse.shape == (4, 0)
    assert [x.shape for x in tilesmith.attention_backward(o, none, none, none, o, lse, **group)] == [(4, 0, 64)] * 3
    q = torch.randn(4, 7, 64)
    o = tilesmith.attention(q, none, none, cu_seqlens_q=torch.tensor([0, 2, 7], dtype=torch.int32), cu_seqlens_k=offsets, **longest)
    assert o.count_nonzero() == 0
    pages, number = torch.randn(2, 16, 4, 64), torch.empty(0, dtype=torch.int32)
    for cache in (pages, pages[:0]):
        o, lse = tilesmith.attention(q[None], cache, cache, seqlens_k=offsets[:1], page_indices=number, page_indptr=offsets[:2],
                                     max_seqlen_k=40, return_lse=True)  # fmt: skip
        assert o.count_nonzero() == 0 and bool((lse == -torch.inf).all())
    with pytest.raises(ValueError, match="and there are 0"):
        tilesmith.attention(q[None], pages, pages, seqlens_k=offsets[:1] + 1, page_indices=number, page_indptr=offsets[:2])
    alibi = torch.empty(0, 4)
    assert tilesmith.attention(torch.empty(0, 4, 7, 64), torch.empty(0, 4, 7, 64), torch.empty(0, 4, 7, 64), alibi=alibi).shape == (0, 4, 7, 64)


def test_out(tensors):
    q, k, v = tensors()
    out = torch.full((2, 33, 4, 64), torch.nan).transpose(1, 2)
    assert tilesmith.attention(q, k, v, out=out) is out
    torch.testing.assert_close(out, tilesmith.attention(q, k, v), rtol=0, atol=0)
    with pytest.raises(ValueError, match="out and q may share memory"):
        tilesmith.attention(q, k, v, out=q)
    with pytest.raises(ValueError, match="out has the shape"):
        tilesmith.attention(q, k, v, out=out[:1])


def test_dropout_follows_the_seed(tensors):
    q, k, v = tensors()
    first = tilesmith.attention(q, k, v, dropout_p=0.5, seed=3)
    assert_attention(first.numpy(), q.numpy(), k.numpy(), v.numpy(), dropout_p=0.5, seed=3)
    torch.manual_seed(1)
    drawn = tilesmith.attention(q, k, v, dropout_p=0.5)
    torch.manual_seed(1)
    torch.testing.assert_close(tilesmith.attention(q, k, v, dropout_p=0.5), drawn, rtol=0, atol=0)
    assert not torch.equal(drawn, tilesmith.attention(q, k, v, dropout_p=0.5))


def test_without_gradients(tensors):
    q, k, v = tensors()
    with_gradient = k.clone().requires_grad_()
    with torch.no_grad():
        expected = tilesmith.attention(q, with_gradient, v)
    assert not expected.requires_grad and tilesmith.attention(q, with_gradient, v).requires_grad
    torch.testing.assert_close(tilesmith.attention(q, k, v), expected, rtol=0, atol=0)
    parameters = [torch.nn.Parameter(x, requires_grad=False) for x in (q, k, v)]
    torch.testing.assert_close(tilesmith.attention(*parameters), expected, rtol=0, atol=0)


def test_no_tangents(tensors):
    from torch.autograd import forward_ad

    q, k, v = tensors()
    expected = tilesmith.attention(q, k, v)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(v, torch.ones_like(v))
        sink = forward_ad.make_dual(torch.zeros(4), torch.ones(4))
        for call in (lambda: tilesmith.attention(q, k, dual), lambda: tilesmith.attention(q, k, v, sink=sink)):
            with pytest.raises(NotImplementedError, match="a tensor has a tangent .* attention carries none"):
                call()
        torch.testing.assert_close(tilesmith.attention(q, k, v), expected, rtol=0, atol=0)


def test_tensors_that_cannot_be(tensors):
    q, k, v = tensors()
    with pytest.raises(TypeError, match="k is a ndarray, q is a torch tensor"):
        tilesmith.attention(q, k.numpy(), v)
    with pytest.raises(TypeError, match="q, k and v are torch.float64"):
        tilesmith.attention(q.double(), k.double(), v.double())
    with pytest.raises(ValueError, match="q is a meta tensor, which has no memory"):
        tilesmith.attention(*(x.to("meta") for x in tensors(rows_q=31)))
    with pytest.raises(ValueError, match="q is (null|a meta tensor)"):  # of a shape the CPU has seen
        tilesmith.attention(q, k, v)
        tilesmith.attention(*(x.to("meta") for x in (q, k, v)))
    with pytest.raises(ValueError, match="q is a lazily negated view"):
        tilesmith.attention(torch.complex(q, q).conj().imag, k, v)
    with pytest.raises(TypeError, match="q, k and v are torch.float8_e8m0fnu"):
        tilesmith.attention(*(x.to(torch.float8_e8m0fnu) for x in (q, k, v)))


def test_threads_have_calls_of_their_own(tensors):
    assert not wrong_in_threads(tilesmith.attention, [tensors() for _ in range(4)])


# ------------------------------------------------------------------------------------------------------ the operator


def operator_arguments(q, k, v, **changes):
    arguments = dict(
        layout="bhsd", causal=False, mask="none", window_left=-1, window_right=-1, scale=None, softcap=0.0, bias=None,
        alibi=None, sink=None, q_scale=None, k_scale=None, v_scale=None, dropout_p=0.0, seed=None, cu_seqlens_q=None, cu_seqlens_k=None, max_seqlen_q=None,
        max_seqlen_k=None, return_lse=False)  # fmt: skip
    return q, k, v, *(arguments | changes).values()


@pytest.mark.parametrize(
    "changes",
    [{}, dict(return_lse=True, causal=True), dict(layout="bshd", return_lse=True), dict(dropout_p=0.3, seed=5)],
)
def test_opcheck(tensors, changes):
    tilesmith.attention(*tensors())  # registers the operator
    q, k, v = tensors()
    if changes.get("layout") == "bshd":
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    torch.library.opcheck(torch.ops.tilesmith.attention_fwd, operator_arguments(q, k, v, **changes))
    if not changes:
        torch.library.opcheck(torch.ops.tilesmith.attention_fwd_out, operator_arguments(q, k, v), {"out": torch.empty_like(q)})


def test_opcheck_group(tensors):
    tilesmith.attention(*tensors())
    q, k, v = (x[0].contiguous() for x in tensors())
    cu_q, cu_k = (torch.tensor(x, dtype=torch.int32) for x in ([0, 13, 33], [0, 40, 70]))
    arguments = operator_arguments(q, k, v, cu_seqlens_q=cu_q, cu_seqlens_k=cu_k, max_seqlen_q=20, max_seqlen_k=40,
                                   return_lse=True)  # fmt: skip
    torch.library.opcheck(torch.ops.tilesmith.attention_fwd, arguments)


@pytest.mark.parametrize("dynamic", [False, True])
def test_compile(tensors, dynamic):
    def layer(q, k, v):
        o, lse = tilesmith.attention(q * 2, k, v, causal=True, window=(8, 0), return_lse=True)
        return o + 1, lse

    compiled = torch.compile(layer, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for rows in (33, 40):
        q, k, v = tensors(rows_q=rows)
        for mine, expected in zip(compiled(q, k, v), layer(q, k, v)):
            torch.testing.assert_close(mine, expected, rtol=0, atol=0)


def test_compile_by_the_default_backend(tensors):
    """Inductor hands arguments on by name, so an operator's must not be named as those of its own functions."""
    q, k, v = tensors()
    x, w = torch.rand(8, 32), torch.rand(16, 32)

    def layers(q, k, v, x, w):
        o, lse = tilesmith.attention(q, k, v, return_lse=True)
        p = tilesmith.attention(q, k, v, causal=True, threads=1, out=torch.empty_like(o))
        h, most = tilesmith.linear(x, w, activation="gelu", amax=True)
        return o, lse, p, h, most, tilesmith.grouped_matmul([x, x], [w.T, w.T])[1], tilesmith.merge_states([o, o], [lse, lse])[0]

    for got, wanted in zip(torch.compile(layers, fullgraph=True)(q, k, v, x, w), layers(q, k, v, x, w)):
        assert torch.equal(got, wanted)


def test_compile_with_an_output(tensors):
    q, k, v = tensors()

    @torch.compile(fullgraph=True, backend="aot_eager")
    def layer(q, k, v, out):
        tilesmith.attention(q, k, v, out=out)
        return out * 2

    torch.testing.assert_close(layer(q, k, v, torch.empty_like(q)), tilesmith.attention(q, k, v) * 2, rtol=0, atol=0)


def test_the_operator_needs_its_lse(tensors):
    tilesmith.attention(*tensors())
    q, k, v = (x.requires_grad_() for x in tensors())
    o, _ = torch.ops.tilesmith.attention_fwd(*operator_arguments(q, k, v))
    with pytest.raises(NotImplementedError, match="its gradient needs the log-sum-exp"):
        o.sum().backward()


def test_fake_tensors(tensors):
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        q, k, v = (mode.from_tensor(x) for x in tensors())
        o, lse = tilesmith.attention(q, k, v, return_lse=True)
    assert o.shape == q.shape and lse.shape == (2, 4, 33) and lse.dtype == torch.float32


def test_tensors_are_described_by_one_call_as_by_their_attributes():
    from tilesmith import _described

    base = torch.arange(60, dtype=torch.float32).reshape(3, 4, 5)
    tensors = [base, base[1:], base[:, :2], base.transpose(0, 1), base.to(torch.float16), base.to(torch.int8), base.to(torch.float8_e4m3fn),
               base.reshape(60), base[:0], torch.tensor(1.0), None, base.to(torch.float16).view(torch.bfloat16)]  # fmt: skip
    looks = {}
    for tensor in tensors:
        look, places = _described.described((tensor, None, base))
        by_attributes, same_places = _described.by_attributes((tensor, None, base))
        assert places == same_places
        assert looks.setdefault(look, by_attributes) == by_attributes  # what looks alike is alike
    assert len(looks) == len(tensors)
    assert _described.described((base, base)) == _described.described((base, base))
    assert _described.described((base[:2],))[0] == _described.described((base[1:],))[0]
    many = tuple(torch.empty((1,) * 20) for _ in range(30))  # more words than there is room for
    assert _described.described(many) == _described.by_attributes(many)
