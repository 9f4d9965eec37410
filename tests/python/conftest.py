import os
import threading

import numpy as np
import pytest

import reference
import tilesmith

# Units in the last place of the stored type that a sum of float32 products may be off, with room for the rounding of
# the weights to the type: relative to the largest value, 1.
TOLERANCE = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}


@pytest.fixture(autouse=True)
def kernels(request, monkeypatch):
    """In the short form only tests marked `compiles` or `gpu` wait for a compiler: to the binding, one kernel is like
    another, and those that are linked in serve every problem."""
    if not (os.environ.get("TILESMITH_TEST_THOROUGH") or {"compiles", "gpu"} & set(request.keywords)):
        monkeypatch.setenv("TILESMITH_BUILD", "never")


def pytest_collection_modifyitems(items):
    """TILESMITH_TEST_SHARE=I/N takes the I-th of N shares of a file's tests, so that processes may run them side by side."""
    if share := os.environ.get("TILESMITH_TEST_SHARE"):
        at, of = map(int, share.split("/"))
        items[:] = items[at::of]


@pytest.fixture
def rng():
    return np.random.default_rng(20)


@pytest.fixture
def qkv(rng):
    """A maker of q, k, v in the bhsd layout, values in -1 .. 1."""

    def make(batch=2, heads_q=4, heads_kv=2, rows_q=33, rows_k=70, dim=64, dim_v=None, dtype="float32"):
        shapes = (heads_q, rows_q, dim), (heads_kv, rows_k, dim), (heads_kv, rows_k, dim_v or dim)
        return tuple(rng.uniform(-1, 1, (batch, *shape)).astype(dtype) for shape in shapes)

    return make


def assert_near(got, expected, dtype="float32"):
    got = np.asarray(got, np.float64)
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=0, atol=TOLERANCE[str(dtype)])


def assert_attention(got, q, k, v, **options):
    """A result, or a pair with the log-sum-exp, against the reference."""
    o, lse = reference.attention(q, k, v, **options)
    if isinstance(got, tuple):
        np.testing.assert_allclose(np.asarray(got[1], np.float64), lse, rtol=1e-5, atol=1e-5)
        got = got[0]
    assert_near(got, o, q.dtype)


def wrong_in_threads(function, problems, calls=100):
    """The problems of which a thread ever got another result than the first, each thread computing all in turn."""
    expected = [np.asarray(function(*problem)) for problem in problems]
    wrong = set()

    def work(first):
        for i in range(calls):
            which = (first + i) % len(problems)
            if not np.array_equal(np.asarray(function(*problems[which])), expected[which]):
                wrong.add(which)

    threads = [threading.Thread(target=work, args=(first,)) for first in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


@pytest.fixture
def program():
    """Skips a test of races where the program is not there that runs them: a wheel has none."""
    with pytest.raises(tilesmith.Error) as said:
        tilesmith.tune("gemm -q 3")  # what the program refuses, where it is there
    if said.value.code == "not_found":
        pytest.skip(str(said.value))
