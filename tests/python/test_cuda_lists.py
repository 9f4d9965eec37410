"""Random lists of decode on a CUDA device against float64: paged caches of all kinds and lengths; what lies behind a sequence's keys is NaN or no page."""

import os
import random

import pytest

import tilesmith

torch = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.skipif("cuda" in tilesmith.missing(), reason=tilesmith.missing().get("cuda", "")),
]
SEEDS = [int(seed) for seed in os.environ.get("TILESMITH_LIST_SEEDS", "").split(",") if seed] or range(
    240 if os.environ.get("TILESMITH_TEST_THOROUGH") else 24)  # fmt: skip
LATENT_DIM, LATENT, LATENT_SCALE = 576, 512, 192**-0.5
NO_PAGE = 2**30


def drawn_lengths(draw, batch):
    """Keys of each sequence: of one length, near one, drawn, one beside many short ones, or with empty ones."""
    longest = int(2 ** draw.uniform(3, 13.5 if batch < 20 else 11.5))
    kind = draw.choice(["one", "near", "drawn", "long", "empty"])
    if kind == "one":
        return [longest] * batch
    if kind == "near":
        return [int(longest * draw.uniform(0.9, 1)) for _ in range(batch)]
    if kind == "long":
        lengths = [draw.randint(0, 1 + longest // 20) for _ in range(batch)]
        lengths[draw.randrange(batch)] = longest
        return lengths
    lengths = [int(longest * 2 ** -draw.uniform(0, 8)) for _ in range(batch)]
    return [n * draw.randint(0, 1) for n in lengths] if kind == "empty" else lengths


def drawn_table(lengths, page):
    """Pages in random order, (batch, width); behind a sequence's last page stand numbers of none. And the rows of each sequence's keys."""
    counts = [-(-n // page) for n in lengths]
    order, width = torch.randperm(sum(counts) + 2), max(counts) + 1
    table, rows, at = torch.full((len(lengths), width), NO_PAGE), [], 0
    for sequence, count in enumerate(counts):
        table[sequence, :count] = order[at : at + count]
        rows.append((table[sequence, :count, None] * page + torch.arange(page)).flatten()[: lengths[sequence]].cuda())
        at += count
    return table.int().cuda(), rows, len(order)


def drawn_cache(kind, rows, shape):
    """Elements of the kind in all rows of keys, and NaN in all others (int8 has none)."""
    values = torch.randn(shape, device="cuda")
    if kind == "int8":
        return (values * 30).round().clamp(-127, 127).to(torch.int8)
    unused = torch.ones(shape[0] * shape[1], dtype=torch.bool, device="cuda")
    for used in rows:
        unused[used] = False
    values = values.to(torch.float8_e4m3fn if kind == "fp8" else torch.bfloat16)
    (values.view(torch.uint8) if kind == "fp8" else values).flatten(0, 1)[unused] = 127 if kind == "fp8" else torch.nan
    return values


@pytest.mark.parametrize("seed", SEEDS)
def test_random_lists(seed):
    draw = random.Random(seed)
    torch.manual_seed(seed)
    kind = draw.choice(["bf16", "bf16", "fp8", "fp8", "int8", "latent", "latent", "latent fp8", "latent fp8", "latent int8"])
    latent, elements = kind.startswith("latent"), kind.removeprefix("latent ")
    page, splits = draw.choice([1, 3, 7, 16, 64, 192]), draw.choice([0, 0, 0, 0, 3, 16])
    lengths = drawn_lengths(draw, draw.choice([1, 2, 3, 5, 8, 16, 20, 33, 64, 100, 128, 130]))
    queries = draw.choice([1, 1, 1, 2, 4])
    if latent:
        heads, heads_kv, dim = draw.choice([8, 16, 40, 100, 128]), 1, LATENT_DIM
    else:
        heads_kv = draw.choice([1, 2, 8])
        heads, dim = heads_kv * draw.choice([1, 4, 8, 16, 24]), draw.choice([64, 128, 128, 256])
    table, rows, pages = drawn_table(lengths, page)
    caches = [drawn_cache(elements, rows, (pages, page, heads_kv, dim)) for _ in range(1 if latent else 2)]
    q = torch.randn(len(lengths), queries, heads, dim, device="cuda", dtype=torch.bfloat16)
    scales = torch.rand(heads_kv, device="cuda") / (30 if elements == "int8" else 1) + 0.01 if elements in ("fp8", "int8") else None
    common = {"seqlens_k": torch.tensor(lengths, dtype=torch.int32, device="cuda"), "block_table": table, "num_splits": splits, "causal": True}

    def go():
        if latent:
            return tilesmith.mla_decode(q, caches[0][:, :, 0], scale=LATENT_SCALE, **common, **({} if scales is None else {"k_scale": scales}))[0]
        narrow = {} if scales is None else {"k_scale": scales, "v_scale": scales}
        return tilesmith.attention(q, *caches, layout="bshd", **common, **narrow)

    out = go()
    told = f"seed {seed}: {kind}, {heads}/{heads_kv} of {dim}, {queries} queries, pages of {page}, by {tilesmith.last_plan().kernel}"
    for _ in range(2):
        assert torch.equal(go().view(torch.int16), out.view(torch.int16)), f"other bits, {told}"
    factor = 1 if scales is None else scales.double()[:, None, None]
    for sequence, count in enumerate(lengths):
        got = out[sequence].double().transpose(0, 1).reshape(heads_kv, -1, queries, out.shape[-1])
        if count == 0:
            assert not got.any(), f"sequence {sequence} has no keys, {told}"
            continue
        k, *v = (cache.flatten(0, 1)[rows[sequence]].float().double().transpose(0, 1) * factor for cache in caches)
        v = v[0] if v else k[..., :LATENT]
        logits = q[sequence].double().transpose(0, 1).reshape(heads_kv, -1, queries, dim) @ k.transpose(1, 2)[:, None]
        seen = torch.arange(count, device="cuda") <= torch.arange(queries, device="cuda")[:, None] + count - queries
        weights = (logits * (LATENT_SCALE if latent else dim**-0.5)).masked_fill(~seen, -torch.inf).softmax(-1).nan_to_num()
        wanted = weights @ v[:, None]
        apart = ((got - wanted).square().mean() / wanted.square().mean()).sqrt().item()
        assert apart < 8e-3, f"{apart:.1e} from float64's at sequence {sequence} of {count} keys, {told}"
