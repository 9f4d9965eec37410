"""Calls like calls before, which the library repeats without this package's Python.

`run` is called first, with the conditions of the call and its arguments. It knows a call again by what its tensors look
like and by its other arguments, fills in the pointers, makes the results and runs; else it answers NotImplemented. The
call then goes the long way, which checks everything, and tells `keep` what it found. A repeated call that fails goes the
long way too, which says why.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any, Callable, NamedTuple, Optional, Sequence

from tilesmith._conditions import Conditions
from tilesmith._library import locked_library

_KINDS = "ton"
#: In the library's order.
OPERATIONS = ("attention", "conv", "gemm")
#: How often a prepared call is told to `keep`: another time where arguments are equal, and yet not found again, as a dtype by another
#: name, or the number 1 for 1.0.
TIMES_KEPT = 4


class Question(NamedTuple):
    """What is asked without arguments: a function of Python, and the one of C++ behind it, which answers in a tenth of the
    time and is asked where it is found."""

    ask: Callable[[], object]
    answers: str  #: one of ANSWERS
    library: str
    symbol: str


#: In the library's order; a reference is one to a pointer, which may be null.
ANSWERS = ("int", "long", "bool", "reference")


class Asked(NamedTuple):
    """What a tensor library is asked in each call, besides what its tensors look like."""

    dtype: type  #: of its data types
    exchange: int = 0  #: address of its table of DLPack functions; 0: NumPy
    beside: tuple[Question, ...] = ()  #: a call is like another only if these answer the same
    grad_enabled: Optional[Question] = None  #: then no tensor of a repeated call requires a gradient
    forward_mode: object = None  #: torch's module of forward-mode differentiation: at a level no call is repeated
    stream: Optional[Callable[[int], int]] = None  #: of a device


class Output(NamedTuple):
    """A result that is made for each call."""

    word: int  #: of the structure, for its address
    like: int  #: the argument that goes first into the maker; -1: none
    maker: Callable[..., Any]
    arguments: tuple[Any, ...]
    named: Optional[dict[str, Any]] = None
    is_room: bool = False  #: no result: the call needs the memory


class Repetition(NamedTuple):
    """What a call does when it is repeated."""

    operation: str  #: one of OPERATIONS
    structure: ctypes.Structure
    pointers: tuple[tuple[int, int], ...]  #: arguments and the words for their addresses
    number: tuple[int, ...] = ()  #: an argument, its place among words of four bytes, and tensors of a float that multiply it
    stream: tuple[tuple[int, int], ...] = ()  #: a device and the word for its stream
    returned: int = -1  #: the argument that is the result
    outputs: tuple[Output, ...] = ()  #: else, or beside it
    parts: tuple[int, ...] = ()  #: tensors that torch may have negated, which nothing that they look like tells
    kept: tuple[Any, ...] = ()  #: what the structure points to
    apart: tuple[int, ...] = ()  #: an output, its bytes, and each input that it must not overlap with its bytes


class RepeatedCalls:
    """Of one operation and tensor library. `kinds` has a letter for each argument: t, a tensor or None; n, a number that
    the structure takes; o, what else decides about the call. None asked: no call is repeated."""

    def __init__(self, kinds: str, types: Sequence[type], asked: Optional[Asked]) -> None:
        self.run: Callable[..., Any] = _never
        self._keep: Callable[..., None] = _forget
        self._kinds = kinds
        self._dtype: type = type(None) if asked is None else asked.dtype
        self._torch = asked is not None and asked.exchange != 0
        if asked is None or sys.implementation.name != "cpython" or not getattr(sys, "_is_gil_enabled", lambda: True)():
            return
        make = locked_library().tilesmith_python_repeated_calls
        setup = (tuple(map(_KINDS.index, kinds)), tuple(types), asked.exchange, tuple(map(_question, asked.beside)), asked.grad_enabled and _question(asked.grad_enabled),
                 "requires_grad", asked.forward_mode, "_current_level", asked.stream, "is_neg")  # fmt: skip
        try:
            self.run, self._keep = make(setup)
        except ValueError:  # null: the library does not find Python
            pass

    def keep(self, conditions: Optional[Conditions], arguments: tuple[Any, ...], x: Repetition) -> None:
        """After a call with these arguments ran."""
        if conditions is not None and (conditions.listing or conditions.record is not None):
            return
        if not all(_is_constant(each, self._dtype) for each, kind in zip(arguments, self._kinds) if kind == "o"):
            return
        flat = tuple(each for place in x.pointers for each in place)
        stream = tuple(each for place in x.stream for each in place)
        self._keep(((conditions, *arguments), OPERATIONS.index(x.operation), ctypes.addressof(x.structure), ctypes.sizeof(x.structure), flat, x.number, stream,
                    x.returned, x.outputs, x.apart, x.parts if self._torch else (), x.kept))  # fmt: skip


def _is_constant(x: object, dtype: type) -> bool:
    """Whether it will always be what it is now, so that its address tells it."""
    if isinstance(x, tuple):
        return all(_is_constant(each, dtype) for each in x)
    return x is None or isinstance(x, (int, float, str, type, dtype))


def _question(x: Question) -> tuple[object, int, bytes, bytes]:
    return x.ask, ANSWERS.index(x.answers), x.library.encode(), x.symbol.encode()


def _never(*arguments: Any) -> Any:
    return NotImplemented


def _forget(*told: Any) -> None:
    """There is nothing to repeat calls."""
