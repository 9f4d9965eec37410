"""The devices of this machine."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field

from tilesmith import _nvrtc
from tilesmith._library import CPU, KIND_NAMES, BackendInfo, DeviceInfo, check, library, sized


@dataclass(frozen=True)
class Device:
    """A device kernels can run on."""

    kind: str  #: "cpu", "cuda", "hip"
    index: int
    name: str  #: as the machine calls it
    arch: str  #: the architecture kernels are made for: "x86_64_v4", "sm_90a"
    facts: dict[str, int] = field(default_factory=dict)  #: figures, the unit in the name: "threads", "l2_bytes"

    def __str__(self) -> str:
        return self.kind if self.kind == KIND_NAMES[CPU] else f"{self.kind}:{self.index}"


def devices() -> list[Device]:
    """The devices kernels can run on here, the CPU first. `missing()` says what keeps other kinds away."""
    _nvrtc.find()
    count = ctypes.c_int64()
    check(library().tilesmith_device_count(ctypes.addressof(count)))
    found = []
    for i in range(count.value):
        info = sized(DeviceInfo)
        check(library().tilesmith_device_at(i, ctypes.addressof(info)))
        facts = {fact.name.decode(): fact.value for fact in info.facts[: info.fact_count]}
        found.append(Device(KIND_NAMES[info.device.kind], info.device.index, info.name.decode(), info.arch.decode(),
                            facts))  # fmt: skip
    return found


def missing() -> dict[str, str]:
    """What keeps a kind of device from being used here, or kernels from being compiled for it, and what would help:
    {"cuda": "no CUDA driver: ... (install ...)"}. Empty when nothing does."""
    _nvrtc.find()
    reasons = {}
    for kind, name in KIND_NAMES.items():
        info = sized(BackendInfo)
        check(library().tilesmith_backend(kind, ctypes.addressof(info)))
        if info.missing:
            hint = info.hint.decode()
            reasons[name] = info.missing.decode() + (f" ({hint})" if hint else "")
    return reasons
