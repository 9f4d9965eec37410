"""A server's life on a cache of pages: sequences join with a prompt, decode a token a step, are evicted and leave. Every step's
outputs are compared with float64 attention over what each sequence was given. TILESMITH_SOAK_STEPS (150) says how long."""

import os

import numpy as np

import tilesmith

STEPS = int(os.environ.get("TILESMITH_SOAK_STEPS", "150"))
PAGE, PAGES, HEADS_Q, HEADS_KV, DIM, LONGEST = 4, 60, 4, 2, 32, 60


class Sequence:
    def __init__(self):
        self.pages = []
        self.k = np.zeros((0, HEADS_KV, DIM))
        self.v = np.zeros((0, HEADS_KV, DIM))

    def grow(self, k, v, free):
        """Takes the pages that the new tokens need; False where there are too few."""
        wanted = -(-(len(self.k) + len(k)) // PAGE) - len(self.pages)
        if wanted > len(free):
            return False
        self.pages += [free.pop() for _ in range(wanted)]
        self.k, self.v = np.concatenate([self.k, k]), np.concatenate([self.v, v])
        return True

    def attend(self, q):
        """The last len(q) rows of causal attention, in float64."""
        k, v = (np.repeat(x, HEADS_Q // HEADS_KV, axis=1) for x in (self.k, self.v))
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(DIM)
        hidden = np.arange(len(k)) > np.arange(len(k) - len(q), len(k))[:, None]
        weights = np.exp(np.where(hidden, -np.inf, scores - scores.max(-1, keepdims=True)))
        return np.einsum("hqk,khd->qhd", weights / weights.sum(-1, keepdims=True), v)


def test_joins_leaves_and_evictions():
    rng = np.random.default_rng(11)
    caches = [np.full((PAGES, PAGE, HEADS_KV, DIM), np.nan, np.float32) for _ in range(2)]
    free, running = [int(page) for page in rng.permutation(PAGES)], []
    evicted = finished = 0
    for step in range(STEPS):
        # Some leave; what they had becomes anything. New ones bring a prompt, the others one token.
        for sequence in [s for s in running if len(s.k) > LONGEST or rng.random() < 0.03]:
            running.remove(sequence)
            free += sequence.pages
            for cache in caches:
                cache[sequence.pages] = np.nan
            finished += 1
        joining = [Sequence() for _ in range(rng.integers(0, 3)) if len(running) < 12]
        news = [1] * len(running) + [int(n) for n in rng.integers(1, 20, len(joining))]
        batch, before, k_new, v_new = [], [], [], []
        for sequence, new in zip(running + joining, news):
            k, v = rng.standard_normal((2, new, HEADS_KV, DIM)).astype(np.float32)
            length = len(sequence.k)
            if sequence.grow(k, v, free):
                batch.append(sequence), before.append(length), k_new.append(k), v_new.append(v)
            else:  # evicted: it would begin anew
                free += sequence.pages
                evicted += 1
        running = batch
        if not batch:
            continue
        offsets = np.cumsum([0] + [len(k) for k in k_new]).astype(np.int32)
        table = np.full((len(batch), LONGEST // PAGE + 6), -1, np.int32)
        for b, sequence in enumerate(batch):
            table[b, : len(sequence.pages)] = sequence.pages
        q = rng.standard_normal((offsets[-1], HEADS_Q, DIM)).astype(np.float32)
        lengths = np.array(before, np.int32)
        tilesmith.append_kv(np.concatenate(k_new), np.concatenate(v_new), *caches, layout="bshd", seqlens_k=lengths, block_table=table,
                            cu_seqlens=offsets)  # fmt: skip
        lengths = lengths + np.diff(offsets)
        got = tilesmith.attention(q, *caches, layout="bshd", seqlens_k=lengths, block_table=table, causal=True, cu_seqlens_q=offsets,
                                  max_seqlen_q=int(np.diff(offsets).max()))  # fmt: skip
        for b, sequence in enumerate(batch):
            mine = slice(offsets[b], offsets[b + 1])
            np.testing.assert_allclose(got[mine], sequence.attend(q[mine].astype(np.float64)), atol=2e-5, err_msg=f"step {step}")
        assert sorted(free + [page for s in running for page in s.pages]) == list(range(PAGES))
    assert finished > 5 and evicted > 5
