"""What a GEMM problem is, in the words of kernels/cuda/gemm/abi.h. Needs no PyTorch."""

import json
import os
from dataclasses import dataclass

_SPEC = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "specs", "cuda", "sm_90a.json")
with open(_SPEC) as _file:
    SPEC = json.load(_file)["gemm"]  # the library's tile table and what goes with it

# In the order of the contract.
TYPES = ("f32", "bf16", "f16", "e4m3", "e5m2", "s8", "s32")
BYTES = dict(f32=4, bf16=2, f16=2, e4m3=1, e5m2=1, s8=1, s32=4)
OPERATIONS = (
    "none add multiply bias_n bias_m scale_n scale_m relu gelu gelu_tanh silu sigmoid tanh clamp gate_silu gate_gelu "
    "gate_gelu_tanh gate_sigmoid gate_relu amax"
).split()


@dataclass(frozen=True)
class Problem:
    m: int = 256
    n: int = 256
    k: int = 256
    batch: int = 1
    a: str = "bf16"
    b: str = "bf16"
    d: str = "bf16"
    row_major_a: bool = True
    row_major_b: bool = False
    epilogue: tuple = ()  # of (operation, element type of what it reads)
    alpha: float = 1.0
    tensor_scales: bool = False
    block_scales: bool = False
    grouping: int = 0
    group_rows: tuple = ()
    aligned: bool = True  # 16-byte pointers and strides; else odd ones
    exact: bool = False  # small integers, whose sums are exact
    dense: bool = False  # no padding between rows: as a benchmark's peers expect

    def gated(self):
        return any(o.startswith("gate") for o, _ in self.epilogue)

    def columns(self):
        return self.n // 2 if self.gated() else self.n

    def rows(self):
        """Rows of one batch entry of a and d."""
        return sum(self.group_rows) if self.grouping == 1 else self.m

    def entries(self):
        """Batch entries of a and d."""
        return 1 if self.grouping == 1 else self.entries_b()

    def entries_b(self):
        return len(self.group_rows) if self.grouping else self.batch

    def flops(self):
        return 2.0 * self.n * self.k * (sum(self.group_rows) if self.grouping else self.m * self.batch)

    def bytes(self):
        """Read and written at least."""
        return self.entries() * self.rows() * (self.k * BYTES[self.a] + self.columns() * BYTES[self.d]) + (
            self.entries_b() * self.n * self.k * BYTES[self.b]
        )
