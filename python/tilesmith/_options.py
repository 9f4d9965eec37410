"""Options of single calls."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from types import TracebackType
from typing import Any, Callable, Iterable, Optional, Union

from tilesmith._conditions import Conditions, OptionValues, conditions
from tilesmith._errors import InvalidArgument, Unsupported, WrongType
from tilesmith._library import CPU, ContextOptions, check, library, sized
from tilesmith._tensor_library import OperatorOf
from tilesmith._views import one_of, shown, whole
from tilesmith.typing import Build, CallOptions, Determinism

BUILD = {"allowed": 0, "never": 1}
DETERMINISM = {"bitwise": 0, "tolerant": 1}
_MOST_THREADS = 4096
_LONGEST_TEXT = 4095  # bytes: Linux's longest path


class options:
    """Options for the calls of this thread inside a with statement; the functions that compute take them as arguments too,
    for that call alone:

        with tilesmith.options(threads=4, build="never"):
            y = tilesmith.linear(x, w)
        y = tilesmith.linear(x, w, threads=4)

    kernel: the name of the only kernel to use, as last_plan and candidates tell it. Calls it does not compute fail.
    threads: of a CPU kernel, the caller's included, 1 to 4096. Without it torch tensors' calls use torch.get_num_threads(),
        at most the processors there are; others every processor that this process may use.
    build: "allowed" compiles a kernel that is missing; "never" uses only kernels that are linked in, loaded or in the store.
    determinism: "bitwise" gives the same bits every time; "tolerant" lets sums be added in any order where that is faster.

    tuning: a file that `tilesmith db publish` wrote: problems that it has get the kernels that tuning chose. Without it
        TILESMITH_TUNING names one.

    None is: as outside. Nested statements add to one another. Plans are kept for each distinct options, as long as the
    process lives. Around a function of torch.compile it holds for what runs; inside such a function it is refused, and each
    call takes its own options along.

    Errors: InvalidArgument, WrongType.
    """

    def __init__(self, *, kernel: Optional[str] = None, threads: Optional[int] = None,
                 build: Optional[Build] = None,
                 determinism: Optional[Determinism] = None,
                 tuning: Optional[Union[str, os.PathLike[str]]] = None) -> None:  # fmt: skip
        kernel = _text("kernel", kernel, "the name of a kernel, as tilesmith.candidates tells it")
        if isinstance(tuning, os.PathLike):
            tuning = os.fspath(tuning)
        tuning = _text("tuning", tuning, "the path of a file that `tilesmith db publish` wrote")
        if threads is not None:
            threads = whole("threads", threads)
            if not 1 <= threads <= _MOST_THREADS:
                raise InvalidArgument(f"threads is {threads}", f"1 to {_MOST_THREADS}")
        for name, value, known in (("build", build, BUILD), ("determinism", determinism, DETERMINISM)):
            if value is not None:
                one_of(name, value, known)
        #: None: as outside
        self.values = OptionValues(kernel, threads, build, determinism, tuning)
        self._outside: list[Optional[Conditions]] = []

    def __enter__(self) -> None:
        refuse_tracing("tilesmith.options")
        outside = conditions.now
        self._outside.append(outside)
        before = outside or Conditions()
        merged = before.options._replace(**{name: value for name, value in self.values._asdict().items() if value is not None})
        conditions.change(before._replace(options=merged))

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:  # fmt: skip
        conditions.change(self._outside.pop())


def check_names(function: str, given: Iterable[str]) -> None:
    """Of the arguments that a function of the package does not have itself."""
    for name in given:
        if name not in OptionValues._fields:
            raise WrongType(f"{function} has no argument {shown(name)}", f"those that help(tilesmith.{function}) tells")


def under(function: str, given: CallOptions, servers: OperatorOf, serve: Callable[..., Any]) -> Callable[..., Any]:
    """`serve`, of `servers`, for one call of the package's function, under the options that the call was given."""
    check_names(function, given)
    held = options(**given)
    if (operator := servers.operator(serve)) is not None:  # what is traced now runs later: the operator takes them along
        return lambda *arguments: operator(*arguments, options=held.values)

    def run(*arguments: Any) -> Any:
        with held:
            return serve(*arguments)

    return run


def _text(name: str, value: object, hint: str) -> Optional[str]:
    if value is None:
        return None
    if not isinstance(value, str):
        raise WrongType(f"{name} is {shown(value)}", hint)
    if not value or "\0" in value:
        raise InvalidArgument(f"{name} is {shown(value)}", hint)
    try:
        long = len(value.encode()) > _LONGEST_TEXT
    except UnicodeEncodeError:
        raise InvalidArgument(f"{name} is {shown(value)}", hint) from None
    if long:
        raise InvalidArgument(f"{name} is {shown(value)}", f"{hint}, of at most {_LONGEST_TEXT} bytes")
    return value


def refuse_tracing(what: str) -> None:
    """torch.compile would keep what holds while it traces. Where it may, it then runs this function as Python."""
    if (torch := sys.modules.get("torch")) is not None and torch.compiler.is_compiling():
        raise Unsupported(f"{what} inside a function that torch compiles", "it, around the call of that function", "unsupported")


def options_now(kind: int, threads: int = 0) -> Optional[ContextOptions]:
    """For a call prepared now on a device of this kind; None where it needs none. `threads`: how many the tensors' library
    wants, 0 for no wish. The structure lives for ever."""
    values = OptionValues() if conditions.now is None else conditions.now.options
    if kind != CPU:
        values = values._replace(threads=None)
    elif values.threads is None and 0 < threads < _processors():
        values = values._replace(threads=threads)
    return None if values == OptionValues() else _structure(values)


@functools.cache
def _structure(values: OptionValues) -> ContextOptions:
    made = sized(ContextOptions)
    check(library().tilesmith_context_get_options(None, ctypes.addressof(made)))
    if values.kernel is not None:
        made.kernel = values.kernel.encode()
    if values.threads is not None:
        made.threads = values.threads
    if values.build is not None:
        made.build = BUILD[values.build]
    if values.determinism is not None:
        made.determinism = DETERMINISM[values.determinism]
    if values.tuning is not None:
        made.tuning = values.tuning.encode()
    return made


@functools.cache
def _processors() -> int:
    return len(os.sched_getaffinity(0))
