"""Calls that the library repeats without the package's Python: they compute what the long way computes, of these tensors, and are
taken only for calls like them."""

import gc
import itertools
import os
import sys
import weakref

import numpy as np
import pytest

import tilesmith
from conftest import wrong_in_threads
from tilesmith import _repeated

KINDS = ["numpy", "torch"]


def module_of(kind, operation):
    if kind == "torch":
        pytest.importorskip("torch")
    return __import__(f"tilesmith._{kind}_{operation}", fromlist=["_run"])


class Counted:
    """Counts how many calls of an operation were repeated."""

    def __init__(self, monkeypatch, kind, operation):
        module = module_of(kind, operation)
        run = module._run
        self.hits = 0

        def counting(*arguments):
            result = run(*arguments)
            self.hits += result is not NotImplemented
            return result

        monkeypatch.setattr(module, "_run", counting)

    def expect(self, hits):
        assert self.hits == hits
        self.hits = 0


@pytest.fixture(params=KINDS)
def given(request, rng):
    """A kind, and what makes a tensor of a NumPy array."""
    if request.param == "torch":
        torch = pytest.importorskip("torch")
        if not getattr(torch.Tensor, "__dlpack_c_exchange_api__", None):
            pytest.skip("this torch has no table of DLPack functions")
        return request.param, torch.from_numpy
    return request.param, lambda array: array


def near(got, expected, tolerance=2e-5):
    expected = np.asarray(expected)
    np.testing.assert_allclose(np.asarray(got, np.float64), expected, rtol=0, atol=tolerance * max(1.0, np.abs(expected).max(initial=0)))


def products(rng, make):
    """Endless calls of matmul, each with new tensors, unlike in one thing or more: (arguments, expected)."""
    for _ in itertools.count():
        m, n, k = rng.integers(1, 9, 3)
        batch = () if rng.random() < 0.7 else (int(rng.integers(1, 4)),)

        def matrix(rows, columns):
            if rng.random() < 0.5:
                return rng.uniform(-1, 1, (*batch, rows, columns)).astype(np.float32)
            return np.swapaxes(rng.uniform(-1, 1, (*batch, columns, rows)).astype(np.float32), -1, -2)

        a, b = matrix(m, k), matrix(k, n)
        more = {"alpha": float(rng.choice([1.0, -0.5, rng.uniform(-2, 2)]))}
        expected = more["alpha"] * (a.astype(np.float64) @ b.astype(np.float64))
        if rng.random() < 0.3:
            scale = rng.uniform(0.5, 2, 1).astype(np.float32)
            more["scale_a"], expected = make(scale), expected * scale
        elif rng.random() < 0.3:
            c = rng.uniform(-1, 1, (*batch, m, n)).astype(np.float32)
            more |= {"c": make(c), "beta": float(rng.choice([1.0, 2.0]))}
            expected = expected + more["beta"] * c
        if rng.random() < 0.5:
            bias = rng.uniform(-1, 1, n).astype(np.float32)
            more["bias"], expected = make(bias), expected + bias
        if rng.random() < 0.3:
            more["activation"], expected = "relu", np.maximum(expected, 0)
        if rng.random() < 0.3:
            low = float(rng.choice([-0.5, -0.25]))
            more["clamp"], expected = (low, 0.5), np.clip(expected, low, 0.5)
        if rng.random() < 0.3:
            more["out"] = make(np.empty((*batch, m, n), np.float32))
        yield (make(a), make(b), more), expected


def test_products_of_every_kind(given, rng, monkeypatch):
    kind, make = given
    counted = Counted(monkeypatch, kind, "gemm")
    for (a, b, more), expected in itertools.islice(products(rng, make), 300):
        for _ in range(3):
            got = tilesmith.matmul(a, b, **more)
            near(got, expected)
            assert got is more.get("out", got)
        assert counted.hits >= 1, (a.shape, b.shape, more)
        counted.hits = 0


def test_numbers_of_a_call_are_read_each_time(given, rng, monkeypatch):
    kind, make = given
    counted = Counted(monkeypatch, kind, "gemm")
    a, b, scale = rng.uniform(-1, 1, (3, 5)).astype("f4"), rng.uniform(-1, 1, (5, 4)).astype("f4"), np.ones(1, np.float32)
    x, y, s = make(a), make(b), make(scale)
    for alpha, factor in ((1.0, 1), (2.0, 1), (-3.5, 0.5), (0.0, 1)):
        scale[:] = factor  # torch's tensor shares it
        near(tilesmith.matmul(x, y, alpha=alpha, scale_a=s), alpha * factor * (a @ b))
    counted.expect(3)
    near(tilesmith.matmul(x, y, alpha=2, scale_a=s), 2 * scale[0] * (a @ b))  # no float
    counted.expect(0)
    near(tilesmith.matmul(x, y, scale_a=2.0), 2 * (a @ b))
    near(tilesmith.matmul(x, y, scale_a=3.0), 3 * (a @ b))
    counted.expect(0)


def test_tensors_at_other_places(given, rng, monkeypatch):
    kind, make = given
    counted = Counted(monkeypatch, kind, "gemm")
    rows = rng.uniform(-1, 1, (40, 6)).astype("f4")
    b = rng.uniform(-1, 1, (6, 5)).astype("f4")
    x, y = make(rows), make(b)
    for first in range(0, 40, 4):
        near(tilesmith.matmul(x[first : first + 4], y), rows[first : first + 4] @ b)
    counted.expect(9)
    near(tilesmith.matmul(x[0:8:2], y), rows[0:8:2] @ b)  # other strides
    near(tilesmith.matmul(x[:5], y), rows[:5] @ b)
    counted.expect(0)


@pytest.mark.parametrize("operation", ["matmul", "attention"])
def test_arguments_that_change_in_place(given, rng, operation):
    _, make = given
    if operation == "matmul":
        a, b = rng.uniform(-1, 1, (3, 5)).astype("f4"), rng.uniform(-1, 1, (5, 4)).astype("f4")
        bounds = [-0.1, 0.1]
        for _ in range(3):
            near(tilesmith.matmul(make(a), make(b), clamp=bounds), np.clip(a @ b, *bounds))
            bounds[1] += 0.2
        return
    q, k, v = (make(rng.uniform(-1, 1, (1, 1, 9, 32)).astype("f4")) for _ in range(3))
    window = [0, 0]
    for width in range(3):
        window[0] = width
        near(tilesmith.attention(q, k, v, window=window), tilesmith.attention(q, k, v, window=(width, 0)), 0)


def test_attention(given, rng, monkeypatch):
    kind, make = given
    counted = Counted(monkeypatch, kind, "attention")
    for options in ({}, {"return_lse": True}, {"causal": True}, {"scale": 0.3}, {"window": (3, 1)}, {"layout": "bshd"}):
        expected = None
        for _ in range(3):
            q, k, v = (rng.uniform(-1, 1, (2, 3, 3, 32)).astype("f4") for _ in range(3))
            got = tilesmith.attention(make(q), make(k), make(v), **options)
            with tilesmith.options(threads=1):  # the long way
                expected = tilesmith.attention(q.copy(), k, v, **{**options, "softcap": 0.0})
            for one, other in zip(*((x if isinstance(x, tuple) else (x,)) for x in (got, expected))):
                near(one, other, 1e-6)
        assert counted.hits >= 2
        counted.hits = 0


def test_an_output_apart_from_the_inputs(given, rng, monkeypatch):
    kind, make = given
    memory = make(rng.uniform(-1, 1, (4, 1, 1, 8, 32)).astype("f4"))
    q, k, v, out = memory
    tilesmith.attention(q, k, v, out=out)
    counted = Counted(monkeypatch, kind, "attention")
    assert tilesmith.attention(q, k, v, out=out) is out
    counted.expect(1)
    near(out, tilesmith.attention(q, k, v), 0)
    with pytest.raises(tilesmith.InvalidArgument, match="out and k may share memory"):
        tilesmith.attention(q, k, v, out=k)


@pytest.mark.parametrize("packed", [False, True])
def test_convolutions(given, rng, monkeypatch, packed):
    kind, make = given
    counted = Counted(monkeypatch, kind, "conv")
    filters = make(rng.uniform(-1, 1, (4, 3, 3, 3)).astype("f4"))
    w = tilesmith.pack_conv_weight(filters) if packed else filters
    for options in ({}, {"padding": 1}, {"stride": 2}):
        for _ in range(3):
            x = make(rng.uniform(-1, 1, (2, 3, 7, 6)).astype("f4"))
            got = tilesmith.conv2d(x, w, **options)
            near(got, tilesmith.conv2d(x, filters, bias=make(np.zeros(4, np.float32)), **options))
        counted.expect(2)
    last = make(np.ascontiguousarray(rng.uniform(-1, 1, (2, 7, 6, 3)).astype("f4"))).transpose(*((0, 3, 1, 2) if kind == "numpy" else (1, 3)))
    last = last if kind == "numpy" else last.transpose(2, 3)
    first, second = tilesmith.conv2d(last, w), tilesmith.conv2d(last, w)
    near(first, second, 0)
    assert [x.strides if kind == "numpy" else x.stride() for x in (first,)] == [x.strides if kind == "numpy" else x.stride() for x in (second,)]


def test_integer_convolutions_keep_their_scale(given, rng):
    _, make = given
    x, w = (make(rng.integers(-9, 10, shape).astype(np.int8)) for shape in ((1, 4, 6, 6), (5, 4, 3, 3)))
    expected = None
    for scale in (0.5, 0.25, 0.5, 0.25):
        for _ in range(2):
            got = np.asarray(tilesmith.conv2d(x, w, scale_w=scale)) / scale
            gc.collect()
            expected = got if expected is None else expected
            near(got, expected, 1e-6)


def is_linked_in(a, b, kernel):
    try:
        tilesmith.matmul(a, b, kernel=kernel)
    except tilesmith.Error:
        return False
    return True


def test_options_hold(given, rng, monkeypatch):
    kind, make = given
    a, b = (make(rng.uniform(-1, 1, (8, 8)).astype("f4")) for _ in range(2))
    found = tilesmith.candidates(tilesmith.matmul, a, b)
    tilesmith.matmul(a, b)
    usual = tilesmith.last_plan().kernel
    other = next(each.kernel for each in reversed(found.candidates) if each.kernel != usual and is_linked_in(a, b, each.kernel))
    counted = Counted(monkeypatch, kind, "gemm")
    for _ in range(3):
        tilesmith.matmul(a, b)
        assert tilesmith.last_plan().kernel == usual
        with tilesmith.options(kernel=other):
            tilesmith.matmul(a, b)
            assert tilesmith.last_plan().kernel == other
        tilesmith.matmul(a, b, kernel=other)
        assert tilesmith.last_plan().kernel == other
    assert counted.hits >= 6
    assert tilesmith.candidates(tilesmith.matmul, a, b) == found  # nothing is repeated in place of listing
    with pytest.raises(tilesmith.Error):
        tilesmith.matmul(a, b, kernel="none")


def test_shapes_that_do_not_repeat(given, rng):
    _, make = given
    b = rng.uniform(-1, 1, (2, 1)).astype("f4")
    a = rng.uniform(-1, 1, (1100, 2)).astype("f4")
    x, y = make(a), make(b)
    for rows in (*range(1, 1100), *range(1, 1100, 100)):  # more than are kept
        near(tilesmith.matmul(x[:rows], y), a[:rows] @ b)


def test_equal_words_are_one(given, rng, monkeypatch):
    kind, make = given
    a, b = (make(rng.uniform(-1, 1, (8, 8)).astype("f4")) for _ in range(2))
    tilesmith.matmul(a, b, activation="relu")
    counted = Counted(monkeypatch, kind, "gemm")
    for _ in range(3):
        near(tilesmith.matmul(a, b, activation="".join(["re", "lu"])), np.maximum(np.asarray(a) @ np.asarray(b), 0))
        near(tilesmith.matmul(a, b, activation="".join(["ta", "nh"])), np.tanh(np.asarray(a) @ np.asarray(b)))
    counted.expect(5)


def test_threads(rng):
    problems = [(rng.uniform(-1, 1, (m, 16)).astype("f4"), rng.uniform(-1, 1, (16, 8)).astype("f4")) for m in range(1, 7)]
    problems.append((rng.uniform(-1, 1, (400, 300)).astype("f4"), rng.uniform(-1, 1, (300, 200)).astype("f4")))  # gives Python's lock up, the others keep it
    assert not wrong_in_threads(tilesmith.matmul, problems)


def test_in_a_forked_child(given, rng):
    _, make = given
    a, b = rng.uniform(-1, 1, (40, 30)).astype("f4"), rng.uniform(-1, 1, (30, 20)).astype("f4")
    x, y = make(a), make(b)
    for _ in range(2):
        tilesmith.matmul(x, y, threads=2)
        tilesmith.matmul(x, y)
    child = os.fork()
    if child == 0:
        try:
            for _ in range(3):
                near(tilesmith.matmul(x, y, threads=2), a @ b)
                near(tilesmith.matmul(x, y), a @ b)
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def test_nothing_is_held(given, rng):
    _, make = given
    a, b = (make(rng.uniform(-1, 1, (8, 8)).astype("f4")) for _ in range(2))
    out = make(np.empty((8, 8), np.float32))
    for _ in range(2):
        tilesmith.matmul(a, b, out=out)
        tilesmith.matmul(a, b)
    counts = [sys.getrefcount(x) for x in (a, b, out, None)]
    results = [tilesmith.matmul(a, b) for _ in range(50)]
    for _ in range(50):
        tilesmith.matmul(a, b, out=out)
    after = [sys.getrefcount(x) for x in (a, b, out, None)]
    assert after[:3] == counts[:3] and abs(after[3] - counts[3]) < 40
    gone = [weakref.ref(x) for x in results]
    del results
    assert not any(each() is not None for each in gone)
    ran = weakref.ref(a)
    del a, b, out
    gc.collect()
    assert ran() is None


def test_what_is_no_plain_array(rng, monkeypatch):
    counted = Counted(monkeypatch, "numpy", "gemm")
    a, b = (rng.uniform(-1, 1, (4, 4)).astype("f4") for _ in range(2))
    for _ in range(2):
        near(tilesmith.matmul(a, b), a @ b)
    counted.expect(1)
    with pytest.raises(tilesmith.WrongType, match="masked"):
        tilesmith.matmul(np.ma.masked_array(a), b)
    near(tilesmith.matmul(a.view(np.recarray), b), a @ b)
    fixed = np.zeros((4, 4), np.float32)
    tilesmith.matmul(a, b, out=fixed)
    fixed.flags.writeable = False
    with pytest.raises(tilesmith.InvalidArgument, match="read-only"):
        tilesmith.matmul(a, b, out=fixed)
    with pytest.raises(tilesmith.WrongType):
        tilesmith.matmul(a, b.astype(">f4"))
    with pytest.raises(tilesmith.WrongType):
        tilesmith.matmul(a, [[1.0]])
    counted.expect(0)


def test_new_outputs_are_as_torch_makes_them(rng):
    torch = pytest.importorskip("torch")
    from tilesmith import _torch

    for _ in range(200):
        shape = tuple(int(size) for size in rng.integers(0, 4, rng.integers(0, 6)))
        like = torch.zeros(2, 3, dtype=[torch.float32, torch.bfloat16, torch.int8][rng.integers(3)], requires_grad=False)
        dtype = [like.dtype, torch.float32, torch.int32][rng.integers(3)]
        expected = like.new_empty(shape, dtype=dtype)
        strides = None
        if len(shape) > 1 and rng.random() < 0.5:
            expected = expected.transpose(0, 1)
            shape, strides = tuple(expected.shape), expected.stride()
        with torch.inference_mode(bool(rng.integers(2))), torch.device("meta"):
            output = _torch.new_output(5, 1, like, shape, dtype, strides)
            given = output.arguments if output.like < 0 else (like, *output.arguments)
            got = output.maker(*given, **(output.named or {}))
            assert got.is_inference() == torch.is_inference_mode_enabled()
        for fact in ("shape", "dtype", "device", "requires_grad", "is_leaf", "layout"):
            assert getattr(got, fact) == getattr(expected, fact), (fact, shape)
        assert got.stride() == expected.stride() and output.word == 5


@pytest.mark.parametrize("finds", [True, False], ids=["C++", "Python"])
def test_what_torch_knows_of_a_tensor(rng, monkeypatch, finds):
    torch = pytest.importorskip("torch")
    if not getattr(torch.Tensor, "__dlpack_c_exchange_api__", None):
        pytest.skip("this torch has no table of DLPack functions")
    from tilesmith import _torch, _torch_gemm
    from torch.autograd import forward_ad
    from torch.utils._python_dispatch import TorchDispatchMode

    def question(x):
        return x if finds else x._replace(symbol="nobody_has_this")

    asked = _repeated.Asked(torch.dtype, _torch.exchange, tuple(map(question, _torch._BESIDE)), question(_torch._GRAD_ENABLED), forward_ad, _torch.raw_stream)
    calls = _repeated.RepeatedCalls(_torch_gemm.KINDS, (torch.Tensor, torch.nn.Parameter), asked)
    monkeypatch.setattr(_torch_gemm, "_repeated", calls)
    monkeypatch.setattr(_torch_gemm, "_run", calls.run)
    _torch_gemm.calls.by_key.clear()
    counted = Counted(monkeypatch, "torch", "gemm")
    a, b = torch.randn(3, 4), torch.randn(4, 5)
    for _ in range(2):
        tilesmith.matmul(a, b)
    weight = torch.nn.Parameter(b.clone())
    tilesmith.matmul(a, weight).sum().backward()
    assert weight.grad is not None
    counted.hits = 0
    with torch.no_grad():
        for _ in range(2):
            assert torch.allclose(tilesmith.matmul(a, weight), a @ weight, atol=1e-5)
    counted.expect(2)
    with torch.inference_mode():
        assert tilesmith.matmul(a, b).is_inference()
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)  # another number of threads is another call
    counted.hits = 0
    tilesmith.matmul(a, b)
    torch.set_num_threads(threads)
    counted.expect(0)
    with torch.autograd.forward_ad.dual_level():
        tangent = torch.autograd.forward_ad.make_dual(a, torch.ones_like(a))
        with pytest.raises(tilesmith.Unsupported, match="tangent"):
            tilesmith.matmul(tangent, b)
    rows, b = torch.randn(3, 1, dtype=torch.complex64), torch.randn(1, 5)
    counted.hits = 0
    for plain in (rows.real, rows.imag):
        assert torch.allclose(tilesmith.matmul(plain, b), plain @ b, atol=1e-5)
    counted.expect(1)
    with pytest.raises(tilesmith.InvalidArgument, match="negated"):
        tilesmith.matmul(rows.conj().imag, b)
    b = torch.randn(4, 5)
    tilesmith.matmul(a, b)
    seen = []

    class Seen(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    counted.hits = 0
    with Seen():
        tilesmith.matmul(a, b)
    assert any("tilesmith.gemm" in name for name in seen)
    traced = torch.jit.trace(lambda x: tilesmith.matmul(x, b), a)
    assert torch.allclose(traced(2 * a), 2 * a @ b, atol=1e-5)
    tilesmith.matmul(a, b)
    assert counted.hits >= 1


def test_a_library_that_finds_no_python(rng, monkeypatch):
    monkeypatch.setattr(_repeated, "locked_library", lambda: None)
    assert _repeated.RepeatedCalls("t", (np.ndarray,), None).run(None, np.zeros(1)) is NotImplemented
