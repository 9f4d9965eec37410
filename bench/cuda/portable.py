"""Configurations of the portable template (sm_80 and newer): their source text, launch facts and launches."""

from dataclasses import dataclass, fields

from hopper import constants, traits  # noqa: F401 (traits: the same for both templates)


@dataclass(frozen=True)
class Config:
    bf16: bool = True
    head_dim_qk: int = 128
    head_dim_v: int = 128
    warps: int = 4
    tile_n: int = 64
    mask_right: bool = False
    mask_left: bool = False
    group_mode: bool = False
    lse: bool = True
    sink: bool = False
    softcap: bool = False
    bias: bool = False
    alibi: bool = False
    dropout: bool = False
    negative_scale: bool = False
    unaligned: bool = False
    architecture: str = "sm_80"

    def source(self):
        return constants(self, skip=("architecture",)) + '#include "attention/mma_sm80/attention_fwd.cuh"\n'

    def name(self):
        return f"portable {16 * self.warps}x{self.tile_n} {self.architecture}"

    def arch(self):
        return self.architecture

    # The launch facts of kernels/cuda/attention/mma_sm80/layout.cuh.
    def threads(self):
        return 32 * self.warps

    def shared_bytes(self):
        pitch_qk, pitch_v = (2 * (-(-d // 16) * 16) + 16 for d in (self.head_dim_qk, self.head_dim_v))
        return (16 * self.warps + self.tile_n) * pitch_qk + self.tile_n * pitch_v

    def fits(self):
        return self.shared_bytes() <= 101376

    def launcher(self, kernel, t, sms, stream):
        p = t.p
        return kernel.launcher((-(-p.seqlen_q // (16 * self.warps)), p.heads_q, p.batch), (t.args(),), stream)
