"""Matrix products of torch tensors are differentiable: every gradient against torch's own autograd in float64."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch.nn import functional  # noqa: E402

import tilesmith  # noqa: E402

TOLERANCE = {torch.float32: 2e-5, torch.float16: 5e-3, torch.bfloat16: 4e-2}
ACTIVATIONS = {"relu": functional.relu, "gelu": functional.gelu, "gelu_tanh": lambda v: functional.gelu(v, approximate="tanh"),
               "silu": functional.silu, "sigmoid": torch.sigmoid, "tanh": torch.tanh}  # fmt: skip
GATES = {"glu": "sigmoid", "reglu": "relu", "geglu": "gelu", "geglu_tanh": "gelu_tanh", "swiglu": "silu"}
OPERANDS = ("bias", "multiply", "residual", "c")


def expected(product, *, alpha=1.0, beta=1.0, c=None, bias=None, activation=None, gate=None, multiply=None, residual=None, clamp=None,
             **options):  # fmt: skip
    v = alpha * product
    v = v if c is None else v + beta * c
    v = v if bias is None else v + bias
    v = v if activation is None else ACTIVATIONS[activation](v)
    v = v if gate is None else ACTIVATIONS[GATES[gate]](v[..., 0::2]) * v[..., 1::2]
    v = v if multiply is None else v * multiply
    v = v if residual is None else v + residual
    return v if clamp is None else v.clamp(*clamp)


def check(function, tensors, product, **options):
    """function(*tensors, **options) and its gradients by every tensor; `product` is the same in float64 by torch."""
    named = {name: options.pop(name) for name in OPERANDS if options.get(name) is not None}
    mine = [x.detach().clone(memory_format=torch.preserve_format).requires_grad_() for x in (*tensors, *named.values())]
    exact = [x.detach().double().requires_grad_() for x in mine]
    count = len(tensors)
    y = function(*mine[:count], **dict(zip(named, mine[count:])), **options)
    wanted = expected(product(*exact[:count]), **dict(zip(named, exact[count:])), **options)
    tolerance = TOLERANCE[tensors[0].dtype]
    torch.testing.assert_close(y.double(), wanted, rtol=tolerance, atol=tolerance * max(1.0, wanted.abs().max().item() if y.numel() else 0.0))
    with torch.no_grad():  # the same function: what is differentiated is what is computed
        whole = function(*mine[:count], **dict(zip(named, mine[count:])), **options)
        torch.testing.assert_close(y, whole, rtol=tolerance, atol=tolerance * max(1.0, wanted.abs().max().item() if y.numel() else 0.0))
    dy = torch.randn(y.shape, generator=torch.Generator().manual_seed(5)).to(y.dtype)
    got, theirs = torch.autograd.grad(y, mine, dy), torch.autograd.grad(wanted, exact, dy.double())
    for at, (x, of, gradient) in enumerate(zip(got, mine, theirs)):
        assert x.dtype == of.dtype and x.shape == of.shape
        limit = tolerance * max(1.0, gradient.abs().max().item() if x.numel() else 0.0)
        torch.testing.assert_close(x.double(), gradient, rtol=0, atol=limit, msg=lambda text, at=at: f"gradient {at}: {text}")


def linear(x, w):
    return x @ w.mT


@pytest.fixture
def make():
    generator = torch.Generator().manual_seed(2)
    return lambda *shape, dtype=torch.float32: torch.randn(shape, generator=generator).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shape", [(6,), (), (2, 3), (0,), (2, 0)], ids=str)
def test_linear(make, dtype, shape):
    check(tilesmith.linear, (make(*shape, 20, dtype=dtype), make(10, 20, dtype=dtype)), linear, bias=make(10, dtype=dtype))


@pytest.mark.parametrize(("a", "b"), [((6, 20), (20, 10)), ((20,), (20, 10)), ((6, 20), (20,)), ((20,), (20,)), ((3, 6, 20), (20, 10)),
                                      ((3, 6, 20), (3, 20, 10)), ((6, 20), (3, 20, 10)), ((2, 1, 6, 20), (3, 20, 10)), ((3, 6, 20), (20,)),
                                      ((20,), (3, 20, 10)), ((6, 0), (0, 10)), ((0, 20), (20, 10)), ((2, 6, 20), (1, 20, 10))], ids=str)  # fmt: skip
def test_shapes(make, a, b):
    check(tilesmith.matmul, (make(*a), make(*b)), torch.matmul, alpha=0.5)


def test_layouts(make):
    check(tilesmith.matmul, (make(20, 6).T, make(10, 20).T), torch.matmul)
    check(tilesmith.matmul, (make(6, 3, 20).transpose(0, 1), make(3, 10, 20).mT), torch.matmul)


def test_expanded_batches(make):
    """A batch that is one member: a forward reads it in place, the product of the weight's gradient cannot join its rows."""
    for rows in (1, 6):
        x, w = make(1, rows, 20).expand(3, rows, 20), make(10, 20)
        exact = [x.detach().clone().requires_grad_(), w.detach().clone().requires_grad_()]
        mine = [x.detach().requires_grad_(), w.detach().requires_grad_()]
        wanted = torch.autograd.grad((exact[0] @ exact[1].mT).square().sum(), exact)
        for got, theirs in zip(torch.autograd.grad(tilesmith.linear(*mine).square().sum(), mine), wanted):
            torch.testing.assert_close(got, theirs, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("options", [dict(activation=name) for name in ACTIVATIONS] + [dict(gate=name) for name in GATES] + [dict(clamp=(-1.0, 2.0))],
                         ids=str)  # fmt: skip
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_follows(make, dtype, options):
    columns = 5 if "gate" in options else 10
    check(tilesmith.linear, (make(6, 20, dtype=dtype), make(10, 20, dtype=dtype)), linear, bias=make(10, dtype=dtype),
          multiply=make(6, columns, dtype=dtype), residual=make(6, columns, dtype=dtype), **options)  # fmt: skip


def test_operands_that_broadcast(make):
    check(tilesmith.matmul, (make(2, 6, 20), make(20, 10)), torch.matmul, c=make(6, 10), beta=0.3, bias=make(6, 1), residual=make(2, 6, 10))
    check(tilesmith.matmul, (make(2, 6, 20), make(20, 10)), torch.matmul, c=make(1, 6, 10), bias=make(10), activation="silu", residual=make(6, 10))
    check(tilesmith.mm_plus_mm, (make(2, 6, 20), make(20, 10), make(6, 7), make(2, 7, 10)), lambda a, b, c, d: a @ b + c @ d, bias=make(10),
          activation="tanh")  # fmt: skip


def test_random_problems(make):
    rng = np.random.default_rng(8)
    for _ in range(40):
        m, n, k = (int(x) for x in rng.integers(1, 40, 3))
        gate = str(rng.choice(list(GATES))) if rng.random() < 0.2 and n > 1 else None
        n -= n % 2 if gate else 0
        batch = tuple(int(x) for x in rng.integers(1, 4, rng.integers(0, 3)))
        columns = n // 2 if gate else n
        options = dict(gate=gate)
        if not gate and rng.random() < 0.5:
            options["activation"] = str(rng.choice(list(ACTIVATIONS)))
        if rng.random() < 0.4:
            options["residual"] = make(*batch, m, columns)
        if rng.random() < 0.4:
            options["bias"] = make(n)
        if rng.random() < 0.3:
            options["multiply"] = make(m, columns)
        a, b = make(*batch, m, k), make(*(batch if rng.random() < 0.5 else ()), k, n)
        check(tilesmith.matmul, (a, b), torch.matmul, **options)


def test_types_of_results(make):
    x, w = make(6, 20, dtype=torch.bfloat16).requires_grad_(), make(10, 20, dtype=torch.bfloat16).requires_grad_()
    bias = make(10).requires_grad_()
    y = tilesmith.linear(x, w, bias, "gelu", out_dtype=torch.float32)
    assert y.dtype == torch.float32
    gradients = torch.autograd.grad(y.sum(), (x, w, bias))
    assert [each.dtype for each in gradients] == [torch.bfloat16, torch.bfloat16, torch.float32]


def test_gradients_in_any_strides(make):
    x, w = make(4, 6, 20).requires_grad_(), make(10, 20).requires_grad_()
    y = tilesmith.linear(x, w)
    dy = make(4, 6, 10)
    wanted = torch.autograd.grad(y, (x, w), dy, retain_graph=True)
    for odd in (make(10, 4, 6).permute(1, 2, 0), make(4, 6, 30)[..., ::3], make(4, 10, 6).mT):
        for got, theirs in zip(torch.autograd.grad(y, (x, w), odd.copy_(dy), retain_graph=True), wanted):
            torch.testing.assert_close(got, theirs, rtol=1e-5, atol=1e-5)
    ones = torch.autograd.grad(y, (x, w), torch.ones_like(y), retain_graph=True)
    for got, theirs in zip(torch.autograd.grad(y.sum(), (x, w)), ones):
        torch.testing.assert_close(got, theirs, rtol=1e-5, atol=1e-5)


def test_a_part_of_the_gradients(make):
    """What no gradient reads is not kept: of a frozen weight the input, of an input without a gradient the weight."""
    x, w = make(6, 20), make(10, 20)
    for at in (0, 1):
        tensors = [x.clone(), w.clone()]
        tensors[at].requires_grad_()
        kept = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.data_ptr()) or t, lambda t: t):
            y = tilesmith.linear(*tensors)
        assert kept == [tensors[1 - at].data_ptr()]
        y.sum().backward()
        assert tensors[at].grad is not None and tensors[1 - at].grad is None


def test_second_order(make):
    a, b = make(5, 7).double().float().requires_grad_(), make(7, 3).requires_grad_()
    torch.autograd.gradgradcheck(lambda x, y: tilesmith.matmul(x.float(), y.float()).double(),
                                 (a.detach().double().requires_grad_(), b.detach().double().requires_grad_()),
                                 eps=1e-2, atol=1e-3, rtol=1e-3, nondet_tol=1e-4)  # fmt: skip


def test_lists(make):
    a, b = [make(5, 7).requires_grad_(), make(2, 3)], [make(7, 2), make(3, 3).requires_grad_()]
    y = tilesmith.grouped_matmul(a, b, activation="relu")
    got = torch.autograd.grad(y[0].sum() + y[1].sum(), (a[0], b[1]))
    wanted = torch.autograd.grad((a[0] @ b[0]).relu().sum() + (a[1] @ b[1]).relu().sum(), (a[0], b[1]))
    for mine, theirs in zip(got, wanted):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints(make, reentrant):
    from torch.utils.checkpoint import checkpoint

    x, w = make(6, 20).requires_grad_(), make(20, 20).requires_grad_()
    block = lambda x: tilesmith.linear(tilesmith.linear(x, w, activation="gelu"), w, residual=x)  # noqa: E731
    block(x).square().sum().backward()
    wanted, x.grad, w.grad = (x.grad, w.grad), None, None
    checkpoint(block, x, use_reentrant=reentrant).square().sum().backward()
    for got, theirs in zip((x.grad, w.grad), wanted):  # the parts of a gradient are added in another order
        torch.testing.assert_close(got, theirs, rtol=0, atol=1e-5 * theirs.abs().max().item())


def test_a_layer_trains(make):
    """Parameters, with options around the calls."""
    torch.manual_seed(1)
    layer, x, y = torch.nn.Linear(8, 4), make(64, 8), make(64, 4)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    losses = []
    for _ in range(20):
        with tilesmith.options(threads=1):
            loss = (tilesmith.linear(x, layer.weight, layer.bias) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True)


@pytest.mark.compiles
def test_refused(make):
    a, b = make(6, 20).requires_grad_(), make(20, 10)
    for words, call in (
        ("out is given", lambda: tilesmith.matmul(a, b, out=torch.empty(6, 10))),
        ("amax is given", lambda: tilesmith.matmul(a, b, amax=True)),
        ("grouped_matmul of groups", lambda: tilesmith.grouped_matmul(a, b[None], group_ends=torch.tensor([6], dtype=torch.int32))),
        ("tensors of scales", lambda: tilesmith.matmul(a, b, scale_a=torch.ones(6))),
        ("linear of a packed weight", lambda: tilesmith.linear(a, tilesmith.pack_weight(b.T.contiguous()))),
        ("a product of torch.float8_e4m3fn", lambda: tilesmith.matmul(a.detach().to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn),
                                                                      residual=make(6, 10).requires_grad_())),
    ):  # fmt: skip
        with pytest.raises(NotImplementedError, match=words) as raised:
            call()
        assert raised.value.hint
    for beside in (make(10), make(6, 1)):  # as without gradients
        with pytest.raises(ValueError, match="multiply has the shape"):
            tilesmith.matmul(a, b, multiply=beside)
    with pytest.raises(NotImplementedError, match="the operator with activation"):
        torch.ops.tilesmith.gemm("matmul", a, b, None, None, None, None, None, None, None, None, None, None, None, 1.0, 1.0, "relu", None, None,
                                 False).sum().backward()  # fmt: skip


# ------------------------------------------------------------------------------------------------------ the operator


def test_opcheck(make):
    tilesmith.matmul(make(2, 2), make(2, 2))  # registers the operator
    a, b, bias = make(3, 6, 20).requires_grad_(), make(10, 20).requires_grad_(), make(10).requires_grad_()
    rest = (None, None, None, None, None, None, None, None, 1.0, 1.0, None, None, None, False)
    torch.library.opcheck(torch.ops.tilesmith.gemm, ("linear", a, b, None, bias, None, make(3, 6, 10).requires_grad_(), *rest[1:]))


@pytest.mark.parametrize("dynamic", [False, True])
def test_compile(make, dynamic):
    def loss(x, w, bias, u):
        h = tilesmith.linear(x, w, bias, activation="gelu")
        h = tilesmith.matmul(h, u, gate="swiglu", residual=x[..., :5])
        return tilesmith.mm_plus_mm(h, h.mT, x, x.mT).square().mean()

    compiled = torch.compile(loss, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for rows in (6, 9):
        tensors = [x.requires_grad_() for x in (make(2, rows, 20), make(10, 20), make(10), make(10, 10))]
        got, wanted = torch.autograd.grad(compiled(*tensors), tensors), torch.autograd.grad(loss(*tensors), tensors)
        for mine, theirs in zip(got, wanted):
            torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-5 * max(1.0, theirs.abs().max().item()))


def test_gradients_in_other_threads(make):
    """Prepared calls belong to a thread: a gradient may be computed in another, and in several at once."""
    x, w, bias = make(2, 6, 20), make(10, 20), make(10)
    wanted = torch.autograd.grad(functional.linear(*(tensors := [each.requires_grad_() for each in (x, w, bias)])).square().sum(), tensors)

    def train(_):
        loss = tilesmith.linear(*tensors).square().sum()
        return [pool.submit(torch.autograd.grad, loss, tensors, retain_graph=True) for _ in range(4)]

    with ThreadPoolExecutor(4) as pool, ThreadPoolExecutor(4) as others:
        for futures in others.map(train, range(20)):
            for got in (future.result() for future in futures):
                for mine, theirs in zip(got, wanted):
                    torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)


def test_the_same_shapes_otherwise(make):
    """What a repeated call is found by tells everything that its gradients depend on."""
    x, w = make(6, 20), make(10, 20)
    for residual in (make(6, 10), make(6, 10).T.contiguous().T, make(10), make(6, 10, dtype=torch.bfloat16), None):
        for alpha in (1.0, 0.5):
            for frozen in (None, 0, 1):
                tensors = [each.clone().requires_grad_(at != frozen) for at, each in enumerate((x, w))]
                wide = residual if residual is None or residual.dtype == x.dtype else residual.float()
                try:
                    y = tilesmith.matmul(tensors[0], tensors[1].T, alpha=alpha, residual=residual)
                except tilesmith.Error:
                    continue
                wanted = alpha * x @ w.T + (0 if wide is None else wide)
                torch.testing.assert_close(y, wanted, rtol=1e-4, atol=1e-4)
                y.backward(torch.ones_like(y))
                for at, theirs in enumerate((alpha * w.sum(0).expand(6, 20), alpha * x.sum(0).expand(10, 20))):
                    if at == frozen:
                        assert tensors[at].grad is None
                    else:
                        torch.testing.assert_close(tensors[at].grad, theirs, rtol=1e-4, atol=1e-4)
