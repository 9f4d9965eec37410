"""NVIDIA's run-time compiler as Python packages bring it: the library looks where TILESMITH_NVRTC says."""

from __future__ import annotations

import functools
import importlib.util
import os
from pathlib import Path

# nvidia-cuda-nvrtc for CUDA 13 shares one folder with its siblings; nvidia-cuda-nvrtc-cu12 has its own.
_FOLDERS = ("cu13/lib", "cuda_nvrtc/lib")


@functools.cache
def find() -> None:
    """Sets TILESMITH_NVRTC to the compiler of an installed package, unless it is set. Call before the library first uses
    CUDA."""
    if os.environ.get("TILESMITH_NVRTC"):
        return
    spec = importlib.util.find_spec("nvidia")
    for root in spec.submodule_search_locations or () if spec else ():
        for folder in _FOLDERS:
            # libnvrtc.so.13 and libnvrtc.so.12, not libnvrtc-builtins.so.13.0 and libnvrtc.alt.so.13
            for path in sorted((Path(root) / folder).glob("libnvrtc.so.*")):
                os.environ["TILESMITH_NVRTC"] = str(path)
                return
