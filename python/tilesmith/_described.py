"""What the torch tensors of a call look like and where they lie: what a kept call is found by.

Asked of torch by one call of the library through DLPack's table of C functions, where torch has it (2.10 and newer); reading
the attributes of ten tensors takes several microseconds longer.
"""

from __future__ import annotations

import ctypes
import functools
import struct
import sys
import threading
from typing import Any, Callable, Optional

import torch
from torch import Tensor

from tilesmith._library import locked_library

#: The tensors' addresses, 0 for None, behind what tells them apart.
Look = tuple[object, tuple[int, ...]]

_ROOM = 512  #: words: 17 tensors of ten dimensions and more
_ITEMS = tuple.__basicsize__  #: where CPython's tuples have their items
_NONE = id(None)


def by_attributes(tensors: tuple[Optional[Tensor], ...]) -> Look:
    """The same, one tensor after the other."""
    # The device's index, -1 for the CPU: a device object takes longer to hash. Dense strides follow from the shape.
    return (tuple([None if x is None else (x.dtype, x.shape, x.is_contiguous() or x.stride(), x.get_device()) for x in tensors]),
            tuple([0 if x is None else x.data_ptr() for x in tensors]))  # fmt: skip


class _Words(threading.local):
    """Where a thread's tensors are described."""

    def __init__(self) -> None:
        words = (ctypes.c_int64 * _ROOM)()
        self.words = words
        self.bytes = memoryview(words).cast("B")
        self.address = ctypes.addressof(words)


@functools.cache
def _addresses(count: int) -> Callable[[Any], tuple[int, ...]]:
    return struct.Struct(f"@{count}q").unpack_from


def _by_table(table: int) -> Callable[[tuple[Optional[Tensor], ...]], Look]:
    here = _Words()
    describe = locked_library().tilesmith_describe_tensors

    def by_table(tensors: tuple[Optional[Tensor], ...]) -> Look:
        count, room = len(tensors), here.address
        try:
            used = describe(table, id(tensors) + _ITEMS, count, _NONE, room, _ROOM)
        except Exception:  # what DLPack cannot describe
            used = -1
        if used < 0:
            return by_attributes(tensors)
        return here.bytes[8 * count : 8 * used].tobytes(), _addresses(count)(here.words)

    return by_table


def _fastest() -> tuple[int, Callable[[tuple[Optional[Tensor], ...]], Look]]:
    capsule = getattr(Tensor, "__dlpack_c_exchange_api__", None)
    if capsule is None or sys.implementation.name != "cpython":
        return 0, by_attributes
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = pointer(capsule, b"dlpack_exchange_api")
    by_table = _by_table(table)
    tried = (torch.empty(2, 3), None, torch.empty(4, dtype=torch.int32)[1:])
    looks, places = by_table(tried)
    return (table, by_table) if isinstance(looks, bytes) and places == by_attributes(tried)[1] else (0, by_attributes)


#: torch's table, 0 where it has none that serves; and who describes plain tensors and None.
exchange, described = _fastest()
