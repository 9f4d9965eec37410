"""Calls of the library that may wait for a compiler, so that Ctrl-C ends the wait.

Python runs its signal handlers in the main thread, between two instructions of Python: not while that thread is in the
library. So what may compile runs in a helper thread, and the main thread waits in Python. A call that has run once is
not concerned: nothing is left to compile, and it costs what it did.
"""

from __future__ import annotations

import ctypes
import threading
import time
from typing import Any, Callable

from tilesmith._library import CPU, check, library

_LONGEST_END = 1.0  # seconds until a cancelled compile that does not end is left to its thread


class _Helper(threading.Thread):
    def __init__(self, function: Callable[..., int], arguments: tuple[Any, ...]) -> None:
        super().__init__(name="tilesmith-plan", daemon=True)
        self.function, self.arguments = function, arguments
        self.error: BaseException | None = None
        self.done = threading.Event()  # not join(): up to Python 3.12 an interrupted join() takes the thread for ended

    def run(self) -> None:
        try:
            check(self.function(*self.arguments))  # here: the library keeps the words of a failure for its thread
        except BaseException as error:  # noqa: BLE001
            self.error = error
        finally:
            self.done.set()


def checked(function: Callable[..., int], *arguments: Any) -> None:
    """Calls a function of the library that answers with a status. Errors: the library's; in the main thread whatever a
    signal's handler raises, after the compiler was killed."""
    if threading.current_thread() is not threading.main_thread():
        check(function(*arguments))
        return
    helper = _Helper(function, arguments)
    try:
        helper.start()
    except RuntimeError:  # no thread to be had
        check(function(*arguments))
        return
    try:
        helper.done.wait()
    except BaseException:
        _end(helper)
        raise
    if helper.error is not None:
        raise helper.error


def _end(helper: _Helper) -> None:
    until = time.monotonic() + _LONGEST_END
    while not helper.done.is_set() and time.monotonic() < until:
        library().tilesmith_cancel_waits(helper.native_id)  # again: it may not have begun to wait
        helper.done.wait(0.02)


def first_run(call: Any, place: str, kind: int, plan_for: str, function: str) -> Callable[..., int]:
    """The library's function of this name; for the CPU what runs it the first time. A CUDA call may be captured into a
    graph, which minds what other threads do meanwhile, and its compiler cannot be killed."""
    own = library()
    run: Callable[..., int] = getattr(own, function)
    return run if kind != CPU else FirstRun(call, place, getattr(own, plan_for), run)


class FirstRun:
    """Stands in a prepared call where the library's function will, until the call runs: plans it, as one can interrupt,
    and gives its place to the function."""

    def __init__(self, call: Any, place: str, plan_for: Callable[..., int], function: Callable[..., int]) -> None:
        self.call, self.place, self.plan_for, self.function = call, place, plan_for, function

    def __call__(self, context: Any, address: int) -> int:
        plan = ctypes.c_void_p()
        checked(self.plan_for, context, address, ctypes.addressof(plan))
        setattr(self.call, self.place, self.function)
        return self.function(context, address)
