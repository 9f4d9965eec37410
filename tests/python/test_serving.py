"""Caches of pages, what writes into them, and partial results."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import reference
from conftest import assert_attention

import tilesmith

LENGTHS = (70, 0, 33, 1)
CACHES_OF = {"bhsd": "hnd", "bshd": "nhd"}


def int32(values):
    return np.asarray(values, np.int32)


@pytest.fixture
def cache(rng):
    """A maker of k, v as pages of (heads, rows, dim) in a random order, their table, and each sequence's own k and v. What
    nobody owns is NaN or no page."""

    def make(page_size, heads=2, dim=64, lengths=LENGTHS, spare=3):
        counts = [-(-length // page_size) for length in lengths]
        order = rng.permutation(sum(counts) + spare)
        table = np.full((len(lengths), max(counts) + 1), -1, np.int32)
        pages = np.full((2, sum(counts) + spare, heads, page_size, dim), np.nan, np.float32)
        own, used = [], 0
        for b, (length, count) in enumerate(zip(lengths, counts)):
            table[b, :count] = order[used : used + count]
            used += count
            kv = rng.uniform(-1, 1, (2, heads, length, dim)).astype(np.float32)
            for j in range(length):
                pages[:, table[b, j // page_size], :, j % page_size] = kv[:, :, j]
            own.append(kv)
        return pages[0], pages[1], table, own

    return make


def check(got, q, own, **options):
    """q and the results as (batch, heads, rows, dim), or lists of them without the batch."""
    for b, (k, v) in enumerate(own):
        assert_attention((got[0][b][None], got[1][b][None]), q[b][None], k[None], v[None], **options)


@pytest.mark.parametrize("page_size", [1, 3, 16, 128])
@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_pages(cache, rng, page_size, layout):
    k, v, table, own = cache(page_size)
    q = rng.uniform(-1, 1, (len(LENGTHS), 4, 2, 64)).astype(np.float32)
    swap = (lambda x: x) if layout == "bhsd" else (lambda x: np.ascontiguousarray(x.swapaxes(1, 2)))
    keys = {"seqlens_k": int32(LENGTHS), "causal": True, "return_lse": True, "layout": layout,
            "kv_layout": CACHES_OF[layout]}  # fmt: skip
    o, lse = tilesmith.attention(swap(q), swap(k), swap(v), block_table=table, **keys)
    assert o.shape == swap(q).shape
    check((swap(o), lse), q, own, mask="bottom_right")
    # The same pages as one list.
    counts = [-(-length // page_size) for length in LENGTHS]
    listed = int32([page for row, count in zip(table, counts) for page in row[:count]])
    indptr = int32([0, *np.cumsum(counts)])
    again = tilesmith.attention(swap(q), swap(k), swap(v), page_indices=listed, page_indptr=indptr, **keys)
    np.testing.assert_array_equal(again[0], o)
    np.testing.assert_array_equal(again[1], lse)


def test_both_views_of_one_pool(cache, rng):
    k, v, table, own = cache(16)
    pool = np.stack([k, v], axis=1)  # (pages, 2, heads, rows, dim)
    q = rng.uniform(-1, 1, (len(LENGTHS), 2, 1, 64)).astype(np.float32)
    check(tilesmith.attention(q, pool[:, 0], pool[:, 1], block_table=table, seqlens_k=int32(LENGTHS), kv_layout="hnd",
                                return_lse=True), q, own)  # fmt: skip


def test_a_dense_cache_with_lengths(rng):
    k, v = rng.uniform(-1, 1, (2, len(LENGTHS), 2, 80, 64)).astype(np.float32)
    q = rng.uniform(-1, 1, (len(LENGTHS), 4, 1, 64)).astype(np.float32)
    own = [(k[b, :, :length], v[b, :, :length]) for b, length in enumerate(LENGTHS)]
    for b, length in enumerate(LENGTHS):
        k[b, :, length:] = v[b, :, length:] = np.nan
    check(tilesmith.attention(q, k, v, seqlens_k=int32(LENGTHS), kv_layout="hnd", return_lse=True), q, own)


def test_other_ways_to_say_where_keys_lie(cache, rng):
    k, v, table, own = cache(16)
    q = rng.uniform(-1, 1, (len(LENGTHS), 4, 1, 64)).astype(np.float32)
    wanted = tilesmith.attention(q, k, v, block_table=table, seqlens_k=int32(LENGTHS), kv_layout="hnd")
    nhd = [np.ascontiguousarray(x.swapaxes(1, 2)) for x in (k, v)]
    np.testing.assert_array_equal(tilesmith.attention(q, *nhd, block_table=table, seqlens_k=int32(LENGTHS)), wanted)
    # The keys of the last pages; a sequence without pages has none.
    counts = [-(-length // 16) for length in LENGTHS]
    listed = {"page_indices": int32([page for row, count in zip(table, counts) for page in row[:count]]),
              "page_indptr": int32([0, *np.cumsum(counts)])}  # fmt: skip
    last = int32([70 - 64, 16, 1, 1])
    np.testing.assert_array_equal(tilesmith.attention(q, *nhd, last_page_len=last, **listed), wanted)
    for given, match in (({"last_page_len": last}, "without page_indptr"), ({"last_page_len": last[:3], **listed}, r"last_page_len \(3,\)"),
                         ({"last_page_len": last, "seqlens_k": last, **listed}, "with seqlens_k"),
                         ({"cache_batch_idx": last, "seqlens_k": last, **listed}, "cache_batch_idx is given with pages")):  # fmt: skip
        with pytest.raises(ValueError, match=match):
            tilesmith.attention(q, *nhd, **given)
    # Rows of a dense cache.
    rows = int32([5, 0, 2, 5])
    dense = [rng.uniform(-1, 1, (6, 80, 2, 64)).astype(np.float32) for _ in range(2)]
    own = [tuple(x[row, :length].swapaxes(0, 1) for x in dense) for row, length in zip(rows, LENGTHS)]
    check(tilesmith.attention(q, *dense, cache_batch_idx=rows, seqlens_k=int32(LENGTHS), return_lse=True), q, own)
    with pytest.raises(ValueError, match="kv_layout is 'bhsd'"):
        tilesmith.attention(q, *dense, seqlens_k=int32(LENGTHS), kv_layout="bhsd")
    torch = pytest.importorskip("torch")
    tensors = [torch.from_numpy(x) for x in (q, *nhd)]
    got = tilesmith.attention(*tensors, last_page_len=torch.from_numpy(last), **{name: torch.from_numpy(x) for name, x in listed.items()})
    np.testing.assert_array_equal(got.numpy(), wanted)


def test_a_window_leaves_pages_out(cache, rng):
    k, v, table, own = cache(8)
    q = rng.uniform(-1, 1, (len(LENGTHS), 2, 1, 64)).astype(np.float32)
    table[0, : (70 - 1 - 20) // 8] = -1  # before the window
    got = tilesmith.attention(q, k, v, block_table=table, seqlens_k=int32(LENGTHS), window=(20, 0), kv_layout="hnd",
                              return_lse=True)  # fmt: skip
    check(got, q, own, window=(20, 0))


def test_ragged_queries(cache, rng):
    k, v, table, own = cache(16)
    rows = (40, 0, 1, 1)
    cu = int32([0, *np.cumsum(rows)])
    q = rng.uniform(-1, 1, (4, sum(rows), 64)).astype(np.float32)
    o, lse = tilesmith.attention(q, k, v, block_table=table, seqlens_k=int32(LENGTHS), cu_seqlens_q=cu, causal=True,
                                 kv_layout="hnd", return_lse=True)  # fmt: skip
    pieces = [slice(cu[b], cu[b + 1]) for b in range(len(rows))]
    check(([o[:, p] for p in pieces], [lse[:, p] for p in pieces]), [q[:, p] for p in pieces], own, mask="bottom_right")


def test_what_cannot_be(cache, rng):
    k, v, table, _ = cache(16)
    q = rng.uniform(-1, 1, (len(LENGTHS), 2, 1, 64)).astype(np.float32)
    lengths = int32(LENGTHS)

    def refused(error, match, **given):
        with pytest.raises(error, match=match):
            tilesmith.attention(q, k, v, **{"block_table": table, "seqlens_k": lengths, "kv_layout": "hnd", **given})

    refused(ValueError, "block_table is given without seqlens_k", seqlens_k=None)
    refused(TypeError, "seqlens_k has the type int64", seqlens_k=lengths.astype(np.int64))
    refused(ValueError, r"seqlens_k has the shape \(3,\)", seqlens_k=lengths[:3])
    refused(ValueError, r"block_table has the shape \(3, 6\)", block_table=table[:3])
    refused(ValueError, r"pages.lengths\[0\] is 97", seqlens_k=int32([97, 0, 33, 1]))
    refused(ValueError, r"pages.lengths\[1\] is -1", seqlens_k=int32([70, -1, 33, 1]))
    refused(ValueError, "page 4 of sequence 0, which has 70 keys, is number 12", block_table=int32(np.where(table == table[0, 4], 12, table)))
    refused(ValueError, "page 5 of sequence 0, which has 81 keys, is number -1", seqlens_k=int32([81, 0, 33, 1]))
    refused(ValueError, "block_table and page_indices", page_indices=table[0], page_indptr=lengths)
    refused(ValueError, "one of page_indices and page_indptr", block_table=None, page_indices=table[0])
    refused(ValueError, "cu_seqlens_k and seqlens_k", cu_seqlens_k=lengths)
    listed = {"block_table": None, "page_indices": np.concatenate([table[0, :5], table[2, :3], table[3, :1]])}
    tilesmith.attention(q, k, v, seqlens_k=lengths, page_indptr=int32([0, 5, 5, 8, 9]), kv_layout="hnd", **listed)
    refused(ValueError, "sequence 3 has 1 keys .* begin at entry 9 of page_indices, and there are 9", page_indptr=int32([0, 5, 5, 9, 9]), **listed)
    refused(ValueError, "sequence 0 has 2147483647 keys", page_indptr=int32([0, 5, 5, 8, 9]), seqlens_k=int32([2**31 - 1, 0, 33, 1]), **listed)
    refused(ValueError, r"offsets\[2\] is -4", page_indptr=int32([0, 5, -4, 8, 9]), **listed)


def test_merged_parts_are_the_whole(rng):
    q = rng.uniform(-1, 1, (2, 4, 3, 64)).astype(np.float32)
    k, v = rng.uniform(-1, 1, (2, 2, 2, 90, 64)).astype(np.float32)
    parts = [tilesmith.attention(q, k[:, :, s], v[:, :, s], return_lse=True) for s in (slice(0, 50), slice(50, 51), slice(51, 90))]
    got = tilesmith.merge_states(*zip(*parts))
    assert_attention(got, q, k, v)
    # Two at a time.
    first = tilesmith.merge_states(*zip(*parts[:2]))
    assert_attention(tilesmith.merge_states(*zip(first, parts[2])), q, k, v)
    # In place.
    np.testing.assert_array_equal(tilesmith.merge_states(*zip(*parts), out=parts[0][0])[0], got[0])


def test_merging_with_nothing_changes_no_bit(rng):
    o, empty = rng.uniform(-1, 1, (2, 1, 2, 3, 300)).astype(np.float16)
    lse, nothing = rng.uniform(-9, 9, (1, 2, 3)).astype(np.float32), np.full((1, 2, 3), -np.inf, np.float32)
    empty[:] = np.nan
    for outputs, lses in (([empty, o], [nothing, lse]), ([o, empty], [lse, nothing]), ([o], [lse])):
        merged = tilesmith.merge_states(outputs, lses)
        np.testing.assert_array_equal(merged[0], o)
        np.testing.assert_array_equal(merged[1], lse)
    merged = tilesmith.merge_states([empty, empty], [nothing, nothing])
    assert not merged[0].any() and np.isneginf(merged[1]).all()


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_merge_formula(rng, layout):
    o = rng.uniform(-1, 1, (5, 2, 3, 7, 40)).astype(np.float32)
    lses = rng.uniform(-80, 80, (5, 2, 3, 7)).astype(np.float32)
    lses[2, 0] = -np.inf
    weights = np.exp(lses.astype(np.float64) - lses.max(0))
    given = o if layout == "bhsd" else np.ascontiguousarray(o.swapaxes(2, 3))
    got, lse = tilesmith.merge_states(given, lses, layout=layout)
    expected = (weights[..., None] * o).sum(0) / weights.sum(0)[..., None]
    np.testing.assert_allclose(got if layout == "bhsd" else got.swapaxes(1, 2), expected, rtol=0, atol=1e-6)
    np.testing.assert_allclose(lse, np.log(weights.sum(0)) + lses.max(0), rtol=1e-6, atol=1e-6)


def test_states_that_cannot_be(rng):
    o, lse = np.zeros((2, 1, 2, 3, 8), np.float32), np.zeros((2, 1, 2, 3), np.float32)
    with pytest.raises(ValueError, match="there are 2 outputs and 1 lses"):
        tilesmith.merge_states(list(o), list(lse[:1]))
    with pytest.raises(ValueError, match=r"lses\[1\] has the shape \(1, 2, 2\)"):
        tilesmith.merge_states(list(o), [lse[0], lse[1, :, :, :2]])
    with pytest.raises(ValueError, match=r"outputs\[1\] has the strides"):
        tilesmith.merge_states([o[0], o[1].transpose(0, 2, 1, 3).copy().transpose(0, 2, 1, 3)], list(lse))
    with pytest.raises(TypeError, match="int32"):
        tilesmith.merge_states(o.astype(np.int32), lse)


def turned(x, positions, cos, sin, style):
    """RoPE in float64 of (rows, dim)."""
    x = np.array(x, np.float64)
    half = cos.shape[1]
    low, high = (slice(0, half), slice(half, 2 * half)) if style == "half" else (slice(0, 2 * half, 2), slice(1, 2 * half, 2))
    c, s = cos[positions].astype(np.float64), sin[positions].astype(np.float64)
    a, b = x[:, low].copy(), x[:, high].copy()
    x[:, low], x[:, high] = a * c - b * s, b * c + a * s
    return x


@pytest.mark.parametrize("style", ["half", "interleaved"])
@pytest.mark.parametrize("rotary_dim", [0, 2, 32, 64])
def test_append(cache, rng, style, rotary_dim):
    k_cache, v_cache, table, own = cache(8, spare=12)
    free = [page for page in range(len(k_cache)) if page not in table]
    for b, length in enumerate(LENGTHS):  # room for five more
        for page in range(-(-length // 8), -(-(length + 5) // 8)):
            table[b, page] = free.pop()
    before = k_cache.copy(), v_cache.copy()
    k, v = rng.uniform(-1, 1, (2, len(LENGTHS), 2, 5, 64)).astype(np.float32)
    q = rng.uniform(-1, 1, (len(LENGTHS), 4, 5, 64)).astype(np.float32)
    angles = rng.uniform(-3, 3, (80, rotary_dim // 2))
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    rotary = {"rotary_cos": cos, "rotary_sin": sin, "rotary_style": style} if rotary_dim else {}
    given = q.copy()
    out_q = tilesmith.append_kv(k, v, k_cache, v_cache, seqlens_k=int32(LENGTHS), block_table=table, q=q, kv_layout="hnd", **rotary)
    np.testing.assert_array_equal(q, given)
    new = np.zeros((k_cache.shape[0], k_cache.shape[2]), bool)  # (pages, rows)
    for b, length in enumerate(LENGTHS):
        places = np.arange(length, length + 5)
        for t, place in enumerate(places):
            page, row = table[b, place // 8], place % 8
            new[page, row] = True
            np.testing.assert_array_equal(v_cache[page, :, row], v[b, :, t])
            for h in range(2):
                expected = turned(k[b, h, t : t + 1], [place], cos, sin, style) if rotary_dim else k[b, h, t : t + 1]
                np.testing.assert_allclose(k_cache[page, h, row], expected[0], rtol=0, atol=3e-7)
        for h in range(4):
            expected = turned(q[b, h], places, cos, sin, style) if rotary_dim else q[b, h]
            np.testing.assert_allclose(out_q[b, h], expected, rtol=0, atol=3e-7)
    for now, was in zip((k_cache, v_cache), before):  # nothing else was touched
        np.testing.assert_array_equal(now.swapaxes(1, 2)[~new], was.swapaxes(1, 2)[~new])
    # What was appended is what attention reads.
    if rotary_dim == 0:
        whole = [(np.concatenate([a, k[b]], axis=1), np.concatenate([c, v[b]], axis=1)) for b, (a, c) in enumerate(own)]
        got = tilesmith.attention(q, k_cache, v_cache, block_table=table, seqlens_k=int32(LENGTHS) + int32(5), causal=True,
                                  kv_layout="hnd", return_lse=True)  # fmt: skip
        check(got, q, whole, mask="bottom_right")


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("places", ["table", "list", "dense"])
def test_append_by_lengths_that_count_the_new_tokens(rng, places, ragged):
    """The same bits as by lengths from before the call; a sequence of no keys is padding, whatever its places are."""
    counts, before = ([2, 0, 3, 1], [5, 7, 0, 16]) if ragged else ([2, 2, 2, 2], [5, 7, 0, 14])
    offsets = int32([0, *np.cumsum(counts)])
    shape = (2, offsets[-1], 32) if ragged else (4, 2, 2, 32)
    k, v, q = (rng.uniform(-1, 1, shape).astype(np.float32) for _ in range(3))
    table = int32(rng.permutation(20).reshape(4, 5))
    given = {"kv_layout": "hnd", "q": q, "rotary_cos": rng.uniform(-1, 1, (40, 8)).astype(np.float32), **({"cu_seqlens": offsets} if ragged else {})}
    given["rotary_sin"] = given["rotary_cos"][::-1].copy()
    if places == "list":
        given |= {"page_indices": table.reshape(-1).copy(), "page_indptr": int32([0, 5, 10, 15, 20])}
    elif places == "table":
        given["block_table"] = table

    def appended(lengths, **more):
        caches = [np.zeros((20, 2, 4 if places != "dense" else 20, 32), np.float32) for _ in range(2)]
        return tilesmith.append_kv(k, v, *caches, seqlens_k=int32(lengths), **{**given, **more}), *caches

    after = np.add(before, counts)
    for mine, wanted in zip(appended(after, lengths_after=True), appended(before)):
        np.testing.assert_array_equal(mine, wanted)
    if places == "table":  # padding
        wanted = appended(before)[1:]
        for cache in wanted:
            cache[table[2]] = 0
        table[2], after[2] = np.iinfo(np.int32).max, 0
        for mine, all_but_one in zip(appended(after, lengths_after=True)[1:], wanted):
            np.testing.assert_array_equal(mine, all_but_one)
    most = np.argmax(counts)
    for wrong, match in ((1, f"sequence {most} has 1 keys, {counts[most]} new ones included"), (-1, "pages.lengths"),
                         (2**31 - 1, "21474836"), (2**31 - 1 if places == "list" else 21, "keys|row 20")):  # fmt: skip
        with pytest.raises(ValueError, match=match):
            appended(np.where(np.arange(4) == most, wrong, np.add(before, counts)), lengths_after=True)


def narrow(x, dtype, scale):
    """x as elements of 8 bits, and what they stand for; `scale` broadcasts to x."""
    elements = np.int8 if dtype == "int8" else pytest.importorskip("ml_dtypes").float8_e4m3fn
    stored = np.rint(x / scale) if dtype == "int8" else x / scale
    stored = np.nan_to_num(stored).astype(elements)
    return stored, stored.astype(np.float32) * scale


@pytest.mark.parametrize("scales", ["one", "head", "sequence and head", "row", "page"])
@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "int8"])
def test_caches_of_8_bits(cache, rng, dtype, layout, scales):
    k, v, table, own = cache(16)
    pages, heads, page_size, _ = k.shape
    largest = 127 if dtype == "int8" else 448
    shapes = {"one": (), "head": (heads,), "sequence and head": (len(LENGTHS), heads), "row": (pages, heads, page_size),
              "page": (pages, heads, 1)}  # fmt: skip
    given, stored, meant = [], [], []
    for at, pool in enumerate((k, v)):
        scale = rng.uniform(1, 2, shapes[scales]).astype(np.float32) / largest
        whole = np.ones_like(pool)
        for b, length in enumerate(LENGTHS):
            for page in table[b, : -(-length // page_size)]:
                of_page = scale[page] if scales in ("row", "page") else scale[b] if scales == "sequence and head" else scale
                whole[page] = np.broadcast_to(of_page if scales in ("row", "page") else of_page[..., None], (heads, page_size))[..., None]
        eight, wide = narrow(pool, dtype, whole)
        given.append(np.asarray(scale, np.float32) if scales not in ("row", "page") or layout == "bhsd" else np.ascontiguousarray(scale.swapaxes(1, 2)))
        stored.append(eight if layout == "bhsd" else np.ascontiguousarray(eight.swapaxes(1, 2)))
        meant.append(wide)
    own = [tuple(np.stack([wide[table[b, j // page_size], :, j % page_size] for j in range(length)], 1) if length else own[b][0]
                 for wide in meant) for b, length in enumerate(LENGTHS)]  # fmt: skip
    for rows in (2, 40):  # decode and prefill
        q = rng.uniform(-1, 1, (len(LENGTHS), 4, rows, 64)).astype(np.float32)
        swap = (lambda x: x) if layout == "bhsd" else (lambda x: np.ascontiguousarray(x.swapaxes(1, 2)))
        o, lse = tilesmith.attention(swap(q), *stored, block_table=table, seqlens_k=int32(LENGTHS), layout=layout, causal=True, kv_layout=CACHES_OF[layout],
                                     k_scale=given[0], v_scale=given[1], return_lse=True)  # fmt: skip
        check((swap(o), lse), q, own, mask="bottom_right")


def test_splits(cache, rng):
    k, v, table, own = cache(16)
    q = rng.uniform(-1, 1, (len(LENGTHS), 4, 1, 64)).astype(np.float32)
    keys = {"block_table": table, "seqlens_k": int32(LENGTHS), "kv_layout": "hnd", "return_lse": True}
    for splits in (1, 3, 100):
        check(tilesmith.attention(q, k, v, num_splits=splits, **keys), q, own)
    for invariant in (False, True):
        check(tilesmith.attention(q, k, v, batch_invariant=invariant, **keys), q, own)
        with pytest.raises(ValueError, match="num_splits is -1"):
            tilesmith.attention(q, k, v, num_splits=-1, batch_invariant=invariant, **keys)


def test_caches_that_cannot_be(rng):
    q = rng.uniform(-1, 1, (1, 2, 1, 32)).astype(np.float32)
    k = np.ones((3, 2, 8, 32), np.int8)
    keys = {"block_table": int32([[0, 2]]), "seqlens_k": int32([9]), "kv_layout": "hnd"}

    def refused(error, match, v=k, **given):
        with pytest.raises(error, match=match):
            tilesmith.attention(q, k, v, **{**keys, **given})

    refused(TypeError, "k is int8, v is fp32", v=k.astype(np.float32))
    refused(ValueError, "q_scale is given", q_scale=np.ones(1, np.float32))
    refused(ValueError, r"k_scale has the shape \(3, 2, 9\)", k_scale=np.ones((3, 2, 9), np.float32))
    refused(ValueError, "the other scale is one of pages", k_scale=np.ones((3, 2, 8), np.float32), v_scale=np.ones((1, 2), np.float32))
    with pytest.raises(ValueError, match="keys do not lie in pages"):
        tilesmith.attention(q, k[:1], k[:1], k_scale=np.ones((1, 2, 8), np.float32))
    with pytest.raises(ValueError, match="k_scale is given"):
        tilesmith.attention(q, k.astype(np.float32), k.astype(np.float32), k_scale=np.ones(1, np.float32), **keys)


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_latent_attention(cache, rng, layout, dtype):
    dim, latent, scale = 96, 64, 0.2
    pool, _, table, own = cache(16, heads=1, dim=dim)
    rows = pool[:, 0]
    own = [np.stack([k, k]) for k, _ in own]
    given = {"seqlens_k": int32(LENGTHS), "block_table": table, "latent": latent, "layout": layout, "scale": scale}
    if dtype == "int8":
        by = (rng.uniform(1, 2, (*rows.shape[:2], 1)) / 127).astype(np.float32)
        rows, meant = narrow(rows, dtype, by)
        own = [np.stack([np.stack([meant[table[b, j // 16], j % 16] for j in range(length)])[None]] * 2) if length else own[b]
               for b, length in enumerate(LENGTHS)]  # fmt: skip
        given["k_scale"] = by
    q = rng.uniform(-1, 1, (len(LENGTHS), 6, 2, dim)).astype(np.float32)
    swap = (lambda x: x) if layout == "bhsd" else (lambda x: np.ascontiguousarray(x.swapaxes(1, 2)))
    o, lse = tilesmith.mla_decode(swap(q), rows, **given)
    assert o.shape == swap(q).shape[:-1] + (latent,)
    check((swap(o), lse), q, [(k, k[..., :latent]) for k, _ in own], mask="bottom_right", scale=scale)
    with pytest.raises(ValueError, match=r"latent is 97"):
        tilesmith.mla_decode(swap(q), rows, **{**given, "latent": 97})
    with pytest.raises(ValueError, match="cache has the shape"):
        tilesmith.mla_decode(swap(q), rows[0], **given)


def test_append_by_slots(rng):
    k, v = rng.uniform(-1, 1, (2, 2, 6, 16)).astype(np.float16)  # (heads, total, dim)
    k_cache, v_cache = np.zeros((2, 5, 2, 4, 16), np.float16)
    slots = np.array([7, -1, 0, 19, 5, 6], np.int64)
    tilesmith.append_kv(k, v, k_cache, v_cache, slots=slots, cu_seqlens=int32([0, 2, 2, 6]), kv_layout="hnd")
    for t, slot in enumerate(slots):
        if slot >= 0:
            np.testing.assert_array_equal(k_cache[slot // 4, :, slot % 4], k[:, t])
            np.testing.assert_array_equal(v_cache[slot // 4, :, slot % 4], v[:, t])
    assert np.count_nonzero(k_cache.any((1, 3))) == 5


@pytest.mark.parametrize("style", ["half", "interleaved"])
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "int8"])
def test_append_to_8_bits(rng, dtype, style):
    elements = np.int8 if dtype == "int8" else pytest.importorskip("ml_dtypes").float8_e4m3fn
    k, v = (rng.standard_normal((3, 2, 5, dim)).astype(np.float32) for dim in (24, 10))
    caches = [np.zeros((3, 2, 16, dim), elements) for dim in (24, 10)]
    cos, sin = (rng.uniform(-1, 1, (20, 8)).astype(np.float32) for _ in range(2))
    k_scale = rng.uniform(0.01, 1, 2).astype(np.float32)
    v_scale = rng.uniform(0.001, 0.01, (3, 2)).astype(np.float32)  # some values become too large for the type
    options = {"seqlens_k": int32([4, 0, 11]), "rotary_cos": cos, "rotary_sin": sin, "rotary_style": style,
               "kv_layout": "hnd"}  # fmt: skip
    tilesmith.append_kv(k, v, *caches, **options, k_scale=k_scale, v_scale=v_scale)
    plain = [np.zeros((3, 2, 16, dim), np.float32) for dim in (24, 10)]
    tilesmith.append_kv(k, v, *plain, **options)
    low, largest = (-128, 127) if dtype == "int8" else (-448, 448)
    for got, x, scale in zip(caches, plain, (k_scale.reshape(1, 2, 1, 1), v_scale.reshape(3, 2, 1, 1))):
        wanted = np.clip(x / scale, low, largest)
        wanted = np.rint(wanted) if dtype == "int8" else wanted.astype(elements).astype(np.float32)
        np.testing.assert_array_equal(got.astype(np.float32), wanted)
    with pytest.raises(tilesmith.InvalidArgument, match="k_scale of sequence 0, head 1 is -1"):
        tilesmith.append_kv(k, v, *caches, **options, k_scale=np.array([1, -1], np.float32))
    with pytest.raises(tilesmith.InvalidArgument, match="k_scale is given, and the cache is fp32"):
        tilesmith.append_kv(k, v, *plain, **options, k_scale=k_scale)
    with pytest.raises(tilesmith.WrongType, match="one data type for both"):
        tilesmith.append_kv(k, v, caches[0], plain[1], **options)


@pytest.mark.parametrize("layout", ["nhd", "hnd", "vectorized"])
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "int8"])
def test_append_with_scales_of_rows_and_pages(rng, dtype, layout):
    elements = np.int8 if dtype == "int8" else pytest.importorskip("ml_dtypes").float8_e4m3fn
    largest, dims, page_size = (127 if dtype == "int8" else 448), (32, 48), 16
    k, v = (rng.standard_normal((3, 2, 21, dim)).astype(np.float32) for dim in dims)
    k *= 10 ** rng.uniform(-4, 4, (3, 2, 21, 1)).astype(np.float32)
    v[1, 1, 4] = 0
    cos, sin = (rng.uniform(-1, 1, (60, 8)).astype(np.float32) for _ in range(2))
    table = rng.permutation(9).astype(np.int32).reshape(3, 3)
    options = {"seqlens_k": int32([4, 0, 11]), "block_table": table, "rotary_cos": cos, "rotary_sin": sin}
    plain = [np.zeros((9, 2, page_size, dim), np.float32) for dim in dims]
    tilesmith.append_kv(k, v, *plain, **options, kv_layout="hnd")
    in_layout = {"nhd": lambda *x: tuple(np.ascontiguousarray(each.swapaxes(1, 2)) for each in x), "hnd": lambda *x: x, "vectorized": vectorized}[layout]
    scales_in = in_layout if layout == "nhd" else lambda *x: x

    def quantized(x, scale):
        wanted = np.clip(x / scale, -largest - (dtype == "int8"), largest)
        return np.rint(wanted).astype(np.int8) if dtype == "int8" else wanted.astype(elements)

    # Chosen, and written.
    caches = in_layout(*(np.zeros(x.shape, elements) for x in plain))
    scales = scales_in(*(np.zeros(x.shape[:3], np.float32) for x in plain))
    tilesmith.append_kv(k, v, *caches, **options, kv_layout=layout, k_row_scale=scales[0], v_row_scale=scales[1])
    seen = plain[0].any(-1)
    assert seen.sum() == 3 * 2 * 21
    wanted_scales = [np.where(seen, np.where(x.any(-1), np.abs(x).max(-1) / np.float32(largest), 1), 0).astype(np.float32) for x in plain]
    for got, wanted in zip(scales, scales_in(*wanted_scales)):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)
    written = [np.where(scale > 0, scale, 1)[..., None] for scale in (scales if layout != "nhd" else [x.swapaxes(1, 2) for x in scales])]
    stored = [quantized(x, scale) for x, scale in zip(plain, written)]
    for got, wanted in zip(caches, in_layout(*stored)):
        np.testing.assert_array_equal(got.astype(np.float32), wanted.astype(np.float32))
    meant = [x.astype(np.float32) * scale for x, scale in zip(stored, written)]
    lengths = options["seqlens_k"] + int32(21)
    for b, first in enumerate(options["seqlens_k"]):  # rows that were there before
        for j in range(first):
            for x, scale in zip(scales_in(*meant), scales):
                scale[(table[b, j // page_size], j % page_size) if layout == "nhd" else (table[b, j // page_size], slice(None), j % page_size)] = 1
    q = rng.uniform(-1, 1, (3, 4, 2, dims[0])).astype(np.float32)
    given = {"block_table": table, "seqlens_k": lengths, "causal": True}
    got = tilesmith.attention(q, *caches, **given, kv_layout=layout, k_scale=scales[0], v_scale=scales[1], return_lse=True)
    own = [tuple(np.stack([x[table[b, j // page_size], :, j % page_size] for j in range(length)], 1) for x in meant) for b, length in enumerate(lengths)]
    check(got, q, own, mask="bottom_right")

    # Given, of pages.
    of_pages = rng.uniform(1, 2, (9, 2, 1)).astype(np.float32) / 30
    caches = in_layout(*(np.zeros(x.shape, elements) for x in plain))
    tilesmith.append_kv(k, v, *caches, **options, kv_layout=layout, k_scale=scales_in(of_pages, of_pages)[0], v_scale=np.float32([0.25]))
    for got, wanted in zip(caches, in_layout(quantized(plain[0], of_pages[..., None]), quantized(plain[1], 0.25))):
        np.testing.assert_array_equal(got.astype(np.float32), wanted.astype(np.float32))

    def refused(match, **others):
        with pytest.raises(ValueError, match=match):
            tilesmith.append_kv(k, v, *caches, **options, kv_layout=layout, **others)

    of_pages[table[2, 1], 1] = np.nan  # the sequence's tokens begin at row 11
    refused(f"k_scale of row 0 of page {table[2, 1]}, head 1 is nan", k_scale=scales_in(of_pages, of_pages)[0])
    refused("k_row_scale is given beside the scale", k_row_scale=scales[0], k_scale=np.float32([1]))
    refused("v_scale has the shape .2,., the other scale is one of pages", k_scale=scales[0], v_scale=np.ones(2, np.float32))


@pytest.mark.parametrize("dtype, page, dim, dim_v", [(np.float32, 4, 36, 21), (np.float16, 16, 64, 72), (np.float32, 8, 300, 5)])
def test_append_to_vectorized_pages(rng, dtype, page, dim, dim_v):
    k, v = (rng.standard_normal((2, 3, 19, size)).astype(dtype) for size in (dim, dim_v))
    cos, sin = (rng.uniform(-1, 1, (60, 8)).astype(np.float32) for _ in range(2))
    table = rng.permutation(18).astype(np.int32).reshape(2, 9)
    options = {"seqlens_k": int32([3, 8]), "block_table": table, "rotary_cos": cos, "rotary_sin": sin}
    rows = [rng.standard_normal((18, 3, page, size)).astype(dtype) for size in (dim, dim_v)]
    caches = vectorized(*rows)
    tilesmith.append_kv(k, v, *rows, **options, kv_layout="hnd")
    tilesmith.append_kv(k, v, *caches, **options, kv_layout="vectorized")
    for got, wanted in zip(caches, vectorized(*rows)):
        np.testing.assert_array_equal(got, wanted)
    with pytest.raises(ValueError, match="k_cache has the shape .* x = "):
        tilesmith.append_kv(k, v, *rows, **options, kv_layout="vectorized")
    with pytest.raises(ValueError, match="k_row_scale is given, and the cache is fp"):
        tilesmith.append_kv(k, v, *rows, **options, kv_layout="hnd", k_row_scale=np.ones((18, 3, page), np.float32))


def test_appends_that_cannot_be(rng):
    k = v = np.ones((2, 1, 3, 8), np.float32)
    pages = np.zeros((4, 1, 4, 8), np.float32)
    cos = np.ones((6, 4), np.float32)

    def refused(error, match, **given):
        with pytest.raises(error, match=match):
            tilesmith.append_kv(k, v, pages, pages.copy(), kv_layout="hnd", **given)
        assert not pages.any()

    refused(ValueError, "neither seqlens_k nor slots")
    refused(ValueError, "token 2 of sequence 1 goes to row 4", seqlens_k=int32([0, 2]))
    refused(ValueError, "sequence 1 would have 6 keys", seqlens_k=int32([0, 3]), block_table=int32([[0], [1]]))
    listed = {"page_indices": int32([0, 1, 2]), "seqlens_k": int32([0, 2])}
    refused(ValueError, "sequence 1 would have 5 keys .* begin at entry 2 of page_indices, and there are 3", page_indptr=int32([0, 2, 3]), **listed)
    refused(ValueError, "begin at entry -1 of", page_indptr=int32([0, -1, 3]), **listed)
    refused(ValueError, "token 0 of sequence 1 goes to page 4", seqlens_k=int32([0, 0]), block_table=int32([[0], [4]]))
    refused(ValueError, "token 1 of sequence 0 goes to page 4", slots=np.array([0, 16, 2, 3, 4, 5], np.int64))
    refused(TypeError, "slots has the type int32", slots=int32([0] * 6))
    refused(ValueError, "token 1 of sequence 1 has the position 6", seqlens_k=int32([0, 5]), block_table=int32([[0, 1], [2, 3]]),
            rotary_cos=cos, rotary_sin=cos)  # fmt: skip
    refused(ValueError, "one of rotary_cos and rotary_sin", seqlens_k=int32([0, 0]), rotary_cos=cos)
    refused(ValueError, "rotary.dim is 10", seqlens_k=int32([0, 0]), rotary_cos=np.ones((6, 5), np.float32),
            rotary_sin=np.ones((6, 5), np.float32))  # fmt: skip


def test_reference_knows_nothing():
    """A length of 0 gives zeros and -inf, also by the reference that the checks here compare with."""
    o, lse = reference.attention(np.ones((1, 1, 1, 4)), np.ones((1, 1, 0, 4)), np.ones((1, 1, 0, 4)))
    assert not o.any() and np.isneginf(lse).all()


def test_torch_tensors(cache, rng):
    torch = pytest.importorskip("torch")
    k, v, table, own = cache(16)
    q = torch.from_numpy(rng.uniform(-1, 1, (len(LENGTHS), 4, 1, 64)).astype(np.float32))
    keys = {"block_table": torch.from_numpy(table), "seqlens_k": torch.from_numpy(int32(LENGTHS)), "kv_layout": "hnd",
            "return_lse": True}  # fmt: skip
    caches = torch.from_numpy(k), torch.from_numpy(v)
    o, lse = tilesmith.attention(q, *caches, **keys)
    check((o.numpy(), lse.numpy()), q.numpy(), own)
    # The operator that torch.compile sees.
    arguments = (q, *caches, "bhsd", False, "none", -1, -1, None, 0.0, None, None, None, None, None, None, 0.0, None, None, None,
                 None, None, True, 0, False, keys["block_table"], keys["seqlens_k"], None, None, 0, False, False, "hnd")  # fmt: skip
    again = torch.ops.tilesmith.attention_fwd(*arguments)
    assert torch.equal(again[0], o) and torch.equal(again[1], lse)
    # The table's values are read by no fake kernel, and NaN is not equal to itself: schema and shapes are what is checked.
    torch.library.opcheck(torch.ops.tilesmith.attention_fwd, arguments, test_utils=("test_faketensor",))
    merged, _ = tilesmith.merge_states([o, o], [lse, lse])
    torch.testing.assert_close(merged, o)
    new = torch.ones(len(LENGTHS), 2, 1, 64)
    slots = torch.tensor([-1, 21, -1, -1])
    assert tilesmith.append_kv(new, new, *caches, slots=slots, kv_layout="hnd") is None
    assert bool((caches[0][int(slots[1]) // 16, :, int(slots[1]) % 16] == 1).all())


def test_operators():
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    q, new = torch.rand(1, 2, 8, 16), torch.tensor([3], dtype=torch.int32)
    cos, sin, operators = torch.rand(20, 8), torch.rand(20, 8), torch.ops.tilesmith

    def step(q, pool):
        k, v = pool[:, :, 0], pool[:, :, 1]  # views of one pool
        turned = tilesmith.append_kv(q, q + 1, k, v, seqlens_k=new, q=q, rotary_cos=cos, rotary_sin=sin, kv_layout="hnd")
        return tilesmith.merge_states([q, turned], [q[..., 0].contiguous(), turned[..., 1].contiguous()])

    pools = torch.zeros(2, 1, 2, 2, 20, 16)
    wanted, got = step(q, pools[0]), torch.compile(step, fullgraph=True, backend="aot_eager")(q, pools[1])
    assert all(map(torch.equal, wanted, got)) and torch.equal(pools[0], pools[1]) and bool(pools[1].any())
    parts = ([q, q], [q[..., 0].contiguous()] * 2, "bhsd")
    torch.library.opcheck(operators.merge_states, parts)
    torch.library.opcheck(operators.merge_states_out, parts, {"out": torch.empty_like(q)})
    arguments = (q, q, pools[0, :, :, 0].clone(), pools[0, :, :, 1].clone(), "bhsd", "hnd", new, *(None,) * 5, q, cos, sin, "half", None)
    torch.library.opcheck(operators.append_kv, arguments)
    torch.library.opcheck(operators.append_kv_out, arguments, {"out_q": torch.empty_like(q)})
    narrow_pools = [torch.zeros(1, 2, 20, 16, dtype=torch.int8) for _ in range(2)]
    scaled = (q, q, *narrow_pools, *arguments[4:], None, None, torch.zeros(1, 2, 20), torch.zeros(1, 2, 20))
    torch.library.opcheck(operators.append_kv, scaled)
    torch.library.opcheck(operators.append_kv, (*arguments[:6], new + 8, *arguments[7:], *(None,) * 4, True))
    with pytest.raises(tilesmith.Unsupported):
        torch.compile(lambda q: tilesmith.merge_states([q], [q[..., 0]]), backend="eager")(q.clone().requires_grad_())


def test_the_example_decoder_says_what_torch_says():
    pytest.importorskip("torch")
    example = Path(__file__).parents[2] / "examples" / "llama_decoder.py"
    ran = subprocess.run([sys.executable, example, "--tokens", "8"], capture_output=True, text=True)
    assert ran.returncode == 0 and ran.stdout.count("the same") == 3, ran.stdout + ran.stderr


@pytest.mark.parametrize("cache", [[], ["--cache", "int8"]])
def test_the_example_server_says_what_torch_says(cache):
    pytest.importorskip("torch")
    example = Path(__file__).parents[2] / "examples" / "batch_server.py"
    ran = subprocess.run([sys.executable, example, "--requests", "8", *cache], capture_output=True, text=True)
    # What 8 bits leave of keys and values may choose another token.
    assert ran.returncode == 0 and ran.stdout.count("the same") >= (8 if not cache else 4), ran.stdout + ran.stderr
    assert "16 of 16 pages are free" in ran.stdout and "at most 1 at" not in ran.stdout


def vectorized(k, v):
    """Pages of rows, (pages, heads, page size, dim), as vectorized ones."""
    x = 16 // k.itemsize
    pages, heads, rows = k.shape[:3]
    return (np.ascontiguousarray(k.reshape(pages, heads, rows, -1, x).swapaxes(2, 3)),
            np.ascontiguousarray(v.reshape(pages, heads, rows // x, x, -1).swapaxes(3, 4)))  # fmt: skip


@pytest.mark.parametrize("dtype, page, dim, dim_v, rows, options", [
    (np.float32, 4, 64, 64, 1, {}), (np.float16, 16, 128, 128, 1, {}), (np.float16, 8, 64, 72, 70, {"causal": True}),
    (np.float16, 24, 40, 56, 3, {"causal": True, "window": (30, 0)}), (np.float32, 12, 36, 21, 2, {}), (np.int8, 16, 64, 72, 1, {}),
    (np.int8, 32, 80, 64, 40, {"causal": True}),
])  # fmt: skip
def test_vectorized_pages_have_the_bits_of_rows(dtype, page, dim, dim_v, rows, options):
    rng, lengths = np.random.default_rng(7), np.array([5, 0, 300, page, 97], np.int32)
    wide = -(-300 // page)
    table = rng.permutation(5 * wide).astype(np.int32).reshape(5, wide)
    k, v = ((rng.standard_normal((5 * wide, 2, page, d)) * (30 if dtype == np.int8 else 1)).astype(dtype) for d in (dim, dim_v))
    if dtype != np.int8:
        for b, length in enumerate(lengths):  # what no query sees may be anything
            for at in range(wide):
                for of_rows in (k, v):
                    of_rows[table[b, at], :, max(0, length - at * page) :] = np.nan
    q = rng.standard_normal((5, 6, rows, dim)).astype(np.float32 if dtype == np.int8 else dtype)
    given = {"seqlens_k": lengths, "block_table": table, "return_lse": True, **options}
    if dtype == np.int8:
        given |= {"k_scale": np.full((), 1 / 30, np.float32), "v_scale": np.full((), 1 / 30, np.float32)}
    expected = tilesmith.attention(q, k, v, kv_layout="hnd", **given)
    keys, values = vectorized(k, v)
    for mine, rows_of in zip(tilesmith.attention(q, keys, values, kv_layout="vectorized", **given), expected):
        np.testing.assert_array_equal(mine, rows_of)
    # Pages and heads may lie apart.
    apart = np.zeros((2 * len(keys), 3, *keys.shape[2:]), dtype), np.zeros((2 * len(values), 3, *values.shape[2:]), dtype)
    apart[0][::2, :2], apart[1][::2, :2] = keys, values
    got = tilesmith.attention(q, apart[0][::2, :2], apart[1][::2, :2], kv_layout="vectorized", **given)
    np.testing.assert_array_equal(got[0], expected[0])


def test_what_vectorized_pages_must_be():
    q, lengths, table = np.zeros((2, 4, 1, 64), np.float32), np.array([5, 20], np.int32), np.arange(8, dtype=np.int32).reshape(2, 4)
    keys, values = np.zeros((8, 2, 16, 8, 4), np.float32), np.zeros((8, 2, 2, 64, 4), np.float32)
    given = {"seqlens_k": lengths, "block_table": table}
    assert tilesmith.attention(q, keys, values, kv_layout="vectorized", **given).shape == q.shape
    for k, v, reason in [(keys, values[..., :2], r"v has the shape .* x = 4"), (keys[..., ::2], values, "k has the shape"),
                         (keys[:, :, 0], values, "k has the shape"), (keys.swapaxes(2, 3), values, "k has the strides|the shape"),
                         (keys, values[:, :, :1], "v")]:  # fmt: skip
        with pytest.raises(ValueError, match=reason):
            tilesmith.attention(q, k, v, kv_layout="vectorized", **given)
    with pytest.raises(ValueError, match="k has the shape .* kv_layout 'vectorized'"):
        tilesmith.attention(q, keys, values, **given)
    with pytest.raises(ValueError, match="k_cache has the shape"):
        tilesmith.append_kv(q[:, :2], q[:, :2], keys, values, **given)
