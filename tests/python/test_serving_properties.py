"""What must hold of attention on caches whatever the shapes are: equal bits where they are promised, and otherwise results
that agree with float64 within one bound."""

import numpy as np
import pytest
import reference
from conftest import TOLERANCE

import tilesmith

DIM = 64
SEEDS = range(6)
#: The last ones wait for a compiler, so that there are kernels to choose from.
CHOOSING = [*SEEDS, *(pytest.param(seed, marks=pytest.mark.compiles) for seed in (6, 7))]


def int32(values):
    return np.asarray(values, np.int32)


class Pool:
    """Sequences of random lengths in a pool of pages, in any order; what nobody owns is NaN, and no page."""

    def __init__(self, rng, lengths, page, heads, dtype=np.float32, order=None):
        self.lengths, self.page = list(lengths), page
        self.own = [rng.uniform(-1, 1, (2, heads, length, DIM)).astype(dtype) for length in lengths]
        self.lay(page, rng.permutation(self.count(page) + 2) if order is None else order)

    def count(self, page):
        return sum(-(-length // page) for length in self.lengths)

    def lay(self, page, order):
        heads, dtype = self.own[0].shape[1], self.own[0].dtype
        width = max([1, *(-(-length // page) for length in self.lengths)])
        self.page = page
        self.table = np.full((len(self.lengths), width), np.iinfo(np.int32).max, np.int32)
        self.pages = np.full((2, max(1, len(order)), heads, page, DIM), np.nan, dtype)
        used = 0
        for b, length in enumerate(self.lengths):
            for first in range(0, length, page):
                number = self.table[b, first // page] = order[used]
                used += 1
                rows = self.own[b][:, :, first : first + page]
                self.pages[:, number, :, : rows.shape[2]] = rows
        return self

    def attend(self, q, sequences=None, **options):
        """(output, lse) of these sequences' queries."""
        chosen = list(range(len(self.lengths))) if sequences is None else sequences
        return tilesmith.attention(q, *self.pages, block_table=np.ascontiguousarray(self.table[chosen]),
                                   seqlens_k=int32([self.lengths[b] for b in chosen]), kv_layout="hnd", return_lse=True, **options)  # fmt: skip

    def expected(self, q, **options):
        each = [reference.attention(q[b][None], k[None], v[None], **options) for b, (k, v) in enumerate(self.own)]
        return np.concatenate([o for o, _ in each]), np.concatenate([lse for _, lse in each])


def made(seed, dtype=np.float32, rows=None):
    rng = np.random.default_rng(seed)
    heads, group = int(rng.choice([1, 2, 3])), int(rng.choice([1, 3, 4, 5]))
    lengths = [int(x) for x in np.exp(rng.uniform(0, 6.5, rng.integers(1, 7))).astype(int)]
    lengths[int(rng.integers(len(lengths)))] = 0 if seed % 3 == 0 else 700
    pool = Pool(rng, lengths, int(rng.choice([1, 3, 16, 64])), heads, dtype)
    rows = int(rng.choice([1, 2, 9])) if rows is None else rows
    return rng, pool, rng.uniform(-1, 1, (len(lengths), heads * group, rows, DIM)).astype(dtype)


def same_bits(one, other):
    for left, right in zip(one, other):
        np.testing.assert_array_equal(left, right)


def near(got, expected, tolerance=TOLERANCE["float32"]):
    np.testing.assert_allclose(np.asarray(got[0], np.float64), expected[0], rtol=0, atol=tolerance)
    np.testing.assert_allclose(np.asarray(got[1], np.float64), expected[1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("seed", SEEDS)
def test_renaming_pages_changes_no_bit(seed):
    rng, pool, q = made(seed)
    before = pool.attend(q, causal=True)
    near(before, pool.expected(q, mask="bottom_right"))
    for _ in range(2):
        same_bits(pool.lay(pool.page, rng.permutation(pool.count(pool.page) + 5)).attend(q, causal=True), before)


@pytest.mark.parametrize("seed", SEEDS)
def test_splits_agree_within_one_bound(seed):
    _, pool, q = made(seed)
    expected = pool.expected(q)
    for splits in (1, 2, 7, 128):
        near(pool.attend(q, num_splits=splits), expected)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("seed", CHOOSING)
def test_a_batch_invariant_sequence_has_its_own_bits(seed, dtype):
    """Alone, with others in any order, in pages of any size, with any splits named, on one thread and several, in packed
    queries: the same."""
    rng, pool, q = made(seed, dtype)
    batch = len(pool.lengths)
    whole = pool.attend(q, causal=True, batch_invariant=True)
    near(whole, pool.expected(q, mask="bottom_right"), TOLERANCE[dtype])
    for b in range(batch):
        alone = pool.attend(q[b : b + 1], [b], causal=True, batch_invariant=True, threads=1 + b % 3)
        same_bits((alone[0][0], alone[1][0]), (whole[0][b], whole[1][b]))
    order = [int(b) for b in rng.integers(batch, size=2 * batch + 1)]
    many = pool.attend(q[order], order, causal=True, batch_invariant=True, num_splits=5)
    same_bits(many, (whole[0][order], whole[1][order]))
    for page in (1, 7, 128):
        same_bits(pool.lay(page, rng.permutation(pool.count(page))).attend(q, causal=True, batch_invariant=True), whole)


@pytest.mark.parametrize("seed", CHOOSING)
def test_packed_batch_invariant_sequences_have_their_own_bits(seed):
    """Of packed queries, whose numbers differ, one kernel takes all."""
    rng, pool, _ = made(seed)
    heads = pool.own[0].shape[1] * 2
    counts = [min(length, int(n)) for length, n in zip(pool.lengths, rng.choice([1, 2, 40, 70], len(pool.lengths)))]
    queries = [rng.uniform(-1, 1, (heads, n, DIM)).astype(np.float32) for n in counts]

    def attend(sequences):
        offsets = int32([0, *np.cumsum([counts[b] for b in sequences])])
        return pool.attend(np.concatenate([queries[b] for b in sequences], 1), sequences, causal=True, batch_invariant=True,
                           cu_seqlens_q=offsets)  # fmt: skip

    together = attend(range(len(counts)))
    at = 0
    for b, n in enumerate(counts):
        alone = attend([b])
        same_bits(alone, (together[0][:, at : at + n], together[1][:, at : at + n]))
        at += n


@pytest.mark.parametrize("seed", SEEDS)
def test_appending_then_attending_equals_recomputing(seed):
    """Token by token and in chunks of any size, what decode gives is a causal prefill of the whole."""
    rng = np.random.default_rng(seed)
    heads, group, page, total = 2, int(rng.choice([1, 4])), int(rng.choice([1, 5, 16])), 37
    q = rng.uniform(-1, 1, (1, heads * group, total, DIM)).astype(np.float32)
    k, v = rng.uniform(-1, 1, (2, 1, heads, total, DIM)).astype(np.float32)
    expected = reference.attention(q, k, v, mask="bottom_right")
    near(tilesmith.attention(q, k, v, causal=True, return_lse=True), expected)
    pages = -(-total // page)
    for chunk in (1, int(rng.integers(2, 12)), total):
        caches = np.full((2, pages, heads, page, DIM), np.nan, np.float32)
        table = int32(rng.permutation(pages)[None])
        for first in range(0, total, chunk):
            rows = slice(first, min(total, first + chunk))
            tilesmith.append_kv(k[:, :, rows], v[:, :, rows], *caches, seqlens_k=int32([first]), block_table=table, kv_layout="hnd",
                                layout="bhsd")  # fmt: skip
            got = tilesmith.attention(q[:, :, rows], *caches, seqlens_k=int32([rows.stop]), block_table=table, kv_layout="hnd",
                                      causal=True, return_lse=True)  # fmt: skip
            near(got, (expected[0][:, :, rows], expected[1][:, :, rows]))


@pytest.mark.parametrize("seed", SEEDS)
def test_merging_is_associative(seed):
    rng, pool, q = made(seed, rows=3)
    cuts = [sorted(int(x) for x in rng.integers(0, length + 1, 2)) for length in pool.lengths]
    parts = []
    for which in range(3):
        states = []
        for b, ((k, v), (low, high)) in enumerate(zip(pool.own, cuts)):
            rows = slice(*[(0, low), (low, high), (high, pool.lengths[b])][which])
            # A sequence may have no keys in a part.
            padded = [np.ascontiguousarray(x[None, :, rows]) if rows.start < rows.stop else None for x in (k, v)]
            if padded[0] is None:
                shape = (1, *q.shape[1:])
                states.append((np.zeros(shape, np.float32), np.full(shape[:-1], -np.inf, np.float32)))
            else:
                states.append(tilesmith.attention(q[b : b + 1], *padded, return_lse=True))
        parts.append(tuple(np.concatenate(x) for x in zip(*states)))
    merge = lambda *states: tilesmith.merge_states([o for o, _ in states], [lse for _, lse in states])  # noqa: E731
    a, b, c = parts
    expected = pool.expected(q)
    for got in (merge(a, b, c), merge(merge(a, b), c), merge(a, merge(b, c))):
        near(got, expected)
    nothing = (np.full_like(a[0], np.nan), np.full_like(a[1], -np.inf))
    same_bits(merge(a, nothing), merge(a))
    same_bits(merge(nothing, a), merge(a))


def refused(pool, q, match, **changed):
    given = {"block_table": pool.table, "seqlens_k": int32(pool.lengths), "kv_layout": "hnd", **changed}
    with pytest.raises(ValueError, match=match):
        tilesmith.attention(q, *pool.pages, **given)


def test_hostile_tables_are_refused_where_they_would_be_read():
    rng = np.random.default_rng(1)
    pool = Pool(rng, [40, 17, 0], 16, 2)
    q = rng.uniform(-1, 1, (3, 4, 1, DIM)).astype(np.float32)
    good = pool.attend(q)
    pages = pool.pages.shape[1]
    for wrong in (-1, pages, np.iinfo(np.int32).max, np.iinfo(np.int32).min):
        for at in ((0, 0), (0, 2), (1, 1)):
            table = pool.table.copy()
            table[at] = wrong
            refused(pool, q, rf"{wrong}", block_table=table)
    for wrong in (-1, 49, np.iinfo(np.int32).max):
        refused(pool, q, rf"{wrong}", seqlens_k=int32([wrong, 17, 0]))
    # What no query sees may be anything: entries behind the last page, and pages before the window of the first query.
    table = pool.table.copy()
    table[1, 2:] = -5
    table[2] = np.iinfo(np.int32).min
    same_bits(tilesmith.attention(q, *pool.pages, block_table=table, seqlens_k=int32(pool.lengths), kv_layout="hnd", return_lse=True), good)
    windowed = pool.attend(q, causal=True, window=(3, -1))
    table[0, :2] = -7
    same_bits(tilesmith.attention(q, *pool.pages, block_table=table, seqlens_k=int32(pool.lengths), kv_layout="hnd", causal=True,
                                  window=(3, -1), return_lse=True), windowed)  # fmt: skip
    # One page may serve everybody.
    shared = int32(np.full((3, 3), pool.table[0, 0]))
    o = tilesmith.attention(q, *pool.pages, block_table=shared, seqlens_k=int32([48, 16, 0]), kv_layout="hnd")
    assert np.isfinite(o).all() and not o[2].any()


@pytest.mark.parametrize("seed", SEEDS)
def test_idle_sequences_change_no_bit(seed):
    _, pool, q = made(seed)
    batch = len(pool.lengths)
    before = pool.attend(q, num_splits=1)
    idle = Pool.__new__(Pool)
    idle.lengths, idle.page, idle.pages = [*pool.lengths, 0, 0], pool.page, pool.pages
    idle.table = np.concatenate([pool.table, np.full((2, pool.table.shape[1]), -1, np.int32)])
    after = idle.attend(np.concatenate([q, q[:1], q[:1]]), num_splits=1)
    same_bits((after[0][:batch], after[1][:batch]), before)
    assert not after[0][batch:].any() and np.isneginf(after[1][batch:]).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_outputs_are_linear_in_the_values(seed):
    rng, pool, q = made(seed)
    k, v = pool.pages
    other = np.where(np.isnan(v), np.nan, rng.uniform(-1, 1, v.shape)).astype(np.float32)
    give = lambda values: tilesmith.attention(q, k, values, block_table=pool.table, seqlens_k=int32(pool.lengths), kv_layout="hnd")  # noqa: E731
    np.testing.assert_allclose(give(2 * v - 0.5 * other), 2 * give(v) - 0.5 * give(other), rtol=0, atol=4 * TOLERANCE["float32"])


def test_scales_by_powers_of_two_change_no_bit():
    rng = np.random.default_rng(5)
    k, v = rng.integers(-60, 60, (2, 4, 2, 16, DIM)).astype(np.int8)
    q = rng.uniform(-1, 1, (2, 4, 1, DIM)).astype(np.float32)
    keys = {"block_table": int32([[0, 1], [3, 2]]), "seqlens_k": int32([30, 17]), "kv_layout": "hnd"}
    scale = np.float32(0.125)
    whole = tilesmith.attention(q, k, v, k_scale=np.float32([2**-7]), v_scale=np.float32([2**-7]), **keys)
    np.testing.assert_array_equal(tilesmith.attention(q * scale, k, v, k_scale=np.float32([2**-4]), v_scale=np.float32([2**-7]), scale=1 / 8, **keys), whole)
