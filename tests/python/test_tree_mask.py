"""Trees of drafted tokens: which of a sequence's last keys a query sees."""

import numpy as np
import pytest
from conftest import assert_attention

import tilesmith

LENGTHS = (70, 9, 33, 6)
DRAFTED = 6


def paths(parents):
    """Of a tree given by each token's parent (-1: the root's children), what each token sees: itself and its ancestors."""
    seen = np.eye(len(parents), dtype=bool)
    for token, parent in enumerate(parents):
        if parent >= 0:
            seen[token] |= seen[parent]
    return seen


def bits(mask):
    """Words of 32 bits of the last dimension, the first bit the lowest."""
    words = np.zeros((*mask.shape[:-1], -(-mask.shape[-1] // 32)), np.uint32)
    for t in range(mask.shape[-1]):
        words[..., t // 32] |= mask[..., t].astype(np.uint32) << np.uint32(t % 32)
    return words


def hidden_bias(mask, length):
    """The mask of a sequence's last keys as a bias of all its keys."""
    bias = np.zeros((*mask.shape[:-1], length), np.float32)
    drafted = mask[..., max(0, mask.shape[-1] - length) :]
    bias[..., length - drafted.shape[-1] :] = np.where(drafted, 0, -np.inf)
    return bias


def make(rng, rows, heads_kv=2, page=8, dim=64):
    """q, k and v as pages (pages, page, heads, dim), their table, and each sequence's own k and v as (heads, rows, dim)."""
    counts = [-(-length // page) for length in LENGTHS]
    order = rng.permutation(sum(counts)).astype(np.int32)
    table = np.full((len(LENGTHS), max(counts)), 99, np.int32)
    for b, count in enumerate(counts):
        table[b, :count] = order[sum(counts[:b]) :][:count]
    k, v = rng.uniform(-1, 1, (2, sum(counts), page, heads_kv, dim)).astype(np.float32)
    own = [tuple(x[table[b, :count]].reshape(-1, heads_kv, dim)[:length].swapaxes(0, 1) for x in (k, v))
           for b, (count, length) in enumerate(zip(counts, LENGTHS))]  # fmt: skip
    return rng.uniform(-1, 1, (len(LENGTHS), 4, rows, dim)).astype(np.float32), k, v, table, own


@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize("rows", [DRAFTED, 40])
def test_a_random_tree_for_each_sequence(rng, rows, words):
    q, k, v, table, own = make(rng, rows)
    masks = np.stack([paths([rng.integers(-1, t) if t else -1 for t in range(rows)]) for _ in LENGTHS])
    lengths = np.array(LENGTHS, np.int32)
    o, lse = tilesmith.attention(q, k, v, block_table=table, seqlens_k=lengths, tree_mask=bits(masks) if words else masks,
                                 return_lse=True)  # fmt: skip
    for b, (mine_k, mine_v) in enumerate(own):
        assert_attention((o[b : b + 1], lse[b : b + 1]), q[b : b + 1], mine_k[None], mine_v[None], bias=hidden_bias(masks[b], LENGTHS[b]))


def test_one_branch_is_causal_and_packed_rows_have_rows_of_bits(rng):
    q, k, v, table, _ = make(rng, DRAFTED)
    keys = {"block_table": table, "seqlens_k": np.array(LENGTHS, np.int32), "return_lse": True}
    branch = np.broadcast_to(paths(range(-1, DRAFTED - 1)), (len(LENGTHS), DRAFTED, DRAFTED))
    causal = tilesmith.attention(q, k, v, causal=True, **keys)
    for got in (tilesmith.attention(q, k, v, tree_mask=branch, **keys), tilesmith.attention(q, k, v, tree_mask=branch, causal=True, **keys)):
        np.testing.assert_allclose(got[0], causal[0], atol=1e-6)
        np.testing.assert_allclose(got[1], causal[1], atol=1e-6)
    # Some sequences have fewer queries: their bits begin with their own first key.
    counts = [6, 0, 3, 1]
    offsets = np.cumsum([0, *counts]).astype(np.int32)
    packed = np.concatenate([q[b, :, :n] for b, n in enumerate(counts)], 1)
    masks = [paths([-1] * n) for n in counts]  # each token sees itself alone
    words = np.concatenate([bits(m) if len(m) else np.zeros((0, 1), np.uint32) for m in masks]).astype(np.int32)
    o, _ = tilesmith.attention(packed, k, v, tree_mask=words, cu_seqlens_q=offsets, **keys)
    for b, n in enumerate(counts):
        if n == 0:
            continue
        alone, _ = tilesmith.attention(q[b : b + 1, :, :n], k, v, block_table=table[b : b + 1], tree_mask=masks[b][None],
                                       seqlens_k=keys["seqlens_k"][b : b + 1], return_lse=True)  # fmt: skip
        np.testing.assert_allclose(o[:, offsets[b] : offsets[b + 1]], alone[0], atol=1e-6)


def test_dense_keys_a_window_and_rows_that_see_nothing(rng):
    q, k, v = (rng.uniform(-1, 1, (2, 2, rows, 32)).astype(np.float32) for rows in (5, 40, 40))
    mask = rng.random((2, 5, 5)) < 0.5
    mask[0, 1] = False
    got = tilesmith.attention(q, k, v, tree_mask=mask, window=(7, -1), return_lse=True)
    bias = np.stack([hidden_bias(m, 40) for m in mask])[:, None]
    assert_attention(got, q, k, v, bias=bias, window=(7, -1))
    none, lse = tilesmith.attention(q, k[:, :, :5], v[:, :, :5], tree_mask=np.zeros((2, 5, 5), bool), return_lse=True)
    assert not none.any() and np.isneginf(lse).all()


def test_trees_that_cannot_be(rng):
    q = np.ones((2, 1, 40, 8), np.float32)
    for wrong in (np.ones((2, 40, 1), np.int32), np.ones((1, 40, 2), np.int32), np.ones((2, 40, 2), np.int64), [[1]], np.ones((2, 40, 39), bool)):
        with pytest.raises((TypeError, ValueError), match="tree_mask"):
            tilesmith.attention(q, q, q, tree_mask=wrong)
    with pytest.raises(ValueError, match="tree_mask and alibi"):
        tilesmith.attention(q, q, q, tree_mask=np.ones((2, 40, 40), bool), alibi=np.ones(1, np.float32))


def test_a_bias_beside_it(rng):
    q, k, v = (rng.uniform(-1, 1, (2, 2, rows, 32)).astype(np.float32) for rows in (5, 40, 40))
    mask, bias = rng.random((2, 5, 5)) < 0.5, rng.standard_normal((2, 5, 40)).astype(np.float32)
    got = tilesmith.attention(q, k, v, tree_mask=mask, bias=bias, return_lse=True)
    assert_attention(got, q, k, v, bias=bias + np.stack([hidden_bias(m, 40) for m in mask])[:, None])


def test_torch(rng):
    torch = pytest.importorskip("torch")
    q, k, v, table, _ = make(rng, DRAFTED)
    mask = torch.from_numpy(np.stack([paths([-1, 0, 0, 1, 1, 2])] * len(LENGTHS)))
    tensors = [torch.from_numpy(x) for x in (q, k, v)]
    keys = {"block_table": torch.from_numpy(table), "seqlens_k": torch.tensor(LENGTHS, dtype=torch.int32), "tree_mask": mask}
    wanted = tilesmith.attention(q, k, v, block_table=table, seqlens_k=np.array(LENGTHS, np.int32), tree_mask=mask.numpy())
    np.testing.assert_array_equal(tilesmith.attention(*tensors, **keys).numpy(), wanted)
    keys["tree_mask"] = torch.from_numpy(bits(mask.numpy()).astype(np.int32))
    np.testing.assert_array_equal(tilesmith.attention(*tensors, **keys).numpy(), wanted)
    offsets = torch.arange(0, len(LENGTHS) + 1, dtype=torch.int32) * DRAFTED
    packed = tilesmith.attention(tensors[0].transpose(0, 1).flatten(1, 2), *tensors[1:], **{**keys, "tree_mask": mask.flatten(0, 1)},
                                 cu_seqlens_q=offsets)  # fmt: skip
    np.testing.assert_allclose(packed.unflatten(1, (-1, DRAFTED)).transpose(0, 1).numpy(), wanted, atol=1e-6)
    compiled = torch.compile(lambda q: tilesmith.attention(q, *tensors[1:], **keys), fullgraph=True, backend="aot_eager")
    np.testing.assert_array_equal(compiled(tensors[0]).numpy(), wanted)


def test_a_tree_over_a_cache_of_8_bits(rng):
    q, _, _, table, _ = make(rng, DRAFTED)
    k, v = (rng.integers(-120, 121, (int(sum(-(-n // 8) for n in LENGTHS)), 8, 2, 64)).astype(np.int8) for _ in range(2))
    scale, mask = np.full(1, 0.01, np.float32), paths([-1, 0, 0, 1, 1, 2])
    o = tilesmith.attention(q, k, v, block_table=table, seqlens_k=np.array(LENGTHS, np.int32), k_scale=scale, v_scale=scale,
                            tree_mask=np.broadcast_to(mask, (len(LENGTHS), DRAFTED, DRAFTED)))  # fmt: skip
    for b, length in enumerate(LENGTHS):
        pages = table[b, : -(-length // 8)]
        mine = [(x[pages].reshape(-1, 2, 64)[:length].swapaxes(0, 1) * scale)[None] for x in (k, v)]
        assert_attention(o[b : b + 1], q[b : b + 1], *mine, bias=hidden_bias(mask, length))


def test_a_bound_of_lengths_that_is_none():
    q, k = np.ones((2, 4, 1, 16), np.float32), np.ones((3, 4, 2, 16), np.float32)
    paged = dict(page_indices=np.arange(3, dtype=np.int32), page_indptr=np.array([0, 2, 3], np.int32),
                 last_page_len=np.array([1, 2], np.int32), tree_mask=np.ones((2, 1, 1), bool))  # fmt: skip
    for wrong in (1j, "2", -3):
        with pytest.raises((TypeError, ValueError), match="max_seqlen_k is"):
            tilesmith.attention(q, k, k, max_seqlen_k=wrong, **paged)
