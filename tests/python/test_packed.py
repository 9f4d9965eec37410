"""linear with a weight packed beforehand."""

import copy
import pickle
import threading

import numpy as np
import pytest

import reference
import tilesmith

pytestmark = pytest.mark.compiles

SIZES = [(1, 1), (67, 129), (96, 600), (130, 1100)]


def assert_same(got, expected):
    # The other kernel's order of additions, and rounding.
    np.testing.assert_allclose(np.asarray(got, np.float64), np.asarray(expected, np.float64), rtol=2e-6, atol=4e-5)


@pytest.fixture
def make(rng):
    return lambda *shape: rng.uniform(-1, 1, shape).astype(np.float32)


@pytest.mark.parametrize("n, k", SIZES)
def test_every_number_of_rows_reads_one_buffer(make, n, k):
    w = make(n, k)
    packed = tilesmith.pack_weight(w)
    assert packed.shape == (n, k) and packed.data_type == "fp32" and packed.is_packed and packed.nbytes > w.nbytes
    for m in (1, 3, 17, 200):
        x = make(m, k)
        assert_same(tilesmith.linear(x, packed), x.astype(np.float64) @ w.T.astype(np.float64))
        assert "_packedb" in tilesmith.last_plan().kernel


def test_what_follows_the_sums(make):
    w, bias, x, r = make(66, 50), make(66), make(2, 7, 50), make(2, 7, 66)
    packed = tilesmith.pack_weight(w)
    for options in ({"activation": "gelu"}, {"gate": "swiglu"}, {"residual": r, "clamp": (-1, 1)}, {"scale_x": 0.5},
                    {"scale_w": np.abs(make(66))}):  # fmt: skip
        got, expected = tilesmith.linear(x, packed, bias, **options), tilesmith.linear(x, w, bias, **options)
        assert got.shape == expected.shape
        assert_same(got, expected)
    got, most = tilesmith.linear(x, packed, amax=True)
    assert_same(most, np.abs(got).max())
    assert tilesmith.linear(x[0, 0], packed).shape == (66,)
    assert tilesmith.linear(x[:0], packed).shape == (0, 7, 66)
    out = np.empty((2, 7, 66), np.float32)
    assert tilesmith.linear(x, packed, out=out) is out
    assert_same(out, tilesmith.linear(x, w))


def test_integers_and_halves(rng):
    w, x = rng.integers(-128, 128, (70, 300), np.int8), rng.integers(-128, 128, (9, 300), np.int8)
    got = tilesmith.linear(x, tilesmith.pack_weight(w))
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got, x.astype(np.int64) @ w.T.astype(np.int64))
    w, x = rng.uniform(-1, 1, (70, 300)).astype(np.float16), rng.uniform(-1, 1, (9, 300)).astype(np.float16)
    np.testing.assert_allclose(tilesmith.linear(x, tilesmith.pack_weight(w)).astype(np.float64),
                               reference.matmul(x, w.T), rtol=2**-10, atol=1e-4)  # fmt: skip


def test_layouts_of_the_weight(make):
    x = make(5, 40)
    for w in (make(30, 40), make(40, 30).T, make(30, 45)[:, :40], make(40, 33).T[:30]):
        assert_same(tilesmith.linear(x, tilesmith.pack_weight(w)), tilesmith.linear(x, w))


def test_pickles_and_copies(make):
    w, x = make(37, 90), make(4, 90)
    packed = tilesmith.pack_weight(w)
    expected = tilesmith.linear(x, packed)
    for again in (pickle.loads(pickle.dumps(packed)), copy.deepcopy(packed)):
        assert again.data.ctypes.data % 64 == 0 and again.shape == (37, 90)
        np.testing.assert_array_equal(tilesmith.linear(x, again), expected)
    off = np.empty(packed.nbytes + 65, np.uint8)
    start = -off.ctypes.data % 64 + 1
    off[start : start + packed.nbytes] = packed.data
    moved = tilesmith.PackedWeight(off[start : start + packed.nbytes], 37, 90, "fp32")
    np.testing.assert_array_equal(tilesmith.linear(x, moved), expected)


def test_threads_share_it(make):
    w, x = make(200, 300), make(40, 300)
    packed = tilesmith.pack_weight(w)
    expected, wrong = tilesmith.linear(x, packed), []

    def work():
        for _ in range(20):
            if not np.array_equal(tilesmith.linear(x, packed), expected):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_refusals(make):
    packed, x = tilesmith.pack_weight(make(30, 40)), make(5, 40)

    def again(n=30, k=40, data_type="fp32", data=packed.data):
        return tilesmith.PackedWeight(data, n, k, data_type)

    with pytest.raises(tilesmith.InvalidArgument, match="b was packed for fp32 x fp32, n 30, k 40"):
        tilesmith.linear(x, again(n=31))
    with pytest.raises(tilesmith.InvalidArgument, match="x has 41 elements"):
        tilesmith.linear(make(5, 41), packed)
    with pytest.raises(tilesmith.WrongType, match="x is fp16, w is fp32"):
        tilesmith.linear(x.astype(np.float16), packed)
    with pytest.raises(tilesmith.InvalidArgument, match="b was packed for"):
        tilesmith.linear(x.astype(np.float16), again(data_type="fp16"))
    damaged = packed.data.copy()
    damaged[10] ^= 1
    with pytest.raises(tilesmith.InvalidArgument, match="damaged"):
        tilesmith.linear(x, again(data=damaged))
    with pytest.raises(tilesmith.InvalidArgument, match="of which"):
        tilesmith.linear(x, again(data=packed.data[:-64]))
    with pytest.raises(tilesmith.InvalidArgument, match="no buffer that pack_b made"):
        tilesmith.linear(x, again(data=np.zeros(packed.nbytes, np.uint8)))
    with pytest.raises(tilesmith.InvalidArgument, match=r"w has the shape \(3,\)"):
        tilesmith.pack_weight(make(3))
    with pytest.raises(tilesmith.WrongType, match="w is int32"):
        tilesmith.pack_weight(np.zeros((3, 4), np.int32))
    with pytest.raises(tilesmith.InvalidArgument, match="strides"):
        tilesmith.pack_weight(make(6, 8)[::2, ::2])
    with pytest.raises(tilesmith.WrongType):
        tilesmith.matmul(x, packed)
    with pytest.raises(tilesmith.WrongType):
        tilesmith.pack_weight([[1.0]])
    assert repr(packed).startswith("PackedWeight((30, 40), fp32, packed in ")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_torch(dtype, tmp_path):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    torch.manual_seed(4)
    dtype = getattr(torch, dtype)
    layer = torch.nn.Linear(300, 70).to(dtype)
    packed = tilesmith.pack_weight(layer.weight)
    torch.save(packed, tmp_path / "weight")
    loaded = torch.load(tmp_path / "weight", weights_only=False)
    for m in (1, 3, 17, 200):
        x = torch.randn(m, 300).to(dtype)
        with torch.no_grad():
            expected = torch.nn.functional.linear(x.double(), layer.weight.double(), layer.bias.double()).relu()
            for weight in (packed, loaded):
                got = tilesmith.linear(x, weight, layer.bias.detach(), activation="relu")
                tolerance = dict(rtol=1e-5, atol=1e-4) if dtype == torch.float32 else dict(rtol=2e-2, atol=1e-2)
                torch.testing.assert_close(got.double(), expected, **tolerance)
                scaled = tilesmith.linear(x, weight, scale_w=torch.full((70,), 0.5), residual=got)
                assert scaled.shape == (m, 70)
    with pytest.raises(tilesmith.WrongType):
        tilesmith.linear(np.ones((2, 300), np.float32), packed)
    with pytest.raises(tilesmith.Unsupported, match="requires a gradient"):
        tilesmith.linear(torch.randn(2, 300).to(dtype).requires_grad_(), packed)


def test_a_weight_on_a_gpu_is_kept_as_it_is():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    w, x = torch.randn(64, 128, device="cuda").bfloat16(), torch.randn(5, 128, device="cuda").bfloat16()
    packed = tilesmith.pack_weight(w)
    assert not packed.is_packed and packed.data.data_ptr() == w.data_ptr()
    assert torch.equal(tilesmith.linear(x, packed), tilesmith.linear(x, w))
