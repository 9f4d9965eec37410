"""What the process did to have its kernels."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from tilesmith._library import StoreStats as _Told
from tilesmith._library import check, library, sized


@dataclass(frozen=True)
class StoreStats:
    """Since the process began, on all devices. A repeated call looks for no kernel, so that it counts nothing."""

    hits: int  #: kernels found in the store
    misses: int  #: kernels that the store did not have
    builds: int  #: kernels compiled
    failed_builds: int  #: kernels that did not compile
    fallbacks: int  #: plans made of another recipe than the best, which could not be had
    build_seconds: float  #: that compilers ran, summed over those that ran at once


def store_stats() -> StoreStats:
    """What the process did so far to have its kernels: whether the store (TILESMITH_CACHE_DIR) has what the calls need.

    Errors: Failure, when the library cannot be loaded.
    """
    told = sized(_Told)
    check(library().tilesmith_get_store_stats(ctypes.addressof(told)))
    return StoreStats(told.hits, told.misses, told.builds, told.failed_builds, told.fallbacks, told.build_seconds)
