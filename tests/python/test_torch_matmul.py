"""matmul and linear on torch tensors: views, the operator that torch.compile sees, gradients."""

import numpy as np
import pytest
from conftest import wrong_in_threads

import reference
import tilesmith

torch = pytest.importorskip("torch", reason="torch is not installed")

TOLERANCE = {torch.float32: dict(rtol=1e-6, atol=4e-5), torch.float16: dict(rtol=2**-11, atol=1e-4),
             torch.bfloat16: dict(rtol=2**-8, atol=1e-4)}  # fmt: skip


@pytest.fixture
def make():
    torch.manual_seed(3)
    return lambda *shape, dtype=torch.float32: (torch.rand(shape) * 2 - 1).to(dtype)


def assert_product(got, expected):
    assert type(got) is torch.Tensor
    torch.testing.assert_close(got.double(), expected, **TOLERANCE[got.dtype])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_as_torch_does(make, dtype):
    for left, right in (((5, 33), (33, 9)), ((2, 3, 5, 33), (33, 9)), ((3, 5, 33), (3, 33, 9)), ((33,), (33, 9)), ((33,), (33,)),
                        ((3, 5, 33), (33,)), ((5, 33), (4, 33, 9)), ((0, 33), (33, 9)), ((5, 0), (0, 9))):  # fmt: skip
        a, b = make(*left, dtype=dtype), make(*right, dtype=dtype)
        got = tilesmith.matmul(a, b)
        expected = torch.matmul(a.double(), b.double())
        assert got.shape == expected.shape and got.dtype == dtype and got.device == a.device and got.is_contiguous()
        assert_product(got, expected)
    x, w, bias = make(2, 5, 33, dtype=dtype), make(9, 33, dtype=dtype), make(9, dtype=dtype)
    assert_product(tilesmith.linear(x, w, bias), torch.nn.functional.linear(x.double(), w.double(), bias.double()))
    assert_product(tilesmith.linear(x[0, 0], w), torch.nn.functional.linear(x[0, 0].double(), w.double()))


def test_views(make):
    a, b = make(33, 5), make(9, 33)
    expected = a.double().T @ b.double().T
    assert_product(tilesmith.matmul(a.T, b.T), expected)
    whole = make(4, 40)
    assert_product(tilesmith.matmul(whole[:, 2:35], b.T), whole[:, 2:35].double() @ b.double().T)
    one = make(1, 5, 33)
    assert_product(tilesmith.matmul(one.expand(3, -1, -1), b.T), one.expand(3, -1, -1).double() @ b.double().T)
    many = make(3, 33, 9)
    assert_product(tilesmith.matmul(one.expand(3, -1, -1), many), one.double() @ many.double())
    with pytest.raises(ValueError, match="x has the shape"):
        tilesmith.linear(make(5, 66)[:, ::2], b)


def test_the_same_as_numpy(make):
    x, w, bias, residual = make(5, 33), make(10, 33), make(10), make(5, 5)
    options = dict(gate="geglu", residual=residual)
    expected = tilesmith.linear(x.numpy(), w.numpy(), bias.numpy(), gate="geglu", residual=residual.numpy())
    np.testing.assert_array_equal(tilesmith.linear(x, w, bias, **options).numpy(), expected)


def test_epilogues(make):
    a, b = make(6, 20), make(20, 10)
    options = dict(alpha=0.5, beta=2, c=make(6, 10), bias=make(10), activation="gelu", residual=make(6, 10), clamp=(-1, 0.5))
    assert_product(tilesmith.matmul(a, b, **options), torch.from_numpy(reference.matmul(a, b, **options)))
    options["beta"] = -1  # read anew
    assert_product(tilesmith.matmul(a, b, **options), torch.from_numpy(reference.matmul(a, b, **options)))


def test_scales(make):
    a, b = make(3, 6, 20), make(20, 10)
    rows, columns = torch.rand(3, 6) + 0.5, torch.rand(10) + 0.5
    expected = torch.from_numpy(reference.matmul(a, b, scale_a=rows, scale_b=columns))
    assert_product(tilesmith.matmul(a, b, scale_a=rows, scale_b=columns), expected)
    assert_product(tilesmith.matmul(a, b, scale_a=rows[..., None], scale_b=columns[None]), expected)
    for two, three in ((2, 3.0), (torch.tensor(2.0), torch.full((1, 1), 3.0))):
        assert_product(tilesmith.matmul(a, b, scale_a=two, scale_b=three), 6 * a.double() @ b.double())
    with pytest.raises(TypeError, match="scale_a is torch.float64"):
        tilesmith.matmul(a, b, scale_a=torch.ones(1, dtype=torch.float64))
    with pytest.raises(TypeError, match="scale_b is a ndarray"):
        tilesmith.matmul(a, b, scale_b=np.ones(10, "f4"))


def test_integers():
    a, b = (torch.randint(-128, 128, shape, dtype=torch.int8) for shape in ((7, 50), (50, 9)))
    exact = a.long() @ b.long()
    torch.testing.assert_close(tilesmith.matmul(a, b).long(), exact, rtol=0, atol=0)
    got = tilesmith.matmul(a, b, scale_a=1e-3, out_dtype=torch.bfloat16)
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got.double(), exact.double() * 1e-3, rtol=2**-8, atol=1e-6)
    assert tilesmith.matmul(a, b, scale_a=1e-3, scale_b=torch.ones(9)).dtype == torch.float32


def test_float8(make):
    x, w = make(5, 64).to(torch.float8_e4m3fn), make(9, 64).to(torch.float8_e5m2)
    try:
        got = tilesmith.linear(x, w)
    except tilesmith.Unsupported as error:
        pytest.skip(error.message)
    assert got.dtype == torch.bfloat16
    assert_product(got, x.double() @ w.double().T)


@pytest.mark.parametrize("left, right", [
    ((5, 256), (40, 256)), ((256,), (40, 256)), ((1, 5, 256), (3, 40, 256)), ((5, 256), (3, 40, 256)), ((3, 5, 256), (1, 40, 256)),
    ((3, 1, 256), (40, 256)), ((2, 1, 5, 256), (3, 140, 256)), ((1, 128), (256, 128)), ((128,), (256, 128)), ((5, 128), (100, 128)),
])  # fmt: skip
def test_float8_scales_by_blocks(make, left, right):
    a, b = make(*left).to(torch.float8_e4m3fn), make(*right).to(torch.float8_e4m3fn)
    blocks = [-(-size // 128) for size in right[-2:]]
    scale_a = torch.rand(*left[:-1], blocks[1]) + 0.5
    scale_b = torch.rand(*right[:-2], *blocks) + 0.5
    whole_a = a.double() * scale_a.double().repeat_interleave(128, -1)[..., : left[-1]]
    spread = scale_b.double().repeat_interleave(128, -2).repeat_interleave(128, -1)
    whole_b = b.double() * spread[..., : right[-2], : right[-1]]
    got = tilesmith.matmul(a, b.mT, scale_a=scale_a, scale_b=scale_b.mT, out_dtype=torch.float32)
    expected = whole_a @ whole_b.mT
    assert got.shape == expected.shape
    torch.testing.assert_close(got.double(), expected, rtol=0, atol=1e-4 * float(expected.abs().max()))


def test_out(make):
    a, b = make(6, 20), make(20, 10)
    for out in (torch.empty(6, 10), torch.empty(6, 30)[:, 5:15], torch.empty(10, 6).T):
        assert tilesmith.matmul(a, b, out=out) is out
        assert_product(out, a.double() @ b.double())
    residual = make(6, 10)
    expected = a.double() @ b.double() + residual.double()
    assert_product(tilesmith.matmul(a, b, residual=residual, out=residual), expected)
    with pytest.raises(ValueError, match="out has the shape"):
        tilesmith.matmul(a, b, out=torch.empty(6, 20)[:, ::2])
    with pytest.raises(TypeError, match="out_dtype is 'fp32'"):
        tilesmith.matmul(a, b, out_dtype="fp32")


def test_without_gradients(make):
    a, b = make(6, 20), make(20, 10).requires_grad_()
    with torch.no_grad():
        assert_product(tilesmith.matmul(a, b), a.double() @ b.double())
        layer = torch.nn.Linear(20, 7)
        assert_product(tilesmith.linear(a, layer.weight, layer.bias), layer(a).double())


def test_no_tangents(make):
    """Forward mode would go on without them, and nobody would know."""
    from torch.autograd import forward_ad

    a, b = make(6, 20), make(20, 10)
    expected = tilesmith.matmul(a, b)
    with forward_ad.dual_level():
        dual_a, dual_b = (forward_ad.make_dual(x, torch.ones_like(x)) for x in (a, b))
        calls = (lambda: tilesmith.matmul(dual_a, b), lambda: tilesmith.linear(a, dual_b.T), lambda: tilesmith.linear(a, b.T, dual_b[0]),
                 lambda: tilesmith.matmul(a, a.T, residual=dual_b[:6, :6]), lambda: tilesmith.mm_plus_mm(a, b, a, dual_b),
                 lambda: tilesmith.matmul(a, b, amax=True, c=dual_a[:, :10]), lambda: tilesmith.matmul(a, b, out=dual_a[:, :10]),
                 lambda: tilesmith.grouped_matmul([a, dual_a], [b, b]), lambda: tilesmith.pack_weight(dual_b))  # fmt: skip
        for call in calls:
            with pytest.raises(NotImplementedError, match="a tensor has a tangent .* carries none"):
                call()
        torch.testing.assert_close(tilesmith.matmul(a, b), expected)
        torch.testing.assert_close(tilesmith.matmul(forward_ad.unpack_dual(dual_a).primal, b), expected)
    torch.testing.assert_close(tilesmith.matmul(dual_a, b), expected)  # outside of the level it has none


@pytest.mark.parametrize("backend", [None, "eager"])
def test_no_tangents_of_functions(make, backend):
    a, b = make(6, 20), make(20, 10)

    def tangent(a):
        return torch.func.jvp(lambda a: tilesmith.matmul(a, b), (a,), (a,))[1]

    with pytest.raises(NotImplementedError, match="a tensor has a tangent"):
        (torch.compile(tangent, backend=backend) if backend else tangent)(a)


def test_tensors_that_cannot_be(make):
    a, b = make(6, 20), make(20, 10)
    with pytest.raises(TypeError, match="b is a ndarray, a is a torch tensor"):
        tilesmith.matmul(a, b.numpy())
    with pytest.raises(TypeError, match="a is torch.float64"):
        tilesmith.matmul(a.double(), b.double())
    with pytest.raises(ValueError, match="a is a meta tensor, which has no memory"):
        tilesmith.matmul(make(6, 19).to("meta"), make(19, 10).to("meta"))
    with pytest.raises(ValueError, match="a is a lazily negated view"):
        tilesmith.matmul(torch.complex(a, a).conj().imag, b)
    column = torch.complex(a, a)[:, :1].contiguous()
    assert_product(tilesmith.matmul(column.imag, b[:1]), a[:, :1].double() @ b[:1].double())
    with pytest.raises(ValueError, match="a is a lazily negated view"):  # which looks like the one before
        tilesmith.matmul(column.conj().imag, b[:1])
    # Of one column by a dimension of one element, whose stride says nothing.
    column = torch.complex(a, a)[:, 0]
    for again in range(2):
        assert_product(tilesmith.matmul(column.imag[:, None], b[:1]), a[:, :1].double() @ b[:1].double())
        with pytest.raises(ValueError, match="a is a lazily negated view"):
            tilesmith.matmul(column.conj().imag[:, None], b[:1])
    one = torch.complex(a, a)[:1, :1]  # nor do the strides of one element
    assert_product(tilesmith.matmul(a[:1], b[:, :1], residual=one.imag), a[:1].double() @ b[:, :1].double() + a[:1, :1].double())
    with pytest.raises(ValueError, match="residual is a lazily negated view"):
        tilesmith.matmul(a[:1], b[:, :1], residual=one.conj().imag)
    with pytest.raises(NotImplementedError, match="bias is a torch.sparse_coo tensor"):
        tilesmith.matmul(a, b, residual=a, bias=torch.ones(10).to_sparse())


def test_tensors_that_cannot_be_after_a_call_that_could(make):
    """The prepared call is there already, and knows neither devices without memory nor what it has no place for."""
    x, w, bias = make(6, 20), make(10, 20), make(10)
    tilesmith.linear(x, w, bias)
    with pytest.raises(ValueError, match="bias is a meta tensor, which has no memory"):
        tilesmith.linear(x, w, bias.to("meta"))
    with pytest.raises(ValueError, match="w is a meta tensor, which has no memory") as caught:
        tilesmith.linear(x, w.to("meta"), bias)
    assert caught.value.hint.startswith("a tensor with data, on the CPU or a CUDA device")
    tilesmith.linear(x, w)
    with pytest.raises(TypeError, match="zero_w beside w of fp32"):
        tilesmith.linear(x, w, zero_w=torch.zeros(10, dtype=torch.int8))


@pytest.mark.filterwarnings("error")
def test_fake_tensors_beside_plain_ones(make):
    from torch._subclasses.fake_tensor import FakeTensorMode

    x, w = make(6, 20), make(10, 20)
    with FakeTensorMode():
        fake, result = torch.empty(10, 20), torch.empty(6, 10)
    for again in range(2):  # with a prepared call too
        with pytest.raises(ValueError, match="w is a FakeTensor, which has no memory"):
            tilesmith.linear(x, fake)
        with pytest.raises(ValueError, match="residual is a FakeTensor, which has no memory"):
            tilesmith.linear(x, w, residual=result)
        tilesmith.linear(x, w)
        tilesmith.linear(x, w, residual=make(6, 10))
    wrapper = torch.Tensor._make_wrapper_subclass(type("Wrapper", (torch.Tensor,), {"__torch_dispatch__": None}), (10, 20))
    with pytest.raises(ValueError, match="w is a Wrapper, which has no memory"):
        tilesmith.linear(x, wrapper)


def test_threads_have_calls_of_their_own(make):
    assert not wrong_in_threads(tilesmith.matmul, [(make(30, 40), make(40, 20)) for _ in range(4)])


# ------------------------------------------------------------------------------------------------------ the operator


def operator_arguments(a, b, **changes):
    arguments = dict(c=None, bias=None, multiply=None, residual=None, scale_a=None, scale_b=None, groups=None, zero_b=None, a2=None, b2=None, out_dtype=None, alpha=1.0,
                     beta=1.0, activation=None, gate=None, clamp=None, tf32=False)  # fmt: skip
    return changes.pop("form", "matmul"), a, b, *(arguments | changes).values()


def test_opcheck(make):
    tilesmith.matmul(make(6, 20), make(20, 10))  # registers the operator
    a, b, w = make(2, 6, 20), make(20, 10), make(10, 20)
    for changes in ({}, dict(bias=make(10), gate="swiglu", clamp=[-1.0, 1.0]), dict(c=make(2, 6, 10), alpha=2.0, beta=0.5),
                    dict(scale_a=torch.rand(2, 6), scale_b=torch.rand(10)), dict(out_dtype=torch.float16)):  # fmt: skip
        torch.library.opcheck(torch.ops.tilesmith.gemm, operator_arguments(a, b, **changes))
    torch.library.opcheck(torch.ops.tilesmith.gemm, operator_arguments(a, w, form="linear", bias=make(10), activation="relu"))
    torch.library.opcheck(torch.ops.tilesmith.gemm, operator_arguments(a[0, 0], b))
    pair = operator_arguments(a, b, form="mm_plus_mm", a2=make(6, 7), b2=make(2, 7, 10))
    torch.library.opcheck(torch.ops.tilesmith.gemm, pair)
    torch.library.opcheck(torch.ops.tilesmith.gemm_out, operator_arguments(a, b), {"out": torch.empty(2, 6, 10)})
    torch.library.opcheck(torch.ops.tilesmith.gemm_out, pair, {"out": torch.empty(2, 6, 10), "amax": torch.zeros(())})


@pytest.mark.parametrize("dynamic", [False, True])
def test_compile(make, dynamic):
    def layer(x, w, v):
        h = tilesmith.linear(x * 2, w, gate="swiglu", clamp=(-4, 4), scale_x=0.5)
        return tilesmith.matmul(h, v, residual=x, out_dtype=torch.float32) + 1

    compiled = torch.compile(layer, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    w, v = make(24, 20), make(12, 20)
    for rows in (5, 9):
        x = make(3, rows, 20)
        torch.testing.assert_close(compiled(x, w, v), layer(x, w, v), rtol=0, atol=0)


def test_compile_two_products_and_amax(make):
    @torch.compile(fullgraph=True, backend="aot_eager")
    def layer(a, b, c, d, most):
        y, amax = tilesmith.mm_plus_mm(a, b, c, d, activation="tanh", amax=True)
        return tilesmith.matmul(y, b.T, amax=most), y, amax

    a, b, c, d, most = make(6, 20), make(20, 10), make(6, 7), make(7, 10), torch.zeros(1)
    z, y, amax = layer(a, b, c, d, most)
    torch.testing.assert_close(y, tilesmith.mm_plus_mm(a, b, c, d, activation="tanh"), rtol=0, atol=0)
    assert amax == y.abs().max() and most == z.abs().max()


def test_two_products(make):
    a, b, c, d = make(3, 6, 20), make(20, 10), make(6, 7), make(3, 7, 10)
    y, amax = tilesmith.mm_plus_mm(a, b, c, d, amax=True)
    torch.testing.assert_close(y, a @ b + c @ d)
    assert amax.shape == () and amax == y.abs().max()
    with pytest.raises(TypeError, match="d is a ndarray"):
        tilesmith.mm_plus_mm(a, b, c, d.numpy())
    with pytest.raises(TypeError, match="amax is torch.float64|amax is .*64"):
        tilesmith.matmul(a, b, amax=torch.zeros(1, dtype=torch.float64))


def test_batches_along_different_dimensions(make):
    a, b = make(2, 1, 5, 7), make(3, 7, 9)
    torch.testing.assert_close(tilesmith.matmul(a, b), a @ b)
    torch.testing.assert_close(tilesmith.matmul(a, b, bias=make(9) * 0), a @ b)


def test_compile_with_an_output(make):
    a, b = make(6, 20), make(20, 10)

    @torch.compile(fullgraph=True, backend="aot_eager")
    def layer(a, b, out):
        tilesmith.matmul(a, b, out=out)
        return out * 2

    torch.testing.assert_close(layer(a, b, torch.empty(6, 10)), tilesmith.matmul(a, b) * 2, rtol=0, atol=0)


def test_fake_tensors(make):
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        a, b = mode.from_tensor(make(2, 6, 20)), mode.from_tensor(make(20, 10))
        assert tilesmith.matmul(a, b, gate="glu").shape == (2, 6, 5)
        assert tilesmith.matmul(a[0, 0], b).shape == (10,)
        integers = mode.from_tensor(torch.ones(6, 20, dtype=torch.int8))
        assert tilesmith.linear(integers, integers).dtype == torch.int32
        for scale in (2.0, b[0, 0], b[:6, 0]):
            assert tilesmith.linear(integers, integers, scale_w=scale).dtype == torch.float32
