"""Tuning: the problems of a call are raced by the program, in a process of its own, and kept in its database."""

from __future__ import annotations

import ctypes
import os
import re
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Optional, Union

from tilesmith._conditions import Conditions, Planned, Record, conditions
from tilesmith._errors import InvalidArgument, Unsupported, WrongType
from tilesmith._interruptible import checked
from tilesmith._library import CPU, CUDA, DeviceId, TuneRequest, library, sized
from tilesmith._library import TuneReport as _Told
from tilesmith._options import options, refuse_tracing
from tilesmith._views import flag, number, shown, whole

_PathLike = Union[str, "os.PathLike[str]"]
_DEVICE = re.compile(r"cpu|cuda(?::([0-9]{1,4}))?")


@dataclass(frozen=True)
class TunedProblem:
    """What came of one problem's race."""

    problem: str  #: its line: "gemm -m 8 -n 64 -k 64"
    before: str  #: the recipe that was chosen before the race
    chosen: str  #: the recipe that is chosen now
    before_seconds: float  #: of a call; 0: what was chosen before failed
    chosen_seconds: float
    gain: float  #: before over now, measured in turns; 1: nothing was confirmed better


@dataclass(frozen=True)
class TuneReport:
    """What `tune` did."""

    problems: tuple[TunedProblem, ...]  #: that were raced
    known: int  #: problems that the database had for this device, and that were not raced again
    skipped: tuple[tuple[str, str], ...]  #: problem and reason: no kernel computes it, or none ran
    database: str  #: where the measurements are
    file: str  #: where the choices are, for `tuning`; "": none was asked for

    def __str__(self) -> str:
        lines = [f"{1e6 * each.chosen_seconds:12.2f} us  {each.gain:6.3f} x  {each.problem}  {each.chosen}"
                 for each in self.problems]  # fmt: skip
        lines += [f"     skipped  {problem}: {reason}" for problem, reason in self.skipped]
        return "\n".join([*lines, f"{len(self.problems)} raced, {self.known} known, {len(self.skipped)} skipped"])


def tuning(file: _PathLike) -> options:
    """`tilesmith.options(tuning=file)`: inside a with statement, this thread's calls take the kernels that the file chose.

        with tilesmith.tuning("choices.json"):
            y = tilesmith.linear(x, w)

    Errors: InvalidArgument, WrongType; a file that cannot be read fails the calls.
    """
    if file is None:
        raise WrongType("file is None", "the path of a file that `tilesmith.tune` or `tilesmith db publish` wrote")
    return options(tuning=file)


def tune(what: Union[str, Iterable[str], Callable[..., Any]], /, *arguments: Any, budget: float = 10.0,
         candidates: int = 32, again: bool = False, device: Optional[str] = None, threads: Optional[int] = None,
         database: Optional[_PathLike] = None, file: Optional[_PathLike] = None, **named: Any) -> TuneReport:  # fmt: skip
    """Measures which kernels compute problems in the least time, and keeps what it measured.

        report = tilesmith.tune(model, x, file="choices.json")               # every problem that model(x) meets
        report = tilesmith.tune("gemm -m 1:8192 -n 4096 -k 4096 --dtype bf16", device="cuda:0")
        with tilesmith.tuning("choices.json"):
            model(x)

    what: a callable, which is called once as what(*arguments, **named), and whose calls of this package in this thread tell
        the problems (those of `grouped_matmul` with lists, `append_kv` and `merge_states` have none to tune); or a problem's
        line as `tilesmith run` takes it, or several. A size of a line may be a range: then sizes between are covered too.
    budget: seconds of timing for a problem.  candidates: recipes that race, 0 for all.
    again: race problems too that the database has for this class of devices.
    device: of lines, "cpu" (the usual one) or "cuda:N"; a callable's calls tell their own.
    threads: of a CPU kernel; a callable's calls tell their own. None: every processor.
    database: the performance database; None: tuning.db in the cache directory.
    file: where to write the choices of the whole database; None: nowhere.

    The races run in the program `tilesmith`, a process of its own: beside the library, in PATH, or where TILESMITH_PROGRAM
    says. A race of a problem is kept whole or not at all, so an interrupted call goes on where it stopped when it is made
    again. Kernels are verified; one that is wrong never wins.

    Errors: InvalidArgument, WrongType; Unsupported, when no problem could be tuned; Failure, without the program, and with
    its words when it fails.
    """
    refuse_tracing("tilesmith.tune")
    request = sized(TuneRequest)
    request.budget_seconds, request.candidates, request.again = _budget(budget), _candidates(candidates), flag("again", again)
    request.database = None if database is None else _path("database", database).encode()
    request.file = None if file is None else _path("file", file).encode()
    if callable(what):
        if device is not None or threads is not None:
            raise InvalidArgument("device or threads beside a callable", "its calls' own: those of its tensors and options")
        planned = _recorded(what, arguments, named)
    else:
        planned = _described(what, arguments, named, device, threads)

    groups: dict[tuple[str, int], list[str]] = {}
    for each in planned:
        groups.setdefault((each.device, each.threads), []).append(each.problem)
    problems: list[TunedProblem] = []
    skipped: list[tuple[str, str]] = []
    known, place = 0, ""
    for (where, of_call), lines in groups.items():
        try:
            report = _tuned(request, where, of_call, lines)
        except Unsupported as error:
            skipped.append(("; ".join(lines), str(error)))
            continue
        problems += report.problems
        skipped += report.skipped
        known, place = known + report.known, report.database
    if not problems and not known:
        raise Unsupported("; ".join(reason for _, reason in skipped), "a problem that a kernel computes", "unsupported")
    return TuneReport(tuple(problems), known, tuple(skipped), place, "" if file is None else _path("file", file))


def _tuned(request: TuneRequest, device: str, threads: int, lines: list[str]) -> TuneReport:
    """What the library says of lines of one device. Its texts live no longer than the thread that asks."""
    index = _DEVICE.fullmatch(device)
    if index is None:
        raise InvalidArgument(f"device is {shown(device)}", "'cpu' or 'cuda:0'")
    request.device = DeviceId(CPU, 0) if device == "cpu" else DeviceId(CUDA, int(index[1] or 0))
    request.threads = threads
    request.problems = (ctypes.c_char_p * len(lines))(*(line.encode() for line in lines))
    request.problem_count = len(lines)
    made: list[TuneReport] = []

    def ask() -> int:
        told = sized(_Told)
        status: int = library().tilesmith_tune(ctypes.addressof(request), ctypes.addressof(told))
        if status == 0:
            made.append(_report(told))
        return status

    checked(ask)
    return made[0]


def _report(told: _Told) -> TuneReport:
    problems = [TunedProblem(each.problem.decode(), each.before.decode(), each.chosen.decode(), each.before_seconds,
                             each.chosen_seconds, each.gain) for each in told.problems[: told.problem_count]]  # fmt: skip
    skipped = [(each.problem.decode(), each.reason.decode()) for each in told.skipped[: told.skipped_count]]
    return TuneReport(tuple(problems), told.known, tuple(skipped), told.database.decode(), "")


def _recorded(function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> list[Planned]:
    """The problems that function(*arguments, **named) meets."""
    record = Record()
    outside = conditions.now
    conditions.change((outside or Conditions())._replace(record=record))
    try:
        function(*arguments, **named)
    finally:
        conditions.change(outside)
    if not record.planned:
        raise InvalidArgument("the call met no problem", "one that calls attention, matmul, linear, ... of this package")
    return list(record.planned)


def _described(what: object, arguments: tuple[Any, ...], named: dict[str, Any], device: Optional[str],
               threads: Optional[int]) -> list[Planned]:  # fmt: skip
    """The problems that lines describe."""
    if arguments or named:
        raise WrongType(f"tune has no argument {shown(next(iter(named)) if named else arguments[0])}",
                        "beside a callable: those that it takes")  # fmt: skip
    lines = [what] if isinstance(what, str) else what
    hint = "a callable, or lines as `tilesmith run` takes them: 'gemm -m 8 -n 64 -k 64'"
    if not isinstance(lines, Iterable):
        raise WrongType(f"what is {shown(what)}", hint)
    if device is not None and not isinstance(device, str):
        raise WrongType(f"device is {shown(device)}", "'cpu' or 'cuda:0'")
    of_call = 0 if threads is None else whole("threads", threads)
    planned = []
    for line in lines:
        if not isinstance(line, str):
            raise WrongType(f"a line is {shown(line)}", hint)
        if len(line.split()) < 2 or "\n" in line or "\0" in line:
            raise InvalidArgument(f"a line is {shown(line)}", hint)
        planned.append(Planned(line.split()[0], line, device or "cpu", of_call))
    if not planned:
        raise InvalidArgument("there is no line", hint)
    return planned


def _budget(value: object) -> float:
    seconds = number("budget", value)
    if not 0.001 <= seconds <= 1e6:
        raise InvalidArgument(f"budget is {shown(value)}", "0.001 to 1000000 seconds")
    return seconds


def _candidates(value: object) -> int:
    count = whole("candidates", value)
    if not 0 <= count < 1 << 31:
        raise InvalidArgument(f"candidates is {shown(value)}", "a number of recipes, or 0 for all")
    return count


def _path(name: str, value: object) -> str:
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str):
        raise WrongType(f"{name} is {shown(value)}", "a path")
    if not text or "\0" in text:
        raise InvalidArgument(f"{name} is {shown(value)}", "a path")
    return text
