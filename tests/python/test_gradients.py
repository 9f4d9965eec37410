"""attention and scaled_dot_product_attention of torch tensors are differentiable: every gradient against torch's own autograd in
float64."""

import math
import os

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import reference  # noqa: E402
import tilesmith  # noqa: E402

TOLERANCE = {torch.float32: 3e-5, torch.float16: 6e-3, torch.bfloat16: 4e-2}


def expected_attention(q, k, v, *, layout="bhsd", causal=False, mask="none", window=(-1, -1), diagonal=0, scale=None, softcap=0.0,
                       bias=None, alibi=None, sink=None, dropout_p=0.0, seed=0):  # fmt: skip
    """(output, lse) in float64, by torch operations alone."""
    if layout == "bshd":
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    mask = "bottom_right" if causal else mask
    batch, heads, rows_q, dim = q.shape
    rows_k = k.shape[2]
    k, v = (x.repeat_interleave(heads // k.shape[1], 1) for x in (k, v))
    s = (1 / math.sqrt(dim) if scale is None else scale) * q @ k.mT
    if softcap:
        s = softcap * torch.tanh(s / softcap)
    offset = rows_k - rows_q if mask == "bottom_right" or (mask == "none" and tuple(window) != (-1, -1)) else 0
    distance = torch.arange(rows_q)[:, None] + offset - torch.arange(rows_k)[None]
    if bias is not None:
        s = s + bias
    if alibi is not None:
        s = s - alibi.expand(batch, heads)[..., None, None] * distance.abs()
    distance = distance + diagonal
    hidden = torch.zeros_like(distance, dtype=torch.bool)
    hidden |= (distance < 0) if mask != "none" else False
    hidden |= (distance > window[0]) if window[0] >= 0 else False
    hidden |= (distance < -window[1]) if window[1] >= 0 else False
    s = s.masked_fill(hidden, -math.inf)
    logits = s if sink is None else torch.cat((s, sink[None, :, None, None].expand(batch, heads, rows_q, 1)), -1)
    lse = torch.logsumexp(logits, -1)
    # A row that sees nothing: its log-sum-exp is -inf, and nothing comes back through it.
    weights = torch.exp(s - torch.where(lse == -math.inf, 0.0, lse.nan_to_num(neginf=0.0))[..., None])
    if dropout_p:
        threshold = round(dropout_p * 65536)
        kept = torch.from_numpy(np.array(reference.keeps(threshold, seed, batch, heads, rows_q, rows_k)))
        weights = weights * kept / (1 - threshold / 65536)
    o = weights @ v
    return (o.transpose(1, 2) if layout == "bshd" else o), lse


def leaf(x):
    return None if x is None else x.detach().clone().requires_grad_()


def check(tensors, with_lse=False, function=None, **traits):
    """The gradients of one loss by every tensor, of the call and of float64."""
    named = {name: value for name, value in traits.items() if isinstance(value, torch.Tensor)}
    rest = {name: value for name, value in traits.items() if name not in named}
    mine = [leaf(x) for x in (*tensors, *named.values())]
    exact = [leaf(x.double()) for x in mine]

    def both(leaves):
        return (*leaves[:3],), dict(zip(named, leaves[3:]))

    attend = function or tilesmith.attention
    arguments, given = both(mine)
    o, lse = attend(*arguments, **given, **rest, return_lse=True) if with_lse else (attend(*arguments, **given, **rest), None)
    arguments, given = both(exact)
    wide_o, wide_lse = expected_attention(*arguments, **given, **rest)
    generator = torch.Generator().manual_seed(7)
    do = torch.randn(o.shape, generator=generator)
    loss = (o.double() * do).sum()
    wide_loss = (wide_o * do).sum()
    if with_lse:
        dlse = torch.randn(lse.shape, generator=generator)
        loss = loss + (lse.double() * dlse).sum()
        wide_loss = wide_loss + (wide_lse * dlse).sum()
    got, expected = torch.autograd.grad(loss, mine), torch.autograd.grad(wide_loss, exact)
    for name, x, wanted in zip(("q", "k", "v", *named), got, expected):
        limit = TOLERANCE[tensors[0].dtype] * max(1.0, wanted.abs().max().item() if wanted.numel() else 0.0)
        assert x.dtype == (torch.float32 if name in named else tensors[0].dtype)
        torch.testing.assert_close(x.double(), wanted, rtol=0, atol=limit, msg=lambda text, name=name: f"d{name}: {text}")


@pytest.fixture
def make():
    generator = torch.Generator().manual_seed(3)

    def make(batch=2, heads_q=4, heads_kv=2, rows_q=33, rows_k=70, dim=64, dim_v=None, dtype=torch.float32, layout="bhsd"):
        shapes = (heads_q, rows_q, dim), (heads_kv, rows_k, dim), (heads_kv, rows_k, dim_v or dim)
        made = (torch.rand((batch, *shape), generator=generator).mul(2).sub(1).to(dtype) for shape in shapes)
        return tuple(x.transpose(1, 2).contiguous() if layout == "bshd" else x for x in made)

    return make


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_types(make, dtype):
    check(make(dtype=dtype), causal=True)


@pytest.mark.parametrize("traits", [
    dict(), dict(mask="top_left"), dict(causal=True, diagonal=2), dict(window=(9, 4)), dict(softcap=0.7), dict(scale=-0.2),
    dict(dropout_p=0.3, seed=11), dict(with_lse=True, causal=True), dict(layout="bshd"),
    dict(sink=torch.randn(4)), dict(alibi=torch.rand(2, 4)), dict(alibi=torch.rand(4)), dict(bias=torch.randn(4, 33, 70)),
    dict(bias=torch.randn(70)), dict(bias=torch.randn(2, 1, 33, 1), sink=torch.randn(4)),
], ids=str)  # fmt: skip
def test_traits(make, traits):
    check(make(layout=traits.get("layout", "bhsd")), **traits)


@pytest.mark.parametrize("shape", [dict(rows_q=1), dict(rows_q=0), dict(rows_k=0), dict(batch=0), dict(rows_q=70, rows_k=33, heads_q=6, heads_kv=1),
                                   dict(dim=40, dim_v=96)], ids=str)  # fmt: skip
def test_shapes(make, shape):
    check(make(**shape), causal=True)


def test_random_problems(make):
    rng = np.random.default_rng(5)
    for _ in range(25):
        heads_kv = int(rng.integers(1, 4))
        heads_q, rows_q, rows_k = heads_kv * int(rng.integers(1, 4)), int(rng.integers(1, 80)), int(rng.integers(1, 80))
        batch = int(rng.integers(1, 3))
        mask = str(rng.choice(["none", "top_left", "bottom_right"]))
        traits = dict(mask=mask, window=(int(rng.integers(-1, 40)), int(rng.integers(-1, 40)) if mask == "none" else -1))
        if rng.random() < 0.3:
            traits["softcap"] = 2.0
        if rng.random() < 0.3:
            traits.update(dropout_p=0.4, seed=int(rng.integers(1 << 62)))
        if rng.random() < 0.4:
            traits["sink"] = torch.randn(heads_q)
        if rng.random() < 0.5:
            full = (batch, heads_q, rows_q, rows_k)
            traits["bias"] = torch.randn([size if rng.random() < 0.6 else 1 for size in full])
        elif rng.random() < 0.4:
            traits["alibi"] = torch.rand(heads_q)
        tensors = make(batch, heads_q, heads_kv, rows_q, rows_k, int(rng.choice([8, 36, 64])), int(rng.choice([16, 40])))
        # torch's float64 gradient of a row that sees nothing is NaN where the loss has its log-sum-exp.
        check(tensors, with_lse="sink" in traits, **traits)


def test_variable_lengths(make):
    q, k, v = (x[0] for x in make(batch=1, rows_q=40, rows_k=60))
    ends_q, ends_k = [0, 13, 13, 33], [0, 20, 31, 54]  # a sequence without queries, and rows of none
    offsets = dict(cu_seqlens_q=torch.tensor(ends_q, dtype=torch.int32), cu_seqlens_k=torch.tensor(ends_k, dtype=torch.int32))
    mine = [leaf(x) for x in (q, k, v)]
    o = tilesmith.attention(*mine, causal=True, **offsets)
    do = torch.randn(o.shape)
    got = torch.autograd.grad(o, mine, do)
    exact = [leaf(x.double()) for x in (q, k, v)]
    loss = sum((expected_attention(*(x[None, :, rows] for x, rows in zip(exact, (rows_q, rows_k, rows_k))), causal=True)[0] * do[:, rows_q]).sum()
               for rows_q, rows_k in ((slice(ends_q[b], ends_q[b + 1]), slice(ends_k[b], ends_k[b + 1])) for b in range(3)))  # fmt: skip
    for x, wanted in zip(got, torch.autograd.grad(loss, exact)):
        torch.testing.assert_close(x.double(), wanted, rtol=0, atol=1e-4)


@pytest.mark.parametrize("rows_q, rows_k", ((0, 0), (0, 7), (5, 0)))
def test_packed_sequences_without_rows(rows_q, rows_k):
    """A tensor without elements has a null pointer, and the longest length that the call names may be above 0."""
    mine = [leaf(torch.ones(shape)) for shape in ((rows_q, 4, 64), (rows_k, 2, 64), (rows_k, 2, 64))]
    offsets = {f"cu_seqlens_{side}": torch.tensor([0, rows, rows], dtype=torch.int32) for side, rows in (("q", rows_q), ("k", rows_k))}
    o = tilesmith.attention(*mine, max_seqlen_q=16, max_seqlen_k=16, layout="bshd", **offsets)
    assert o.shape == mine[0].shape and not o.any()
    for x, gradient in zip(mine, torch.autograd.grad(o, mine, torch.ones_like(o))):
        assert gradient.shape == x.shape and not gradient.any()


def test_a_part_of_the_gradients(make):
    q, k, v = make()
    v = leaf(v)
    tilesmith.attention(q, k, v).sum().backward()
    wanted = leaf(v.double())
    expected_attention(q.double(), k.double(), wanted)[0].sum().backward()
    torch.testing.assert_close(v.grad.double(), wanted.grad, rtol=0, atol=1e-4)
    bias = torch.zeros(33, 70, requires_grad=True)
    tilesmith.attention(q, k, v.detach(), bias=bias).sum().backward()
    assert bias.grad.shape == bias.shape and q.grad is None


def test_gradients_in_any_strides(make):
    q, k, v = (leaf(x) for x in make())
    o = tilesmith.attention(q, k, v)
    do = torch.randn(o.shape)
    wanted = torch.autograd.grad(o, (q, k, v), do, retain_graph=True)
    odd = torch.randn(64, 2, 33, 4).permute(1, 3, 2, 0).copy_(do)
    for got, expected in zip(torch.autograd.grad(o, (q, k, v), odd, retain_graph=True), wanted):
        assert torch.equal(got, expected)
    ones = torch.autograd.grad(o, (q, k, v), torch.ones_like(o), retain_graph=True)
    for got, expected in zip(torch.autograd.grad(o.sum(), (q, k, v)), ones):  # of a sum: one number, expanded
        assert torch.equal(got, expected)


def test_packed_inputs_and_no_copies(make):
    """One tensor of q, k and v, as a projection gives it: its parts are kept as they are, and the graph may be used twice."""
    packed = torch.randn(2, 33, 3, 4, 64, requires_grad=True)
    q, k, v = packed.unbind(2)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x.data_ptr()) or x, lambda x: x):
        o = tilesmith.attention(q, k, v, layout="bshd")
    assert {q.data_ptr(), k.data_ptr(), v.data_ptr(), o.data_ptr()} <= set(kept)
    first, = torch.autograd.grad(o.sum(), packed, retain_graph=True)
    again, = torch.autograd.grad(o.sum(), packed)
    assert torch.equal(first, again) and first.abs().sum() > 0
    with torch.no_grad():
        o = tilesmith.attention(q, k, v, layout="bshd")
    assert not o.requires_grad


def test_one_tensor_in_every_place(make):
    """Its gradients by q, k and v of two calls add up; what was kept lives as long as the graph."""
    x, = (leaf(each) for each in make(heads_kv=4, rows_k=33)[:1])
    o = tilesmith.attention(x, x, x, causal=True) + tilesmith.attention(x * 1, x, x)
    exact = leaf(x.double())
    wanted, = torch.autograd.grad(sum(expected_attention(exact, exact, exact, **options)[0] for options in (dict(causal=True), {})).sum(), exact)
    for kept in (True, False):
        got, = torch.autograd.grad(o.sum(), x, retain_graph=kept)
        torch.testing.assert_close(got.double(), wanted, rtol=0, atol=1e-4)
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(o.sum(), x)


def test_a_changed_input_is_noticed(make):
    q, k, v = (leaf(x) for x in make())
    moved = q * 1
    o = tilesmith.attention(moved, k, v)
    moved.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        o.sum().backward()


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints(make, reentrant):
    from torch.utils.checkpoint import checkpoint

    q, k, v = make()
    results = []
    for kept in (True, False):
        leaves = [leaf(x) for x in (q, k, v)]
        torch.manual_seed(4)
        block = lambda *x: tilesmith.attention(*x, dropout_p=0.3, causal=True)  # noqa: E731
        o = block(*leaves) if kept else checkpoint(block, *leaves, use_reentrant=reentrant)
        (o * o).sum().backward()
        results.append((o, *(x.grad for x in leaves)))
    for mine, wanted in zip(*results):
        assert torch.equal(mine, wanted)


def test_dropout_draws_one_seed_for_both_ways(make):
    q, k, v = make()
    torch.manual_seed(9)
    seed = int(torch.randint((1 << 63) - 1, ()))
    torch.manual_seed(9)
    leaves = [leaf(x) for x in (q, k, v)]
    drawn = torch.autograd.grad(tilesmith.attention(*leaves, dropout_p=0.5).square().sum(), leaves)
    given = torch.autograd.grad(tilesmith.attention(*leaves, dropout_p=0.5, seed=seed).square().sum(), leaves)
    for mine, wanted in zip(drawn, given):
        assert torch.equal(mine, wanted)


def test_options_hold_both_ways(make):
    leaves = [leaf(x) for x in make()]
    with tilesmith.options(threads=1, build="never"):
        o = tilesmith.attention(*leaves)
    assert o.grad_fn.options[1:3] == (1, "never")  # threads, build
    forward_kernel = tilesmith.last_plan().kernel
    o.sum().backward()
    assert tilesmith.candidates(tilesmith.attention, *leaves).candidates
    tilesmith.attention(*leaves, kernel=forward_kernel).sum().backward()  # a kernel's name is the forward's alone
    assert tilesmith.last_plan().operation == "attention_bwd"


def test_expanded_inputs(make):
    """Keys that the batch shares, and a bias expanded to its full size: torch sums what it expanded."""
    q, k, v = make()
    tensors = [leaf(x) for x in (q, k[:1], v[:1], torch.randn(33, 1))]

    def loss(attend, q, k, v, bias):
        return attend(q, k.expand(2, -1, -1, -1), v.expand(2, -1, -1, -1), bias=bias.expand(2, 4, 33, 70), sink=q[0, :, 0, 0] * 1).square().sum()

    exact = [leaf(x.double()) for x in tensors]
    got = torch.autograd.grad(loss(tilesmith.attention, *tensors), tensors)
    wanted = torch.autograd.grad(loss(lambda *x, **named: expected_attention(*x, **named)[0], *exact), exact)
    for mine, theirs in zip(got, wanted):
        torch.testing.assert_close(mine.double(), theirs, rtol=0, atol=1e-4 * max(1.0, theirs.abs().max().item()))


def test_refused(make):
    q, k, v = (leaf(x) for x in make())
    with pytest.raises(NotImplementedError, match="out is given, and a tensor requires a gradient"):
        tilesmith.attention(q, k, v, out=torch.empty_like(q))
    with pytest.raises(NotImplementedError, match="attention has none of keys and values in a cache"):
        tilesmith.attention(q, k, v, seqlens_k=torch.tensor([70, 70], dtype=torch.int32))
    small = [x.detach().to(torch.float8_e4m3fn) for x in (q, k, v)]
    with pytest.raises(NotImplementedError, match="none of float8"):
        tilesmith.attention(*small, q_scale=torch.ones(1, requires_grad=True))
    with pytest.raises(NotImplementedError, match="attention_backward is forward only"):
        tilesmith.attention_backward(q, q, k, v, q, q[..., 0])
    o = tilesmith.attention(q, k, v)
    dq, = torch.autograd.grad(o.sum(), q, create_graph=True)
    with pytest.raises(NotImplementedError, match="attention_backward is forward only"):
        dq.sum().backward()


@pytest.mark.parametrize("options", [dict(), dict(is_causal=True), dict(scale=0.3)], ids=str)
def test_scaled_dot_product_attention(make, options):
    tensors = [leaf(x) for x in make(heads_kv=4)]
    exact = [leaf(x.double()) for x in tensors]
    do = torch.randn(2, 4, 33, 64)
    got = torch.autograd.grad(tilesmith.scaled_dot_product_attention(*tensors, **options), tensors, do)
    wanted = torch.autograd.grad(torch.nn.functional.scaled_dot_product_attention(*exact, **options), exact, do.double())
    for mine, theirs in zip(got, wanted):
        torch.testing.assert_close(mine.double(), theirs, rtol=0, atol=1e-4)


def test_scaled_dot_product_attention_with_a_mask(make):
    tensors = [leaf(x) for x in make()]
    floating = torch.randn(33, 70).to(torch.bfloat16).requires_grad_()
    tilesmith.scaled_dot_product_attention(*tensors, floating, enable_gqa=True).sum().backward()
    exact = [leaf(x.double()) for x in (*tensors, floating)]
    torch.nn.functional.scaled_dot_product_attention(*exact, enable_gqa=True).sum().backward()
    for mine, theirs in zip((*tensors, floating), exact):
        torch.testing.assert_close(mine.grad.double(), theirs.grad, rtol=0, atol=5e-2 if mine is floating else 1e-4)
    visible = torch.rand(2, 1, 33, 70) > 0.3
    got = torch.autograd.grad(tilesmith.scaled_dot_product_attention(*tensors, visible, enable_gqa=True).sum(), tensors)
    wanted = torch.autograd.grad(torch.nn.functional.scaled_dot_product_attention(*exact[:3], visible, enable_gqa=True).sum(), exact[:3])
    for mine, theirs in zip(got, wanted):
        torch.testing.assert_close(mine.double(), theirs, rtol=0, atol=1e-4)


# ------------------------------------------------------------------------------------------------------ the operator


def test_opcheck(make):
    q, k, v = (leaf(x) for x in make(dim=16))
    arguments = dict(layout="bhsd", causal=True, mask="none", window_left=-1, window_right=-1, scale=None, softcap=2.0, bias=torch.randn(4, 1, 70),
                     alibi=None, sink=torch.randn(4), q_scale=None, k_scale=None, v_scale=None, dropout_p=0.3, seed=5, cu_seqlens_q=None,
                     cu_seqlens_k=None, max_seqlen_q=None, max_seqlen_k=None, return_lse=True)  # fmt: skip
    arguments["bias"].requires_grad_()
    torch.library.opcheck(torch.ops.tilesmith.attention_fwd, (q, k, v, *arguments.values()))
    q, k, v = (x.detach() for x in (q, k, v))
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    o, lse = tilesmith.attention(q, k, v, layout="bshd", return_lse=True)
    rest = (False, "none", -1, -1, None, 0.0, None, None, None, 0.0, None, None, None, None, None, 0, False, torch.randn(lse.shape))
    torch.library.opcheck(torch.ops.tilesmith.attention_bwd, (o, q, k, v, o, lse, "bshd", *rest, False, False, False))


@pytest.mark.parametrize("dynamic", [False, True])
def test_compile(make, dynamic):
    def loss(q, k, v, bias):
        o, lse = tilesmith.attention(q * 2, k, v, causal=True, window=(8, 0), bias=bias, return_lse=True)
        return tilesmith.scaled_dot_product_attention(o, k, v, enable_gqa=True).square().sum() + lse.sum()

    compiled = torch.compile(loss, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for rows in (33, 40):
        tensors = [leaf(x) for x in (*make(rows_q=rows), torch.randn(4, rows, 1))]
        got, wanted = torch.autograd.grad(compiled(*tensors), tensors), torch.autograd.grad(loss(*tensors), tensors)
        for mine, theirs in zip(got, wanted):
            torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-5 * theirs.abs().max().item())


@pytest.mark.parametrize("backend", ["aot_eager", *(["inductor"] if os.environ.get("TILESMITH_TEST_THOROUGH") else [])])
def test_compiled_dropout(make, backend):
    """Both ways have one mask, and the next call another."""
    q, k, v = (leaf(x) for x in make())
    compiled = torch.compile(lambda q, k, v: tilesmith.attention(q, k, v, dropout_p=0.5), fullgraph=True, backend=backend)
    o = compiled(q, k, v)
    dv, = torch.autograd.grad(o.sum(), v)
    torch.testing.assert_close((dv * v).sum(), o.sum(), rtol=1e-3, atol=1e-2)  # the output is linear in v
    assert not torch.equal(o, compiled(q, k, v))


def test_compiled_variable_lengths(make):
    q, k, v = (leaf(x[0]) for x in make(batch=1, rows_q=40, rows_k=60))
    ends = dict(cu_seqlens_q=torch.tensor([0, 13, 33], dtype=torch.int32), cu_seqlens_k=torch.tensor([0, 20, 54], dtype=torch.int32))
    loss = lambda q, k, v: tilesmith.attention(q, k, v, **ends)[:, :33].square().sum()  # noqa: E731
    got = torch.autograd.grad(torch.compile(loss, fullgraph=True, backend="aot_eager")(q, k, v), (q, k, v))
    for mine, theirs in zip(got, torch.autograd.grad(loss(q, k, v), (q, k, v))):
        assert torch.equal(mine, theirs)


def test_attention_backward_itself(make):
    """Of torch tensors, as autograd computes it, traced and with fake tensors."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    q, k, v = make()
    bias, do = torch.randn(33, 70), torch.randn(q.shape)

    def direct(do, q, k, v, o, lse, bias):
        return tilesmith.attention_backward(do, q, k, v, o, lse, causal=True, bias=bias, need_dbias=True, dropout_p=0.2, seed=3, threads=1)

    o, lse = tilesmith.attention(q, k, v, causal=True, bias=bias, dropout_p=0.2, seed=3, return_lse=True)
    leaves = [leaf(x) for x in (q, k, v, bias)]
    wanted = torch.autograd.grad(tilesmith.attention(*leaves[:3], causal=True, bias=leaves[3], dropout_p=0.2, seed=3), leaves, do)
    compiled = torch.compile(direct, fullgraph=True, backend="aot_eager")
    for function in (direct, compiled):
        for mine, theirs in zip(function(do, q, k, v, o, lse, bias), wanted):
            assert torch.equal(mine, theirs)
    with FakeTensorMode() as mode:
        fake = direct(*(mode.from_tensor(x) for x in (do, q, k, v, o, lse, bias)))
    assert [x.shape for x in fake] == [x.shape for x in wanted]
