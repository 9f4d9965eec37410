"""A drop-in attention backend in the manner of vLLM's: an engine's metadata as that engine builds it, and nothing else.

What an engine of that kind hands to its backend for a step: query_start_loc (requests + 1), seq_lens with the new tokens,
block_table (requests, blocks), slot_mapping (tokens, int64: block * size + offset, -1 for padding), the pool of a layer
(2, blocks, block size, heads, dim), and tensors of padded sizes, of which the first num_actual_tokens rows count. Padded
requests have the length 0."""

from dataclasses import dataclass

import numpy as np
import pytest
import reference

import tilesmith

torch = pytest.importorskip("torch")
HEADS_Q, HEADS_KV, DIM, BLOCK, BLOCKS = 8, 2, 64, 16, 64


@dataclass
class Metadata:
    num_actual_tokens: int
    max_query_len: int
    max_seq_len: int
    query_start_loc: torch.Tensor
    seq_lens: torch.Tensor
    block_table: torch.Tensor
    slot_mapping: torch.Tensor


class Backend:
    """One layer's attention."""

    def __init__(self, scale, sliding_window=None, logits_soft_cap=None, sinks=None):
        self.scale, self.softcap, self.sinks = scale, logits_soft_cap or 0.0, sinks
        self.window = (-1, -1) if sliding_window is None else (sliding_window - 1, 0)

    def forward(self, query, key, value, kv_cache, metadata, output, k_scale=None, v_scale=None):
        tokens = metadata.num_actual_tokens
        k_cache, v_cache = kv_cache.unbind(0)
        one = torch.tensor([0, tokens], dtype=torch.int32)
        tilesmith.append_kv(key[:tokens], value[:tokens], k_cache, v_cache, layout="bshd", cu_seqlens=one,
                            slots=metadata.slot_mapping[:tokens], k_scale=k_scale, v_scale=v_scale)  # fmt: skip
        tilesmith.attention(query[:tokens], k_cache, v_cache, layout="bshd", causal=True, window=self.window, scale=self.scale,
                            softcap=self.softcap, sink=self.sinks, cu_seqlens_q=metadata.query_start_loc,
                            max_seqlen_q=metadata.max_query_len, max_seqlen_k=metadata.max_seq_len, seqlens_k=metadata.seq_lens,
                            block_table=metadata.block_table, k_scale=k_scale, v_scale=v_scale, out=output[:tokens])  # fmt: skip
        return output


class Engine:
    """Hands out blocks and builds a step's metadata."""

    def __init__(self, rng, table_width):
        self.free = list(rng.permutation(BLOCKS))
        self.blocks, self.lengths, self.width = {}, {}, table_width

    def schedule(self, news, padded_requests, padded_tokens):
        starts, lengths, slots = [0], [], []
        table = torch.full((len(news) + padded_requests, self.width), -1, dtype=torch.int32)
        for row, (request, new) in enumerate(news.items()):
            before = self.lengths.get(request, 0)
            blocks = self.blocks.setdefault(request, [])
            while len(blocks) * BLOCK < before + new:
                blocks.append(int(self.free.pop()))
            table[row, : len(blocks)] = torch.tensor(blocks)
            slots += [blocks[t // BLOCK] * BLOCK + t % BLOCK for t in range(before, before + new)]
            self.lengths[request] = before + new
            starts.append(starts[-1] + new)
            lengths.append(before + new)
        starts += [starts[-1]] * padded_requests
        lengths += [0] * padded_requests
        return Metadata(starts[-1], max(news.values()), min(self.width * BLOCK, 256), torch.tensor(starts, dtype=torch.int32),
                        torch.tensor(lengths, dtype=torch.int32), table,
                        torch.tensor(slots + [-1] * (padded_tokens - len(slots)), dtype=torch.int64))  # fmt: skip


@pytest.mark.parametrize("traits", [{}, {"sliding_window": 20}, {"logits_soft_cap": 15.0}, {"sinks": True}, {"cache": torch.int8}])
def test_steps_of_prefill_beside_decode(rng, traits):
    traits = dict(traits)
    cache_type = traits.pop("cache", torch.float32)
    if traits.get("sinks"):
        traits["sinks"] = torch.from_numpy(rng.standard_normal(HEADS_Q).astype(np.float32))
    backend = Backend(scale=0.11, **traits)
    engine = Engine(rng, table_width=12)
    pool = torch.zeros(2, BLOCKS, BLOCK, HEADS_KV, DIM, dtype=cache_type)
    scales = {} if cache_type == torch.float32 else {"k_scale": torch.tensor([0.03]), "v_scale": torch.tensor([0.031])}
    if not scales:
        pool.fill_(torch.nan)  # what nobody wrote
    seen = {}  # of each request: its keys and values
    steps = [{"a": 37}, {"a": 1, "b": 50}, {"a": 1, "b": 20, "c": 1}, {"c": 1, "b": 1, "a": 3}, {"d": 90, "a": 1}]
    for news in steps:
        meta = engine.schedule(news, padded_requests=2, padded_tokens=sum(news.values()) + 5)
        q, k, v = (torch.from_numpy(rng.standard_normal((len(meta.slot_mapping), heads, DIM)).astype(np.float32))
                   for heads in (HEADS_Q, HEADS_KV, HEADS_KV))  # fmt: skip
        output = torch.full_like(q, 7.0)
        backend.forward(q, k, v, pool, meta, output, **scales)
        assert bool((output[meta.num_actual_tokens :] == 7).all())
        for row, request in enumerate(news):
            mine = slice(int(meta.query_start_loc[row]), int(meta.query_start_loc[row + 1]))
            stored = [x[mine] if not scales else (x[mine] / s).round().clamp(-128, 127) * s for x, s in zip((k, v), scales.values() or (1, 1))]
            seen[request] = [torch.cat([old, new]) for old, new in zip(seen.get(request, [x[:0] for x in stored]), stored)]
            given = [x.numpy().swapaxes(0, 1)[None] for x in (q[mine], *seen[request])]
            wanted, _ = reference.attention(*given, mask="bottom_right", scale=backend.scale, softcap=backend.softcap,
                                            window=backend.window, sink=None if backend.sinks is None else backend.sinks.numpy())  # fmt: skip
            np.testing.assert_allclose(output[mine].numpy().swapaxes(0, 1)[None], wanted, atol=3e-5)
