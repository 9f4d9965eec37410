"""What a GEMM is called with: its tensors, and what else decides how it is computed."""

from __future__ import annotations

from typing import NamedTuple, Optional, Sequence

from tilesmith._views import View

FLOAT8 = ("fp8", "bf8")
WEIGHTS = ("int8", "int4")  # of fp16 and bf16
PACKED_INT4 = "uint8"  # two of them
#: Operations of the structure's epilogue.
BIAS, BIAS_M, SCALE_N, SCALE_M, ADD, MULTIPLY, CLAMP, AMAX = 1, 2, 3, 4, 5, 6, 13, 19
#: Of the structure's flags.
CONSTANT_B, PACKED_B, ZERO_POINTS, COLUMN_D = 1, 2, 4, 8


class Operands(NamedTuple):
    """Of linear, a is x and b is w."""

    a: View
    b: View
    c: Optional[View] = None
    bias: Optional[View] = None
    multiply: Optional[View] = None
    residual: Optional[View] = None
    scale_a: Optional[View] = None  #: a vector; single numbers are part of alpha
    scale_b: Optional[View] = None
    out: Optional[View] = None
    groups: Optional[View] = None  #: where each group ends
    zero_b: Optional[View] = None  #: of integer weights
    a2: Optional[View] = None  #: of a second product
    b2: Optional[View] = None
    amax: Optional[View] = None


#: The operands whose addresses run_all takes, in its order.
ADDRESSED = ("c", "bias", "multiply", "residual", "scale_a", "scale_b", "groups", "zero_b", "a2", "b2", "amax")

_BESIDE = ("c", "bias", "multiply", "residual")
_LAST = ("a2", "b2", "amax")
#: What callers know the operands as. grouped: the groups' rows lie behind one another; masked: each has a matrix.
NAMES = {
    "matmul": ("a", "b", *_BESIDE, "scale_a", "scale_b", "out", "groups", "zero_b", *_LAST),
    "mm_plus_mm": ("a", "b", *_BESIDE, "scale_a", "scale_b", "out", "groups", "zero_b", "c", "d", "amax"),
    "linear": ("x", "w", *_BESIDE, "scale_x", "scale_w", "out", "groups", "zero_w", *_LAST),
    "packed": ("x", "w", *_BESIDE, "scale_x", "scale_w", "out", "groups", "zero_w", *_LAST),  # linear of a PackedWeight
    "grouped": ("a", "b", *_BESIDE, "scale_a", "scale_b", "out", "group_ends", "zero_b", *_LAST),
    "masked": ("a", "b", *_BESIDE, "scale_a", "scale_b", "out", "group_rows", "zero_b", *_LAST),
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
