"""An attention problem: its tensors, its float64 reference (the meaning of kernels/cpu/abi.h), its argument struct."""

import ctypes
import math
from dataclasses import dataclass

import torch

import driver


@dataclass
class Problem:
    batch: int = 1
    heads_q: int = 4
    heads_kv: int = 4
    seqlen_q: int = 256
    seqlen_k: int = 256
    head_dim_qk: int = 128
    head_dim_v: int = 128
    bf16: bool = True
    layout: str = "bhsd"
    window: tuple = (-1, -1)
    bottom_right: bool = True
    scale: float = 0.0  # 0: 1 / sqrt(head_dim_qk)
    softcap: float = 0.0
    bias: bool = False
    bias_broadcast: tuple = ()  # dimensions of the bias with stride 0
    bias_odd: bool = False  # rows that do not begin at multiples of 16 bytes
    alibi: bool = False
    sink: bool = False
    dropout: float = 0.0
    fp8: str = ""  # e4m3 q, k and v with scales: "tensor", "head" or "block"
    unaligned: bool = False  # rows of an odd number of elements, from an odd address
    hidden_nan: bool = False  # NaN in the keys that no query sees: those after the last query's, masked top-left
    negative: bool = False  # every product is less than zero
    lengths: tuple = ()  # group mode: (seqlen_q, seqlen_k) of each sequence

    def __post_init__(self):
        if self.scale == 0.0:
            self.scale = 1.0 / math.sqrt(self.head_dim_qk)
        if self.lengths:
            self.batch = len(self.lengths)
            self.seqlen_q = max(a for a, _ in self.lengths)
            self.seqlen_k = max(b for _, b in self.lengths)
        self.drop_threshold = round(self.dropout * 65536)

    @property
    def dtype(self):
        return torch.bfloat16 if self.bf16 else torch.float16

    def flops(self):
        """2 * (head_dim_qk + head_dim_v) for each visible pair."""
        if self.lengths:
            one = dict(
                heads_q=self.heads_q, heads_kv=self.heads_kv, head_dim_qk=self.head_dim_qk, head_dim_v=self.head_dim_v
            )
            one.update(window=self.window, bottom_right=self.bottom_right)
            return sum(Problem(batch=1, seqlen_q=q, seqlen_k=k, **one).flops() for q, k in self.lengths)
        rows = torch.arange(self.seqlen_q, dtype=torch.float64)
        o = self.seqlen_k - self.seqlen_q if self.bottom_right else 0
        last = rows + o + self.window[1] if self.window[1] >= 0 else torch.full_like(rows, self.seqlen_k - 1)
        first = rows + o - self.window[0] if self.window[0] >= 0 else torch.zeros_like(rows)
        pairs = (last.clamp(max=self.seqlen_k - 1) - first.clamp(min=0) + 1).clamp(min=0).sum().item()
        return 2.0 * (self.head_dim_qk + self.head_dim_v) * self.batch * self.heads_q * pairs


def _empty(p, batch, heads, seqlen, dim, dtype=None):
    dtype = dtype or p.dtype
    if p.unaligned:
        rows = torch.empty(batch * heads * seqlen * (dim | 1) + 1, dtype=dtype, device="cuda")[1:]
        return rows.view(batch, heads, seqlen, dim | 1)[..., :dim]
    if p.layout == "bhsd":
        return torch.empty(batch, heads, seqlen, dim, dtype=dtype, device="cuda")
    return torch.empty(batch, seqlen, heads, dim, dtype=dtype, device="cuda").transpose(1, 2)


SCALE_BLOCK = 128  # TS_CUDA_SCALE_BLOCK


def _quantise(p, x, lengths):
    """(e4m3 tensor, float32 scales [sequence, head, block] with stride 0 where shared, the tensor that they mean)."""
    starts = [0]
    for n in lengths:
        starts.append(starts[-1] + n)
    sequences = [(b, slice(0, x.shape[2])) for b in range(x.shape[0])]
    if p.lengths:
        sequences = [(0, slice(a, b)) for a, b in zip(starts, starts[1:])]
    heads, blocks = x.shape[1], max(1, -(-max(s.stop - s.start for _, s in sequences) // SCALE_BLOCK))
    scales = torch.zeros(len(sequences), heads, blocks, device="cuda")
    for i, (b, rows) in enumerate(sequences):
        one = x[b, :, rows].abs().amax(-1)
        one = torch.nn.functional.pad(one, (0, blocks * SCALE_BLOCK - one.shape[1]))
        scales[i] = one.reshape(heads, blocks, SCALE_BLOCK).amax(-1)
    if p.fp8 != "block":
        scales = scales.amax(dim=(0, 1, 2) if p.fp8 == "tensor" else 2, keepdim=True)
    scales = (scales / 448).clamp(min=1e-6)
    each = scales.expand(len(sequences), heads, blocks)
    stored, meant = _empty(p, *x.shape, dtype=torch.float8_e4m3fn), torch.empty_like(x)
    for i, (b, rows) in enumerate(sequences):
        by_row = each[i].repeat_interleave(SCALE_BLOCK, 1)[:, : rows.stop - rows.start, None]
        stored[b, :, rows] = (x[b, :, rows] / by_row).to(torch.float8_e4m3fn)
        meant[b, :, rows] = stored[b, :, rows].float() * by_row
    return stored, each, meant


class Tensors:
    def __init__(self, p, seed=1):
        g = torch.Generator(device="cuda").manual_seed(seed)
        self.p = p
        totals = [sum(x) for x in zip(*p.lengths)] if p.lengths else [p.seqlen_q, p.seqlen_k]
        batch = 1 if p.lengths else p.batch

        def draw(heads, rows, dim):
            t = _empty(p, batch, heads, rows, dim)
            x = torch.randn(t.shape, generator=g, device="cuda", dtype=torch.float32)
            # In fp8 rows differ in size, so that scales differ; the loudest block is eight times the quietest.
            return t.copy_(x) if not p.fp8 else x * 2 ** (torch.arange(rows, device="cuda")[:, None] // 100 % 4 - 2.0)

        self.q = draw(p.heads_q, totals[0], p.head_dim_qk)
        self.k = draw(p.heads_kv, totals[1], p.head_dim_qk)
        self.v = draw(p.heads_kv, totals[1], p.head_dim_v)
        self.scales = {}
        self.meant = dict(q=self.q, k=self.k, v=self.v)
        if p.fp8:
            for n in "qkv":
                lengths = [pair[n != "q"] for pair in p.lengths]
                stored, self.scales[n], self.meant[n] = _quantise(p, getattr(self, n), lengths)
                setattr(self, n, stored)
        if p.negative:
            self.q.abs_()
            self.k.abs_().neg_()
        if p.hidden_nan:
            self.k[:, :, p.seqlen_q :] = float("nan")
        self.o = _empty(p, batch, p.heads_q, totals[0], p.head_dim_v)
        self.lse = torch.empty(batch, p.heads_q, totals[0], dtype=torch.float32, device="cuda")
        f32 = dict(generator=g, device="cuda", dtype=torch.float32)
        self.bias = None
        if p.bias:
            sizes = [p.batch, p.heads_q, p.seqlen_q, p.seqlen_k]
            stored = [1 if i in p.bias_broadcast else n for i, n in enumerate(sizes)]
            stored[3] = stored[3] | 1 if p.bias_odd else -(-stored[3] // 4) * 4
            self.bias = torch.randn(stored, **f32)[..., : p.seqlen_k].expand(sizes)
        self.alibi = torch.rand(p.batch, p.heads_q, **f32) * 0.1 if p.alibi else None
        self.sink = torch.randn(p.heads_q, **f32) if p.sink else None
        self.cu_q = self.cu_k = None
        if p.lengths:
            sums = [[0], [0]]
            for pair in p.lengths:
                for s, x in zip(sums, pair):
                    s.append(s[-1] + x)
            self.cu_q, self.cu_k = (torch.tensor(s, dtype=torch.int32, device="cuda") for s in sums)
        self.counters = torch.zeros(2, dtype=torch.int32, device="cuda")
        self.seed, self.offset = 0x123456789ABCDEF0, 0x0FEDCBA987654321
        self.poison()

    def poison(self):
        self.o.fill_(float("nan"))
        self.lse.fill_(float("nan"))

    def args(self):
        p, a = self.p, driver.Args()
        for name, t in dict(
            q=self.q,
            k=self.k,
            v=self.v,
            o=self.o,
            lse=self.lse,
            bias=self.bias,
            alibi=self.alibi,
            sink=self.sink,
            cu_seqlens_q=self.cu_q,
            cu_seqlens_k=self.cu_k,
            tile_counters=self.counters,
        ).items():
            setattr(a, name, t.data_ptr() if t is not None else 0)
        for name, t in dict(q=self.q, k=self.k, v=self.v, o=self.o, bias=self.bias).items():
            if t is not None:
                setattr(a, name + "_strides", driver.Strides(*t.stride()))
        a.lse_strides = driver.Strides(*self.lse.stride(), 1)
        for name, s in self.scales.items():
            setattr(a, name + "_scale", driver.Scale(s.data_ptr(), *s.stride()))
        a.alibi_batch_stride = p.heads_q
        for name in ("batch", "heads_q", "heads_kv", "seqlen_q", "seqlen_k", "scale", "softcap", "drop_threshold"):
            setattr(a, name, getattr(p, name))
        a.window_left, a.window_right = p.window
        a.mask_bottom_right = int(p.bottom_right)
        a.seed, a.offset = self.seed, self.offset
        return a


def philox_keep(seed, offset, batch_head, rows, columns, threshold):
    """The dropout mask of one head: Philox 4x32-10 as kernels/cpu/abi.h states it."""
    mask = 0xFFFFFFFF
    j = torch.arange((columns + 7) // 8, device="cuda", dtype=torch.int64)[None, :].expand(rows, -1)
    i = torch.arange(rows, device="cuda", dtype=torch.int64)[:, None].expand_as(j)
    c = [j, i, torch.full_like(j, batch_head), torch.full_like(j, offset & mask)]
    k0, k1 = seed & mask, (seed >> 32) ^ (offset >> 32)
    for _ in range(10):
        a, b = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57  # low 64 bits; the sign bit is masked off below
        c = [((b >> 32) & mask) ^ c[1] ^ k0, b & mask, ((a >> 32) & mask) ^ c[3] ^ k1, a & mask]
        k0, k1 = (k0 + 0x9E3779B9) & mask, (k1 + 0xBB67AE85) & mask
    values = torch.stack([x for w in c for x in (w & 0xFFFF, w >> 16)], dim=-1)
    return (values >= threshold).flatten(1)[:, :columns]


def reference(t):
    """Output and lse in float64, head by head."""
    p = t.p
    out = torch.zeros(t.o.shape, dtype=torch.float64, device="cuda")
    lse = torch.zeros(t.lse.shape, dtype=torch.float64, device="cuda")
    lengths = p.lengths or [(p.seqlen_q, p.seqlen_k)] * p.batch
    start_q = start_k = 0
    for b, (sq, sk) in enumerate(lengths):
        at = 0 if p.lengths else b
        rows, keys = slice(start_q, start_q + sq), slice(start_k, start_k + sk)
        if p.lengths:
            start_q, start_k = start_q + sq, start_k + sk
        o = sk - sq if p.bottom_right else 0
        i = torch.arange(sq, device="cuda", dtype=torch.float64)[:, None] + o
        j = torch.arange(sk, device="cuda", dtype=torch.float64)[None, :]
        visible = torch.ones(sq, sk, dtype=torch.bool, device="cuda")
        if p.window[0] >= 0:
            visible &= j >= i - p.window[0]
        if p.window[1] >= 0:
            visible &= j <= i + p.window[1]
        for h in range(p.heads_q):
            hk = h // (p.heads_q // p.heads_kv)
            q, k, v = (
                x[at, n, part].double()
                for x, n, part in ((t.meant["q"], h, rows), (t.meant["k"], hk, keys), (t.meant["v"], hk, keys))
            )
            s = (q @ k.T) * p.scale
            if p.softcap:
                s = p.softcap * torch.tanh(s / p.softcap)
            if p.bias:
                s = s + t.bias[b, h, :sq, :sk].double()
            if p.alibi:
                s = s - t.alibi[b, h].double() * (i - j).abs()
            s = s.masked_fill(~visible, -math.inf)
            every = torch.cat([s, t.sink[h].double().expand(sq, 1)], 1) if p.sink else s
            total = (
                torch.logsumexp(every, 1)
                if every.shape[1]
                else torch.full((sq,), -math.inf, device="cuda", dtype=torch.float64)
            )
            probability = torch.exp(s - total.nan_to_num(neginf=0.0)[:, None])
            if p.dropout:
                keep = philox_keep(t.seed, t.offset, b * p.heads_q + h, sq, sk, p.drop_threshold)
                probability = probability * keep / (1.0 - p.drop_threshold / 65536)
            out[at, h, rows] = probability @ v
            lse[at, h, rows] = total
    return out, lse


def errors(t, out, lse):
    """(relative RMS error of the output, largest error of the lse); infinity where one is not finite."""
    difference = t.o.double() - out
    rms = (difference.square().mean() / out.square().mean().clamp(min=1e-300)).sqrt().item()
    both = torch.isinf(lse) & torch.isinf(t.lse)
    worst = torch.where(both, 0.0, (t.lse.double() - lse).abs()).max().item() if lse.numel() else 0.0
    return (rms if math.isfinite(rms) else math.inf), (worst if math.isfinite(worst) else math.inf)


def hopper_maps(t, tile_n, packed, shared_bias=False):
    p, maps = t.p, driver.TensorMaps()
    base = ctypes.addressof(maps)
    heads = p.heads_q // packed
    size, column = t.q.element_size(), 128 // t.q.element_size()
    element = driver.UINT8 if p.fp8 else driver.BITS16
    b, h, s, _ = (size * x for x in t.q.stride())
    driver.encode_tensor_map(
        base,
        t.q.data_ptr(),
        (p.head_dim_qk, packed, t.q.shape[2], heads, t.q.shape[0]),
        (h if packed > 1 else s, s, h * packed, b),
        (column, packed, 64 // packed, 1, 1),
        element,
    )
    for i, x in ((1, t.k), (2, t.v)):
        b, h, s, _ = (size * y for y in x.stride())
        driver.encode_tensor_map(
            base + 128 * i,
            x.data_ptr(),
            (x.shape[3], x.shape[2], x.shape[1], x.shape[0]),
            (s, h, b),
            (column, tile_n, 1, 1),
            element,
        )
    if shared_bias and t.bias is not None:
        b, h, s, _ = (4 * x for x in t.bias.stride())
        driver.encode_tensor_map(
            base + 128 * 3,
            t.bias.data_ptr(),
            (t.bias.shape[3], packed, t.bias.shape[2], heads, t.bias.shape[0]),
            (h if packed > 1 else s, s, h * packed, b),
            (32, packed, 64 // packed, 1, 1),
            driver.FLOAT32,
        )
    return maps
