"""grouped_matmul of lists: every product against float64, on NumPy arrays and torch tensors."""

import numpy as np
import pytest

import reference
import tilesmith

SIZES = [(5, 9, 33), (1, 40, 7), (0, 3, 4), (64, 2, 300), (3, 5, 0), (17, 0, 5), (130, 96, 64)]


@pytest.fixture(params=["numpy", "torch"])
def make(request, rng):
    """Random tensors of a library, with what makes arrays of them."""
    if request.param == "numpy":
        return lambda *shape: rng.uniform(-1, 1, shape).astype("f4")
    torch = pytest.importorskip("torch", reason="torch is not installed")
    return lambda *shape: torch.from_numpy(rng.uniform(-1, 1, shape).astype("f4"))


def assert_close(got, expected):
    assert tuple(got.shape) == expected.shape
    np.testing.assert_allclose(np.asarray(got, np.float64), expected, rtol=2e-6, atol=4e-5)


def test_every_product(make):
    a, b = [make(m, k) for m, _, k in SIZES], [make(k, n) for _, n, k in SIZES]
    got = tilesmith.grouped_matmul(a, b)
    assert isinstance(got, list) and len(got) == len(SIZES) and all(type(x) is type(a[0]) for x in got)
    for x, left, right in zip(got, a, b):
        assert_close(x, reference.matmul(np.asarray(left), np.asarray(right)))
    assert tilesmith.last_plan().reason.startswith(f"{len(SIZES)} products")
    assert tilesmith.grouped_matmul([], []) == []


def test_again_with_other_data_and_other_sizes(make):
    for _ in range(3):
        for sizes in (SIZES, SIZES[::-1], SIZES[:1]):
            a, b = [make(m, k) for m, _, k in sizes], [make(k, n) for _, n, k in sizes]
            for x, left, right in zip(tilesmith.grouped_matmul(a, b), a, b):
                assert_close(x, reference.matmul(np.asarray(left), np.asarray(right)))


def test_epilogues_out_and_views(make):
    sizes = [(5, 8, 33), (1, 40, 7), (64, 2, 300)]
    a, b = [make(m, k) for m, _, k in sizes], [make(n, k).T for _, n, k in sizes]
    bias, residual = [make(n) for _, n, _ in sizes], [make(m, n) for m, n, _ in sizes]
    out = [make(m, n) for m, n, _ in sizes]
    got = tilesmith.grouped_matmul(a, b, bias=bias, activation="gelu", residual=residual, alpha=0.5, out=out)
    assert all(x is y for x, y in zip(got, out))
    for x, left, right, vector, tensor in zip(got, a, b, bias, residual):
        assert_close(x, reference.matmul(np.asarray(left), np.asarray(right), bias=np.asarray(vector), activation="gelu",
                                         residual=np.asarray(tensor), alpha=0.5))  # fmt: skip
    scales = [make(m) + 2 for m, _, _ in sizes]
    got = tilesmith.grouped_matmul(a, b, scale_a=scales, scale_b=[2.0, 3.0, 0.5])
    for x, left, right, rows, number in zip(got, a, b, scales, (2.0, 3.0, 0.5)):
        assert_close(x, reference.matmul(np.asarray(left), np.asarray(right)) * np.asarray(rows, np.float64)[:, None] * number)


def test_batches_of_their_own(make):
    a, b = [make(3, 5, 7), make(4, 6)], [make(3, 7, 2), make(6, 6)]
    for x, left, right in zip(tilesmith.grouped_matmul(a, b), a, b):
        assert_close(x, np.matmul(np.asarray(left, np.float64), np.asarray(right, np.float64)))


def test_a_thousand(make):
    a, b = [make(1 + i % 9, 1 + i % 7) for i in range(1000)], [make(1 + i % 7, 1 + i % 5) for i in range(1000)]
    for x, left, right in zip(tilesmith.grouped_matmul(a, b), a, b):
        assert_close(x, reference.matmul(np.asarray(left), np.asarray(right)))


def test_errors_name_the_product(make):
    a, b = [make(5, 9), make(3, 4)], [make(9, 2), make(4, 2)]
    for change, text in ((lambda: tilesmith.grouped_matmul(a, [b[0], make(5, 2)]), "product 1 of 2: a has 4 columns, b 5 rows"),
                         (lambda: tilesmith.grouped_matmul(a, b[:1]), "b has 1 entries, a 2"),
                         (lambda: tilesmith.grouped_matmul(a, b, bias=[make(2), make(3)]), "product 1 of 2: bias"),
                         (lambda: tilesmith.grouped_matmul(a, b, group_ends=a[0]), "a is a list"),
                         (lambda: tilesmith.grouped_matmul(a, b, out=[make(5, 2), make(3, 3)]), "product 1 of 2: out"),
                         (lambda: tilesmith.grouped_matmul(a, b, out=[(shared := make(5, 2)), shared[:3]]), "product [01] of 2: d overlaps d of product [01]"),
                         (lambda: tilesmith.grouped_matmul(a, b, out=[make(5, 2), a[0][:3, :2]]), "product 1 of 2: d overlaps a of product 0"),
                         (lambda: tilesmith.grouped_matmul(a, b, alpha="x"), "alpha is 'x'"),
                         (lambda: tilesmith.grouped_matmul(a, b, out=[a[0][:, :2], make(3, 2)]), "product 0 of 2: d overlaps a")):
        with pytest.raises((ValueError, TypeError), match=text):
            change()
    with pytest.raises(TypeError, match="b is a"):
        tilesmith.grouped_matmul(a, b[0])
    with pytest.raises(TypeError, match=r"b\[1\] is a"):
        tilesmith.grouped_matmul(a, [b[0], [1, 2]])
    with pytest.raises(TypeError, match=r"out\[0\] is (None|a NoneType)"):
        tilesmith.grouped_matmul(a, b, out=[None, make(3, 2)])
    with pytest.raises(TypeError, match=r"a\[0\] is a str"):
        tilesmith.grouped_matmul(["x"], [b[0]])


def test_types_of_their_own(rng):
    a, b = [rng.integers(-9, 9, (5, 8)).astype("i1"), rng.uniform(-1, 1, (5, 8)).astype("f4")], None
    b = [x.T.copy() for x in a]
    got = tilesmith.grouped_matmul(a, b)
    np.testing.assert_array_equal(got[0], a[0].astype("i4") @ b[0].astype("i4"))
    assert_close(got[1], reference.matmul(a[1], b[1]))


def test_torch_compiles(rng):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    a, b = [torch.rand(5, 7), torch.rand(2, 3)], [torch.rand(7, 2), torch.rand(3, 3)]
    got = tilesmith.grouped_matmul(a, b)
    compiled = torch.compile(tilesmith.grouped_matmul, fullgraph=True, backend="eager")(a, b)
    for x, y in zip(got, compiled):
        torch.testing.assert_close(x, y)


def test_torch_tensors_whose_memory_is_not_what_they_are(rng):
    """A list like one before, whose calls are there already: lazily negated views, and tensors without memory."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    a = [torch.from_numpy(rng.uniform(-1, 1, (5, 3)).astype("f4")) for _ in range(2)]
    parts = [torch.complex(x, x)[:, 0] for x in a]
    b = [torch.from_numpy(rng.uniform(-1, 1, (1, 4)).astype("f4")) for _ in range(2)]
    for again in range(2):
        got = tilesmith.grouped_matmul([part.imag[:, None] for part in parts], b)
        for x, left, right in zip(got, a, b):
            assert_close(x, reference.matmul(left[:, :1].numpy(), right.numpy()))
        mixed = [parts[0].imag[:, None], parts[1].conj().imag[:, None]]
        with pytest.raises(ValueError, match="product 1 of 2: a is a lazily negated view") as caught:
            tilesmith.grouped_matmul(mixed, b)
        assert caught.value.hint == "a.resolve_neg()"
        got = tilesmith.grouped_matmul([x.resolve_neg() for x in mixed], b)
        assert_close(got[1], -reference.matmul(a[1][:, :1].numpy(), b[1].numpy()))
        out = [torch.complex(torch.zeros(5, 4), torch.zeros(5, 4)).conj().imag[:, :1] for _ in range(2)]
        with pytest.raises(ValueError, match="product 0 of 2: out is a lazily negated view"):
            tilesmith.grouped_matmul(a, [torch.ones(3, 1)] * 2, out=out)
        with pytest.raises(ValueError, match="product 1 of 2: b is a meta tensor, which has no memory"):
            tilesmith.grouped_matmul([x[:, :1] for x in a], [b[0], b[1].to("meta")])
        tilesmith.grouped_matmul([x[:, :1] for x in a], b)
