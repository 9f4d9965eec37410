"""Prepared calls, kept so that a repeated call only stores its pointers and runs."""

from __future__ import annotations

import threading
from typing import Generic, Optional, TypeVar

from tilesmith._conditions import Conditions, conditions

_KEPT_CALLS = 1024
_KEPT_CONDITIONS = 16

Call = TypeVar("Call")


class KeptCalls(threading.local, Generic[Call]):
    """A thread's prepared calls by their descriptions; a tensor library keeps one of these for each operation. The calls
    are those of the thread's conditions, so that a description need not name these."""

    def __init__(self, most: int = _KEPT_CALLS) -> None:  # once for each thread
        self.most = most
        self._by_conditions: dict[Optional[Conditions], dict[object, Call]] = {}
        self.by_key: dict[object, Call] = {}
        self.select(conditions.now)
        conditions.when_changed(self.select)

    def select(self, now: Optional[Conditions]) -> None:
        """From here on, the calls under these conditions."""
        if now not in self._by_conditions and len(self._by_conditions) >= _KEPT_CONDITIONS:
            self._by_conditions.clear()
        self.by_key = self._by_conditions.setdefault(now, {})

    def keep(self, key: object, call: Call) -> Call:
        if len(self.by_key) >= self.most:  # shapes that never repeat: start anew, preparing is cheap
            self.by_key.clear()
        self.by_key[key] = call
        return call
