"""torch tensors on a CUDA device: results, streams, graphs, devices. Skipped where there is none."""

import pytest
import test_torch

import tilesmith

torch = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.skipif("cuda" in tilesmith.missing(), reason=tilesmith.missing().get("cuda", "")),
]
TOLERANCE = {torch.bfloat16: 2e-2, torch.float16: 3e-3}


def make(*shape, dtype=torch.bfloat16):
    return torch.empty(shape, device="cuda").uniform_(-1, 1).to(dtype)


def qkv(batch=2, heads_q=4, heads_kv=2, rows_q=200, rows_k=333, dim=128, dtype=torch.bfloat16):
    torch.manual_seed(5)
    return (make(batch, heads_q, rows_q, dim, dtype=dtype), make(batch, heads_kv, rows_k, dim, dtype=dtype),
            make(batch, heads_kv, rows_k, dim, dtype=dtype))  # fmt: skip


def check(got, q, k, v, **options):
    """Against the CPU's kernels on the same values in float32, which are checked against float64 elsewhere."""
    moved = {name: x.cpu() if isinstance(x, torch.Tensor) else x for name, x in options.items()}
    expected = tilesmith.attention(*(x.float().cpu() for x in (q, k, v)), return_lse=True, **moved)
    got = got if isinstance(got, tuple) else (got,)
    assert got[0].device == q.device and got[0].dtype == q.dtype
    torch.testing.assert_close(got[0].float().cpu(), expected[0], rtol=0, atol=TOLERANCE[q.dtype])
    for mine, theirs in zip(got[1:], expected[1:]):
        torch.testing.assert_close(mine.cpu(), theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("options", [{}, dict(causal=True), dict(mask="top_left"), dict(window=(64, 0)),
                                     dict(softcap=5.0), dict(scale=-0.1)])  # fmt: skip
def test_results(dtype, options):
    q, k, v = qkv(dtype=dtype)
    check(tilesmith.attention(q, k, v, return_lse=True, **options), q, k, v, **options)
    assert tilesmith.last_plan().device == "cuda:0"


def test_tensors_beside():
    q, k, v = qkv()
    for options in (dict(bias=make(200, 333).float()), dict(alibi=make(4).float()), dict(sink=make(4).float())):
        check(tilesmith.attention(q, k, v, **options), q, k, v, **options)


def test_layouts_and_out():
    q, k, v = qkv()
    expected = tilesmith.attention(q, k, v, causal=True)
    swapped = [x.transpose(1, 2).contiguous() for x in (q, k, v)]
    out = torch.empty_like(swapped[0])
    assert tilesmith.attention(*swapped, layout="bshd", causal=True, out=out) is out
    torch.testing.assert_close(out.transpose(1, 2), expected, rtol=0, atol=TOLERANCE[q.dtype])


def test_group():
    q, k, v = qkv(batch=1)
    cu_q, cu_k = (torch.tensor(x, dtype=torch.int32, device="cuda") for x in ([0, 70, 200], [0, 133, 333]))
    packed = [x[0].transpose(0, 1).contiguous() for x in (q, k, v)]
    o = tilesmith.attention(*packed, layout="bshd", cu_seqlens_q=cu_q, cu_seqlens_k=cu_k, causal=True)
    for a, b, c, d in ((0, 70, 0, 133), (70, 200, 133, 333)):
        check(o[a:b].transpose(0, 1)[None], q[:, :, a:b], k[:, :, c:d], v[:, :, c:d], causal=True)


def test_the_current_stream():
    """The result depends on work queued before it on the same stream, and later work on the result."""
    q, k, v = qkv(rows_q=2048, rows_k=2048)
    expected = tilesmith.attention(q, k, v)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        late = torch.zeros_like(q)
        torch.cuda._sleep(20_000_000)
        late.copy_(q)
        o = tilesmith.attention(late, k, v) * 1
    stream.synchronize()
    torch.testing.assert_close(o, expected, rtol=0, atol=0)


def test_a_graph():
    q, k, v = qkv()
    tilesmith.attention(q, k, v)  # plans
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o = tilesmith.attention(q, k, v)
    q.copy_(torch.flip(q, [2]))
    graph.replay()
    torch.testing.assert_close(o, tilesmith.attention(q, k, v), rtol=0, atol=0)


def test_compile():
    q, k, v = qkv()
    compiled = torch.compile(lambda q, k, v: tilesmith.attention(q, k, v, causal=True) * 2, fullgraph=True)
    torch.testing.assert_close(compiled(q, k, v), tilesmith.attention(q, k, v, causal=True) * 2, rtol=0, atol=0)
    torch.library.opcheck(torch.ops.tilesmith.attention_fwd, test_torch.operator_arguments(q, k, v))


def test_devices_mixed_up():
    q, k, v = qkv()
    with pytest.raises(ValueError, match="q is on cuda:0, k on cpu"):
        tilesmith.attention(q, k.cpu(), v)
    with pytest.raises(ValueError, match="q is on cuda:0, bias on cpu"):
        tilesmith.attention(q, k, v, bias=torch.zeros(200, 333))


def test_float8():
    q, k, v = (x.to(torch.float8_e4m3fn) for x in qkv(dtype=torch.float16))
    try:
        o = tilesmith.attention(q, k, v)
    except NotImplementedError as error:
        pytest.skip(str(error))
    assert o.dtype == torch.bfloat16
    expected = tilesmith.attention(*(x.float().cpu() for x in (q, k, v)))
    torch.testing.assert_close(o.float().cpu(), expected, rtol=0, atol=0.1)
