"""Servers' lives (serving_life.py) on a CUDA device, and numbers that are none of a cache's: never followed, never written."""

import os

import pytest
from serving_life import HOSTILE, TorchOnCuda, Way, live

import tilesmith

torch = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.skipif("cuda" in tilesmith.missing(), reason=tilesmith.missing().get("cuda", "")),
]
STEPS = int(os.environ.get("TILESMITH_SOAK_STEPS") or (10000 if os.environ.get("TILESMITH_TEST_THOROUGH") else 300))
WAYS = [
    Way("bfloat16", rotary="half", tolerance=3e-2, page=16, heads=(8, 2), dim=64),
    Way("float16", one_call=False, listed=True, tolerance=5e-3, page=4, heads=(32, 4), dim=128),
    Way("bfloat16", window=9, tolerance=3e-2, page=4, heads=(4, 4), dim=64),
    Way("float16", cache="int8", rotary="interleaved", tolerance=5e-2, page=16, heads=(8, 1), dim=64),
    Way("bfloat16", cache="float8_e4m3fn", one_call=False, tolerance=1e-1, page=8, heads=(8, 2), dim=64),
]


@pytest.mark.parametrize("number", range(len(WAYS)))
def test_joins_leaves_and_evictions(number):
    steps, way = STEPS // len(WAYS), WAYS[number]
    seen = live(way, TorchOnCuda(torch), steps, seed=31 + number, pages=240 // way.page // (2 if way.window else 1))
    expected = {"finished", "evicted", "forked", "taken back", "padded"} | ({"windowed"} if way.window else set())
    assert steps < 50 or all(seen[each] > 0 for each in expected), seen


def int32(values):
    return torch.tensor(values, device="cuda", dtype=torch.int32)


@pytest.mark.parametrize("heads_q, heads_kv, new", [(8, 2, 1), (64, 1, 1), (8, 2, 3), (8, 2, 40)])
def test_lengths_beyond_the_table_are_cut_to_it(heads_q, heads_kv, new):
    """What would go behind the table is written nowhere, and nothing is read there; negative lengths are none."""
    torch.manual_seed(3)
    page, width, dim = 16, 5, 64
    # A pool within a larger tensor: what lies around it is watched.
    around = torch.full((2, 60, page, heads_kv, dim), 7.0, device="cuda", dtype=torch.bfloat16)
    pool = around[:, 20:40]
    pool.copy_(torch.randn(pool.shape, device="cuda"))
    tables = torch.arange(20, device="cuda", dtype=torch.int32).reshape(4, width)
    # The table's rows are a view: the entries behind them are no page.
    wide = torch.full((4, 64), 2**31 - 1, device="cuda", dtype=torch.int32)
    wide[:, :width] = tables
    q = torch.randn(4, heads_q, new, dim, device="cuda", dtype=torch.bfloat16)
    k = torch.randn(4, heads_kv, new, dim, device="cuda", dtype=torch.bfloat16)
    whole = [page * width, 37 + new, page * width, 60]

    def attend(lengths, table, pool, **more):
        return tilesmith.attention(q, *pool, block_table=table, seqlens_k=int32(lengths), causal=True, return_lse=True, **more)

    good = attend(whole, tables, pool)
    for beyond in (page * width + 1, 10**6, 2**31 - 1):
        got = attend([beyond, 37 + new, beyond, 60], wide[:, :width], pool)
        for mine, wanted in zip(got, good):
            assert torch.equal(mine[[1, 3]], wanted[[1, 3]])
        assert not got[0][[0, 2]].isnan().any()
        copies = pool.clone()
        attend([beyond, 37 + new, beyond, 60], wide[:, :width], pool, k_new=k, v_new=k)
        assert bool((around[:, :20] == 7).all()) and bool((around[:, 40:] == 7).all())
        if beyond - new >= page * width:
            changed = (pool != copies).flatten(2).any(-1)[0].nonzero().flatten().tolist()
            assert set(changed) <= {*range(5, 10), *range(15, 20)}, "only of the sequences whose lengths fit"
        pool.copy_(copies)
        tilesmith.append_kv(k, k, *pool, seqlens_k=int32([beyond] * 4), block_table=wide[:, :width])
        if beyond - new >= page * width:
            tilesmith.append_kv(k, k, *pool, seqlens_k=int32([beyond] * 4), block_table=wide[:, :width], lengths_after=True)
        assert torch.equal(around[:, 20:40], copies) and bool((around[:, :20] == 7).all()) and bool((around[:, 40:] == 7).all())
    for negative in (-1, -(2**31)):
        got = attend([negative, 37 + new, page * width, 60], tables, pool)
        assert not got[0][0].any() and torch.isneginf(got[1][0]).all()
        for mine, wanted in zip(got, good):
            assert torch.equal(mine[1:], wanted[1:])


@pytest.mark.parametrize("heads_q, heads_kv", [(8, 2), (64, 1)])
def test_new_keys_of_no_page_are_written_nowhere(heads_q, heads_kv):
    torch.manual_seed(4)
    page, width, dim = 16, 4, 64
    around = torch.full((2, 48, page, heads_kv, dim), 7.0, device="cuda", dtype=torch.bfloat16)
    pool = around[:, 16:32]
    lengths = int32([60, 17, 33, 64])
    for number in HOSTILE:
        table = torch.arange(16, device="cuda", dtype=torch.int32).reshape(4, width)
        table[torch.arange(4), ((lengths - 1) // page).long()] = number  # each sequence's last page
        q, k = (torch.randn(4, heads, 1, dim, device="cuda", dtype=torch.bfloat16) for heads in (heads_q, heads_kv))
        o = tilesmith.attention(q, *pool, k_new=k, v_new=k, block_table=table, seqlens_k=lengths, causal=True)
        tilesmith.append_kv(k, k, *pool, block_table=table, seqlens_k=lengths, lengths_after=True)
        assert bool((around == 7).all()) and o.isnan().all()
    for slot in (16 * page, 2**40, 2**63 - 1, -1, -(2**63)):
        tilesmith.append_kv(k, k, *pool, slots=torch.full((4,), slot, device="cuda"))
        assert bool((around == 7).all())
    rotary = {"rotary_cos": torch.ones(8, 16, device="cuda"), "rotary_sin": torch.zeros(8, 16, device="cuda")}
    for position in (8, -1, 2**62, -(2**62)):
        positions = torch.full((4,), position, device="cuda")
        tilesmith.append_kv(k, k, *pool, block_table=torch.arange(16, device="cuda", dtype=torch.int32).reshape(4, 4), seqlens_k=lengths,
                            lengths_after=True, positions=positions, q=q, **rotary)  # fmt: skip
        assert bool((around[0] == 7).all())
