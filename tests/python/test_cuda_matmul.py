"""matmul and linear on a CUDA device: results, streams, graphs. Skipped where there is none."""

import pytest
import reference
import test_torch_matmul

import tilesmith

torch = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.skipif("cuda" in tilesmith.missing(), reason=tilesmith.missing().get("cuda", "")),
]
EPSILON = {torch.float32: 2.0**-20, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
FLOAT8 = 5e-2
TANH = 2e-3  # twice what the hardware's tanh, 2^-11 off, may change of sums up to 4, for results of 16 bits


def make(*shape, dtype=torch.bfloat16):
    return torch.empty(shape, device="cuda").uniform_(-1, 1).to(dtype)


def check(got, a, b, tolerance=1e-4, **options):
    """Against float64. Products of 16-bit floats are exact in float32; sums of up to 1000 of them are off by less than
    1e-4."""
    moved = {name: x.double().cpu().numpy() if isinstance(x, torch.Tensor) else x for name, x in options.items()}
    expected = torch.from_numpy(reference.matmul(a.double().cpu().numpy(), b.double().cpu().numpy(), **moved))
    assert got.device == a.device and got.shape == expected.shape
    torch.testing.assert_close(got.double().cpu(), expected, rtol=EPSILON[got.dtype], atol=tolerance)
    assert tilesmith.last_plan().device == "cuda:0" and tilesmith.last_plan().operation == "gemm"


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 256, 512), (7, 13, 17), (37, 129, 250), (256, 320, 512)])
def test_shapes(dtype, shape):
    m, n, k = shape
    a, b = make(m, k, dtype=dtype), make(k, n, dtype=dtype)
    check(tilesmith.matmul(a, b), a, b)
    w = b.t().contiguous()
    check(tilesmith.linear(a, w), a, b)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (7, 13, 17, 5), (16, 256, 512, 128), (37, 129, 250, 0), (256, 320, 512, 200)])
def test_two_products(dtype, shape):
    m, n, k, k2 = shape
    for left in (False, True):
        a, c = (make(x, m, dtype=dtype).t() if left else make(m, x, dtype=dtype) for x in (k, k2))
        for b, d in ((make(k, n, dtype=dtype), make(k2, n, dtype=dtype)), (make(n, k, dtype=dtype).t(), make(n, k2, dtype=dtype).t())):
            got, amax = tilesmith.mm_plus_mm(a, b, c, d, amax=True)
            expected = a.double() @ b.double() + c.double() @ d.double()
            torch.testing.assert_close(got.double(), expected, rtol=EPSILON[dtype], atol=2e-4)
            torch.testing.assert_close(amax.double(), expected.abs().max(), rtol=1e-4, atol=1e-4)


def test_two_products_in_a_graph():
    a, b, c, d = make(256, 512), make(512, 320), make(256, 384), make(384, 320)
    out, most = make(256, 320), torch.zeros(1, device="cuda")
    tilesmith.mm_plus_mm(a, b, c, d, out=out, amax=most)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tilesmith.mm_plus_mm(a, b, c, d, out=out, amax=most)
    out.zero_()
    most.zero_()
    graph.replay()
    expected = a.double() @ b.double() + c.double() @ d.double()
    torch.testing.assert_close(out.double(), expected, rtol=EPSILON[torch.bfloat16], atol=2e-4)
    torch.testing.assert_close(most.double().squeeze(), expected.abs().max(), rtol=1e-4, atol=1e-4)


def test_batches_along_different_dimensions():
    a, b = make(2, 1, 64, 128), make(3, 128, 96)
    torch.testing.assert_close(tilesmith.matmul(a, b).double(), a.double() @ b.double(), rtol=EPSILON[torch.bfloat16], atol=2e-4)


def test_nothing_to_sum():
    assert tilesmith.matmul(make(0, 8), make(8, 8)).shape == (0, 8)
    assert (tilesmith.matmul(make(8, 0), make(0, 16)) == 0).all()


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("right", [False, True])
def test_layouts(left, right):
    a = make(96, 128).t().contiguous().t() if left else make(96, 128)
    b = make(128, 160).t().contiguous().t() if right else make(128, 160)
    check(tilesmith.matmul(a, b), a, b)
    a, b = make(96, 131)[:, 3:], make(128, 163)[:, 3:]  # rows that are not aligned
    check(tilesmith.matmul(a, b), a, b)


def test_batches():
    a, b = make(3, 40, 64), make(3, 64, 72)
    check(tilesmith.matmul(a, b), a, b)
    check(tilesmith.matmul(a, b[0]), a, b[0])
    check(tilesmith.matmul(a[:1].expand(3, -1, -1), b), a[:1], b)


@pytest.mark.parametrize("activation", reference.ACTIVATIONS)
def test_activations(activation):
    x, w, bias = make(2, 50, 128), make(96, 128) / 4, make(96)
    check(tilesmith.linear(x, w, bias, activation), x, w.t(), bias=bias, activation=activation, tolerance=TANH)


@pytest.mark.parametrize("gate", ["glu", "reglu", "geglu", "geglu_tanh", "swiglu"])
def test_gates(gate):
    x, w, bias = make(70, 128), make(192, 128) / 4, make(192)
    check(tilesmith.linear(x, w, bias, gate=gate), x, w.t(), bias=bias, gate=gate, tolerance=4 * TANH)
    for options in (dict(residual=make(70, 96)), dict(multiply=make(70, 96), clamp=(-1.0, 2.0))):
        result = tilesmith.matmul(x, w.t(), bias=bias, gate=gate, **options)
        check(result, x, w.t(), bias=bias, gate=gate, **options, tolerance=4 * TANH)


def test_epilogues():
    a, b = make(70, 128), make(128, 96)
    for options in (dict(alpha=0.5, beta=2, c=make(70, 96)), dict(residual=make(70, 96), bias=make(96), activation="silu"),
                    dict(multiply=make(70, 96)), dict(clamp=(-1.0, 2.0)), dict(bias=make(70, 1))):  # fmt: skip
        check(tilesmith.matmul(a, b, **options), a, b, **options)


def test_odd_columns_are_copied_whole():
    for m, n, k in ((1, 95, 512), (70, 97, 128), (333, 4001, 256), (129, 1002, 1024)):
        a, w, bias, residual = make(m, k), make(n, k) / 4, make(n), make(m, n)
        for options in ({}, dict(bias=bias, activation="relu"), dict(bias=bias, residual=residual), dict(c=residual, beta=2)):
            check(tilesmith.matmul(a, w.t(), **options), a, w.t(), **options)
        check(tilesmith.matmul(w, a.t()), w, a.t())
        out = torch.empty(n, m, dtype=torch.bfloat16, device="cuda").t()
        check(tilesmith.matmul(a, w.t(), out=out), a, w.t())
        batch = make(2, m, k)
        check(tilesmith.matmul(batch, w.t()), batch, w.t())
        beyond = torch.empty(m * n + 1, dtype=torch.bfloat16, device="cuda")[1:].view(m, n)  # n of 1002: half a pair behind
        check(tilesmith.matmul(a, w.t(), out=beyond), a, w.t())
    if torch.cuda.get_device_capability() == (9, 0):
        tilesmith.matmul(make(333, 256), make(4001, 256).t())
        assert "warpspec" in tilesmith.last_plan().kernel


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_rows_that_begin_anywhere(dtype):
    options = dict(tf32=True) if dtype == torch.float32 else {}
    tolerance = 2e-2 if dtype == torch.float32 else 1e-3
    for m, n, k in ((300, 520, 1003), (513, 129, 777), (2000, 77, 331), (7, 1001, 2051)):
        for turned_a, turned_b in ((False, True), (False, False), (True, False), (True, True)):
            a = make(k, m, dtype=dtype).t() if turned_a else make(m, k, dtype=dtype)
            b = make(n, k, dtype=dtype).t() if turned_b else make(k, n, dtype=dtype)
            check(tilesmith.matmul(a, b, **options), a, b, tolerance=tolerance)
    a, b, bias = make(3, 130, 1001, dtype=dtype), make(1001, 260, dtype=dtype), make(260, dtype=dtype)
    check(tilesmith.matmul(a, b, bias=bias, activation="relu", **options), a, b, bias=bias, activation="relu", tolerance=tolerance)
    out = make(3, 130, 260, dtype=dtype)
    before = out.clone()
    check(tilesmith.matmul(a, b, c=out, beta=0.5, out=out, **options), a, b, c=before, beta=0.5, tolerance=tolerance)
    shifted = make(700 * 512 + 1, dtype=dtype)[1:].view(700, 512)  # whole rows, from an odd element on
    w = make(640, 512, dtype=dtype)
    check(tilesmith.matmul(shifted, w.t(), **options), shifted, w.t(), tolerance=tolerance)
    graph = torch.cuda.CUDAGraph()
    x, y = make(600, 1003, dtype=dtype), make(1003, 700, dtype=dtype)
    tilesmith.matmul(x, y, **options)
    with torch.cuda.graph(graph):
        first = tilesmith.matmul(x, y, **options)
        second = tilesmith.matmul(x * 2, y, **options)
    x.copy_(x.flip(0))
    graph.replay()
    check(first, x, y, tolerance=tolerance)
    check(second, x * 2, y, tolerance=2 * tolerance)


def test_scales():
    a, b = make(70, 128), make(128, 96)
    rows, columns = torch.rand(70, device="cuda") + 0.5, torch.rand(96, device="cuda") + 0.5
    check(tilesmith.matmul(a, b, scale_a=rows, scale_b=columns), a, b, scale_a=rows, scale_b=columns)
    one = torch.full((1,), 3.0, device="cuda")
    check(tilesmith.matmul(a, b, scale_a=one), a, b, alpha=3)
    check(tilesmith.matmul(a, b, scale_a=one, scale_b=one), a, b, alpha=9)
    check(tilesmith.matmul(a, b, scale_a=rows, scale_b=one), a, b, alpha=3, scale_a=rows)
    check(tilesmith.matmul(a, b, scale_a=one, scale_b=columns), a, b, alpha=3, scale_b=columns)
    half = torch.full((), 0.5, device="cuda")
    for m, n, k in ((1, 96, 512), (16, 2048, 1024), (130, 256, 1024), (70, 95, 129)):
        x, y = make(m, k), make(k, n)
        check(tilesmith.matmul(x, y, scale_a=one, scale_b=half, alpha=2), x, y, alpha=3)
    c = make(70, 96)
    check(tilesmith.matmul(a, b, scale_a=one, scale_b=half, c=c, beta=2), a, b, alpha=1.5, c=c, beta=2)
    for scales, first, second in ((dict(scale_a=[one, None]), 3, {}),
                                  (dict(scale_a=[one, rows], scale_b=[half, half]), 1.5, dict(alpha=0.5, scale_a=rows)),
                                  (dict(scale_b=[one, columns], scale_a=[half, half]), 1.5, dict(alpha=0.5, scale_b=columns))):  # fmt: skip
        results = tilesmith.grouped_matmul([a[:7], a], [b, b], **scales)
        check(results[0], a[:7], b, alpha=first)
        check(results[1], a, b, **second)
    with pytest.raises(ValueError, match="a is on cuda:0, scale_a on cpu"):
        tilesmith.matmul(a, b, scale_a=torch.ones(1))


def test_float8():
    if torch.cuda.get_device_capability() < (8, 9):
        pytest.skip("no float8 instructions")
    x, w = make(70, 256), make(96, 256)
    x8, w8 = x.to(torch.float8_e4m3fn), w.to(torch.float8_e4m3fn)
    rows, columns = torch.rand(70, 1, device="cuda") + 0.5, torch.rand(96, device="cuda") + 0.5
    got = tilesmith.linear(x8, w8, scale_x=rows, scale_w=columns)
    assert got.dtype == torch.bfloat16
    # Hopper's float8 instructions keep 14 bits of a partial sum: 2e-3 of sums up to 16, eight times.
    check(got, x8, w8.t(), scale_a=rows[:, 0], scale_b=columns, tolerance=FLOAT8)
    mixed = tilesmith.linear(x8, w.to(torch.float8_e5m2), out_dtype=torch.float32)
    check(mixed, x8, w.to(torch.float8_e5m2).t(), tolerance=FLOAT8)


def test_integers():
    a, b = (torch.randint(-128, 128, shape, dtype=torch.int8, device="cuda") for shape in ((70, 256), (96, 256)))
    exact = a.cpu().long() @ b.cpu().long().t()
    torch.testing.assert_close(tilesmith.linear(a, b).cpu().long(), exact, rtol=0, atol=0)
    got = tilesmith.linear(a, b, scale_x=1e-3, out_dtype=torch.bfloat16)
    torch.testing.assert_close(got.double().cpu(), exact.double() * 1e-3, rtol=2**-8, atol=1e-5)


def test_tf32():
    a, b = make(70, 128, dtype=torch.float32), make(128, 96, dtype=torch.float32)
    check(tilesmith.matmul(a, b, tf32=True), a, b, tolerance=2e-2)


def test_a_prefetch_weightseight_is_read_early():
    """Each product reads the one before as a, while the weights' copies begin before that has ended."""
    w = [make(512, 512) for _ in range(8)]
    x = make(8, 512)
    plain, early = x, x
    for _ in range(4):
        for each in w:
            plain = tilesmith.linear(plain, each, clamp=(-1, 1))
            early = tilesmith.linear(early, each, clamp=(-1, 1), prefetch_weights=True)
    assert "prefetch" in tilesmith.last_plan().kernel
    torch.testing.assert_close(early, plain, rtol=0, atol=0)


def test_the_current_stream():
    """The result depends on work queued before it on the same stream, and later work on the result."""
    a, b = make(512, 512), make(512, 512)
    expected = tilesmith.matmul(a, b)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        late = torch.zeros_like(a)
        torch.cuda._sleep(20_000_000)
        late.copy_(a)
        product = tilesmith.matmul(late, b) * 1
    stream.synchronize()
    torch.testing.assert_close(product, expected, rtol=0, atol=0)


def test_a_scale_that_the_kernel_before_writes():
    a, b = make(256, 4096), make(4096, 256) / 16
    for _ in range(20):
        product, most = tilesmith.matmul(a, b, amax=True)
        scaled = tilesmith.matmul(product, product, scale_a=most)
        torch.testing.assert_close(scaled, tilesmith.matmul(product, product, alpha=most.item()), rtol=0, atol=0)
        a = a.flip(0) * 0.9


def test_a_graph():
    a, b, scale = make(64, 512), make(512, 256), torch.full((1,), 2.0, device="cuda")
    tilesmith.matmul(a, b, scale_a=scale)  # plans
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        product = tilesmith.matmul(a, b, scale_a=scale)
    a.copy_(torch.flip(a, [0]))
    scale.fill_(3)
    graph.replay()
    torch.testing.assert_close(product, tilesmith.matmul(a, b, scale_a=scale), rtol=0, atol=0)


def test_compile():
    x, w, bias = make(3, 70, 128), make(96, 128), make(96)
    compiled = torch.compile(lambda x, w, bias: tilesmith.linear(x, w, bias, "gelu") * 2, fullgraph=True)
    torch.testing.assert_close(compiled(x, w, bias), tilesmith.linear(x, w, bias, "gelu") * 2, rtol=0, atol=0)
    arguments = test_torch_matmul.operator_arguments(x, w, form="linear", bias=bias)
    torch.library.opcheck(torch.ops.tilesmith.gemm, arguments)


def test_devices_mixed_up():
    a, b = make(8, 16), make(16, 8)
    with pytest.raises(ValueError, match="a is on cuda:0, b on cpu"):
        tilesmith.matmul(a, b.cpu())
    with pytest.raises(ValueError, match="a is on cuda:0, residual on cpu"):
        tilesmith.matmul(a, b, residual=torch.zeros(8, 8, dtype=torch.bfloat16))


def served(function, *tensors, **options):
    """Skips where the library has no such kernels."""
    try:
        return function(*tensors, **options)
    except tilesmith.Unsupported as error:
        pytest.skip(error.message)


@pytest.mark.parametrize("ends", [[30, 30, 100, 200], [0, 0, 0, 0], [1, 2, 3, 170]])
@pytest.mark.parametrize("options", [{}, dict(activation="silu"), dict(gate="swiglu")])
def test_groups(ends, options):
    a, w = make(200, 128), make(4, 96, 128) / 4
    out = torch.full((200, 48 if "gate" in options else 96), 7, dtype=a.dtype, device="cuda")
    rows = torch.tensor(ends, dtype=torch.int32, device="cuda")
    served(tilesmith.grouped_matmul, a, w.mT, group_ends=rows, out=out, **options)
    begin = 0
    for group, end in enumerate(ends):
        if end > begin:
            check(out[begin:end], a[begin:end], w[group].t(), tolerance=4 * TANH, **options)
        begin = end
    assert (out[begin:] == 7).all()  # of no group


def test_masked_groups():
    a, w, rows = make(4, 50, 128), make(4, 96, 128), [50, 0, 7, 33]
    out = torch.full((4, 50, 96), 7, dtype=a.dtype, device="cuda")
    served(tilesmith.grouped_matmul, a, w.mT, group_rows=torch.tensor(rows, dtype=torch.int32, device="cuda"), out=out)
    for group, count in enumerate(rows):
        if count:
            check(out[group, :count], a[group, :count], w[group].t())
        assert (out[group, count:] == 7).all()


def whole(*shape):
    """Whole numbers, whose products and sums are exact."""
    return torch.randint(-2, 3, shape, device="cuda").to(torch.bfloat16)


@pytest.mark.parametrize("masked", [False, True])
def test_many_groups_of_few_rows(masked):
    counts = [{0: 1, 5: 16, 6: 17, 70: 3, 150: 20, 151: 2, 198: 1}.get(group, 0) for group in range(200)]
    ends = [sum(counts[: group + 1]) for group in range(200)]
    a, w = whole(200, 20, 72) if masked else whole(sum(counts), 72), whole(200, 40, 72)
    out = torch.full((*a.shape[:-1], 40), 7, dtype=a.dtype, device="cuda")
    expected = out.clone()
    for group, (count, end) in enumerate(zip(counts, ends)):
        rows = (group, slice(0, count)) if masked else slice(end - count, end)
        expected[rows] = (a[rows].double() @ w[group].double().t()).to(a.dtype)
    groups = torch.tensor(counts if masked else ends, dtype=torch.int32, device="cuda")
    served(tilesmith.grouped_matmul, a, w.mT, out=out, **{"group_rows" if masked else "group_ends": groups})
    assert torch.equal(out, expected)


@pytest.mark.parametrize("ends", [[3, 900, 5000], [-4, 3, 1 << 30], [40, 41, 42]])
def test_ends_beyond_the_rows_are_limited(ends):
    a, w = whole(40, 64), whole(3, 48, 64)
    around = torch.full((60, 48), 7, dtype=a.dtype, device="cuda")
    expected = around.clone()
    begin = 0
    for group, end in enumerate(ends):
        end = max(0, min(end, 40))
        expected[10 + begin : 10 + end] = (a[begin:end].double() @ w[group].double().t()).to(a.dtype)
        begin = end
    served(tilesmith.grouped_matmul, a, w.mT, group_ends=torch.tensor(ends, dtype=torch.int32, device="cuda"), out=around[10:50])
    assert torch.equal(around, expected)


def test_groups_like_torch():
    if not hasattr(torch, "_grouped_mm") or torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("torch._grouped_mm is Hopper's")
    a, w = make(256, 128), make(4, 96, 128)
    ends = torch.tensor([64, 64, 192, 256], dtype=torch.int32, device="cuda")
    expected = torch._grouped_mm(a, w.mT, offs=ends)
    torch.testing.assert_close(served(tilesmith.grouped_matmul, a, w.mT, group_ends=ends), expected, rtol=2**-7, atol=1e-3)


def quantised(x, rows):
    """x as e4m3 values, scales of blocks of `rows` rows by 128 columns, and what the two mean in float64."""
    lines, k = x.shape[-2:]
    padded = torch.nn.functional.pad(x.float(), (0, -k % 128, 0, -lines % rows))
    blocks = padded.unflatten(-1, (-1, 128)).unflatten(-3, (-1, rows))  # (..., lines / rows, rows, k / 128, 128)
    scale = (blocks.abs().amax((-1, -3)) / 448).clamp(min=1e-6)
    full = scale.repeat_interleave(rows, -2)[..., :lines, :].repeat_interleave(128, -1)[..., :k]
    values = (x.float() / full).to(torch.float8_e4m3fn)
    return values, scale, values.double() * full.double()


def check_blocks(got, expected):
    error = (got.double() - expected).norm() / expected.norm()
    assert error < 4e-3, error  # the output's rounding to bfloat16, and sums of 14 bits


@pytest.mark.parametrize("shape", [(70, 256, 512), (3, 130, 384), (256, 384, 1000)])
def test_float8_by_blocks(shape):
    m, n, k = shape
    size = 2 ** (torch.rand(m, 1, device="cuda") * 6 - 3)
    x, scale_x, mean_x = quantised(make(m, k) * size, 1)
    w, scale_w, mean_w = quantised(make(n, k), 128)
    got = served(tilesmith.linear, x, w, scale_x=scale_x, scale_w=scale_w)
    assert got.dtype == torch.bfloat16
    check_blocks(got, mean_x @ mean_w.t())
    strided = scale_x.t().contiguous().t()
    torch.testing.assert_close(tilesmith.linear(x, w, scale_x=strided, scale_w=scale_w), got, rtol=0, atol=0)


def test_float8_groups_by_blocks():
    x, scale_x, mean_x = quantised(make(200, 256), 1)
    w, scale_w, mean_w = quantised(make(3, 256, 256), 128)
    ends = [60, 60, 200]
    got = served(tilesmith.grouped_matmul, x, w.mT, group_ends=torch.tensor(ends, dtype=torch.int32, device="cuda"),
                 scale_a=scale_x, scale_b=scale_w.mT)  # fmt: skip
    for begin, end, group in ((0, 60, 0), (60, 200, 2)):
        check_blocks(got[begin:end], mean_x[begin:end] @ mean_w[group].t())
