"""What dispatch has to choose from."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, Callable

from tilesmith._conditions import Conditions, Planned, Record, conditions
from tilesmith._errors import Unsupported, WrongType
from tilesmith._interruptible import first_run
from tilesmith._library import CandidateList, library, sized
from tilesmith._plan import last_plan
from tilesmith._views import shown


@dataclass(frozen=True)
class Candidate:
    """A kernel, or several as steps, that computes a problem."""

    kernel: str  #: its name; of several steps, the names joined by "+". `options(kernel=...)` takes it
    predicted_seconds: float  #: what the policy predicts a call to take


@dataclass(frozen=True)
class Refusal:
    """A kernel that dispatch passed over."""

    kernel: str
    rule: str  #: the first rule, or other reason, that refused it
    figures: str  #: what the rule compared


@dataclass(frozen=True)
class Candidates:
    """What dispatch has to choose from for a problem."""

    policy: str  #: what ordered the candidates: "cost model"
    candidates: tuple[Candidate, ...]  #: in dispatch's order: the first that can be had is taken
    refusals: tuple[Refusal, ...]  #: every other kernel of the problem's space

    def __str__(self) -> str:
        return "\n".join(f"{1e6 * each.predicted_seconds:12.2f} us  {each.kernel}" for each in self.candidates)


#: The functions whose calls have candidates: filled in where they are defined.
listed_functions: set[Callable[..., Any]] = set()


def candidates(function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Candidates:
    """What dispatch would choose from in a call function(*arguments, **named), which is not made: nothing is computed,
    compiled or written.

        for each in tilesmith.candidates(tilesmith.linear, x, w, activation="gelu").candidates:
            with tilesmith.options(kernel=each.kernel):
                y = tilesmith.linear(x, w, activation="gelu")

    function: attention, scaled_dot_product_attention, matmul, mm_plus_mm, linear, grouped_matmul (not of lists) or one of
    convolution's. The options around the call hold. A call that would be several calls of the library tells those of the first.

    Errors: those of the call; Unsupported, when no kernel computes it, with the rule that refuses.
    """
    if not callable(function) or function not in listed_functions:
        raise WrongType(f"the function is {shown(function)}",
                        ", ".join(sorted(f"tilesmith.{each.__name__}" for each in listed_functions)))  # fmt: skip
    outside = conditions.now
    conditions.found = None
    conditions.change((outside or Conditions())._replace(listing=True))
    try:
        function(*arguments, **named)
        found = conditions.found
    finally:
        conditions.change(outside)
        conditions.found = None
    if not isinstance(found, Candidates):
        raise Unsupported("the call computes nothing", "tensors with elements", "unsupported")
    return found


def entry(call: Any, place: str, kind: int, plan_for: str, function: str, candidates_function: str) -> Callable[..., int]:
    """What a call prepared now calls with its structure's address: the library's function (see first_run), or what lists
    its candidates, or what runs it and writes it down."""
    if conditions.now is None:
        return first_run(call, place, kind, plan_for, function)
    if not conditions.now.listing:
        run = first_run(call, place, kind, plan_for, function)
        return run if conditions.now.record is None else recorded(call, run, conditions.now.record)
    ask = getattr(library(), candidates_function)

    def list_candidates(context: None, address: int) -> int:
        told = sized(CandidateList)
        status: int = ask(context, address, ctypes.addressof(told))
        if status == 0 and conditions.found is None:  # of several calls, those of the first
            names = tuple(Candidate(each.kernel.decode(), each.predicted_seconds)
                          for each in told.candidates[: told.candidate_count])  # fmt: skip
            refusals = tuple(Refusal(each.kernel.decode(), each.rule.decode(), each.figures.decode())
                             for each in told.refusals[: told.refusal_count])  # fmt: skip
            conditions.found = Candidates(told.policy.decode(), names, refusals)
        return status

    return list_candidates


def recorded(call: Any, run: Callable[..., int], record: Record) -> Callable[..., int]:
    """`run`, which then writes down what it was planned for."""

    def run_and_record(context: None, address: int) -> int:
        status = run(context, address)
        if status == 0:
            plan = last_plan()
            threads = call._call.options.contents.threads if call._call.options else 0
            record.add(Planned(plan.operation, plan.problem, plan.device, threads))
        return status

    return run_and_record


def refuse_listing(what: str) -> None:
    """For calls that have no list of candidates."""
    if conditions.now is not None and conditions.now.listing:
        raise Unsupported(f"candidates of {what}", "those of one of its calls", "unsupported")
