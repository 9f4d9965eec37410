"""torch.compile(dynamic=True): one graph serves calls of other shapes, and options that it takes for symbols."""

import pytest

import tilesmith

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch._dynamo.testing import CompileCounterWithBackend

pytestmark = pytest.mark.compiles


def r(*shape):
    return torch.randn(shape)


def i32(*numbers):
    return torch.tensor(numbers, dtype=torch.int32)


#: Sizes of one call: none equals another one or a filter's, for torch gives equal ones one symbol and would trace again.
SIZES = [(4, 7, 10, 22), (5, 9, 11, 34), (6, 13, 12, 46)]


def matrices(sizes):
    return [(r(z, m, k), r(z, k, n)) for z, m, k, n in sizes]


def layers(sizes):
    return [(r(z, m, k), r(n, k), r(n)) for z, m, k, n in sizes]


def images(sizes):
    return [(r(z, m, n, n + 1), r(k, m, 3, 2)) for z, m, k, n in sizes]


def caches(sizes):
    """Queries, keys, lengths and tables of pages of 16 rows."""
    drawn = [(r(z, 8, 1, 32), r(n, 16, 2, 32), r(n, 16, 2, 32), torch.randint(1, 49, (z,)).int(), torch.randperm(n)[: z * 3].int()) for z, _, _, n in sizes]
    return [(q, k, v, lengths, numbers.view(len(lengths), 3)) for q, k, v, lengths, numbers in drawn]


def rows(sizes):
    return [(r(z, 2, m, 32), r(z, 2, n, 32), r(z, 2, n, 32), torch.randint(0, n - m, (z,)).int()) for z, m, _, n in sizes]


def appended(new, k_cache, v_cache, lengths):
    caches = k_cache.clone(), v_cache.clone()
    tilesmith.append_kv(new, new + 1, *caches, kv_layout="hnd", seqlens_k=lengths)
    return caches


def by_page_indices(q, k, v, lengths, table):
    ends = torch.arange(len(lengths) + 1, dtype=torch.int32) * table.shape[1]
    return tilesmith.attention(q * 2, k, v, seqlens_k=lengths, page_indices=table.flatten(), page_indptr=ends, max_seqlen_k=48)


CALLS = {
    "matmul": (lambda a, b: tilesmith.matmul(a * 2, b), matrices(SIZES)),
    "matmul of a transposed view": (lambda a, b: tilesmith.matmul(b.mT, a.mT, residual=(a @ b).mT.contiguous()), matrices(SIZES)),
    "linear": (lambda x, w, bias: tilesmith.linear(x * 2, w, bias, "gelu"), layers(SIZES)),
    "a gate and amax": (lambda x, w, bias: tilesmith.linear(x, w, bias, gate="swiglu", amax=True), layers(SIZES)),
    "mm_plus_mm": (lambda a, b: tilesmith.mm_plus_mm(a, b, a + 1, b + 1), matrices(SIZES)),
    "a list": (lambda a, b: tilesmith.grouped_matmul([a[0], a[1]], [b[0], b[1]]), matrices(SIZES)),
    "conv2d": (lambda x, w: tilesmith.conv2d(x * 2, w, padding=1, stride=2, activation="relu"), images(SIZES)),
    "conv2d, channels last": (lambda x, w: tilesmith.conv2d(x.to(memory_format=torch.channels_last), w, padding="same"), images(SIZES)),
    "conv_transpose2d": (lambda x, w: tilesmith.conv_transpose2d(tilesmith.conv2d(x, w), w, stride=2, output_padding=1), images(SIZES)),
    "convolution's gradients": (lambda x, w: (tilesmith.conv_backward_data(tilesmith.conv2d(x, w), w, x.shape),
                                              tilesmith.conv_backward_weight(tilesmith.conv2d(x, w), x, w.shape)), images(SIZES)),
    "decode": (lambda q, k, v, lengths, table: tilesmith.attention(q * 2, k, v, seqlens_k=lengths, block_table=table, return_lse=True), caches(SIZES)),
    "decode by page indices": (by_page_indices, caches(SIZES)),
    "append_kv": (appended, rows(SIZES)),
    "merge_states": (lambda a, b, c, n: tilesmith.merge_states([a, a * 2], [a[..., 0].contiguous(), a[..., 1].contiguous()]), rows(SIZES)),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_one_graph_of_all_shapes(name):
    function, calls = CALLS[name]
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(function, fullgraph=True, dynamic=True, backend=counter)
    graphs = []
    for arguments in calls:
        torch.testing.assert_close(compiled(*arguments), function(*arguments), rtol=0, atol=0)
        graphs.append(counter.frame_count)
    # Of the first call torch may make one twice: it begins anew where a number of the call is no tensor (TensorifyScalarRestartAnalysis).
    assert graphs[0] <= 2 and graphs == graphs[:1] * 3


Q, K, X, W = r(2, 4, 9, 32), r(2, 2, 30, 32), r(2, 4, 19, 18), r(6, 4, 3, 3)
OPTIONS = {
    "window": (lambda n: tilesmith.attention(Q, K, K, window=(n, 0)), (5, 9)),
    "diagonal": (lambda n: tilesmith.attention(Q, K, K, causal=True, diagonal=n), (-1, 3)),
    "scale and softcap": (lambda n: tilesmith.attention(Q, K, K, scale=n, softcap=n), (0.5, 2.25)),
    "alpha": (lambda n: tilesmith.matmul(K, K.mT, alpha=n), (0.5, 2.25)),
    "scale_x and clamp": (lambda n: tilesmith.linear(Q, Q[0, 0], scale_x=n, clamp=(-n, n)), (0.5, 2.25)),
    "threads": (lambda n: tilesmith.linear(Q, Q[0, 0], threads=n), (1, 2)),
    "stride": (lambda n: tilesmith.conv2d(X, W, stride=n), (2, 3)),
    "padding and dilation": (lambda n: tilesmith.conv2d(X, W, padding=((n, 2), (2, n)), dilation=(n, 2)), (2, 3)),
    "groups": (lambda n: tilesmith.conv2d(X, W[:, : 4 // n].contiguous(), groups=n), (1, 2)),
    "output_padding": (lambda n: tilesmith.conv_transpose2d(X, W.transpose(0, 1).contiguous(), stride=n, output_padding=n - 1), (2, 3)),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_that_vary(name):
    function, numbers = OPTIONS[name]
    torch._dynamo.reset()
    compiled = torch.compile(function, fullgraph=True, dynamic=True, backend="aot_eager")
    for number in numbers:
        torch.testing.assert_close(compiled(number), function(number), rtol=0, atol=0)
