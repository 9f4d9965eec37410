"""Calls of plain tensors that torch.jit.trace, make_fx or a mode watches pass torch's dispatcher, which is all that these see."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

import tilesmith

torch.manual_seed(1)
A, W, BIAS, Q, X, FILTERS = torch.rand(4, 8), torch.rand(6, 8), torch.rand(6), torch.rand(1, 2, 5, 32), torch.rand(1, 3, 6, 6), torch.rand(4, 3, 3, 3)
PACKED, PACKED_FILTERS = tilesmith.pack_weight(W), tilesmith.pack_conv_weight(FILTERS)
LENGTHS, ENDS = torch.tensor([3], dtype=torch.int32), torch.tensor([4], dtype=torch.int32)


def appended(q):
    caches = torch.zeros(2, 1, 2, 9, 32).unbind()
    tilesmith.append_kv(q, q, *caches, kv_layout="hnd", seqlens_k=LENGTHS)
    return torch.cat(caches)


def out_of(function, shape):
    def call(x):
        out = torch.zeros(shape)
        function(x, out)
        return out

    return call


CALLS = {
    "matmul": (lambda a: tilesmith.matmul(a, W.T), A),
    "linear": (lambda a: tilesmith.linear(a, W, BIAS, "gelu"), A),
    "linear of a packed weight": (lambda a: tilesmith.linear(a, PACKED, BIAS, "gelu"), A),
    "a packed weight with out": (out_of(lambda a, out: tilesmith.linear(a, PACKED, out=out), (4, 6)), A),
    "mm_plus_mm": (lambda a: tilesmith.mm_plus_mm(a, W.T, a, W.T), A),
    "a list": (lambda a: tilesmith.grouped_matmul([a, a[:2]], [W.T, W.T])[1], A),
    "groups": (lambda a: tilesmith.grouped_matmul(a, W.T[None], group_ends=ENDS), A),
    "matmul with out": (out_of(lambda a, out: tilesmith.matmul(a, W.T, out=out), (4, 6)), A),
    "attention": (lambda q: tilesmith.attention(q, q, q, causal=True), Q),
    "attention's lse": (lambda q: tilesmith.attention(q, q, q, return_lse=True)[1], Q),
    "attention with out": (out_of(lambda q, out: tilesmith.attention(q, q, q, out=out), Q.shape), Q),
    "attention_backward": (lambda q: tilesmith.attention_backward(q, q, q, q, q, q[..., 0].contiguous())[0], Q),
    "conv2d": (lambda x: tilesmith.conv2d(x, FILTERS, padding=1, activation="relu"), X),
    "conv2d of packed filters": (lambda x: tilesmith.conv2d(x, PACKED_FILTERS, padding=1, activation="relu"), X),
    "conv_backward_data": (lambda x: tilesmith.conv_backward_data(tilesmith.conv2d(x, FILTERS), FILTERS, x.shape), X),
    "merge_states": (lambda q: tilesmith.merge_states([q, q], [q[..., 0].contiguous(), q[..., 1].contiguous()])[0], Q),
    "append_kv": (appended, Q),
}


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.compiles) if "packed" in name else name for name in CALLS])
def call(request):
    """The function, its argument and another one, after calls that are repeated from then on."""
    function, x = CALLS[request.param]
    for _ in range(6):
        function(x)
    return function, x, torch.rand_like(x)


@pytest.mark.filterwarnings("ignore")
def test_jit_trace(call):
    function, x, other = call
    torch.testing.assert_close(torch.jit.trace(function, x, check_trace=False)(other), function(other))


@pytest.mark.parametrize("grad", [False, True])
def test_make_fx(call, grad):
    function, x, other = call
    with torch.set_grad_enabled(grad):
        torch.testing.assert_close(make_fx(function, tracing_mode="real")(x)(other), function(other))


class Watch(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.seen.add(function.name().split("::")[0])
        return function(*args, **(kwargs or {}))


def test_modes_see_the_operator(call):
    function, x, other = call
    with Watch() as watch:
        watched = function(other)
    assert "tilesmith" in watch.seen and torch.equal(watched, function(other))


@pytest.mark.parametrize("name", ["matmul", "linear", "attention", "conv2d"])
def test_gradients_under_a_mode(name):
    function, x = CALLS[name]
    gradients = []
    for watch in (Watch(), None):
        leaf = x.clone().requires_grad_()
        if watch:
            with watch:
                function(leaf).square().sum().backward()
            assert "tilesmith" in watch.seen
        else:
            function(leaf).square().sum().backward()
        gradients.append(leaf.grad)
    torch.testing.assert_close(*gradients)


@pytest.mark.compiles
def test_what_a_mode_has_no_part_in():
    with Watch():
        a = np.ones((2, 3), np.float32)
        assert tilesmith.matmul(a, a.T)[0, 0] == 3
        assert torch.equal(tilesmith.linear(A, tilesmith.pack_weight(W)), tilesmith.linear(A, PACKED))
        with torch._C._DisableTorchDispatch():  # where modes see nothing, a call does not pass them over and over
            assert torch.equal(tilesmith.matmul(A, W.T), CALLS["matmul"][0](A))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("pack, w", [(tilesmith.pack_weight, W), (tilesmith.pack_conv_weight, FILTERS)])
def test_a_graph_holds_no_packing(pack, w):
    """It would hold the memory of the packed bytes and nothing that fills it."""
    for trace in (lambda: make_fx(lambda w: pack(w).data, tracing_mode="real")(w), lambda: torch.jit.trace(lambda w: pack(w).data, w, check_trace=False)):
        with pytest.raises(tilesmith.Unsupported, match=f"{pack.__name__}, where torch compiles or traces .*{pack.__name__} before"):
            trace()
