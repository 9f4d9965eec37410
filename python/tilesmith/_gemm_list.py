"""Lists of products: prepared calls side by side in memory, computed by one call of the library."""

from __future__ import annotations

import contextlib
import ctypes
from array import array
from typing import Any, Callable, Iterator, NamedTuple, Optional, Sequence

from tilesmith._candidates import refuse_listing
from tilesmith._errors import Error, InvalidArgument, WrongType
from tilesmith._gemm_call import WORD_A, WORD_ALPHA, WORD_B, WORD_D, WORD_STREAM, BatchCall, Call, prepare
from tilesmith._gemm_operands import ADDRESSED, NAMES, Operands, Options
from tilesmith._kept_calls import KeptCalls
from tilesmith._interruptible import checked
from tilesmith._library import Gemm, library, raise_last_error
from tilesmith._views import View, number

_WORDS, _FLOATS = ctypes.sizeof(Gemm) // 8, ctypes.sizeof(Gemm) // 4
_KEPT_LISTS = 16  # of a thread: a list of a thousand products takes most of a megabyte

Lists = Operands[Sequence[Any], Optional[Sequence[Any]]]


class CallList:
    """Prepared calls as one. It belongs to the thread that made it."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self.calls = calls
        self._memory = (Gemm * len(calls))()
        size, start = ctypes.sizeof(Gemm), ctypes.addressof(self._memory)
        for at, call in enumerate(calls):
            call.copy_to(start + at * size)
        self._pointers = (ctypes.c_void_p * len(calls))(*range(start, start + len(calls) * size, size))
        self._planned = any(call.stream_device >= 0 for call in calls)  #: see _interruptible.first_run for why not there
        memory = memoryview(self._memory).cast("B")
        self._words, self._floats = memory.cast("Q"), memory.cast("f")
        # Of operands beside a, b and out: which, the product, the word its address goes to.
        self.parts = [(operand, at) for at, call in enumerate(calls) for operand in call.parts]
        self._places = [(operand, at, at * _WORDS + word) for at, call in enumerate(calls) for operand, word in call.places]

    def _plan(self) -> int:
        """Plans each product."""
        plan = ctypes.c_void_p()
        for pointer in self._pointers:
            status: int = library().tilesmith_gemm_plan_for(None, pointer, ctypes.addressof(plan))
            if status:
                return status
        return 0

    def run(self, alphas: Sequence[float], a: Sequence[int], b: Sequence[int], out: Sequence[int],
            operands: Sequence[Sequence[int]], stream: int) -> None:  # fmt: skip
        """Runs on these addresses; operands are those of ADDRESSED, in its order."""
        words, count = self._words, len(self.calls)
        for word, addresses in ((WORD_A, a), (WORD_B, b), (WORD_D, out), (WORD_STREAM, [stream] * count)):
            words[word::_WORDS] = memoryview(array("Q", addresses))
        self._floats[WORD_ALPHA::_FLOATS] = memoryview(array("f", alphas))
        for operand, at, word in self._places:
            words[word] = operands[operand][at]
        if not self._planned:
            checked(self._plan)
            self._planned = True
        status = library().tilesmith_gemm_compute_list(None, ctypes.addressof(self._pointers), count)
        if status:
            raise_last_error(status)


class Library(NamedTuple):
    """What a tensor library does for lists."""

    describe: Callable[[Any], object]  #: of a tensor or None, all that a prepared call depends on
    describe_all: Callable[[Sequence[Any]], object]  #: the same of a list; every tensor passes here, so it is written for speed
    view_of: Callable[[str, Any], View]
    check_sign: Callable[[str, Any], None]  #: of an operand among Call.parts
    check_memory: Callable[[str, Any], None]  #: of an operand of a call that the library refused
    addresses: Callable[[Sequence[Any]], Sequence[int]]
    new: Callable[[Call, Any], Any]  #: a result, of the kind of the product's a
    fold: Callable[..., tuple[float, Any, Any]]  #: scales of one number into alpha
    stream: Callable[[Call], int]
    threads: Callable[[], int]  #: how many it wants calls to use; 0: it has no wish
    calls: KeptCalls[Call]
    lists: KeptCalls[CallList]


def kept_lists() -> KeptCalls[CallList]:
    return KeptCalls(_KEPT_LISTS)


def check_lists(lists: Lists) -> None:
    """All are sequences as long as the first, or None."""
    names = NAMES["matmul"]
    for name, each in zip(names, lists):
        if each is None:
            continue
        if not isinstance(each, (list, tuple)):
            raise WrongType(f"{name} is a {type(each).__name__}, {names.a} a list", "a list, one entry for each product")
        if len(each) != len(lists.a):
            raise InvalidArgument(f"{name} has {len(each)} entries, {names.a} {len(lists.a)}", "one for each product")
    if lists.b is None:
        raise WrongType("b is None", "a list, one entry for each product")


def compute(kind: Library, lists: Lists, out_type: Optional[str], alpha: Any, beta: Any, activation: Any, gate: Any,
            clamp: Any, tf32: Any) -> list[Any]:  # fmt: skip
    """lists: of each operand, an entry for each product; checked to be of the library's tensors."""
    a, b, out, count = lists.a, lists.b, lists.out, len(lists.a)
    if count == 0:
        return []
    alphas = [number("alpha", alpha)] * count
    scaled = lists.scale_a is not None or lists.scale_b is not None
    if scaled:
        none = (None,) * count
        folded = [kind.fold("matmul", *each) for each in zip(alphas, a, b, lists.scale_a or none, lists.scale_b or none)]
        alphas, scale_a, scale_b = map(list, zip(*folded))
        lists = lists._replace(scale_a=scale_a, scale_b=scale_b)
    options = Options("matmul", out_type, activation, gate, clamp, tf32, False, scaled)
    refuse_listing("lists")
    key = (options, beta, kind.threads(), *(None if each is None else kind.describe_all(each) for each in lists))
    prepared = kind.lists.by_key.get(key)
    if prepared is None:
        calls = []
        for at in range(count):
            tensors = [None if each is None else each[at] for each in lists]
            with _product(at, count):
                calls.append(_prepared(kind, tensors, options, beta))
        prepared = kind.lists.keep(key, CallList(calls))
    entries: Sequence[Any] = lists
    for operand, at in prepared.parts:
        with _product(at, count):
            kind.check_sign(NAMES["matmul"][operand], entries[operand][at])
    results = list(map(kind.new, prepared.calls, a)) if out is None else list(out)
    operands = [() if each is None else kind.addresses(each) for each in map(lists.__getattribute__, ADDRESSED)]
    try:
        prepared.run(alphas, kind.addresses(a), kind.addresses(b), kind.addresses(results), operands, kind.stream(prepared.calls[0]))
    except InvalidArgument:  # the library knows but null pointers
        for name, each in zip(NAMES["matmul"], lists):
            for at, tensor in enumerate(each or ()):
                if tensor is not None:
                    with _product(at, count):
                        kind.check_memory(name, tensor)
        raise
    return results


@contextlib.contextmanager
def _product(at: int, count: int) -> Iterator[None]:
    """Errors inside name the product."""
    try:
        yield
    except Error as error:
        raise type(error)(f"product {at} of {count}: {error.message}", error.hint, error.code) from None


def _prepared(kind: Library, tensors: Sequence[Any], options: Options, beta: Any) -> Call:
    key = (options, beta, threads := kind.threads(), *map(kind.describe, tensors))
    call = kind.calls.by_key.get(key)
    if call is None:
        views: list[Any] = [None if tensor is None else kind.view_of(name, tensor) for name, tensor in zip(NAMES["matmul"], tensors)]
        call = kind.calls.keep(key, prepare(Operands(*views), options, beta, threads))
    if isinstance(call, BatchCall):
        raise InvalidArgument("its batch has no one stride for each tensor", "tensors whose batch is one dimension, or a call of its own")
    return call
