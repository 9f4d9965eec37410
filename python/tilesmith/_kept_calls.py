"""Prepared calls, kept so that a repeated call only stores its pointers and runs."""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

_KEPT_CALLS = 1024

Call = TypeVar("Call")


class KeptCalls(threading.local, Generic[Call]):
    """A thread's prepared calls by their descriptions; a tensor library keeps one of these for each operation."""

    def __init__(self, most: int = _KEPT_CALLS) -> None:
        self.most = most
        self.by_key: dict[object, Call] = {}

    def keep(self, key: object, call: Call) -> Call:
        if len(self.by_key) >= self.most:  # shapes that never repeat: start anew, preparing is cheap
            self.by_key.clear()
        self.by_key[key] = call
        return call
