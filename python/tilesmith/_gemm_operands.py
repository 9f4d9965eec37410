"""What a GEMM is called with: its tensors, and what else decides how it is computed."""

from __future__ import annotations

from typing import Generic, NamedTuple, Optional, Sequence, TypeVar

from tilesmith._views import View

FLOAT8 = ("fp8", "bf8")
WEIGHTS = ("int8", "int4")  # of fp16 and bf16
PACKED_INT4 = "uint8"  # two of them
#: Operations of the structure's epilogue.
BIAS, BIAS_M, SCALE_N, SCALE_M, ADD, MULTIPLY, CLAMP, AMAX = 1, 2, 3, 4, 5, 6, 13, 19
#: Of the structure's flags.
PREFETCH_WEIGHTS, PACKED_B, ZERO_POINTS, COLUMN_D = 1, 2, 4, 8


T = TypeVar("T")
M = TypeVar("M")  #: T, or T or None: of the operands that may be missing


class Operands(NamedTuple, Generic[T, M]):
    """One thing for each operand of a GEMM: its tensor, its view, its address, its name, or a list of them. Of linear, a is x and b is w."""

    a: T
    b: T
    c: M = None  # type: ignore[assignment]
    bias: M = None  # type: ignore[assignment]
    multiply: M = None  # type: ignore[assignment]
    residual: M = None  # type: ignore[assignment]
    scale_a: M = None  # type: ignore[assignment]  #: a vector; single numbers are part of alpha
    scale_b: M = None  # type: ignore[assignment]
    out: M = None  # type: ignore[assignment]
    groups: M = None  # type: ignore[assignment]  #: where each group ends
    zero_b: M = None  # type: ignore[assignment]  #: of integer weights
    a2: M = None  # type: ignore[assignment]  #: of a second product
    b2: M = None  # type: ignore[assignment]
    amax: M = None  # type: ignore[assignment]


#: The operands whose addresses run_all takes, in its order: all but a, b and out.
ADDRESSED: tuple[str, ...] = tuple(name for name in Operands._fields if name not in ("a", "b", "out"))

Names = Operands[str, str]
Views = Operands[View, Optional[View]]

_MATMUL: Names = Operands(*Operands._fields)
_LINEAR = _MATMUL._replace(a="x", b="w", scale_a="scale_x", scale_b="scale_w", zero_b="zero_w")
#: What callers know the operands as. grouped: the groups' rows lie behind one another; masked: each has a matrix.
NAMES: dict[str, Names] = {
    "matmul": _MATMUL,
    "mm_plus_mm": _MATMUL._replace(a2="c", b2="d"),
    "linear": _LINEAR,
    "packed": _LINEAR,  # linear of a PackedWeight
    "grouped": _MATMUL._replace(groups="group_ends"),
    "masked": _MATMUL._replace(groups="group_rows"),
}
LINEAR = ("linear", "packed")
GROUPING = {"grouped": 1, "masked": 2}


class Options(NamedTuple):
    """The arguments that are neither tensors nor alpha and beta."""

    form: str  #: of NAMES
    out_type: Optional[str]
    activation: Optional[str]
    gate: Optional[str]
    clamp: Optional[tuple[float, float]]
    tf32: bool
    prefetch_weights: bool
    scaled: bool  #: there are scales, vectors or numbers
    packed_bytes: int = 0  #: of a packed b


def is_only_block(a: str, shape_a: Sequence[int], shape: Sequence[int], scales_of_b: int) -> bool:
    """Whether a scale of a with one number may be the only block of k of its only row, beside several blocks of b."""
    return a in FLOAT8 and scales_of_b > 1 and tuple(shape) == (*shape_a[:-1], 1)


def has_weights(a: str, b: str) -> bool:
    """Whether b holds integers that stand for numbers of a's type."""
    return a in ("fp16", "bf16") and b in (*WEIGHTS, PACKED_INT4)
