"""A server's life on a cache of pages, step by step: sequences join with a prompt or as a fork of another, whose whole pages they
share, decode some tokens a step, take back what they drafted, are evicted and leave. What is nobody's is poisoned: rows of pages,
entries of tables, padding. Every step's outputs are compared with float64 attention over what each sequence was given."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional

import numpy as np

import tilesmith

HOSTILE = (-1, 2**31 - 1, -(2**31), 10**6)  #: numbers of no page
LARGEST = {"int8": 127, "float8_e4m3fn": 448}


class NumPy:
    """Where the tensors are, and what rounding to a data type leaves."""

    def array(self, x, dtype):
        return np.ascontiguousarray(x, getattr(np, dtype))

    def back(self, x):
        return x.astype(np.float64)

    def rounded(self, x, dtype):
        return np.asarray(x, getattr(np, dtype)).astype(np.float64)


class TorchOnCuda:
    def __init__(self, torch):
        self.torch = torch

    def array(self, x, dtype):
        return self.torch.from_numpy(np.ascontiguousarray(x)).cuda().to(getattr(self.torch, dtype))

    def back(self, x):
        return x.double().cpu().numpy()

    def rounded(self, x, dtype):
        return self.torch.from_numpy(np.asarray(x)).to(getattr(self.torch, dtype)).double().numpy()


@dataclass
class Way:
    """How a server calls."""

    dtype: str = "float32"
    cache: str = ""  #: "int8" or "float8_e4m3fn": with a scale for each row, which the call chooses
    one_call: bool = True
    listed: bool = False  #: pages in one list in place of a table
    window: Optional[int] = None  #: pages before it are given back
    rotary: str = ""  #: the style
    tolerance: float = 2e-5
    page: int = 4
    heads: tuple[int, int] = (4, 2)
    dim: int = 32


@dataclass
class Sequence:
    pages: list[int]
    kv: np.ndarray  #: (2, keys, heads, dim): what the cache should hold, in float64
    mine: int = 0  #: the first key whose page nobody shares
    windowed: int = 0  #: pages that are given back already

    @property
    def length(self):
        return self.kv.shape[1]


@dataclass
class Life:
    way: Way
    numbers: Any
    seed: int = 0
    pages: int = 60
    longest: int = 60
    most: int = 12  #: sequences at a time
    running: list[Sequence] = field(default_factory=list)
    seen: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("finished", "evicted", "forked", "taken back", "windowed", "padded"), 0))

    def __post_init__(self):
        way, self.rng = self.way, np.random.default_rng(self.seed)
        shape = (self.pages, way.page, way.heads[1], way.dim)
        stored = way.cache or way.dtype
        self.caches = [self.numbers.array(np.zeros(shape, np.float32), stored) for _ in range(2)]
        self.row_scales = [self.numbers.array(np.zeros(shape[:3]), "float32") for _ in range(2)] if way.cache else []
        self.users = [0] * self.pages
        self.poison(range(self.pages))
        half = way.dim // 4  # of what turns: half a head
        angles = self.rng.uniform(-3, 3, (self.longest + 40, half))
        self.cos, self.sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)

    # What is nobody's.

    def poison(self, pages):
        pages = list(pages)
        for cache in self.caches if pages else ():
            cache[pages] = np.nan if self.way.cache != "int8" else int(self.rng.integers(-128, 128))
        for scale in self.row_scales if pages else ():
            scale[pages] = np.nan

    def take(self):
        free = [page for page, users in enumerate(self.users) if users == 0]
        if not free:
            return None
        page = int(self.rng.choice(free))
        self.users[page] = 1
        return page

    def give_back(self, pages):
        for page in pages:
            self.users[page] -= 1
        self.poison([page for page in pages if self.users[page] == 0])

    def room_for(self, sequence, new):
        """Takes the pages that so many new tokens need; False where there are too few."""
        while len(sequence.pages) * self.way.page < sequence.length + new:
            page = self.take()
            if page is None:
                return False
            sequence.pages.append(page)
        return True

    def fork(self, parent):
        """A sequence that begins as another: it shares its whole pages, and has a copy of the last one. None without room."""
        whole = parent.length // self.way.page
        child = Sequence(parent.pages[:whole], parent.kv.copy(), whole * self.way.page, parent.windowed)
        for page in child.pages[child.windowed :]:
            self.users[page] += 1
        if parent.length % self.way.page and not self.room_for(child, 0):
            self.give_back(child.pages[child.windowed :])
            return None
        if parent.length % self.way.page:
            for tensor in (*self.caches, *self.row_scales):
                tensor[child.pages[whole]] = tensor[parent.pages[whole]]
        parent.mine = max(parent.mine, whole * self.way.page)
        return child

    def leave(self, sequence):
        self.give_back(sequence.pages[sequence.windowed :])

    def least(self, sequence):
        """Keys that it cannot take back: others share them, or its next query would see a page that is given back."""
        return max(sequence.mine, 1, sequence.windowed * self.way.page + (self.way.window or 0))

    # A step.

    def turned(self, x, first):
        """(tokens, heads, dim) at the positions from `first` on, as they are stored, in float64."""
        x = np.array(x, np.float64)
        if self.way.rotary:
            half = self.cos.shape[1]
            low, high = (slice(0, half), slice(half, 2 * half)) if self.way.rotary == "half" else (slice(0, 2 * half, 2), slice(1, 2 * half, 2))
            cos, sin = (table[first : first + len(x), None].astype(np.float64) for table in (self.cos, self.sin))
            a, b = x[..., low].copy(), x[..., high].copy()
            x[..., low], x[..., high] = a * cos - b * sin, b * cos + a * sin
        return self.numbers.rounded(x, self.way.dtype)

    def stored(self, x):
        """What a row scale leaves of rows."""
        if not self.way.cache:
            return x
        unit = (np.abs(x).max(-1, keepdims=True).astype(np.float32) / np.float32(LARGEST[self.way.cache])).astype(np.float32)
        scaled = x.astype(np.float32) / unit
        return (np.rint(scaled) if self.way.cache == "int8" else self.numbers.rounded(scaled, self.way.cache)) * unit.astype(np.float64)

    def attended(self, sequence, q):
        """The last len(q) rows of causal attention, in float64."""
        k, v = (np.repeat(x, self.way.heads[0] // self.way.heads[1], axis=1) for x in sequence.kv)
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(self.way.dim)
        behind = np.arange(len(k) - len(q), len(k))[:, None] - np.arange(len(k))
        hidden = (behind < 0) | (behind > (self.way.window if self.way.window is not None else len(k)))
        scores = np.where(hidden, -np.inf, scores)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return np.einsum("hqk,khd->qhd", weights / weights.sum(-1, keepdims=True), v)

    def step(self):
        rng, way = self.rng, self.way
        for sequence in list(self.running):
            if sequence.length > self.longest or rng.random() < 0.03:
                self.running.remove(sequence)
                self.leave(sequence)
                self.seen["finished"] += 1
            elif rng.random() < 0.1 and (back := min(int(rng.integers(1, 4)), sequence.length - self.least(sequence))) > 0:
                sequence.kv = sequence.kv[:, :-back]  # drafted in vain; the pages stay
                self.seen["taken back"] += 1
        if self.running and len(self.running) < self.most and rng.random() < 0.15:
            child = self.fork(self.running[int(rng.integers(len(self.running)))])
            if child is not None:
                self.running.append(child)
                self.seen["forked"] += 1
        joining = [Sequence([], np.zeros((2, 0, way.heads[1], way.dim))) for _ in range(rng.integers(0, 3)) if len(self.running) < self.most]
        news = [int(rng.choice([1, 1, 1, 2, 4])) for _ in self.running] + [int(n) for n in rng.integers(1, 20, len(joining))]
        batch, counts = [], []
        for sequence, new in zip(self.running + joining, news):
            if self.room_for(sequence, new):
                batch.append(sequence), counts.append(new)
            else:
                self.leave(sequence)
                self.seen["evicted"] += 1
        self.running = list(batch)
        if batch:
            self.attend(batch, counts)
        for sequence in batch if way.window is not None else ():
            done = max(0, sequence.length - way.window - 4) // way.page  # who takes drafts back sees as many keys earlier
            self.give_back(sequence.pages[sequence.windowed : done])
            self.seen["windowed"] += max(0, done - sequence.windowed)
            sequence.windowed = max(sequence.windowed, done)
        held = [0] * self.pages
        for sequence in self.running:
            for page in sequence.pages[sequence.windowed :]:
                held[page] += 1
        assert held == self.users

    def attend(self, batch, counts):
        rng, way, array = self.rng, self.way, self.numbers.array
        padding = [0] * int(rng.integers(0, 3))  # sequences of no keys, which have a token each all the same
        offsets = np.cumsum([0, *counts, *(1 for _ in padding)])
        heads_q, heads_kv = way.heads
        q, k, v = (self.numbers.rounded(rng.standard_normal((offsets[-1], heads, way.dim)), way.dtype) for heads in (heads_q, heads_kv, heads_kv))
        before = [sequence.length for sequence in batch]
        turned_q = []
        for b, sequence in enumerate(batch):
            mine = slice(offsets[b], offsets[b + 1])
            sequence.kv = np.concatenate([sequence.kv, [self.stored(self.turned(k[mine], before[b])), self.stored(v[mine])]], 1)
            turned_q.append(self.turned(q[mine], before[b]))
        after = [*(sequence.length for sequence in batch), *padding]
        width = -(-max(after) // way.page) + int(rng.integers(0, 3))
        table = rng.choice(HOSTILE, (len(after), width))
        for b, sequence in enumerate(batch):
            used = -(-sequence.length // way.page)
            table[b, sequence.windowed : used] = sequence.pages[sequence.windowed : used]
        where = {"block_table": array(table, "int32")}
        if way.listed:
            used = [-(-length // way.page) for length in after]
            where = {"page_indices": array(np.concatenate([row[:n] for row, n in zip(table, used)]), "int32"),
                     "page_indptr": array(np.cumsum([0, *used]), "int32")}  # fmt: skip
        given_q, given_k, given_v = (array(x.astype(np.float32), way.dtype) for x in (q, k, v))
        lengths, starts = array(after, "int32"), array(offsets, "int32")
        rotary = {"rotary_cos": array(self.cos, "float32"), "rotary_sin": array(self.sin, "float32"), "rotary_style": way.rotary} if way.rotary else {}
        scales = dict(zip(("k_row_scale", "v_row_scale"), self.row_scales))
        seen = {"layout": "bshd", "seqlens_k": lengths, "causal": True, "cu_seqlens_q": starts, "max_seqlen_q": int(np.diff(offsets).max()),
                "max_seqlen_k": max(after) + int(rng.integers(0, 9)) if way.listed else None,
                "window": (-1, -1) if way.window is None else (way.window, 0), **where}  # fmt: skip
        if way.one_call:
            o = tilesmith.attention(given_q, *self.caches, k_new=given_k, v_new=given_v, **seen, **rotary, **scales)
        else:
            turned = tilesmith.append_kv(given_k, given_v, *self.caches, layout="bshd", q=given_q, cu_seqlens=starts, seqlens_k=lengths,
                                         lengths_after=True, **where, **rotary, **scales)  # fmt: skip
            read = dict(zip(("k_scale", "v_scale"), self.row_scales))
            o = tilesmith.attention(turned, *self.caches, **seen, **read)
        o = self.numbers.back(o)
        for b, sequence in enumerate(batch):
            np.testing.assert_allclose(o[offsets[b] : offsets[b + 1]], self.attended(sequence, turned_q[b]), rtol=0, atol=way.tolerance)
        self.seen["padded"] += len(padding)
        assert not o[offsets[len(batch)] :].any()


def live(way, numbers, steps, seed=0, **sizes):
    life = Life(way, numbers, seed, **sizes)
    for number in range(steps):
        try:
            life.step()
        except Exception as error:
            error.add_note(f"in step {number} of {way}, seed {seed}")
            raise
    return life.seen
