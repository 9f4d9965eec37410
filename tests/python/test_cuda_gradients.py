"""Gradients of torch tensors on a CUDA device, against the CPU's in float32, which are checked against float64 elsewhere."""

import pytest

import tilesmith

torch = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.skipif("cuda" in tilesmith.missing(), reason=tilesmith.missing().get("cuda", "")),
]
TOLERANCE = {torch.float32: 2e-3, torch.float16: 6e-3, torch.bfloat16: 4e-2}


def leaves(*shapes, dtype, seed=5):
    generator = torch.Generator().manual_seed(seed)
    made = [torch.rand(shape, generator=generator).mul(2).sub(1).to(dtype) for shape in shapes]
    return [x.cuda().requires_grad_() for x in made], [x.float().requires_grad_() for x in made]


def assert_same_gradients(function, mine, theirs, dtype):
    try:
        y = function(*mine)
        dy = torch.randn(y.shape, generator=torch.Generator().manual_seed(6)).to(dtype)
        got = torch.autograd.grad(y, mine, dy.cuda())
    except tilesmith.Unsupported as error:
        assert error.hint
        pytest.skip(f"no kernel here: {error.message}")
    for x, wanted in zip(got, torch.autograd.grad(function(*theirs), theirs, dy.float())):
        assert x.is_cuda
        torch.testing.assert_close(x.float().cpu(), wanted, rtol=0, atol=TOLERANCE[dtype] * max(1.0, wanted.abs().max().item()))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shape", [(96,), (3, 40), (1,)], ids=str)
def test_linear(dtype, shape):
    mine, theirs = leaves((*shape, 128), (72, 128), (72,), (*shape, 72), dtype=dtype)
    assert_same_gradients(lambda x, w, bias, residual: tilesmith.linear(x, w, bias, residual=residual), mine, theirs, dtype)


@pytest.mark.parametrize("options", [dict(activation="gelu"), dict(gate="swiglu"), dict(activation="silu", clamp=(-100, 100))], ids=str)
def test_what_follows(options):
    mine, theirs = leaves((96, 128), (72, 128), dtype=torch.bfloat16)
    assert_same_gradients(lambda x, w: tilesmith.linear(x, w, **options), mine, theirs, torch.bfloat16)


@pytest.mark.parametrize(("a", "b"), [((3, 40, 64), (64, 24)), ((3, 40, 64), (3, 64, 24)), ((2, 1, 40, 64), (3, 64, 24)), ((40, 65), (65, 23))],
                         ids=str)  # fmt: skip
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_matmul(a, b, dtype):
    mine, theirs = leaves(a, b, dtype=dtype)
    assert_same_gradients(tilesmith.matmul, mine, theirs, dtype)


@pytest.mark.parametrize("traits", [dict(), dict(causal=True), dict(window=(30, 5)), dict(softcap=2.0), dict(dropout_p=0.3, seed=4)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_attention(traits, dtype):
    mine, theirs = leaves((2, 4, 200, 64), (2, 2, 200, 64), (2, 2, 200, 64), dtype=dtype)
    assert_same_gradients(lambda q, k, v: tilesmith.attention(q, k, v, **traits), mine, theirs, dtype)


def test_a_stream_of_its_own():
    """Backward runs on the stream of its forward."""
    mine, theirs = leaves((512, 256), (384, 256), dtype=torch.bfloat16)
    with torch.cuda.stream(torch.cuda.Stream()):
        for _ in range(3):
            assert_same_gradients(tilesmith.linear, mine, theirs, torch.bfloat16)
    torch.cuda.synchronize()


def test_compiled():
    mine, theirs = leaves((96, 128), (72, 128), (72,), dtype=torch.bfloat16)
    compiled = torch.compile(lambda x, w, bias: tilesmith.linear(x, w, bias, activation="gelu"), fullgraph=True, backend="aot_eager")
    assert_same_gradients(lambda *x: (compiled if x[0].is_cuda else lambda x, w, b: tilesmith.linear(x, w, b, activation="gelu"))(*x), mine, theirs,
                          torch.bfloat16)  # fmt: skip


@pytest.mark.parametrize("dim", [64, 256, 33])
@pytest.mark.parametrize("keys", [0, 5])
def test_packed_without_queries(dim, keys):
    """Tensors without rows have no address."""
    generator = torch.Generator("cuda").manual_seed(7)
    q, k, v = (torch.randn(rows, 2, dim, device="cuda", dtype=torch.bfloat16, generator=generator).requires_grad_() for rows in (0, keys, keys))
    offsets_q, offsets_k = (torch.tensor([0, 0, rows], device="cuda", dtype=torch.int32) for rows in (0, keys))
    o, lse = tilesmith.attention(q, k, v, layout="bshd", causal=True, cu_seqlens_q=offsets_q, cu_seqlens_k=offsets_k, max_seqlen_q=8, max_seqlen_k=8,
                                 return_lse=True)  # fmt: skip
    assert o.shape == q.shape and lse.shape == (2, 0)
    dq, dk, dv = torch.autograd.grad(o, (q, k, v), torch.empty_like(o))
    assert dq.shape == q.shape and dk.shape == dv.shape == k.shape
    assert not dk.any() and not dv.any()


@pytest.mark.parametrize("dim", [64, 256, 33])
def test_packed_without_keys(dim):
    q, k, v = (torch.ones(rows, 2, dim, device="cuda", dtype=torch.bfloat16).requires_grad_() for rows in (5, 0, 0))
    offsets_q, offsets_k = (torch.tensor([0, 0, rows], device="cuda", dtype=torch.int32) for rows in (5, 0))
    o = tilesmith.attention(q, k, v, layout="bshd", cu_seqlens_q=offsets_q, cu_seqlens_k=offsets_k, max_seqlen_q=8, max_seqlen_k=8)
    dq, dk, dv = torch.autograd.grad(o, (q, k, v), torch.ones_like(o))
    assert not o.any() and not dq.any() and dk.shape == dv.shape == k.shape
