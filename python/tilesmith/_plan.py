"""What ran."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from tilesmith._library import PlanInfo, check, library, sized


@dataclass(frozen=True)
class Step:
    """One step of a plan: a kernel, and what it is there for."""

    kernel: str  #: the kernel's name
    role: str  #: its role in the recipe: "compute", "pack_b", "append"
    what: str  #: what it does, in words

    @property
    def stage(self) -> str:
        """The same as what, by its earlier name."""
        return self.what


Stage = Step  #: by its earlier name


@dataclass(frozen=True)
class Region:
    """A part of the memory that a call works in."""

    name: str  #: what it holds: "partials", "counters"
    offset: int  #: in bytes, from the workspace's begin
    bytes: int
    library_only: bool  #: not a part of the caller's workspace: the library keeps it for each stream


@dataclass(frozen=True)
class Plan:
    """A chosen recipe, and why it was chosen."""

    operation: str  #: "attention_fwd", "gemm"
    device: str  #: "cpu", "cuda:0"
    kernel: str  #: the recipe's name: of one step its kernel's, of several the steps' names joined by "+"
    steps: tuple[Step, ...]
    workspace_bytes: int
    reason: str  #: why this recipe, in a sentence
    predicted_seconds: float  #: what the policy predicts a call to take; 0: it was not asked
    workspace: tuple[Region, ...]
    #: what the choice rests on: "measurement" of this problem, an "interval" between two measured sizes, "nearby" measurements
    #: of which several sizes differ, the "model" of the device, the "table" of its tiles; "name": it was asked for;
    #: "fallback": what goes first could not be had; of a list "mixed", where its products differ
    source: str = ""
    measured_seconds: float = 0  #: what a call took when it was tuned; 0: it was not
    bound: float = 0  #: a call takes at most so many times the best kernel's time, as far as times were exact; 0: not known
    problem: str = ""  #: the problem's line, as the program takes it: "gemm -m 8 -n 64 -k 64"; of a list ""

    @property
    def stages(self) -> tuple[Step, ...]:
        """The same as steps, by their earlier name."""
        return self.steps


def last_plan() -> Plan:
    """What the last call of this thread ran. Errors: RuntimeError when it has made none."""
    info = sized(PlanInfo)
    check(library().tilesmith_last_plan(ctypes.addressof(info)))
    steps = tuple(Step(s.kernel.decode(), s.role.decode(), s.what.decode()) for s in info.steps[: info.step_count])
    regions = tuple(
        Region(r.name.decode(), r.offset, r.bytes, bool(r.library_only)) for r in info.regions[: info.region_count]
    )
    return Plan(info.operation.decode(), str(info.device), info.kernel.decode(), steps, info.workspace_bytes,
                info.reason.decode(), info.predicted_seconds, regions, info.source.decode(), info.measured_seconds, info.bound,
                (info.problem or b"").decode())  # fmt: skip
