#!/usr/bin/env python3
"""tilesmith.attention and its backward, untuned, beside PyTorch's best on random problems of families that no table was made for.

    python bench/peers/cuda_attention_families.py --seed 5                        4 problems of each family
    python bench/peers/cuda_attention_families.py --seed 5 --families few,short   of these
    python bench/peers/cuda_attention_families.py --seed 5 --look 8               and of the 8 worst, what the next kernels take

Families of forward: dense, causal (both diagonals, lengths that differ), few (2 to 64 queries behind many keys), append (65 to 512, few heads), short (16 to 300 tokens, large batches),
cross (many queries, some 77 keys), odd (head dims 33 to 255), latent (192 columns of keys, 128 of values), window, alibi, bias (whole or broadcast), sink,
dropout, packed, fp8, cap (a soft cap). Of backward: gdense, gcausal, gshort, gcross, godd, gwindow, gbias, gpacked; half of them bitwise, half tolerant.
Peers: cuDNN, FlashAttention-2 and the memory-efficient kernel, as PyTorch has them; for a soft cap FlexAttention. Beside fp8 they compute in bf16, beside a
sink without it, and what they need is padded, widened and repeated beforehand. What a call reads is in no cache, contenders take turns, medians of graphs
(bench/timing.py), so that no host counts; its part of a call is `host`. Results are compared with fp32's. Kernels are compiled beforehand. With
--seconds, what was not reached by then is left out: families take turns.
"""
import argparse
import itertools
import json
import math
import sys
import time
from pathlib import Path

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

import tilesmith

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import families  # noqa: E402
import kernels  # noqa: E402
import timing  # noqa: E402

aten = torch.ops.aten
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp8": torch.float8_e4m3fn}
CLOSE = {"bf16": 6e-3, "fp16": 2e-3, "fp8": 6e-2}  # relative root of the mean square between ours and fp32's
CLOSE_GRADIENTS = 1.5e-2
MOST_PRODUCTS = 1 << 36  # batch heads seqlen_q seqlen_k head_dim
MOST_ELEMENTS = 1 << 27  # of a tensor
MOST_LOGITS = 1 << 28  # of what is compared


class Problem:
    def __init__(self, family, kind, batch, heads, queries, keys, dims, mask="none", layout="bhsd", window=(-1, -1), softcap=0.0, beside="", dropout=0.0,
                 lengths=None, bitwise=False):  # fmt: skip
        self.family, self.kind, self.batch, self.heads, self.queries, self.keys, self.dims = family, kind, batch, heads, queries, keys, dims
        self.mask, self.layout, self.window, self.softcap, self.beside, self.dropout = mask, layout, window, softcap, beside, dropout
        self.lengths, self.bitwise, self.backward = lengths, bitwise, family[0] == "g"

    def __str__(self):
        words = [self.mask] * (self.mask != "none") + [f"window {self.window[0]},{self.window[1]}"] * (self.window != (-1, -1))
        words += [f"cap {self.softcap:g}"] * (self.softcap > 0) + [self.beside] * bool(self.beside) + ["bitwise"] * self.bitwise
        words += [f"{self.batch} sequences"] * bool(self.lengths)
        dims = str(self.dims[0]) if self.dims[0] == self.dims[1] else "/".join(map(str, self.dims))
        return " ".join((self.family, self.kind, self.layout, *words, f"{self.batch}x{self.heads[0]}/{self.heads[1]}x{self.queries}x{self.keys}x{dims}"))

    def fits(self):
        (heads, _), dim = self.heads, max(self.dims)
        products = self.batch * heads * self.queries * self.keys * dim
        return products <= MOST_PRODUCTS and self.batch * heads * max(self.queries, self.keys) * dim <= MOST_ELEMENTS and heads * self.queries * self.keys <= MOST_LOGITS

    def tensor(self, heads, rows, dim):
        """Of batch, heads, rows, head dim whatever the order in memory; of packed sequences rows, heads, head dim."""
        if self.lengths:
            shape = (sum(self.lengths[rows]), heads, dim)
        else:
            rows = (self.queries, self.keys)[rows]
            shape = (self.batch, heads, rows, dim) if self.layout == "bhsd" else (self.batch, rows, heads, dim)
        made = torch.randn(shape, device="cuda", dtype=torch.bfloat16 if self.kind == "fp8" else TYPES[self.kind]).to(TYPES[self.kind])
        return made if self.layout == "bhsd" or self.lengths else made.transpose(1, 2)

    def make(self, forward=None):
        """A set of operands; forward computes what a backward reads of it."""
        (heads, heads_kv), (dim, dim_v) = self.heads, self.dims
        if self.layout == "qkv":  # one tensor of all three
            q, k, v = self.tensor(heads + 2 * heads_kv, 0, dim).split((heads, heads_kv, heads_kv), 1)
        else:
            q, k, v = self.tensor(heads, 0, dim), self.tensor(heads_kv, 1, dim), self.tensor(heads_kv, 1, dim_v)
        beside = ()
        if self.beside.startswith("bias"):
            beside = (torch.randn(self.bias_shape(), device="cuda"),)
        elif self.beside:
            beside = (torch.rand(heads, device="cuda") * (0.5 if self.beside == "alibi" else 2.0),)
        elif self.lengths:
            beside = tuple(torch.tensor([0, *itertools.accumulate(each)], device="cuda", dtype=torch.int32) for each in self.lengths)
        out = torch.empty_like(self.tensor(heads, 0, dim_v), dtype=torch.bfloat16 if self.kind == "fp8" else None)
        if not self.backward:
            return (q, k, v, *beside, out)
        o, lse = (forward or tilesmith.attention)(q, k, v, **self.named(beside), return_lse=True)
        return (q, k, v, *beside, o, lse, torch.randn_like(o), *(torch.empty_like(x) for x in (q, k, v)))

    def bias_shape(self):
        whole = (self.batch, self.heads[0], self.queries, self.keys)
        return tuple(n if word in self.beside.split(":")[1] else 1 for n, word in zip(whole, "bhqk"))

    def named(self, beside):
        """attention's named arguments beside q, k and v."""
        named = dict(mask=self.mask, window=self.window, softcap=self.softcap)
        if self.dropout:
            named.update(dropout_p=self.dropout, seed=1)
        if self.lengths:
            named.update(cu_seqlens_q=beside[0], cu_seqlens_k=beside[1], max_seqlen_q=self.queries, max_seqlen_k=self.keys, layout="bshd")
        elif self.beside:
            named[self.beside.split(":")[0]] = beside[0]
        return named

    def ours(self, *operands, **options):
        q, k, v, *beside = operands
        if not self.backward:
            return tilesmith.attention(q, k, v, **self.named(beside), out=beside[-1], **options)
        *beside, o, lse, do, dq, dk, dv = beside
        return tilesmith.attention_backward(do, q, k, v, o, lse, deterministic=self.bitwise, dq=dq, dk=dk, dv=dv, **self.named(beside), **options)

    def results(self, operands):
        return operands[-3:] if self.backward else operands[-1:]

    def candidates(self, first):
        """The kernels that dispatch ranks first, and of a backward the forward's."""
        before = []

        def listed(q, k, v, **named):
            before.append(tilesmith.candidates(tilesmith.attention, q, k, v, **named).candidates[0].kernel)
            rows = q.shape[:-1] if not self.lengths else (q.shape[1], q.shape[0])
            return q.new_empty(*q.shape[:-1], v.shape[-1]), q.new_empty(rows, dtype=torch.float32)

        q, k, v, *beside = self.make(listed)
        if not self.backward:
            found = tilesmith.candidates(tilesmith.attention, q, k, v, out=beside[-1], **self.named(beside))
        else:
            *beside, o, lse, do, dq, dk, dv = beside
            with tilesmith.options(determinism="bitwise" if self.bitwise else "tolerant"):
                found = tilesmith.candidates(tilesmith.attention_backward, do, q, k, v, o, lse, dq=dq, dk=dk, dv=dv, **self.named(beside))
        return [each.kernel for each in found.candidates[:first]], before

    def member(self, x, rows):
        """The last sequence of q (rows 0) or of k (rows 1), or of what has their shape: heads, rows, head dim."""
        return x[sum(self.lengths[rows][:-1]):].transpose(0, 1) if self.lengths else x[-1]

    def expected(self, operands):
        """Of the last sequence in fp32: the output, or the three gradients."""
        q, k, v = (self.member(x, i > 0).float().requires_grad_(self.backward) for i, x in enumerate(operands[:3]))
        group = self.heads[0] // self.heads[1]
        queries, keys = q.shape[1], k.shape[1]
        logits = (q @ k.repeat_interleave(group, 0).mT) * self.dims[0] ** -0.5
        if self.softcap:
            logits = self.softcap * torch.tanh(logits / self.softcap)
        offset = keys - queries if self.mask == "bottom_right" or self.mask == "none" and self.window != (-1, -1) else 0
        apart = torch.arange(keys, device="cuda") - torch.arange(queries, device="cuda")[:, None] - offset
        if self.beside == "alibi":
            logits = logits - operands[3][:, None, None] * apart.abs()
        elif self.beside.startswith("bias"):
            logits = logits + operands[3].expand(self.batch, *logits.shape)[-1]
        left, right = self.window[0], 0 if self.mask != "none" else self.window[1]
        hidden = ((apart < -left) if left >= 0 else torch.zeros_like(apart, dtype=torch.bool)) | ((apart > right) if right >= 0 else False)
        logits = logits.masked_fill(hidden, -torch.inf)
        if self.beside == "sink":
            logits = torch.cat((logits, operands[3][:, None, None].expand(-1, queries, 1)), 2)
        weights = torch.softmax(logits, 2).nan_to_num(0.0)[:, :, :keys].masked_fill(hidden, 0.0)
        out = weights @ v.repeat_interleave(group, 0)
        if not self.backward:
            return (out,)
        return torch.autograd.grad(out, (q, k, v), self.member(operands[-4], 0).float())

    def off(self, results, expected):
        """The largest difference of the last sequence, as a share of what is expected. Dropout's is unknown."""
        if self.dropout:
            return math.nan
        pairs = zip((self.member(x, i % 3 > 0).double() for i, x in enumerate(results)), expected)
        return max(((a - b).square().mean() / b.double().square().mean().clamp_min(1e-30)).sqrt().item() for a, b in pairs)


def prepared(prepare, call):
    """A call on what is prepared once for each set of operands."""
    kept = {}

    def go(*operands):
        at = operands[0].data_ptr()
        if at not in kept:
            kept[at] = prepare(*operands)
        return call(*kept[at])

    return go


class Peers:
    """PyTorch's kernels for a problem: {name: call}. Which of them can is found out by calling them."""

    def __init__(self, problem):
        self.p = p = problem
        self.square = p.queries == p.keys
        self.plain = not (p.lengths or p.softcap or p.window != (-1, -1) or p.beside == "alibi")
        self.diagonal_first = p.mask == "none" or p.mask == "top_left" or self.square  # as PyTorch has it
        self.diagonal_last = p.mask != "top_left" or self.square  # as FlashAttention has it
        self.causal = p.mask != "none"
        self.biased = p.beside.startswith("bias")

    def operands(self, *given, repeat=False):
        q, k, v = given[:3]
        if self.p.kind == "fp8":
            q, k, v = (x.to(torch.bfloat16) for x in (q, k, v))
        if repeat and self.p.heads[0] != self.p.heads[1]:
            k, v = (x.repeat_interleave(self.p.heads[0] // self.p.heads[1], 1) for x in (k, v))
        bias = None
        if self.biased:  # rows of whole 16 bytes, as the memory-efficient kernel asks
            bias = torch.nn.functional.pad(given[3].to(q.dtype), (0, -given[3].shape[3] % 8)) if given[3].shape[3] > 1 else given[3].to(q.dtype)
            bias = bias[..., : given[3].shape[3]].expand(self.p.batch, self.p.heads[0], self.p.queries, self.p.keys)
        return q, k, v, bias

    def sdpa(self, backend, repeat=False):
        def call(q, k, v, bias):
            with sdpa_kernel(backend):
                return (scaled_dot_product_attention(q, k, v, bias, is_causal=self.causal, dropout_p=self.p.dropout, enable_gqa=q.shape[1] != k.shape[1]),)

        return prepared(lambda *given: self.operands(*given, repeat=repeat), call)

    def flash_options(self, given):
        p = self.p
        ends = given[3:5] if p.lengths else (None, None)
        right = 0 if self.causal else p.window[1]
        window = dict(window_size_left=p.window[0], window_size_right=right) if p.window != (-1, -1) else {}
        return (*ends, p.queries, p.keys, p.dropout, self.causal), dict(scale=p.dims[0] ** -0.5, **window)

    def flash_operand(self, x):
        x = x if self.p.lengths else x.transpose(1, 2)
        return torch.nn.functional.pad(x, (0, -x.shape[-1] % 8)) if x.shape[-1] % 8 else x

    def flash_operands(self, given):
        return tuple(map(self.flash_operand, self.operands(*given)[:3]))

    def shown(self, x):
        return (x if self.p.lengths else x.transpose(1, 2))[..., : self.p.dims[0]]

    def flash(self):
        def prepare(*given):
            positional, named = self.flash_options(given)
            if self.p.beside == "alibi":
                named["alibi_slopes"] = given[3]
            return (*self.flash_operands(given), positional, named)

        def call(q, k, v, positional, named):
            return (self.shown(aten._flash_attention_forward(q, k, v, *positional, False, **named)[0]),)

        return prepared(prepare, call)

    def flash_gradients(self):
        def prepare(*given):
            positional, named = self.flash_options(given)
            q, k, v = self.flash_operands(given)
            o, lse, state, unused, _ = aten._flash_attention_forward(q, k, v, *positional, False, **named)
            return self.flash_operand(given[-4]), q, k, v, o, lse, *positional, state, unused, named

        def call(*given):
            return tuple(map(self.shown, aten._flash_attention_backward(*given[:-1], **given[-1])))

        return prepared(prepare, call)

    def grouped(self, gradients):
        dq, dk, dv = gradients
        group = self.p.heads[0] // self.p.heads[1]
        return (dq, *(x.unflatten(1, (-1, group)).sum(2) if group > 1 else x for x in (dk, dv)))

    def cudnn_gradients(self):
        scale = self.p.dims[0] ** -0.5

        def prepare(*given):
            q, k, v, bias = self.operands(*given, repeat=True)
            o, lse, cq, ck, mq, mk, seed, offset, _ = aten._scaled_dot_product_cudnn_attention(q, k, v, bias, True, 0.0, self.causal, False, scale=scale)
            return given[-4], q, k, v, o, lse, seed, offset, bias, cq, ck, mq, mk, 0.0, self.causal

        return prepared(prepare, lambda *given: self.grouped(aten._scaled_dot_product_cudnn_attention_backward(*given, scale=scale)))

    def efficient_gradients(self):
        scale = self.p.dims[0] ** -0.5

        def prepare(*given):
            q, k, v, bias = self.operands(*given, repeat=True)
            o, lse, seed, offset = aten._scaled_dot_product_efficient_attention(q, k, v, bias, True, 0.0, self.causal, scale=scale)
            return given[-4], q, k, v, bias, o, lse, seed, offset, 0.0, [True, True, True, False], self.causal

        return prepared(prepare, lambda *given: self.grouped(aten._scaled_dot_product_efficient_attention_backward(*given, scale=scale)[:3]))

    def flex(self):
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        p = self.p
        offset = 0 if p.mask == "top_left" else p.keys - p.queries
        mask = create_block_mask(lambda b, h, i, j: j <= i + offset, None, None, p.queries, p.keys, device="cuda") if self.causal else None
        compiled = torch.compile(flex_attention, dynamic=False)

        def cap(score, b, h, i, j):
            return p.softcap * torch.tanh(score / p.softcap)

        return prepared(self.operands, lambda q, k, v, _: (compiled(q, k, v, cap, block_mask=mask, enable_gqa=q.shape[1] != k.shape[1]),))

    def makers(self):
        p = self.p
        if p.softcap:
            return {"flex": self.flex}
        flash = p.dims[0] == p.dims[1] and self.diagonal_last and not self.biased
        if p.backward:
            found = {"flash": self.flash_gradients} if flash else {}
            if self.plain and self.diagonal_first:
                found.update(cuDNN=self.cudnn_gradients, efficient=self.efficient_gradients)
            return found
        found = {"flash": self.flash} if flash and (p.dims[0] % 8 == 0 or not self.plain) else {}
        if self.plain and self.diagonal_first:
            found["cuDNN"] = lambda: self.sdpa(SDPBackend.CUDNN_ATTENTION)
            found["efficient"] = lambda: self.sdpa(SDPBackend.EFFICIENT_ATTENTION, repeat=True)
            if "flash" not in found and not self.biased and not p.dropout:
                found["flash"] = lambda: self.sdpa(SDPBackend.FLASH_ATTENTION)
        return found

    def calls(self, operands, expected):
        """Those that can, and whose results are right."""
        found = {}
        for name, make in self.makers().items():
            try:
                call = make()
                apart = self.p.off(call(*operands), expected)
            except (RuntimeError, TypeError) as error:
                print(f"    {name} cannot: {str(error).splitlines()[0][:110]}")
                continue
            if apart > 0.03 and self.p.beside != "sink" and not self.p.dropout and self.p.kind != "fp8":
                print(f"    {name} is {apart:.1e} from fp32's: left out")
                continue
            found[name] = call
        return found


def half(draw):
    return draw.choice(("bf16", "bf16", "fp16"))


def heads(draw, most=32, groups=(1, 1, 2, 4, 8, 0)):
    """Of queries and of keys; group 0: one head of keys."""
    group, count = draw.choice(groups), families.between(draw, 1, most)
    return (count, 1) if group == 0 else (max(1, count // group) * group, max(1, count // group))


def width(draw):
    return draw.choice((64, 64, 128, 128, 96, 80, 192, 256, families.between(draw, 32, 256, 8)))


def layout(draw, square=False):
    return draw.choice(("bhsd", "bshd", "qkv") if square else ("bhsd", "bshd"))


def dims(draw, dim=None):
    return (dim or width(draw),) * 2


def drawn_lengths(draw):
    queries = families.between(draw, 64, 8192)
    return queries, queries if draw.random() < 0.5 else families.between(draw, 64, 8192)


def dense(draw, family="dense", **more):
    queries, keys = drawn_lengths(draw)
    more.setdefault("kind", half(draw))
    return Problem(family, batch=families.between(draw, 1, 32), heads=heads(draw), queries=queries, keys=keys, dims=more.pop("dims", None) or dims(draw),
                   layout=layout(draw, queries == keys and family != "latent"), **more)  # fmt: skip


def causal(draw, family="causal", **more):
    return dense(draw, family, mask=draw.choice(("top_left", "bottom_right")), **more)


def few(draw):
    return Problem("few", half(draw), families.between(draw, 1, 64), heads(draw, 64), draw.randint(2, 64), families.between(draw, 512, 32768), dims(draw),
                   mask=draw.choice(("none", "bottom_right")), layout=layout(draw))  # fmt: skip


def append(draw):
    """A few tiles of rows behind many keys, of few heads of keys: tiles of queries alone leave most of the chip idle."""
    queries = families.between(draw, 65, 512)
    return Problem("append", half(draw), families.between(draw, 1, 4), heads(draw, 8, (1, 1, 2, 4)), queries, families.between(draw, 2 * queries, 32768), dims(draw),
                   mask=draw.choice(("none", "bottom_right")), layout=layout(draw))  # fmt: skip


def short(draw, family="short", **more):
    tokens = draw.choice((49, 50, 64, 128, 197, 256, 257, families.between(draw, 16, 300)))
    more.setdefault("kind", half(draw))
    return Problem(family, batch=families.between(draw, 16, 256), heads=heads(draw, 16, (1,)), queries=tokens, keys=tokens, dims=dims(draw, draw.choice((64, 64, 32, 80, 128))),
                   mask=draw.choice(("none", "none", "bottom_right")), layout=layout(draw, True), **more)  # fmt: skip


def cross(draw, family="cross", **more):
    more.setdefault("kind", half(draw))
    return Problem(family, batch=families.between(draw, 1, 32), heads=heads(draw, 24, (1,)), queries=families.between(draw, 64, 4096), keys=draw.choice((77, 77, 154, 231, families.between(draw, 16, 512))),
                   dims=dims(draw, draw.choice((40, 64, 80, 128, 160))), layout=layout(draw), **more)  # fmt: skip


def odd(draw, family="odd", **more):
    return draw.choice((dense, causal))(draw, family, dims=dims(draw, draw.choice((families.between(draw, 33, 255), families.between(draw, 32, 256, 2), families.between(draw, 32, 256, 4)))), **more)


def latent(draw):
    return draw.choice((dense, causal))(draw, "latent", dims=(192, 128))


def window(draw, family="window", **more):
    left, right = families.between(draw, 16, 4096), draw.choice((0, families.between(draw, 16, 1024)))
    return dense(draw, family, window=(left, right), mask="none" if right else "bottom_right", **more)


def alibi(draw):
    return dense(draw, "alibi", mask=draw.choice(("none", "bottom_right")), beside="alibi")


def bias(draw, family="bias", **more):
    return dense(draw, family, beside="bias:" + draw.choice(("bhqk", "hqk", "qk", "bqk", "bk")), **more)


def sink(draw):
    return dense(draw, "sink", mask="bottom_right", beside="sink")


def dropout(draw):
    return dense(draw, "dropout", mask=draw.choice(("none", "bottom_right")), dropout=0.1)


def packed(draw, family="packed", **more):
    members, longest = families.between(draw, 2, 64), families.between(draw, 32, 4096)
    lengths = [draw.randint(max(1, longest // 8), longest) for _ in range(members)]
    more.setdefault("kind", half(draw))
    return Problem(family, batch=members, heads=heads(draw), queries=max(lengths), keys=max(lengths), dims=dims(draw), mask=draw.choice(("none", "bottom_right")),
                   layout="packed", lengths=(lengths, lengths), **more)  # fmt: skip


def fp8(draw):
    return draw.choice((dense, causal))(draw, "fp8", kind="fp8", dims=dims(draw, draw.choice((64, 128, 256, families.between(draw, 32, 256, 16)))))


def cap(draw):
    return dense(draw, "cap", mask=draw.choice(("none", "bottom_right")), softcap=draw.choice((20.0, 30.0, 50.0)), dims=dims(draw, draw.choice((64, 128))))


def of_gradients(function):
    def draw_one(draw):
        return function(draw, draw_one.__name__, kind="bf16", bitwise=draw.random() < 0.5)

    draw_one.__name__ = "g" + function.__name__
    return draw_one


FAMILIES = (dense, causal, few, append, short, cross, odd, latent, window, alibi, bias, sink, dropout, packed, fp8, cap,
            *map(of_gradients, (dense, causal, short, cross, odd, window, bias, packed)))  # fmt: skip


def drawn(wanted, count, seed):
    """So many of each, in turns."""

    def maker(family):
        return lambda draw: problem if (problem := family(draw)).fits() else None

    return families.drawn({family.__name__: maker(family) for family in wanted}, count, seed)


def host_us(call, sets):
    """The host's part of a call that only queues work."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for i in range(20):
        call(*sets[i % len(sets)])
    took = time.perf_counter() - begin
    torch.cuda.synchronize()
    return took / 20 * 1e6


def timed(problem, options, names=()):
    """Milliseconds of ours, or of these kernels of ours, and of the peers."""
    sets, _ = timing.sets_of(problem.make)
    problem.ours(*sets[0])
    kernel = tilesmith.last_plan().kernel
    expected = problem.expected(sets[0])
    apart = problem.off(problem.results(sets[0]), expected)
    peers = Peers(problem).calls(sets[0], expected)
    del expected

    def by_name(name):
        return lambda *operands: problem.ours(*operands, kernel=name)

    ours = {name: by_name(name) for name in names} or {"tilesmith": problem.ours}
    times = timing.burst_medians({name: (call, sets) for name, call in {**ours, **peers}.items()}, options.rounds, options.rest, options.burst)
    best = min(peers, key=times.get) if peers else None
    host = {} if names else {name: host_us(call, sets) for name, call in ours.items() | ({(best, peers[best])} if best else set())}
    return times, best, host, kernel, apart


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", default=",".join(each.__name__ for each in FAMILIES))
    parser.add_argument("--count", type=int, default=4, help="problems of a family")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rest", type=float, default=0.008, help="seconds before each contender's turn")
    parser.add_argument("--burst", type=float, default=4, help="milliseconds of a turn")
    parser.add_argument("--seconds", type=float, default=math.inf, help="from the start until the last problem")
    parser.add_argument("--look", type=int, default=0, help="of so many of the worst, the kernels that dispatch ranks next are timed")
    parser.add_argument("--look-kernels", type=int, default=6, help="so many")
    parser.add_argument("--look-seconds", type=float, default=math.inf, help="from the start until the last look")
    parser.add_argument("--worst", type=int, default=20)
    parser.add_argument("--workers", type=int, default=15, help="that compile")
    parser.add_argument("--json", help="write the results there")
    options = parser.parse_args()
    begin = time.monotonic()
    torch.manual_seed(1)
    wanted = options.families.split(",")
    problems = drawn([each for each in FAMILIES if each.__name__ in wanted], options.count, options.seed)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, rest {options.rest} s, bursts of "
          f"{options.burst:g} ms, seed {options.seed}")
    chosen = compiled(problems, 1, options.workers)
    print(f"{len(problems)} problems, {len(chosen)} can; compiled after {time.monotonic() - begin:.1f} s", flush=True)
    rows = []

    def keep(looks=()):
        if options.json:
            Path(options.json).write_text(json.dumps(dict(rows=rows, looks=list(looks)), indent=1))

    for problem in problems:
        if str(problem) not in chosen:
            continue
        if time.monotonic() - begin > options.seconds:
            break
        if row := measured(problem, options):
            rows.append(row)
            keep()
    print(f"timed after {time.monotonic() - begin:.1f} s")
    families.summary(rows, options.worst, "the best peer")
    if options.look:
        look(problems, rows, options, begin, keep)


def compiled(problems, first, workers):
    """The first kernels of each problem, compiled: {text: names}. What cannot is told."""
    found = {}
    for problem in problems:
        try:
            found[str(problem)] = problem.candidates(first)
        except tilesmith.Error as error:
            print(f"REFUSED: {problem}: {str(error)[:200]}", flush=True)
    kernels.compile_all((step for both in found.values() for name in itertools.chain(*both) for step in name.split("+")), workers)
    return {text: names for text, (names, _) in found.items()}


def measured(problem, options):
    try:
        times, best, host, kernel, apart = timed(problem, options)
    except (tilesmith.Error, RuntimeError) as error:
        print(f"left out: {problem}: {str(error).splitlines()[0][:200]}", flush=True)
        return None
    finally:
        torch.cuda.empty_cache()
    ratio = times[best] / times["tilesmith"] if best else None
    bound = CLOSE_GRADIENTS if problem.backward else CLOSE[problem.kind]
    wrong = f"  DIFFERS by {apart:.1e}" if apart > bound or math.isnan(apart) and not problem.dropout else ""
    print(f"{ratio or 0:6.3f} {1e3 * times['tilesmith']:9.2f} us, host {host['tilesmith']:.0f}" + (f" and {host[best]:.0f} ({best})" if best else "")
          + f"  {problem}  {kernel}{wrong}", flush=True)
    return dict(problem=str(problem), family=problem.family, ratio=ratio, best=best, milliseconds=times, host_us=host, kernel=kernel, apart=apart)


def look(problems, rows, options, begin, keep):
    """What the kernels that dispatch ranks next take, where ours lost most."""
    by_text = {str(problem): problem for problem in problems}
    worst = [by_text[row["problem"]] for row in sorted((row for row in rows if row["ratio"]), key=lambda row: row["ratio"])[: options.look]]
    names = compiled(worst, options.look_kernels, options.workers)
    looks = []
    for problem in worst:
        if time.monotonic() - begin > options.look_seconds:
            break
        try:
            times, best, _, kernel, _ = timed(problem, options, names[str(problem)])
        except (tilesmith.Error, RuntimeError) as error:
            print(f"left out: {problem}: {str(error).splitlines()[0][:200]}", flush=True)
            continue
        looks.append(dict(problem=str(problem), chosen=kernel, milliseconds=times))
        print(f"{problem}: {best} {1e3 * times[best]:.2f} us", flush=True)
        for name, milliseconds in sorted(times.items(), key=lambda item: item[1]):
            print(f"  {1e3 * milliseconds:9.2f} us {times[best] / milliseconds:6.3f} {name}{'  (chosen)' if name == kernel else ''}")
        keep(looks)
    print(f"looked after {time.monotonic() - begin:.1f} s")


if __name__ == "__main__":
    main()
