"""Under what conditions a thread's calls are prepared: options of their own, and whether they run or only say what they would
choose from. Calls with neither look nothing up: when conditions change, whoever keeps prepared calls is told."""

from __future__ import annotations

import threading
from typing import Callable, NamedTuple, Optional


class OptionValues(NamedTuple):
    """What `options` was given; None is: as without."""

    kernel: Optional[str] = None
    threads: Optional[int] = None
    build: Optional[str] = None
    determinism: Optional[str] = None
    tuning: Optional[str] = None


class Planned(NamedTuple):
    """What a call was planned for."""

    operation: str  #: "gemm"
    problem: str  #: its line: "gemm -m 8 -n 64 -k 64"
    device: str  #: "cpu", "cuda:0"
    threads: int  #: of a CPU kernel; 0: every processor


class Record:
    """What calls were planned for, each once, in the order of their first calls."""

    def __init__(self) -> None:
        self.planned: dict[Planned, None] = {}

    def add(self, planned: Planned) -> None:
        if planned.problem:  # a list of products has no line
            self.planned.setdefault(planned)


class Conditions(NamedTuple):
    options: OptionValues = OptionValues()
    listing: bool = False  #: calls do not run: they list their candidates
    record: Optional[Record] = None  #: where calls are written down; they run


_KNOWN = 64
_known: dict[Conditions, Conditions] = {}


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.now: Optional[Conditions] = None  #: None: the usual ones
        self.found: object = None  #: what a listing call found
        self._listeners: list[Callable[[Optional[Conditions]], None]] = []

    def when_changed(self, listener: Callable[[Optional[Conditions]], None]) -> None:
        self._listeners.append(listener)

    def change(self, to: Optional[Conditions]) -> None:
        """Equal conditions are one object, so that repeated calls find them by their address."""
        if to is not None and to.record is None:
            if len(_known) >= _KNOWN:
                _known.clear()
            to = _known.setdefault(to, to)
        self.now = to
        for listener in self._listeners:
            listener(to)


#: This thread's.
conditions = _OfThread()
