"""Convolutions of torch tensors are differentiable, twice: every gradient against torch's own autograd in float64."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch.nn import functional  # noqa: E402

import tilesmith  # noqa: E402

TOLERANCE = {torch.float32: 2e-5, torch.float16: 5e-3, torch.bfloat16: 4e-2}
ACTIVATIONS = {"relu": functional.relu, "gelu": functional.gelu, "gelu_tanh": lambda v: functional.gelu(v, approximate="tanh"),
               "silu": functional.silu, "sigmoid": torch.sigmoid, "tanh": torch.tanh}  # fmt: skip
OURS = {(1, False): tilesmith.conv1d, (2, False): tilesmith.conv2d, (3, False): tilesmith.conv3d,
        (1, True): tilesmith.conv_transpose1d, (2, True): tilesmith.conv_transpose2d, (3, True): tilesmith.conv_transpose3d}  # fmt: skip
THEIRS = {(1, False): torch.conv1d, (2, False): torch.conv2d, (3, False): torch.conv3d,
          (1, True): torch.conv_transpose1d, (2, True): torch.conv_transpose2d, (3, True): torch.conv_transpose3d}  # fmt: skip
LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


@pytest.fixture
def make():
    generator = torch.Generator().manual_seed(2)
    return lambda *shape, dtype=torch.float32: torch.randn(shape, generator=generator).to(dtype)


def near(got, want, dtype, what=""):
    limit = TOLERANCE[dtype] * max(1.0, want.abs().max().item() if want.numel() else 0.0)
    torch.testing.assert_close(got.double(), want, rtol=0, atol=limit, msg=lambda text: f"{what}: {text}")


def check(dims, transposed, x, w, *, activation=None, twice=False, **options):
    """The function, its gradients by all tensors, and with `twice` the gradients of these."""
    named = {name: options.pop(name) for name in ("bias", "residual") if options.get(name) is not None}
    mine = [each.detach().requires_grad_() for each in (x, w, *named.values())]
    exact = [each.detach().double().requires_grad_() for each in mine]
    y = OURS[dims, transposed](*mine[:2], **dict(zip(named, mine[2:])), activation=activation, **options)
    given = dict(zip(named, exact[2:]))
    wanted = THEIRS[dims, transposed](*exact[:2], given.get("bias"), **options)
    if "residual" in given:
        wanted = wanted + given["residual"]
    if activation:
        wanted = ACTIVATIONS[activation](wanted)
    dtype, told = x.dtype, f"{tuple(x.shape)} {tuple(w.shape)} {options}"
    near(y, wanted, dtype, told)
    dy = torch.randn(y.shape, generator=torch.Generator().manual_seed(5)).to(y.dtype)
    got = torch.autograd.grad(y, mine, dy, create_graph=twice)
    theirs = torch.autograd.grad(wanted, exact, dy.double(), create_graph=twice)
    for at, (ours, of, gradient) in enumerate(zip(got, mine, theirs)):
        assert ours.dtype == of.dtype and ours.shape == of.shape
        near(ours, gradient, dtype, f"gradient {at} of {told}")
    if twice:
        again = torch.autograd.grad(sum(each.square().sum() for each in got[:2]), mine[:2])
        exactly = torch.autograd.grad(sum(each.square().sum() for each in theirs[:2]), exact[:2])
        for at, (ours, gradient) in enumerate(zip(again, exactly)):
            near(ours, gradient, dtype, f"gradient of gradients {at} of {told}")


def test_random_problems(make):
    rng = np.random.default_rng(11)
    for number in range(20):
        dims, transposed = int(rng.integers(1, 4)), bool(rng.integers(2))
        groups, c, k = (int(each) for each in rng.integers(1, 5, 3))
        if rng.random() < 0.3:
            groups, c, k = int(rng.integers(5, 20)), 1, 1
        filter = [int(each) for each in rng.integers(1, 4, dims)]
        stride = [int(each) for each in rng.integers(1, 4, dims)]
        dilation = [int(each) for each in rng.integers(1, 3, dims)]
        padding = [int(rng.integers(0, d * (f - 1) // 2 + 1)) for f, d in zip(filter, dilation)]
        size = [int(d * (f - 1) + 1 + rng.integers(0, 6)) for f, d in zip(filter, dilation)]
        batch = int(rng.integers(1, 4))
        options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        if transposed:
            options["output_padding"] = [int(rng.integers(0, s)) for s in stride]
        dtype = [torch.float32, torch.float32, torch.bfloat16][int(rng.integers(3))]
        x = make(batch, groups * c, *size, dtype=dtype)
        shape = (groups * c, k, *filter) if transposed else (groups * k, c, *filter)
        w = make(*shape, dtype=dtype)
        if dims > 1 and rng.random() < 0.5:
            x, w = x.to(memory_format=LAST[dims + 2]), w.to(memory_format=LAST[dims + 2])
        y = THEIRS[dims, transposed](x.float(), w.float(), **options)
        if rng.random() < 0.5:
            options["bias"] = make(groups * k, dtype=dtype)
        if rng.random() < 0.3:
            options["residual"] = make(*y.shape, dtype=dtype)
        check(dims, transposed, x, w, twice=dtype == torch.float32 and number % 3 == 0, **options)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_activations(make, activation, dtype):
    check(2, False, make(2, 4, 6, 7, dtype=dtype), make(6, 4, 3, 3, dtype=dtype), padding=1, bias=make(6, dtype=dtype),
          residual=make(2, 6, 6, 7, dtype=dtype), activation=activation)  # fmt: skip


def test_paddings(make):
    check(2, False, make(1, 2, 5, 6), make(3, 2, 2, 4), padding="same")
    x, w = make(1, 2, 5, 6).requires_grad_(), make(3, 2, 2, 3).requires_grad_()
    y = tilesmith.conv2d(x, w, padding=((0, 2), (1, 0)))
    want = torch.conv2d(functional.pad(x, (1, 0, 0, 2)), w)
    for ours, theirs in zip(torch.autograd.grad(y.sum(), (x, w)), torch.autograd.grad(want.sum(), (x, w))):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_an_empty_batch(make):
    check(2, False, make(0, 2, 5, 6), make(3, 2, 2, 4))


def test_gradients_alone(make):
    """conv_backward_data and conv_backward_weight are themselves differentiable."""
    w, x = make(6, 2, 3, 3).requires_grad_(), make(2, 4, 7, 8).requires_grad_()
    options = {"stride": 2, "padding": 1, "groups": 2}
    dy = make(2, 6, 4, 4).requires_grad_()
    exact = [each.detach().double().requires_grad_() for each in (x, w, dy)]
    dx, dw = torch.autograd.grad(torch.conv2d(*exact[:2], **options), exact[:2], exact[2], create_graph=True)
    theirs = torch.autograd.grad(dx.square().sum(), exact[1:], retain_graph=True) + torch.autograd.grad(dw.square().sum(), (exact[0], exact[2]))
    mine = tilesmith.conv_backward_data(dy, w, x.shape, **options), tilesmith.conv_backward_weight(dy, x, w.shape, **options)
    ours = torch.autograd.grad(mine[0].square().sum(), (w, dy)) + torch.autograd.grad(mine[1].square().sum(), (x, dy))
    for got, want in zip(ours, theirs):
        near(got, want, torch.float32)


def test_results_may_be_changed_in_place(make):
    x, w = make(1, 3, 5, 6).to(memory_format=torch.channels_last), make(4, 3, 3, 3).requires_grad_()
    y = functional.relu(tilesmith.conv2d(x, w), inplace=True)
    assert y.is_contiguous(memory_format=torch.channels_last)
    want = functional.relu(torch.conv2d(x, w))
    torch.testing.assert_close(torch.autograd.grad(y.sum(), w), torch.autograd.grad(want.sum(), w), rtol=1e-5, atol=1e-5)


def arguments(make, form, dims=2, last=False, grad=True, **beside):
    x, w, y = make(2, 4, *(7, 8, 5)[:dims]), make(6, 2, *(3, 2, 3)[:dims]), None
    y = THEIRS[dims, False](x, w, groups=2, padding=1)
    named = {"x": x, "w": w, "y": y}
    if last:
        named = {name: each.to(memory_format=LAST[dims + 2]) for name, each in named.items()}
    a, b, result = {"conv": "xwy", "transposed": "ywx", "backward_data": "ywx", "backward_weight": "yxw"}[form]
    a, b = (named[each].detach().requires_grad_(grad) for each in (a, b))
    return (form, a, b, None, beside.get("bias"), beside.get("residual"), named[result].shape, [1] * dims, [1] * dims, [1] * dims, [1] * dims, 2,
            beside.get("out_dtype"), beside.get("activation"))  # fmt: skip


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("form", ["conv", "transposed", "backward_data", "backward_weight"])
def test_the_operator_keeps_torchs_rules(make, form, last):
    given = arguments(make, form, last=last)
    torch.library.opcheck(torch.ops.tilesmith.conv, given)
    without = arguments(make, form, last=last, grad=False, out_dtype=torch.float32, activation=None if form == "backward_weight" else "relu")
    torch.library.opcheck(torch.ops.tilesmith.conv, without)
    torch.library.opcheck(torch.ops.tilesmith.conv_out, without, {"out": torch.ops.tilesmith.conv(*without)})


def test_the_operator_with_operands_beside(make):
    y = torch.ops.tilesmith.conv(*arguments(make, "conv", grad=False))
    torch.library.opcheck(torch.ops.tilesmith.conv, arguments(make, "conv", bias=make(6).requires_grad_(), residual=y.requires_grad_()))


@pytest.mark.parametrize("last", [False, True])
def test_compiled(make, last):
    """A network of convolutions, forward and backward."""

    def network(x, w, depthwise, up, bias, residual):
        h = tilesmith.conv2d(x, w, bias, padding=1, stride=2, activation="silu", residual=residual)
        h = tilesmith.conv2d(h, depthwise, padding="same", groups=h.shape[1], threads=1)
        return tilesmith.conv_transpose2d(h, up, stride=2, output_padding=1, activation="relu")

    given = [make(2, 3, 9, 11), make(8, 3, 3, 3), make(8, 1, 3, 3), make(8, 4, 2, 2), make(8), make(2, 8, 5, 6)]
    if last:
        given = [each.to(memory_format=torch.channels_last) if each.dim() == 4 else each for each in given]
    ours, theirs = ([each.clone().requires_grad_() for each in given] for _ in range(2))
    eager = network(*theirs)
    compiled = torch.compile(network, fullgraph=True, backend="aot_eager")(*ours)
    assert compiled.stride() == eager.stride()
    torch.testing.assert_close(compiled, eager, rtol=1e-5, atol=1e-5)
    dy = torch.randn(eager.shape, generator=torch.Generator().manual_seed(3))
    for got, want in zip(torch.autograd.grad(compiled, ours, dy), torch.autograd.grad(eager, theirs, dy)):
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)


def test_compiled_gradients_and_outputs(make):
    def calls(dy, x, w, out):
        tilesmith.conv2d(x, w, padding=1, out=out)
        return tilesmith.conv_backward_data(dy, w, x.shape, padding=1), *tilesmith.conv_backward_weight(dy, x, w.shape, padding=1, bias=True)

    given = make(2, 6, 7, 8), make(2, 4, 7, 8), make(6, 4, 3, 3)
    outs = torch.zeros(2, 6, 7, 8), torch.zeros(2, 6, 7, 8)
    torch.testing.assert_close(torch.compile(calls, fullgraph=True, backend="aot_eager")(*given, outs[0]), calls(*given, outs[1]))
    torch.testing.assert_close(*outs)


def test_sizes_that_change(make):
    """A compiled function serves other images without compiling for each."""
    compiled = torch.compile(lambda x, w: tilesmith.conv2d(x, w, padding=1, stride=2), fullgraph=True, dynamic=True, backend="aot_eager")
    w = make(6, 4, 3, 3)
    for size in ((7, 8), (12, 5), (20, 20)):
        x = make(3, 4, *size)
        torch.testing.assert_close(compiled(x, w), torch.conv2d(x, w, padding=1, stride=2), rtol=1e-4, atol=1e-4)
