"""What ran."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from tilesmith._library import PlanInfo, check, library, sized


@dataclass(frozen=True)
class Stage:
    """One step of a plan."""

    kernel: str
    stage: str  #: what the step does


@dataclass(frozen=True)
class Plan:
    """A chosen kernel, and why it was chosen."""

    operation: str  #: "attention_fwd", "gemm"
    device: str  #: "cpu", "cuda:0"
    kernel: str  #: the kernel's name
    stages: tuple[Stage, ...]
    workspace_bytes: int
    reason: str  #: why this kernel, in a sentence


def last_plan() -> Plan:
    """What the last call of this thread ran. Errors: RuntimeError when it has made none."""
    info = sized(PlanInfo)
    check(library().tilesmith_last_plan(ctypes.addressof(info)))
    stages = tuple(Stage(s.kernel.decode(), s.stage.decode()) for s in info.stages[: info.stage_count])
    return Plan(info.operation.decode(), str(info.device), info.kernel.decode(), stages, info.workspace_bytes,
                info.reason.decode())  # fmt: skip
