"""torch tensors on a CUDA device: results, streams, graphs, devices. Skipped where there is none."""

import numpy as np
import pytest
import reference
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
    got = tilesmith.attention(q, k, v, return_lse=True, **options)
    assert tilesmith.last_plan().device == "cuda:0"
    check(got, q, k, v, **options)


def test_tensors_beside():
    q, k, v = qkv()
    for options in (dict(bias=make(200, 333).float()), dict(alibi=make(4).float()), dict(sink=make(4).float())):
        check(tilesmith.attention(q, k, v, **options), q, k, v, **options)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("least", [-torch.inf, torch.finfo(torch.float32).min])
def test_a_bias_may_hide_whole_blocks(dtype, least):
    """Padding behind few keys, in front of few, and of a whole sequence, whose queries then see nothing: also where the least
    number takes the place of -inf (docs/cuda_kernels.md)."""
    q, k, v = (x.requires_grad_() for x in qkv(batch=3, rows_k=777, dtype=dtype))
    bias = torch.zeros(3, 1, 1, 777, device="cuda")
    bias[0, ..., 60:] = bias[1, ..., :700] = -torch.inf
    bias[2] = least
    o = tilesmith.attention(q, k, v, bias=bias)
    gradients = torch.autograd.grad(o.float().sum(), (q, k, v))
    seen = [x.detach().double() for x in (q, k, v)]
    wide = torch.nn.functional.scaled_dot_product_attention(seen[0][:2], *(x[:2].repeat_interleave(2, 1) for x in seen[1:]), bias[:2].double())
    torch.testing.assert_close(o[:2].double(), wide, rtol=0, atol=2e-2)
    assert o[2].count_nonzero() == 0 and all(x[2].count_nonzero() == 0 and x.isfinite().all() for x in gradients)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_gradients_of_rows_whose_log_sum_exp_is_lost_are_zeros(dtype):
    """A sequence whose keys all have -1e9, and one all of whose others have it (docs/backward.md)."""
    q, k, v = (x.requires_grad_() for x in qkv(batch=3, dtype=dtype))
    bias = torch.zeros(3, 1, 1, 333, device="cuda")
    bias[0, ..., 70:] = bias[1] = -1e9
    o = tilesmith.attention(q, k, v, bias=bias)
    torch.testing.assert_close(o[1].float(), v[1].float().mean(1, keepdim=True).repeat_interleave(2, 0).expand_as(o[1]), rtol=0, atol=2e-2)
    gradients = torch.autograd.grad(o.float().square().sum(), (q, k, v))
    assert all(x[1].count_nonzero() == 0 and x.isfinite().all() for x in gradients)
    few = [x[:1].detach()[..., :rows, :].requires_grad_() for x, rows in zip((q, k, v), (200, 70, 70))]
    expected = torch.autograd.grad(tilesmith.attention(*few).float().square().sum(), few)
    for got, want, rows in zip(gradients, expected, (200, 70, 70)):
        torch.testing.assert_close(got[:1, :, :rows], want, rtol=2e-2, atol=2e-2)
        assert got[0, :, rows:].count_nonzero() == 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("far", [-1e9, -1e10, -1e12, -1e38, 1e9, 1e12])
@pytest.mark.parametrize("rows, keys", [(200, 332), (200, 333), (1, 700)])
def test_biases_far_from_zero_have_their_weights(dtype, far, rows, keys):
    """Rows whose biases are all far from 0, some of whose are, and those that are beside hidden keys: dense tiles with a bias
    that is copied and one that threads load, and decode."""
    q, k, v = qkv(batch=4, rows_q=rows, rows_k=keys, dtype=dtype)
    bias = torch.zeros(4, 1, 1, keys, device="cuda")
    bias[0] = bias[1, ..., 70:] = bias[2, ..., ::3] = far
    bias[2, ..., 1::3] = -torch.inf
    o = tilesmith.attention(q, k, v, bias=bias)
    wide = [x.repeat_interleave(2, 1) if x.shape[1] == 2 else x for x in (q.float(), k.float(), v.float())]
    logits = wide[0] @ wide[1].transpose(2, 3) / q.shape[-1] ** 0.5 + bias
    torch.testing.assert_close(o.float(), logits.softmax(3) @ wide[2], rtol=0, atol=2e-2)


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


@pytest.mark.parametrize("rows, keys, batch", [(1, 300, 64), (4, 1000, 1), (200, 333, 2), (1, 5000, 1)])
def test_a_call_reads_what_the_one_before_wrote(rows, keys, batch):
    """Launches of a stream may overlap: none reads or writes what the one before it has not done with."""
    q, k, v = (make(batch, heads, length, 128) for heads, length in ((8, rows), (2, keys), (2, keys)))
    first, outs = q.clone(), [torch.empty_like(q) for _ in range(2)]

    def chain(wait):
        q.copy_(first)
        for i in range(40):
            out = outs[i % 2]
            tilesmith.attention(q if i == 0 else outs[1 - i % 2], k, v, scale=2.0, out=out)  # steep: outputs never settle
            if wait:
                torch.cuda.synchronize()
        return outs[0].clone(), outs[1].clone()

    expected = chain(True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = chain(False)
    for _ in range(5):
        assert all(torch.equal(a, b) for a, b in zip(chain(False), expected))
        graph.replay()
        assert all(torch.equal(a, b) for a, b in zip(captured, expected))


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


def on_float8(*tensors, **options):
    """Skips on chips whose kernels do not take float8. On Hopper a refusal is a failure."""
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("float8 kernels are Hopper's")
    return tilesmith.attention(*tensors, **options)


def quantised(x, by):
    """x as (values in e4m3, their scales, what the two mean in float64)."""
    batch, heads, rows, _ = x.shape
    spans = {"tensor": x.abs().amax(), "head": x.abs().amax((2, 3))}
    if by == "block":
        spans["block"] = torch.stack([part.abs().amax((2, 3)) for part in x.split(128, 2)], 2)
    scale = (spans[by] / 448).float()  # the largest e4m3
    full = {"tensor": lambda: scale.expand(batch, heads, rows),
            "head": lambda: scale[:, :, None].expand(batch, heads, rows),
            "block": lambda: scale.repeat_interleave(128, 2)[:, :, :rows]}[by]()  # fmt: skip
    values = (x / full[..., None]).to(torch.float8_e4m3fn)
    return values, scale, (values.double() * full[..., None].double()).cpu().numpy()


def uneven(batch, heads, rows, dim=128):
    """Normal values whose size differs by head and by 128 rows, 4 times at most, so that another one's scale shows."""
    blocks = -(-rows // 128)
    size = 2 ** (torch.rand(batch, heads, blocks, device="cuda") * 2 - 1)
    return torch.randn(batch, heads, rows, dim, device="cuda") * size.repeat_interleave(128, 2)[:, :, :rows, None]


def check_float8(o, expected):
    """Weights are rounded to e4m3, which has 4 bits: 2.6 % in the root mean square where all keys count alike, less where
    few do. The output's rounding to bfloat16 adds 0.2 %."""
    error = np.linalg.norm(o.double().cpu().numpy() - expected, axis=(2, 3)) / np.linalg.norm(expected, axis=(2, 3))
    assert error.max() < 0.04, error


@pytest.mark.parametrize("options", [{}, dict(causal=True), dict(window=(100, 0)), dict(scale=-0.05)])
@pytest.mark.parametrize("by", ["tensor", "head", "block"])
def test_float8(by, options):
    torch.manual_seed(6)
    (q, q_scale, mean_q), (k, k_scale, mean_k), (v, v_scale, mean_v) = (
        quantised(uneven(2, heads, rows), by) for heads, rows in ((4, 300), (2, 400), (2, 400)))  # fmt: skip
    o = on_float8(q, k, v, q_scale=q_scale, k_scale=k_scale, v_scale=v_scale, **options)
    assert o.dtype == torch.bfloat16 and o.device == q.device
    of_reference = dict(mask="bottom_right") if "causal" in options else options
    expected = reference.attention(mean_q, mean_k, mean_v, **of_reference)[0]
    check_float8(o, expected)
    half = torch.empty_like(o, dtype=torch.float16)
    check_float8(on_float8(q, k, v, q_scale=q_scale, k_scale=k_scale, v_scale=v_scale, out=half, **options), expected)


def test_float8_without_scales():
    torch.manual_seed(6)
    q, k, v = (uneven(2, heads, rows).to(torch.float8_e4m3fn) for heads, rows in ((4, 300), (2, 400), (2, 400)))
    expected = reference.attention(*(x.double().cpu().numpy() for x in (q, k, v)))[0]
    check_float8(on_float8(q, k, v), expected)
    one = torch.ones((), device="cuda")
    torch.testing.assert_close(tilesmith.attention(q, k, v, q_scale=one, v_scale=one), tilesmith.attention(q, k, v),
                               rtol=0, atol=0)  # fmt: skip


def test_float8_scales_of_several_kinds():
    torch.manual_seed(6)
    q, q_scale, mean_q = quantised(uneven(2, 4, 300), "head")
    k, k_scale, mean_k = quantised(uneven(2, 2, 400), "block")
    v, v_scale, mean_v = quantised(uneven(2, 2, 400), "tensor")
    o = on_float8(q, k, v, q_scale=q_scale, k_scale=k_scale, v_scale=v_scale)
    check_float8(o, reference.attention(mean_q, mean_k, mean_v)[0])
    o = tilesmith.attention(q, k, v, k_scale=k_scale, v_scale=v_scale)  # q's scale is 1
    check_float8(o, reference.attention(q.double().cpu().numpy(), mean_k, mean_v)[0])


def test_float8_group():
    """Blocks are counted from the beginning of each sequence."""
    torch.manual_seed(6)
    rows = ((70, 133), (230, 290))
    parts = [[quantised(uneven(1, heads, n), "block") for heads, n in ((4, rows_q), (2, rows_k), (2, rows_k))]
             for rows_q, rows_k in rows]  # fmt: skip
    packed = [torch.cat([part[i][0][0].view(torch.uint8) for part in parts], 1).view(torch.float8_e4m3fn) for i in range(3)]
    blocks = [max(part[i][1].shape[2] for part in parts) for i in range(3)]
    scales = [torch.cat([torch.nn.functional.pad(part[i][1], (0, blocks[i] - part[i][1].shape[2]), value=1.0)
                         for part in parts]) for i in range(3)]  # fmt: skip
    cu_q, cu_k = (torch.tensor(x, dtype=torch.int32, device="cuda") for x in ([0, 70, 300], [0, 133, 423]))
    o = on_float8(*packed, q_scale=scales[0], k_scale=scales[1], v_scale=scales[2], cu_seqlens_q=cu_q, cu_seqlens_k=cu_k)
    for part, (begin, end) in zip(parts, ((0, 70), (70, 300))):
        check_float8(o[None, :, begin:end], reference.attention(*(mean for _, _, mean in part))[0])


def test_float8_compile():
    torch.manual_seed(6)
    (q, q_scale, _), (k, k_scale, _), (v, v_scale, _) = (quantised(uneven(2, 2, 256), "block") for _ in range(3))
    expected = on_float8(q, k, v, q_scale=q_scale, k_scale=k_scale, v_scale=v_scale)
    compiled = torch.compile(lambda *t: tilesmith.attention(*t[:3], q_scale=t[3], k_scale=t[4], v_scale=t[5]) * 2,
                             fullgraph=True)  # fmt: skip
    torch.testing.assert_close(compiled(q, k, v, q_scale, k_scale, v_scale), expected * 2, rtol=0, atol=0)


def test_float8_scales_lie_on_the_device():
    q, k, v = (x.to(torch.float8_e4m3fn) for x in qkv(dtype=torch.float16))
    with pytest.raises(ValueError, match="q is on cuda:0, v_scale on cpu"):
        tilesmith.attention(q, k, v, v_scale=torch.ones(()))


# ------------------------------------------------------------------------------------------------------------- serving


def _appends():
    """Arguments of append_kv: caches of every kind, and what is written nowhere."""
    generator = torch.Generator().manual_seed(3)

    def rand(*shape, dtype=torch.bfloat16):
        return torch.randn(*shape, generator=generator).to(dtype)

    table = torch.randperm(40, generator=generator).to(torch.int32).reshape(4, 10)
    before = torch.tensor([0, 3, 17, 8], dtype=torch.int32)
    cos, sin = rand(64, 16, dtype=torch.float32), rand(64, 16, dtype=torch.float32)
    turn = {"rotary_cos": cos, "rotary_sin": sin}
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for cache in (dtype, torch.float8_e4m3fn, torch.int8):
            for style, dim, page in (("half", 64, 16), ("interleaved", 64, 3), ("half", 33, 5), ("interleaved", 40, 1)):
                count = {16: 40, 3: 80, 5: 40, 1: 200}[page]
                pages = table if page != 1 else torch.randperm(200, generator=generator).to(torch.int32).reshape(4, 50)
                scales = {} if cache == dtype else {"k_scale": rand(2, dtype=torch.float32).abs() / 8 + 0.01}
                yield (rand(4, 2, 5, dim, dtype=dtype), rand(4, 2, 5, 24, dtype=dtype), torch.zeros(count, 2, page, dim).to(cache),
                       torch.zeros(count, 2, page, 24).to(cache)), {
                    "seqlens_k": before, "block_table": pages, "kv_layout": "hnd", "q": rand(4, 6, 5, dim, dtype=dtype), "rotary_style": style, **turn,
                    **scales}  # fmt: skip
    dense = torch.zeros(4, 2, 32, 64, dtype=torch.bfloat16)
    yield (rand(4, 2, 5, 64), rand(4, 2, 5, 64), dense, dense.clone()), {"seqlens_k": before, "kv_layout": "hnd", **turn}
    offsets = torch.tensor([0, 2, 2, 9, 10], dtype=torch.int32)
    packed = (rand(2, 12, 64), rand(2, 12, 64), dense, dense.clone())
    yield packed, {"seqlens_k": before, "kv_layout": "hnd", "cu_seqlens": offsets, "q": rand(6, 12, 64), "out_q": torch.zeros(6, 12, 64).bfloat16(), **turn}
    slots = torch.randperm(128, generator=generator)[:12] - 20
    yield packed, {"slots": slots, "cu_seqlens": offsets, "positions": torch.arange(12) * 5, "kv_layout": "hnd", **turn}
    for cache, dim, page in ((torch.float8_e4m3fn, 64, 16), (torch.int8, 33, 5), (torch.int8, 300, 1)):
        pages = 50 if page == 1 else 10
        table = torch.randperm(4 * pages, generator=generator).to(torch.int32).reshape(4, pages)
        given = {"seqlens_k": before, "block_table": table, "kv_layout": "hnd", **turn}
        new = rand(4, 2, 5, dim), rand(4, 2, 5, 24)
        caches = [torch.zeros(4 * pages, 2, page, size).to(cache) for size in (dim, 24)]
        yield (*new, *caches), {**given, "k_scale": rand(4 * pages, 2, 1, dtype=torch.float32).abs() / 8 + 0.01}
        yield (*new, *(x.clone() for x in caches)), {
            **given, "k_row_scale": torch.zeros(4 * pages, 2, page), "v_row_scale": torch.zeros(4 * pages, 2, page)}  # fmt: skip
    for cache, x in ((torch.bfloat16, 8), (torch.int8, 16)):
        caches = torch.zeros(40, 2, 64 // x, 16, x).to(cache), torch.zeros(40, 2, 16 // x, 24, x).to(cache)
        table = torch.randperm(40, generator=generator).to(torch.int32).reshape(4, 10)
        yield (rand(4, 2, 5, 64), rand(4, 2, 5, 24), *caches), {"seqlens_k": before, "block_table": table, "kv_layout": "vectorized", **turn}


def test_append_kv():
    for number, (tensors, options) in enumerate(_appends()):
        on_gpu = [x.cuda() for x in tensors]
        again = [x.clone() for x in on_gpu]
        gpu_options = {name: x.cuda() if isinstance(x, torch.Tensor) else x for name, x in options.items()}
        got = tilesmith.append_kv(*on_gpu, **gpu_options)
        wanted = tilesmith.append_kv(*tensors, **options)
        one_step = {torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3, torch.float8_e4m3fn: 0.13, torch.int8: 0}
        pairs = list(zip(on_gpu[2:], tensors[2:])) + ([] if wanted is None else [(got, wanted)])
        pairs += [(gpu_options[name], options[name]) for name in ("k_row_scale", "v_row_scale") if name in options]
        for mine, theirs in pairs:  # where a product is rounded once more, the last bit may differ
            torch.testing.assert_close(mine.cpu().float(), theirs.float(), rtol=one_step[theirs.dtype],
                                       atol={torch.int8: 1.01, torch.float32: 2e-6, torch.float8_e4m3fn: 2.1e-3}.get(theirs.dtype, 1e-3),
                                       msg=lambda text, at=number: f"case {at}: {text}")  # fmt: skip
        if "seqlens_k" in options:  # the same bits by lengths that count the new tokens
            offsets = options.get("cu_seqlens")
            counts = 5 if offsets is None else offsets[1:] - offsets[:-1]
            scales = {name: torch.zeros_like(gpu_options[name]) for name in ("k_row_scale", "v_row_scale") if name in options}
            after = (options["seqlens_k"] + counts).cuda()
            turned = tilesmith.append_kv(*again, **{**gpu_options, **scales, "seqlens_k": after, "out_q": None}, lengths_after=True)
            pairs = list(zip(again[2:], on_gpu[2:])) + [(scales[name], gpu_options[name]) for name in scales]
            if got is not None:  # packed rows behind the last sequence have no owner
                pairs.append((turned, got) if offsets is None else (turned[:, : offsets[-1]], got[:, : offsets[-1]]))
            assert all(torch.equal(left.contiguous().view(torch.uint8), right.contiguous().view(torch.uint8)) for left, right in pairs), number


def test_append_kv_writes_nowhere_what_has_no_place():
    k = make(3, 1, 2, 8)
    cache = torch.zeros(4, 1, 4, 8, device="cuda", dtype=torch.bfloat16)
    table = torch.tensor([[0, 1], [9, -1], [2, 3]], device="cuda", dtype=torch.int32)
    lengths = torch.tensor([3, 0, 7], device="cuda", dtype=torch.int32)  # the last sequence's second token has no entry
    tilesmith.append_kv(k, k, cache, cache.clone(), seqlens_k=lengths, block_table=table, kv_layout="hnd")
    wanted = torch.zeros_like(cache)
    wanted[0, :, 3], wanted[1, :, 0], wanted[3, :, 3] = k[0, :, 0], k[0, :, 1], k[2, :, 0]
    assert torch.equal(cache, wanted)
    # By lengths that count the new tokens: also tokens of which there are more than keys, and padding, whatever its slots are.
    cache.zero_()
    lengths = torch.tensor([5, 1, 0], device="cuda", dtype=torch.int32)
    tilesmith.append_kv(k, k, cache, cache.clone(), seqlens_k=lengths, block_table=table.clamp(0, 3), kv_layout="hnd", lengths_after=True)
    wanted.zero_()
    wanted[0, :, 3], wanted[1, :, 0], wanted[3, :, 0] = k[0, :, 0], k[0, :, 1], k[1, :, 1]
    assert torch.equal(cache, wanted)
    cache.zero_()
    lengths[1] = 2
    slots, ones = torch.arange(6, device="cuda"), torch.ones(9, 2, device="cuda")
    tilesmith.append_kv(k, k, cache, cache.clone(), seqlens_k=lengths, slots=slots, rotary_cos=ones, rotary_sin=ones * 0, kv_layout="hnd",
                        lengths_after=True)  # fmt: skip
    wanted.zero_()
    wanted[0, 0] = k[:2, 0].flatten(0, 1)
    assert torch.equal(cache, wanted)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_merge_states(dtype):
    torch.manual_seed(2)
    for count, dim in ((1, 128), (3, 128), (5, 33), (100, 64)):
        outputs, lses = torch.randn(count, 2, 3, 7, dim).to(dtype), torch.randn(count, 2, 3, 7) * 10
        lses[0, 0] = -torch.inf
        outputs[0, 0] = torch.nan
        lses[:, 1, 2, 3] = -torch.inf
        wanted, wanted_lse = tilesmith.merge_states(outputs, lses)
        got, lse = tilesmith.merge_states(outputs.cuda(), lses.cuda())
        tolerance = {torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}[dtype]
        torch.testing.assert_close(got.cpu().float(), wanted.float(), rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(lse.cpu(), wanted_lse, rtol=2e-6, atol=2e-6)
    first = outputs[1].cuda()
    again, _ = tilesmith.merge_states([first, outputs[2].cuda()], [lses[1].cuda(), lses[2].cuda()], out=first)  # in place
    assert again is first
    torch.testing.assert_close(first.cpu(), tilesmith.merge_states(outputs[1:3], lses[1:3])[0], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("cache", [None, torch.float8_e4m3fn, torch.int8])
@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("mapped", [False, True])
def test_one_call_appends_and_attends(dtype, cache, ragged, mapped):
    """The same bits in the caches and the output as of append_kv and attention; padding writes nothing."""
    torch.manual_seed(4)
    counts, before = ([3, 0, 1, 2], [5, 60, 100, 0]) if ragged else ([2, 2, 2, 2], [5, 60, 100, 0])
    offsets = torch.tensor([0, *torch.tensor(counts).cumsum(0)], device="cuda", dtype=torch.int32)
    total, after = sum(counts), torch.tensor([a + n for a, n in zip(before, counts)], device="cuda", dtype=torch.int32)
    table = torch.randperm(64).to(device="cuda", dtype=torch.int32).reshape(4, 16)
    cos, sin = torch.rand(256, 32, device="cuda"), torch.rand(256, 32, device="cuda")
    shape = (lambda heads: (total, heads, 64)) if ragged else (lambda heads: (4, 2, heads, 64))
    q, k, v = (torch.randn(shape(heads), device="cuda").to(dtype) for heads in (8, 2, 2))
    pools = [torch.randn(64, 8, 2, 64, device="cuda").clamp(-2, 2).mul(20 if cache else 1).to(cache or dtype) for _ in range(4)]
    pools[2:] = [x.clone() for x in pools[:2]]
    scale = {} if cache is None else {"k_scale": torch.rand(2, device="cuda") / 20, "v_scale": torch.rand(2, device="cuda") / 20}
    rotary = {"rotary_cos": cos, "rotary_sin": sin}
    if mapped:
        rows = [(b, t) for b, n in enumerate(counts) for t in range(n)]
        places = [before[b] + t for b, t in rows]
        slots = [int(table[b, place // 8]) * 8 + place % 8 for (b, _), place in zip(rows, places)]
        rotary.update(positions=torch.tensor(places, device="cuda") + 1, slots=torch.tensor(slots, device="cuda"))
    where = {"layout": "bshd", "block_table": table, **scale}
    packed = {"cu_seqlens_q": offsets, "max_seqlen_q": max(counts)} if ragged else {}
    one = tilesmith.attention(q, *pools[:2], k_new=k, v_new=v, seqlens_k=after, causal=True, return_lse=True, **where, **rotary, **packed)
    plan = tilesmith.last_plan()
    assert [each.role for each in plan.steps][0] == "append"
    assert ("same launch" in plan.steps[0].what) == (cache is None), "few keys of the queries' type are written by the kernel that attends"
    turned = tilesmith.append_kv(k, v, *pools[2:], q=q, seqlens_k=torch.tensor(before, device="cuda", dtype=torch.int32),
                                 cu_seqlens=offsets if ragged else None, **where, **rotary)  # fmt: skip
    two = tilesmith.attention(turned, *pools[2:], seqlens_k=after, causal=True, return_lse=True, kernel=plan.kernel, **where, **packed)
    assert torch.equal(one[0], two[0]) and torch.equal(one[1], two[1])
    for left, right in zip(pools[:2], pools[2:]):
        assert torch.equal(left.view(torch.uint8), right.view(torch.uint8))
    # A sequence of no keys is padding.
    after[3], kept = 0, [x.clone() for x in pools[:2]]
    if mapped:
        rotary["slots"][-counts[3] :], rotary["positions"][-counts[3] :] = -1, -1
    o, lse = tilesmith.attention(q, *pools[:2], k_new=k, v_new=v, seqlens_k=after, causal=True, return_lse=True, **where, **rotary, **packed)
    last = slice(total - counts[3], total)
    assert not (o[last] if ragged else o[3]).any() and torch.isneginf(lse[:, last] if ragged else lse[3]).all()
    for left, right in zip(pools[:2], kept):
        assert torch.equal(left.view(torch.uint8), right.view(torch.uint8))


def test_one_call_that_appends_is_captured():
    """One graph serves the lengths that its tensors have when it is replayed."""
    q, k = make(2, 4, 1, 64), make(2, 2, 1, 64)
    caches = [make(2, 64, 2, 64) for _ in range(2)]
    lengths = torch.tensor([6, 41], device="cuda", dtype=torch.int32)
    cos, sin = torch.rand(64, 32, device="cuda"), torch.rand(64, 32, device="cuda")

    def step():
        return tilesmith.attention(q, *caches, k_new=k, v_new=k, seqlens_k=lengths, causal=True, rotary_cos=cos, rotary_sin=sin)

    step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = step()
    for _ in range(3):
        graph.replay()
        got = out.clone()
        assert torch.equal(got, step())
        lengths += 1


def test_a_step_of_decode_is_captured():
    """Append, then attend: one graph serves the lengths that its tensors have when it is replayed."""
    q, k = make(2, 4, 1, 64), make(2, 2, 1, 64)
    caches = [make(2, 64, 2, 64) for _ in range(2)]
    lengths = torch.tensor([6, 41], device="cuda", dtype=torch.int32)
    cos, sin = torch.rand(64, 32, device="cuda"), torch.rand(64, 32, device="cuda")

    def step():
        turned = tilesmith.append_kv(k, k, *caches, seqlens_k=lengths, lengths_after=True, q=q, rotary_cos=cos, rotary_sin=sin)
        return tilesmith.attention(turned, *caches, seqlens_k=lengths, causal=True)

    step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = step()
    for _ in range(3):
        lengths += 1
        graph.replay()
        torch.testing.assert_close(out, step(), rtol=0, atol=0)


def paged(lengths, page, heads_kv, dim, width=None):
    """A cache of bfloat16 with random pages for these lengths, and its table; what nobody owns is NaN or no page."""
    counts = [-(-length // page) for length in lengths]
    order = torch.randperm(sum(counts) + 2, device="cuda").to(torch.int32)
    table = torch.full((len(lengths), width or max(counts) + 1), 2**30, device="cuda", dtype=torch.int32)
    caches = [torch.full((sum(counts) + 2, page, heads_kv, dim), torch.nan, device="cuda", dtype=torch.bfloat16) for _ in range(2)]
    used = 0
    for b, (length, count) in enumerate(zip(lengths, counts)):
        table[b, :count] = order[used : used + count]
        used += count
        for cache in caches:
            rows = torch.full((count * page, heads_kv, dim), torch.nan, device="cuda", dtype=torch.bfloat16)
            rows[:length] = torch.randn(length, heads_kv, dim, device="cuda")
            cache[table[b, :count].long()] = rows.unflatten(0, (-1, page))
    return caches, table, torch.tensor(lengths, device="cuda", dtype=torch.int32)


@pytest.mark.parametrize("rows, packed", [(6, False), (40, False), (40, True)])
def test_trees(rows, packed):
    torch.manual_seed(3)
    lengths, heads_q = [70, 9, 1300, rows], 8
    (k, v), table, seqlens = paged(lengths, 16, 2, 64)
    mask = torch.rand(len(lengths), rows, rows, device="cuda") < 0.5
    q = torch.randn(len(lengths), heads_q, rows, 64, device="cuda", dtype=torch.bfloat16)
    given = {"block_table": table, "seqlens_k": seqlens, "return_lse": True}
    if packed:
        given |= {"cu_seqlens_q": torch.arange(len(lengths) + 1, device="cuda", dtype=torch.int32) * rows, "max_seqlen_q": rows}
        o, lse = tilesmith.attention(q.transpose(0, 1).flatten(1, 2), k, v, tree_mask=mask.flatten(0, 1), **given)
        o, lse = o.unflatten(1, (-1, rows)).transpose(0, 1), lse.unflatten(1, (-1, rows)).transpose(0, 1)
    else:
        o, lse = tilesmith.attention(q, k, v, tree_mask=mask, **given)
    for b, length in enumerate(lengths):
        pages = table[b, : -(-length // 16)].long()
        mine_k, mine_v = (x[pages].flatten(0, 1)[:length].double().repeat_interleave(4, 1) for x in (k, v))
        scores = torch.einsum("hqd,khd->hqk", q[b].double(), mine_k) / 8
        seen = torch.ones(rows, length, dtype=torch.bool, device="cuda")
        seen[:, max(0, length - rows) :] = mask[b][:, max(0, rows - length) :]
        scores = scores.masked_fill(~seen, -torch.inf)
        wanted = torch.einsum("hqk,khd->hqd", scores.softmax(-1).nan_to_num(), mine_v)
        torch.testing.assert_close(o[b].double(), wanted, rtol=0, atol=2e-2)
        torch.testing.assert_close(lse[b].double(), scores.logsumexp(-1), rtol=2e-5, atol=2e-5)


class Sequences:
    """Sequences of these lengths, whose keys can be laid into pages of any size, in any order; what nobody owns is NaN or 0."""

    def __init__(self, lengths, heads_kv, dim, cache, latent=False):
        self.lengths, self.cache, self.parts = lengths, cache, 1 if latent else 2
        self.own = [torch.randn(self.parts, length, heads_kv, dim, device="cuda").to(cache) for length in lengths]

    def attend(self, q, chosen, page, **options):
        """(output, log-sum-exp) of the chosen sequences beside one another; q has a row for each."""
        heads_kv, dim = self.own[0].shape[2:]
        counts = [-(-self.lengths[b] // page) for b in chosen]
        order = torch.randperm(sum(counts) + 3).tolist()
        pool = torch.full((self.parts, len(order), page, heads_kv, dim), torch.nan, device="cuda").to(self.cache)
        table = torch.full((len(chosen), max(1, *counts) + 1), 2**31 - 1, dtype=torch.int32)
        for at, b in enumerate(chosen):
            for first in range(0, self.lengths[b], page):
                table[at, first // page] = number = order.pop()
                rows = self.own[b][:, first : first + page]
                pool[:, number, : rows.shape[1]] = rows
        given = {"block_table": table.cuda(), "seqlens_k": torch.tensor([self.lengths[b] for b in chosen], device="cuda", dtype=torch.int32),
                 "causal": True, "batch_invariant": True, **options}  # fmt: skip
        if self.parts == 1:
            return tilesmith.mla_decode(q, pool[0, :, :, 0], layout="bhsd", scale=0.05, **given)
        return tilesmith.attention(q, *pool, return_lse=True, **given)


@pytest.mark.parametrize("heads_q, heads_kv, dim, cache, rows, options", [
    (8, 8, 128, torch.bfloat16, 1, {}), (32, 8, 128, torch.bfloat16, 1, {}), (16, 1, 64, torch.float16, 3, {}),
    (8, 2, 128, torch.bfloat16, 2, {"window": (1500, 0)}), (32, 8, 128, torch.float8_e4m3fn, 1, {}), (16, 1, 576, torch.bfloat16, 1, {}),
    (128, 1, 576, torch.bfloat16, 1, {}), (64, 1, 128, torch.bfloat16, 1, {}),
])  # fmt: skip
def test_a_batch_invariant_sequence_has_its_own_bits(heads_q, heads_kv, dim, cache, rows, options):
    """Alone, beside others in any order, in pages of any size, whatever bounds the lengths and whatever splits are named."""
    torch.manual_seed(11)
    sequences = Sequences([1, 0, 9001, 255, 2000, 257], heads_kv, dim, cache, latent=dim == 576)
    q = torch.randn(6, heads_q, rows, dim, device="cuda").to(torch.bfloat16 if cache == torch.float8_e4m3fn else cache)
    together = sequences.attend(q, range(6), 16, **options)
    assert not together[0].isnan().any() and together[0][2].abs().max() > 0

    def same(got, chosen):
        for mine, all_of in zip(got, together):
            assert torch.equal(mine, all_of[chosen])

    for b in range(6):
        same(sequences.attend(q[b : b + 1], [b], (64, 1, 48)[b % 3], **options), [b])
    for count in (33, 257):
        chosen = torch.randint(6, (count,)).tolist()
        same(sequences.attend(q[chosen], chosen, 64, num_splits=count % 5, **options), chosen)
    # Where nothing is promised the number of pieces follows from the batch: so the promise is one.
    alone = sequences.attend(q[2:3], [2], 16, **{**options, "batch_invariant": False, "num_splits": 3})
    assert not all(torch.equal(mine, all_of[2:3]) for mine, all_of in zip(alone, together))


@pytest.mark.parametrize("heads_q, heads_kv, dim, cache", [(8, 2, 128, torch.bfloat16), (8, 2, 128, torch.int8), (64, 1, 64, torch.bfloat16),
                                                           (16, 1, 576, torch.bfloat16), (128, 1, 576, torch.bfloat16)])  # fmt: skip
def test_numbers_of_no_page_are_not_followed(heads_q, heads_kv, dim, cache):
    """Their sequences' results are NaN, those beside them as before; a page far away would end the process."""
    torch.manual_seed(12)
    latent, pages, page = dim == 576, 40, 16
    pool = (torch.randn(2, pages, page, heads_kv, dim, device="cuda") * 9).to(cache)
    table = torch.arange(40, device="cuda", dtype=torch.int32).reshape(4, 10)
    lengths = torch.tensor([160, 150, 33, 90], device="cuda", dtype=torch.int32)
    q = torch.randn(4, heads_q, 2, dim, device="cuda").bfloat16()

    def attend():
        given = {"block_table": table, "seqlens_k": lengths, "causal": True}
        if latent:
            return tilesmith.mla_decode(q, pool[0, :, :, 0], layout="bhsd", **given)
        return tilesmith.attention(q, *pool, return_lse=True, **given)

    whole = attend()
    for number in (-1, pages, 2**31 - 1, -(2**31)):
        for at in ((1, 0), (1, 9), (3, 5)):
            before = int(table[at])
            table[at] = number
            lost = attend()
            table[at] = before
            for mine, all_of in zip(lost, whole):
                assert mine[at[0]].isnan().all()
                others = [b for b in range(4) if b != at[0]]
                assert torch.equal(mine[others], all_of[others])
    table[2, 3:] = -1  # behind the last page
    table[0, :4] = 2**30  # before the window, of either query
    beside = attend()
    assert all(torch.equal(mine[2], all_of[2]) for mine, all_of in zip(beside, whole))
    if not latent:
        windowed = tilesmith.attention(q, *pool, block_table=table, seqlens_k=lengths, causal=True, window=(90, 0))
        assert not windowed[[0, 2]].isnan().any()


@pytest.mark.parametrize("heads_q, dim, page", [(64, 64, 16), (64, 128, 1), (64, 256, 3), (128, 576, 1)])
def test_numbers_of_no_page_beside_other_pieces_of_a_block(heads_q, dim, page):
    """A block takes many pieces one after another: results are NaN of the sequences alone that have such a number."""
    torch.manual_seed(14)
    lengths = torch.randint(1, 700, (450,)).tolist()
    (k, v), table, seqlens = paged(lengths, page, 1, dim)
    q = torch.randn(len(lengths), heads_q, 1, dim, device="cuda").bfloat16()

    def attend():
        given = {"block_table": table, "seqlens_k": seqlens}
        if dim == 576:
            return tilesmith.mla_decode(q, k[:, :, 0], layout="bhsd", **given)
        return tilesmith.attention(q, k, v, return_lse=True, **given)

    whole = attend()
    assert "_decode_wgmma_" in tilesmith.last_plan().kernel
    lost = torch.arange(len(lengths), device="cuda") % 7 // 2 == 1
    for b in lost.nonzero().flatten().tolist():
        table[b, torch.randint(-(-lengths[b] // page), (1,))] = (-1, 2**31 - 1)[b % 2]
    for _ in range(3):
        for mine, all_of in zip(attend(), whole):
            assert mine[lost].isnan().all()
            assert torch.equal(mine[~lost], all_of[~lost])


@pytest.mark.parametrize("heads_q, heads_kv, dim, cache, options", [
    (8, 2, 128, torch.bfloat16, {}), (4, 4, 64, torch.float16, {"softcap": 20.0}), (8, 1, 256, torch.bfloat16, {}),
    (8, 2, 128, torch.bfloat16, {"window": (300, 0)}), (6, 2, 72, torch.bfloat16, {"mask": "top_left"}),
])  # fmt: skip
def test_prefill_on_pages(heads_q, heads_kv, dim, cache, options):
    """Many queries beside few and none, on pages of any size: one set of bits, which are those of float64 with roundings."""
    torch.manual_seed(13)
    sequences = Sequences([900, 70, 0, 1301, 333, 1], heads_kv, dim, cache)
    counts = [300, 70, 5, 1, 500, 200]
    starts = torch.tensor([0, *counts], device="cuda").cumsum(0).to(torch.int32)
    q = torch.randn(sum(counts), heads_q, dim, device="cuda").to(cache)
    options = {"layout": "bshd", "cu_seqlens_q": starts, "max_seqlen_q": max(counts), "max_seqlen_k": 1301, "batch_invariant": False, **options}
    if "mask" in options:
        options["causal"] = False
    o, lse = sequences.attend(q, range(6), 16, **options)
    assert "_warpspec_" in tilesmith.last_plan().kernel
    for page in (1, 3, 8, 48, 64, 256, 1000):
        for mine, first in zip(sequences.attend(q, range(6), page, **options), (o, lse)):
            assert torch.equal(mine, first), page
    window, cap = options.get("window", (1 << 30, 0))[0], options.get("softcap", 0.0)
    for b, (begin, end) in enumerate(zip(starts.tolist(), starts[1:].tolist())):
        k, v = (x.double().repeat_interleave(heads_q // heads_kv, 1) for x in sequences.own[b])
        scores = torch.einsum("qhd,khd->hqk", q[begin:end].double(), k) * dim**-0.5
        if cap:
            scores = cap * torch.tanh(scores / cap)
        diagonal = torch.arange(counts[b], device="cuda")[:, None] + (0 if "mask" in options else len(k) - counts[b])
        key = torch.arange(len(k), device="cuda")
        scores = scores.masked_fill((key > diagonal) | (key < diagonal - window), -torch.inf)
        wanted = torch.einsum("hqk,khd->qhd", scores.softmax(-1).nan_to_num(), v)
        torch.testing.assert_close(o[begin:end].double(), wanted, rtol=0, atol=2e-2)
        torch.testing.assert_close(lse[:, begin:end].double(), scores.logsumexp(-1), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("rows", [1, 200])
def test_an_empty_list_of_pages(rows):
    """An empty tensor of torch lies at null; the lengths, all 0, are the device's."""
    pages, none = torch.randn(2, 3, 16, 2, 64, device="cuda", dtype=torch.bfloat16), torch.zeros(4, device="cuda", dtype=torch.int32)
    q = torch.randn(3, 8, rows, 64, device="cuda", dtype=torch.bfloat16)
    for cache in (pages, pages[:, :0]):
        o, lse = tilesmith.attention(q, *cache, page_indices=none[:0], page_indptr=none, seqlens_k=none[:3], max_seqlen_k=40, return_lse=True)
        assert o.count_nonzero() == 0 and bool((lse == -torch.inf).all())


def test_one_graph_serves_all_lengths():
    """Lengths and tables are read on the device when the graph is replayed: short ones, none, long ones, mixed."""
    torch.manual_seed(5)
    batch, rows, width, page = 4, 2, 40, 16
    (k, v), full, _ = paged([width * page] * batch, page, 2, 64, width)
    q = torch.randn(batch, 8, rows, 64, device="cuda", dtype=torch.bfloat16)
    table, seqlens = full.clone(), torch.ones(batch, device="cuda", dtype=torch.int32)

    def step():
        return tilesmith.attention(q, k, v, block_table=table, seqlens_k=seqlens, return_lse=True)

    step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o, lse = step()
    for lengths in ([1, 1, 1, 1], [0, 0, 0, 0], [width * page] * 4, [3, 0, width * page, 100]):
        seqlens.copy_(torch.tensor(lengths))
        table.copy_(full[torch.randperm(batch, device="cuda")])
        graph.replay()
        for got, wanted in zip((o, lse), step()):
            assert torch.equal(got, wanted), lengths


def test_a_cascade():
    torch.manual_seed(6)
    lengths, prompt = [40, 5, 200], 640
    (k, v), table, own = paged([prompt, *lengths], 16, 2, 128)
    counts = [1, 3, 2]
    offsets = torch.tensor([0, 1, 4, 6], device="cuda", dtype=torch.int32)
    q = torch.randn(6, 8, 128, device="cuda", dtype=torch.bfloat16)
    levels = [{"cu_seqlens_q": offsets[[0, -1]], "max_seqlen_q": 6, "block_table": table[:1], "seqlens_k": own[:1]},
              {"cu_seqlens_q": offsets, "max_seqlen_q": max(counts), "block_table": table[1:], "seqlens_k": own[1:]}]  # fmt: skip
    o, lse = tilesmith.cascade_attention(q, k, v, levels=levels, layout="bshd")
    whole = torch.cat([table[:1, : prompt // 16].expand(3, -1), table[1:]], 1)
    wanted, wanted_lse = tilesmith.attention(q, k, v, block_table=whole, seqlens_k=own[1:] + prompt, cu_seqlens_q=offsets, max_seqlen_q=3,
                                             layout="bshd", causal=True, return_lse=True)  # fmt: skip
    torch.testing.assert_close(o, wanted, rtol=0, atol=1e-2)
    torch.testing.assert_close(lse, wanted_lse, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("latent", [False, True])
@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.int8])
def test_page_scales_of_any_size(dtype, latent):
    """Weights are the same for all keys, so that results are means, whatever the type that products are computed in holds."""
    torch.manual_seed(13)
    pages, page, heads_kv, dim = 12, 16, 1 if latent else 2, 576 if latent else 128
    length, wide = pages * page - 3, 512 if latent else 128
    q = torch.zeros(1, 16, 1, dim, device="cuda", dtype=torch.float16)
    keys = {"block_table": torch.arange(pages, device="cuda", dtype=torch.int32)[None], "seqlens_k": torch.tensor([length], device="cuda", dtype=torch.int32)}
    grows = 100 / 8.0 ** torch.arange(pages - 1, -1, -1, device="cuda")
    same = torch.ones(pages, device="cuda")
    for scale, largest in ((grows, 100), (grows.flip(0), 100), (same * 1e-7, 100), (same * 2e5, 1)):
        stored = (torch.rand(pages, page, heads_kv, dim, device="cuda") * 2 * largest - largest).round().to(dtype)
        scales = scale[:, None, None].expand(pages, page, heads_kv).contiguous()
        if latent:
            got = tilesmith.mla_decode(q, stored[:, :, 0], layout="bhsd", k_scale=scales, **keys)[0]
        else:
            got = tilesmith.attention(q, stored, stored, k_scale=scales, v_scale=scales, **keys)
        meant = (stored.double() * scale[:, None, None, None]).flatten(0, 1)[:length, :, :wide].mean(0)
        expected = meant.repeat_interleave(16 // heads_kv, 0)[None, :, None]
        torch.testing.assert_close(got.double(), expected, rtol=0, atol=2e-3 * expected.abs().max().item() + 6e-8)
