"""Numbers of a cache that cannot be: each is refused by the call, which then has written nothing, or was never read, and then the
result has the bits that it has without. Random caches, calls and places of the number; no number is followed."""

import os

import numpy as np
import pytest

import tilesmith

SEEDS = range(400 if os.environ.get("TILESMITH_TEST_THOROUGH") else 40)
INT32 = (-1, -(2**31), 2**31 - 1, 2**31 - 8, 10**6)
INT64 = (*INT32, 2**40, 2**63 - 1, -(2**63))
HEADS, DIM = 2, 32


class Call:
    """A call on a random cache of pages: its tensors, what it may write, and which numbers the library reads."""

    def __init__(self, seed):
        rng = self.rng = np.random.default_rng(seed)
        self.kind = ("attend", "append", "append after", "one call", "latent")[seed % 5]
        self.page, batch = int(rng.choice([1, 3, 16])), int(rng.integers(1, 5))
        before = rng.integers(0, 70, batch)
        self.ragged = bool(rng.integers(2)) and self.kind != "latent"
        counts = rng.integers(0, 4, batch) if self.ragged else np.full(batch, rng.integers(1, 4))
        counts[0] = max(counts[0], 1)
        after = before + counts
        used = -(-after // self.page)
        order = rng.permutation(int(used.sum()) + 2)
        self.pages, total = len(order), int(counts.sum())
        self.numbers = {"seqlens_k": np.asarray(before if self.kind == "append" else after, np.int32)}
        if rng.integers(2) or self.kind == "latent":
            table = rng.choice(INT32, (batch, int(used.max()) + 1)).astype(np.int32)
            for b, first in enumerate(np.cumsum(used) - used):
                table[b, : used[b]] = order[first : first + used[b]]
            self.numbers["block_table"] = table
        else:
            self.numbers |= {"page_indices": order[: used.sum()].astype(np.int32), "page_indptr": np.cumsum([0, *used]).astype(np.int32)}
        if self.ragged:
            self.numbers["cu_seqlens_q" if self.kind in ("attend", "one call") else "cu_seqlens"] = np.cumsum([0, *counts]).astype(np.int32)
        places = [(b, t) for b in range(batch) for t in range(counts[b])]
        if self.kind in ("append", "one call") and rng.integers(2) and "block_table" in self.numbers:
            at = [before[b] + t for b, t in places]
            table = self.numbers["block_table"]
            self.numbers["slots"] = np.asarray([int(table[b, row // self.page]) * self.page + row % self.page for (b, _), row in zip(places, at)], np.int64)
            self.numbers["positions"] = np.asarray(at, np.int64)
        self.rows = [total] if self.ragged else [batch, int(counts[0])]
        self.rotary = {name: rng.uniform(-1, 1, (80, 8)).astype(np.float32) for name in ("rotary_cos", "rotary_sin")}
        self.max_q = int(counts.max())
        # The pool stands within a larger one, of which nothing is ever read.
        self.around = np.full((2, self.pages + 8, self.page, HEADS, DIM), np.nan, np.float32)
        self.around[:, 4:-4] = rng.uniform(-1, 1, self.around[:, 4:-4].shape)

    def tensor(self, heads):
        return np.random.default_rng(7).uniform(-1, 1, (*self.rows, heads, DIM)).astype(np.float32)

    def run(self, numbers, around):
        pool = around[:, 4:-4]
        q, k = self.tensor(2 * HEADS), self.tensor(HEADS)
        if self.kind == "latent":
            cache = pool[0].reshape(self.pages, self.page, HEADS * DIM)
            q = np.random.default_rng(7).uniform(-1, 1, (*self.rows, 3, HEADS * DIM)).astype(np.float32)
            return tilesmith.mla_decode(q, cache, latent=40, scale=0.1, **numbers)
        if self.kind in ("append", "append after"):
            after = {"lengths_after": True} if self.kind == "append after" else {}
            return [tilesmith.append_kv(k, k + 1, *pool, layout="bshd", q=q, **numbers, **self.rotary, **after)]
        given = {"layout": "bshd", "causal": True, "return_lse": True, "max_seqlen_k": 80 if "page_indptr" in numbers else None}
        if self.ragged:
            given["max_seqlen_q"] = self.max_q
        if self.kind == "one call":
            given |= {"k_new": k, "v_new": k + 1, **self.rotary}
        return tilesmith.attention(q, *pool, **numbers, **given)

    def wrong_ones(self):
        """Each number in turn, or some of them, replaced by one that cannot be."""
        for name, numbers in self.numbers.items():
            for at in self.rng.choice(numbers.size, min(numbers.size, 6), replace=False):
                for value in self.rng.choice(INT64 if numbers.dtype == np.int64 else INT32, 2, replace=False):
                    changed = numbers.copy()
                    changed.reshape(-1)[at] = value
                    yield name, int(at), int(value), {**self.numbers, name: changed}


@pytest.mark.parametrize("seed", SEEDS)
def test_numbers_that_cannot_be(seed):
    call = Call(seed)
    wanted_around = call.around.copy()
    wanted = call.run(call.numbers, wanted_around)
    assert all(np.isfinite(x[~np.isneginf(x)]).all() for x in wanted)
    refused = 0
    for name, at, value, numbers in call.wrong_ones():
        around = call.around.copy()
        what = f"{call.kind}: {name}[{at}] = {value}"
        try:
            got = call.run(numbers, around)
        except (tilesmith.InvalidArgument, tilesmith.Unsupported):
            refused += 1
            np.testing.assert_array_equal(around, call.around, what)
            continue
        if name == "slots" and value < 0:  # nowhere
            continue
        np.testing.assert_array_equal(around, wanted_around, what)
        for mine, theirs in zip(got, wanted):
            np.testing.assert_array_equal(mine, theirs, what)
    assert refused > 0
