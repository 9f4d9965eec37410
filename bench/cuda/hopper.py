"""Configurations of the Hopper template: their source text, launch facts and launches."""

from dataclasses import dataclass, fields


def constants(config, skip):
    """A configuration as the constexpr table that a template expects before its include."""
    lines = []
    for f in fields(config):
        if f.name not in skip:
            value = getattr(config, f.name)
            name = "k" + "".join(w.capitalize() for w in f.name.split("_"))
            kind, text = ("bool", str(value).lower()) if isinstance(value, bool) else ("int", str(value))
            lines.append(f"constexpr {kind} {name} = {text};\n")
    return "namespace ts::cfg {\n" + "".join(lines) + "}  // namespace ts::cfg\n"


def traits(p):
    """The part of a configuration of either template that the problem decides."""
    return dict(
        bf16=p.bf16,
        head_dim_qk=p.head_dim_qk,
        head_dim_v=p.head_dim_v,
        mask_right=p.window[1] >= 0,
        mask_left=p.window[0] >= 0,
        group_mode=bool(p.lengths),
        sink=p.sink,
        softcap=p.softcap > 0,
        bias=p.bias,
        alibi=p.alibi,
        dropout=p.dropout > 0,
        negative_scale=p.scale < 0,
    )


def hopper_traits(p):
    """The same for this template, which has fp8 besides."""
    return dict(traits(p), fp8=bool(p.fp8), block_scale=p.fp8 == "block")


@dataclass(frozen=True)
class Config:
    bf16: bool = True
    head_dim_qk: int = 128
    head_dim_v: int = 128
    warpgroups: int = 2
    tile_n: int = 128
    stages: int = 2
    query_buffers: int = 1
    blocks_per_sm: int = 1
    packed_heads: int = 1
    ping_pong: bool = False
    dynamic: bool = True
    late_wait: bool = False
    late_store: bool = True
    mask_right: bool = False
    mask_left: bool = False
    group_mode: bool = False
    lse: bool = True
    sink: bool = False
    softcap: bool = False
    bias: bool = False
    bias_stages: int = 0
    alibi: bool = False
    dropout: bool = False
    negative_scale: bool = False
    fp8: bool = False
    block_scale: bool = False
    section_mib: int = 32  # keys and values that the heads of a section share in L2: the host's choice alone

    def source(self):
        return constants(self, skip=("section_mib",)) + '#include "attention/hopper/attention_fwd.cuh"\n'

    def name(self):
        parts = [f"{64 * self.warpgroups}x{self.tile_n}", f"s{self.stages}", f"q{self.query_buffers}"]
        parts += [f"b{self.blocks_per_sm}"] if self.blocks_per_sm > 1 else []
        parts += ["fp8 block" if self.block_scale else "fp8"] if self.fp8 else []
        parts += [f"pack{self.packed_heads}"] if self.packed_heads > 1 else []
        parts += [f"bias{self.bias_stages}"] if self.bias else []
        parts += ["pp"] if self.ping_pong else []
        parts += ["late"] if self.late_wait else []
        parts += [] if self.late_store else ["early store"]
        parts += [f"sec{self.section_mib}"] if self.section_mib != 32 else []
        return " ".join(parts + ["dyn" if self.dynamic else "static"])

    def arch(self):
        return "sm_90a"

    # The launch facts of kernels/cuda/attention/hopper/layout.cuh.
    def threads(self):
        return 128 * (self.warpgroups + 1)

    def shared_bytes(self):
        column = 128 if self.fp8 else 64
        columns_qk, columns_v = -(-self.head_dim_qk // column), -(-self.head_dim_v // column)
        raw_stages = 2 if self.fp8 else 0
        bias_stages = self.bias_stages if self.bias else 0
        barriers = 4 * self.stages + 2 * self.warpgroups * (self.query_buffers + bias_stages) + 2 * raw_stages + 8
        queries = self.warpgroups * self.query_buffers * columns_qk * 64 * 128
        ring = (self.stages * columns_qk + (raw_stages or self.stages) * columns_v) * self.tile_n * 128
        if self.fp8:  # the transposed values
            ring += self.stages * -(-self.tile_n // 128) * 128 * (-(-self.head_dim_v // 16) * 16)
        ring += self.warpgroups * bias_stages * self.tile_n * 64 * 4
        ring += 4 * self.warpgroups * 32 * self.tile_n if self.dropout else 0
        return queries + ring + -(-barriers * 8 // 16) * 16 + 4 * 48 + 16 + 1024

    def fits(self):
        return self.shared_bytes() * self.blocks_per_sm <= 233472 - 1024 * self.blocks_per_sm

    def launcher(self, kernel, t, sms, stream):
        import problem

        p, a = t.p, t.args()
        heads = p.heads_kv if self.packed_heads > 1 else p.heads_q
        a.row_tiles = -(-p.seqlen_q * self.packed_heads // (64 * self.warpgroups))
        a.work_items = p.batch * heads * a.row_tiles
        a.section_heads = 1
        if self.mask_right or self.mask_left:
            bytes_per_head = max(1, p.seqlen_k * (p.head_dim_qk + p.head_dim_v) * t.k.element_size())
            group = p.heads_q // p.heads_kv if self.packed_heads == 1 else 1
            fit = max(1, (self.section_mib << 20) // bytes_per_head)
            a.section_heads = max(1, min((1 << fit.bit_length() - 1) * group, p.batch * heads))
        maps = problem.hopper_maps(t, self.tile_n, self.packed_heads, self.bias and self.bias_stages > 0)
        grid = min(max(a.work_items, 1), sms * self.blocks_per_sm)
        return kernel.launcher((grid, 1, 1), (maps, a), stream)


def trait_tile(p, tile):
    """The tile of the plain kernel, changed for a trait: for what it needs in shared memory, and for the longer softmax
    of an alibi, which wants more warps to hide behind."""
    wide = 64 < max(p.head_dim_qk, p.head_dim_v) <= 128
    if p.bias:
        return dict(tile, query_buffers=1, tile_n=128 if wide else 64, bias_stages=1 if wide else 2)
    if p.dropout:
        return dict(tile, query_buffers=1)
    if p.alibi and wide:
        return dict(warpgroups=3, tile_n=80, late_wait=True)
    return tile


def fp8_table(head_dim, by_block, causal, seqlen):
    """The same for fp8. With scales by block the tile's keys divide a block."""
    if head_dim <= 64:
        return dict(warpgroups=3, stages=3, late_wait=True)
    if head_dim <= 128:
        if by_block:
            return dict(tile_n=128, stages=3, late_wait=True)
        if seqlen >= 2048:
            return dict(warpgroups=3, tile_n=96, stages=4 if causal else 3, ping_pong=not causal, late_wait=True)
        return dict(tile_n=160, stages=3, late_wait=True)
    return dict(tile_n=64 if by_block else 96, stages=3 if by_block else 2, late_wait=True)


def table(head_dim, causal, seqlen):
    """The tile configuration for a problem of this size; found by measurement on an H200 (docs/cuda_kernels.md)."""
    if head_dim <= 64:
        if causal and seqlen < 2048:
            return dict(warpgroups=1, blocks_per_sm=3, tile_n=64, stages=3, query_buffers=2)
        return dict(warpgroups=3, ping_pong=True, late_wait=True)
    if head_dim <= 128:
        if not causal:
            return dict(stages=3, ping_pong=True, late_wait=True)
        short = seqlen < 1024
        return dict(query_buffers=2, ping_pong=short, late_wait=True, late_store=not short)
    narrow = seqlen < (8192 if causal else 1024)
    return dict(
        tile_n=64 if narrow else 80,
        ping_pong=True,
        late_wait=True,
        dynamic=causal,
        late_store=not causal or seqlen >= 1024,
    )
