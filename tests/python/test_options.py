"""Options of single calls, what dispatch has to choose from, and what was counted."""

import functools
import threading

import numpy as np
import pytest

import tilesmith
from tilesmith._conditions import OptionValues

A = np.ones((70, 40), np.float32)
B = np.ones((40, 48), np.float32)


def kernel_of(**options):
    with tilesmith.options(**options):
        assert (tilesmith.matmul(A, B) == 40).all()
        return tilesmith.last_plan().kernel


@pytest.mark.compiles
def test_each_candidate_can_be_asked_for():
    listed = tilesmith.candidates(tilesmith.matmul, A, B)
    assert listed.policy and len(listed.candidates) > 1 and listed.refusals and listed.refusals[0].rule
    assert [each.predicted_seconds for each in listed.candidates] == sorted(each.predicted_seconds for each in listed.candidates)
    best, other = listed.candidates[0].kernel, listed.candidates[-1].kernel
    assert str(listed).count("\n") == len(listed.candidates) - 1 and best in str(listed)
    tilesmith.matmul(A, B)
    assert tilesmith.last_plan().kernel == best
    assert kernel_of(kernel=other) == other
    tilesmith.matmul(A, B)
    assert tilesmith.last_plan().kernel == best


def test_candidates_compute_nothing():
    out = np.full((70, 48), -1, np.float32)
    tilesmith.candidates(tilesmith.matmul, A, B, out=out)
    assert (out == -1).all()
    q = np.ones((1, 2, 64, 64), np.float32)
    with tilesmith.options(threads=1):
        one = tilesmith.candidates(tilesmith.attention, q, q, q).candidates
    assert one[0].predicted_seconds >= tilesmith.candidates(tilesmith.attention, q, q, q).candidates[0].predicted_seconds


def test_what_has_no_candidates():
    with pytest.raises(tilesmith.WrongType, match="the function is"):
        tilesmith.candidates(print, A, B)
    with pytest.raises(tilesmith.WrongType, match="the function is"):
        tilesmith.candidates([], A, B)
    with pytest.raises(tilesmith.Unsupported, match="lists"):
        tilesmith.candidates(tilesmith.grouped_matmul, [A], [B])
    with pytest.raises(tilesmith.WrongType):
        tilesmith.candidates(tilesmith.matmul, A, None)
    assert (tilesmith.matmul(A, B) == 40).all()  # and after a failure calls compute


def test_options_nest_and_end():
    outside = tilesmith._conditions.conditions
    assert outside.now is None
    given = tilesmith.options(threads=2, build="never")
    with given:
        with tilesmith.options(threads=1), given:
            assert outside.now.options.threads == 2
        with tilesmith.options(determinism="tolerant"):
            assert outside.now.options == (None, 2, "never", "tolerant", None)
    assert outside.now is None
    with pytest.raises(ZeroDivisionError), given:
        1 / 0
    assert outside.now is None


def test_options_are_of_the_thread():
    seen = []
    with tilesmith.options(threads=1):
        thread = threading.Thread(target=lambda: seen.append(tilesmith._conditions.conditions.now))
        thread.start()
        thread.join()
    assert seen == [None]


@pytest.mark.parametrize("threads", [1, 2, 3, 64])
def test_any_number_of_threads(threads):
    kernel_of(threads=threads)
    with tilesmith.options(threads=threads):
        assert (tilesmith.grouped_matmul([A, A], [B, B])[1] == 40).all()


def test_a_tuning_file_that_cannot_be_read(tmp_path):
    path = tmp_path / "none.json"
    with pytest.raises(tilesmith.Error, match="none.json"):
        kernel_of(tuning=path)
    path.write_text("{}")
    with pytest.raises(tilesmith.Error, match="none.json"):
        kernel_of(tuning=str(path))
    assert (tilesmith.matmul(A, B) == 40).all()


@pytest.mark.parametrize(
    "given",
    [{"kernel": ""}, {"kernel": 3}, {"kernel": "a\0b"}, {"kernel": "\ud800"}, {"threads": 0}, {"threads": 4097}, {"threads": 10**30},
     {"threads": 1.5}, {"threads": "2"}, {"build": "sometimes"}, {"build": 1}, {"determinism": "no"}, {"determinism": []},
     {"tuning": 3}, {"tuning": ""}, {"tuning": b"x"}],
)  # fmt: skip
def test_options_that_cannot_be(given):
    with pytest.raises((tilesmith.InvalidArgument, tilesmith.WrongType)) as failure:
        tilesmith.options(**given)
    assert next(iter(given)) in failure.value.message and failure.value.hint


CALLS = {
    "matmul": lambda x, **given: tilesmith.matmul(x, x, **given),
    "linear": lambda x, **given: tilesmith.linear(x, x, **given),
    "mm_plus_mm": lambda x, **given: tilesmith.mm_plus_mm(x, x, x, x, **given),
    "grouped_matmul": lambda x, **given: tilesmith.grouped_matmul(x, x[None], group_ends=np.array([8], np.int32), **given),
    "grouped_matmul of lists": lambda x, **given: tilesmith.grouped_matmul([x], [x], **given)[0],
    "attention": lambda x, **given: tilesmith.attention(*(x[None, None],) * 3, **given),
    "scaled_dot_product_attention": lambda x, **given: tilesmith.scaled_dot_product_attention(*(x[None, None],) * 3, **given),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_options_of_one_call(call):
    x = np.ones((8, 8), np.float32)
    expected = call(x)
    free = tilesmith.last_plan()
    assert (call(x, threads=1, build=None, determinism="bitwise") == expected).all()
    with pytest.raises(tilesmith.Error, match="no_such_kernel"):
        call(x, kernel="no_such_kernel")
    assert (call(x) == expected).all() and tilesmith.last_plan() == free  # what failed ended with its call
    with tilesmith.options(kernel="no_such_kernel"), pytest.raises(tilesmith.Error, match="no_such_kernel"):
        call(x, threads=1)  # one adds to the other
    with pytest.raises(tilesmith.InvalidArgument, match="threads is 0"):
        call(x, threads=0)
    with pytest.raises(tilesmith.WrongType, match="thread_count"):
        call(x, thread_count=2)


def test_candidates_under_options_of_the_call():
    with tilesmith.options(threads=1):
        listed = tilesmith.candidates(tilesmith.matmul, A, B)
    assert tilesmith.candidates(tilesmith.matmul, A, B, threads=1) == listed


def test_a_kernel_that_cannot_be():
    with pytest.raises(tilesmith.Error, match="no_such_kernel"):
        kernel_of(kernel="no_such_kernel")


def test_what_is_counted():
    before = tilesmith.store_stats()
    x = np.ones((3, 5), np.float32)
    tilesmith.matmul(x, x.T)
    after = tilesmith.store_stats()
    tilesmith.matmul(x, x.T)
    assert tilesmith.store_stats() == after  # a repeated call looks for nothing
    assert after.hits >= before.hits and after.builds <= after.misses and after.build_seconds >= 0


def test_torch():
    torch = pytest.importorskip("torch")
    a, b = torch.ones(700, 400), torch.ones(400, 480)  # enough for two threads
    listed = tilesmith.candidates(tilesmith.matmul, a, b)
    with tilesmith.options(kernel=listed.candidates[-1].kernel):
        assert (tilesmith.matmul(a, b) == 400).all()
        assert tilesmith.last_plan().kernel == listed.candidates[-1].kernel
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = tilesmith.candidates(tilesmith.matmul, a, b).candidates[0].predicted_seconds
        assert (tilesmith.matmul(a, b) == 400).all() and (tilesmith.grouped_matmul([a, a], [b, b])[1] == 400).all()
        with tilesmith.options(threads=2):
            two = tilesmith.candidates(tilesmith.matmul, a, b).candidates[0].predicted_seconds
        assert one == tilesmith.candidates(tilesmith.matmul, a, b).candidates[0].predicted_seconds >= two
    finally:
        torch.set_num_threads(before)


def test_options_inside_what_torch_compiles():
    torch = pytest.importorskip("torch")

    def inside(x):
        with tilesmith.options(threads=1):
            return tilesmith.matmul(x, x)

    x = torch.ones(8, 8)
    with pytest.raises(Exception):  # noqa: B017: dynamo's own classes around ours
        torch.compile(inside, backend="eager", fullgraph=True)(x)
    assert (torch.compile(inside, backend="eager")(x) == 8).all()  # broken there, and run as Python
    compiled = torch.compile(lambda x: tilesmith.matmul(x, x), backend="eager", fullgraph=True)
    with tilesmith.options(threads=1):
        assert (compiled(x) == 8).all()
    assert tilesmith._conditions.conditions.now is None


def test_options_of_a_call_that_torch_compiles(tmp_path):
    torch = pytest.importorskip("torch")
    x = torch.ones(8, 8)
    compiled = functools.partial(torch.compile, fullgraph=True, backend="aot_eager")
    threads = compiled(lambda x, n: tilesmith.matmul(x, x, threads=n), dynamic=True)
    assert all((threads(x, n) == 8).all() for n in (1, 2, 3))
    missing = str(tmp_path / "none.json")  # a string: torch.compile does not trace pathlib of each Python
    with pytest.raises(tilesmith.Failure, match="none.json"):
        compiled(lambda x: tilesmith.matmul(x, x, tuning=missing))(x)
    with pytest.raises(tilesmith.InvalidArgument, match="threads is 0"):
        torch.compile(lambda x: tilesmith.matmul(x, x, threads=0), backend="eager")(x)
    tilesmith.matmul(x, x)
    used = tilesmith.last_plan().kernel
    named = compiled(lambda x: tilesmith.matmul(x, x, kernel=used, threads=1))
    with tilesmith.options(kernel="no_such_kernel"):  # the call's own go first
        assert (named(x) == 8).all() and tilesmith.last_plan().kernel == used
    assert tilesmith._conditions.conditions.now is None


def test_options_of_calls_with_other_tensors():
    torch = pytest.importorskip("torch")
    from torch._subclasses.fake_tensor import FakeTensorMode

    class Own(torch.Tensor):
        pass

    x = torch.ones(8, 8)
    own = x.as_subclass(Own)
    for call in (tilesmith.matmul, lambda a, b, **given: tilesmith.grouped_matmul([a], [b], **given)[0]):
        for operands in ((own, own), (x, own)):
            assert (call(*operands, threads=1) == 8).all()
            with pytest.raises(tilesmith.Error, match="no_such_kernel"):
                call(*operands, kernel="no_such_kernel")
        with FakeTensorMode() as mode:
            fake = mode.from_tensor(x)
            assert call(fake, fake, threads=1).shape == (8, 8)


def test_opcheck():
    torch = pytest.importorskip("torch")
    x, q = torch.ones(8, 8), torch.ones(1, 2, 8, 16)
    tilesmith.matmul(x, x), tilesmith.attention(q, q, q)  # the operators are registered
    given = {"threads": 1, "build": "never", "determinism": "tolerant"}
    for each in (torch.ops.tilesmith.gemm, torch.ops.tilesmith.attention_fwd):
        names = tuple(argument.name for argument in each.default._schema.arguments)
        assert names[-len(OptionValues._fields) :] == ("kernel_name", *OptionValues._fields[1:])
    product = ("matmul", x, x, *(None,) * 11, 1.0, 1.0, None, None, None, False)
    torch.library.opcheck(torch.ops.tilesmith.gemm, product, given)
    torch.library.opcheck(torch.ops.tilesmith.gemm_out, product, given | {"out": torch.empty(8, 8)})
    one = (q, q, q, "bhsd", False, "none", -1, -1, None, 0.0, *(None,) * 6, 0.0, *(None,) * 5, True)
    torch.library.opcheck(torch.ops.tilesmith.attention_fwd, one, given)
    torch.library.opcheck(torch.ops.tilesmith.attention_fwd_out, one, given | {"out": torch.empty_like(q)})
