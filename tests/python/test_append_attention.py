"""attention on a cache that the call appends to: the same bits as append_kv and then attention, and what float64 says of all keys
recomputed, over random caches, types, scales, masks, heads, rotary forms and lengths."""

import numpy as np
import pytest
import reference
from conftest import TOLERANCE

import tilesmith

LARGEST = {"float8_e4m3fn": 448, "int8": 127}


def int32(values):
    return np.asarray(values, np.int32)


def turned(x, positions, cos, sin, style):
    """RoPE in float64 of (heads, rows, dim)."""
    x = np.array(x, np.float64)
    half = cos.shape[1]
    low, high = (slice(0, half), slice(half, 2 * half)) if style == "half" else (slice(0, 2 * half, 2), slice(1, 2 * half, 2))
    c, s = cos[positions].astype(np.float64), sin[positions].astype(np.float64)
    a, b = x[..., low].copy(), x[..., high].copy()
    x[..., low], x[..., high] = a * c - b * s, b * c + a * s
    return x


class Step:
    """A step of serving on random sequences: `before` keys each in pages of any size, `counts` new tokens each."""

    def __init__(self, seed, cache="same", dtype=np.float32, before=None, counts=None, rotary=None, ragged=None, places=None, rows=None):
        rng = self.rng = np.random.default_rng(seed)
        batch = int(rng.integers(1, 6)) if before is None else len(before)
        self.heads, self.group, self.dim = int(rng.choice([1, 2, 3])), int(rng.choice([1, 2, 5])), int(rng.choice([32, 64]))
        self.dim_v = int(rng.choice([self.dim, 32]))
        self.before = [int(x) for x in rng.integers(0, 90, batch)] if before is None else before
        self.ragged = bool(rng.integers(2)) if ragged is None else ragged
        most = int(rng.choice([1, 1, 2, 7])) if rows is None else rows
        self.counts = counts or [int(x) for x in rng.integers(0, most + 1, batch)] if self.ragged else [most] * batch
        self.after = [a + n for a, n in zip(self.before, self.counts)]
        self.style = str(rng.choice(["half", "interleaved"])) if rotary is None else rotary
        self.rotary_dim = int(rng.choice([0, 2, self.dim // 2, self.dim]))
        self.dtype, self.cache = dtype, cache
        self.layout, self.kv_layout = str(rng.choice(["bhsd", "bshd"])), str(rng.choice(["nhd", "hnd"]))
        self.places = places or str(rng.choice(["table", "list", "dense", "rows"]))
        self.lay()
        angles = rng.uniform(-3, 3, (300, self.rotary_dim // 2))
        self.cos, self.sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
        self.own = [rng.uniform(-1, 1, (self.heads, n, self.dim + self.dim_v)).astype(np.float32) for n in self.before]
        self.new = [rng.uniform(-1, 1, (self.heads, n, self.dim + self.dim_v)).astype(dtype) for n in self.counts]
        self.q = [rng.uniform(-1, 1, (self.heads * self.group, n, self.dim)).astype(dtype) for n in self.counts]
        self.positions = None
        if self.rotary_dim and rng.integers(2):
            self.positions = [rng.integers(0, 300, n) for n in self.counts]
        self.fill()

    def lay(self):
        """Which page, and which of its rows, each key of each sequence has."""
        rng, batch = self.rng, len(self.before)
        longest = max([1, *self.after])
        dense = self.places in ("dense", "rows")
        self.page = longest + int(rng.integers(3)) if dense else int(rng.choice([1, 3, 16]))
        counts = [1 if dense else -(-n // self.page) for n in self.after]
        self.pages = sum(counts) + 2
        order = np.arange(batch) if self.places == "dense" else rng.permutation(self.pages)[: sum(counts)]
        self.of = [order[sum(counts[:b]) : sum(counts[: b + 1])] for b in range(batch)]
        width = max([1, *counts]) + 1
        self.table = np.full((batch, width), -1, np.int32)
        for b, pages in enumerate(self.of):
            self.table[b, : len(pages)] = pages

    def places_of(self, b, rows):
        """Of keys of a sequence: page, and row of it."""
        return self.of[b][[r // self.page for r in rows]] if len(rows) else int32([]), [r % self.page for r in rows]

    def fill(self):
        """Caches with the keys from before in them and NaN, or no number, elsewhere; scales of 8 bits."""
        rng, eight = self.rng, self.cache != "same"
        elements = np.dtype(self.dtype) if not eight else np.dtype(np.int8) if self.cache == "int8" else np.dtype(pytest.importorskip("ml_dtypes").float8_e4m3fn)
        self.scales = str(rng.choice(["one", "head", "sequence and head", "page", "row", "chosen"])) if eight else ""
        shape = (self.pages, self.heads, self.page)
        self.k_scale, self.v_scale = None, None
        scales = []
        for _ in range(2 if eight else 0):
            sizes = {"one": (), "head": (self.heads,), "sequence and head": (len(self.before), self.heads), "page": (self.pages, self.heads, 1)}
            # Some of the new values are beyond the largest, and become it.
            scales.append(np.asarray(rng.uniform(0.7, 1.3, sizes.get(self.scales, shape)), np.float32) / LARGEST[self.cache])
        self.caches = []
        for at, dim in enumerate((self.dim, self.dim_v)):
            whole = np.full((*shape, dim), 77 if eight and self.cache == "int8" else np.nan, np.float32).astype(elements)
            for b, own in enumerate(self.own):
                pages, rows = self.places_of(b, range(self.before[b]))
                values = own[..., :dim] if at == 0 else own[..., self.dim :]
                for t, (page, row) in enumerate(zip(pages, rows)):
                    x = values[:, t]
                    if eight:
                        x = x / self.unit(scales[at], b, page, row)[:, None]
                        x = np.rint(np.clip(x, -128, 127)) if self.cache == "int8" else np.clip(x, -448, 448)
                    whole[page, :, row] = x.astype(elements)
            self.caches.append(whole)
        if eight:
            self.k_scale, self.v_scale = scales

    def unit(self, scale, b, page, row):
        """The scales of a key's heads."""
        if self.scales in ("row", "chosen"):
            return scale[page, :, row]
        of = {"one": scale, "head": scale, "sequence and head": scale[b] if scale.ndim == 2 else scale}
        return np.broadcast_to(of[self.scales] if self.scales in of else scale[page, :, 0], (self.heads,))

    def laid(self, caches):
        """Copies as `kv_layout` has them."""
        return [np.ascontiguousarray(x.swapaxes(1, 2)) if self.kv_layout == "nhd" else x.copy() for x in caches]

    def rows_first(self, given):
        """And back: (pages, heads, rows, ...)."""
        return given.swapaxes(1, 2) if self.kv_layout == "nhd" else given

    def tokens(self, each):
        """A tensor of the call of each sequence's (heads, tokens, dim)."""
        x = np.concatenate(each, 1) if self.ragged else np.stack(each)
        return np.ascontiguousarray(x.swapaxes(-2, -3)) if self.layout == "bshd" else x

    def arguments(self):
        """(q, k_new, v_new, what says where, rotary, scales) of both ways to call."""
        offsets = int32([0, *np.cumsum(self.counts)])
        where = {"layout": self.layout, "kv_layout": self.kv_layout}
        if self.places == "table":
            where["block_table"] = self.table
        elif self.places == "list":
            where.update(page_indices=int32(np.concatenate([*self.of, [-1]])), page_indptr=int32([0, *np.cumsum([len(x) for x in self.of])]))
        elif self.places == "rows":
            where["block_table"] = np.ascontiguousarray(self.table[:, :1])
        rotary = {"rotary_cos": self.cos, "rotary_sin": self.sin, "rotary_style": self.style} if self.rotary_dim else {}
        if self.positions is not None:
            rotary["positions"] = np.concatenate(self.positions).astype(np.int64)
        new = [self.tokens([x[..., :self.dim] for x in self.new]), self.tokens([x[..., self.dim :] for x in self.new])]
        ragged = {"cu_seqlens_q": offsets} if self.ragged else {}
        return self.tokens(self.q), new, where, rotary, ragged

    def scale_arguments(self):
        swap = self.kv_layout == "nhd" and self.scales in ("page", "row", "chosen")
        laid = [None if x is None else np.ascontiguousarray(x.swapaxes(1, 2)) if swap else x.copy() for x in (self.k_scale, self.v_scale)]
        chosen = "row_" if self.scales == "chosen" else ""
        return {} if laid[0] is None else {f"k_{chosen}scale": laid[0], f"v_{chosen}scale": laid[1]}

    def in_one(self, caches, scales, **options):
        q, new, where, rotary, ragged = self.arguments()
        return tilesmith.attention(q, *caches, k_new=new[0], v_new=new[1], seqlens_k=int32(self.after), return_lse=True, **where, **rotary, **ragged,
                                   **scales, **options)  # fmt: skip

    def in_two(self, caches, scales, **options):
        q, new, where, rotary, ragged = self.arguments()
        turned_q = tilesmith.append_kv(*new, *caches, seqlens_k=int32(self.before), q=q, cu_seqlens=ragged.get("cu_seqlens_q"), **where, **rotary, **scales)
        if "page_indptr" in where:
            options["max_seqlen_k"] = max([0, *self.after])
        read = {name.replace("row_", ""): x for name, x in scales.items()}
        return tilesmith.attention(turned_q, *caches, seqlens_k=int32(self.after), return_lse=True, **where, **ragged, **read, **options)

    def recomputed(self, caches, scales, **options):
        """float64, of each sequence's keys: those from before as they lie, new ones as they were given. Of 8 bits, which round them, as
        they lie."""
        outputs = []
        for b, count in enumerate(self.counts):
            if count == 0:
                continue
            positions = np.arange(self.before[b], self.after[b]) if self.positions is None else self.positions[b]
            q = turned(self.q[b], positions, self.cos, self.sin, self.style) if self.rotary_dim else self.q[b].astype(np.float64)
            pages, rows = self.places_of(b, range(self.after[b]))
            kv = []
            for at, dim in enumerate((self.dim, self.dim_v)):
                lie = np.stack([self.rows_first(caches[at])[page, :, row] for page, row in zip(pages, rows)], 1).astype(np.float64)
                if self.cache != "same":
                    name = ("k_" if at == 0 else "v_") + ("row_" if self.scales == "chosen" else "") + "scale"
                    scale = scales[name]
                    scale = self.rows_first(scale) if scale.ndim == 3 else scale
                    lie *= np.stack([self.unit(scale, b, page, row) for page, row in zip(pages, rows)], 1)[..., None]
                else:
                    new = self.new[b][..., :dim] if at == 0 else self.new[b][..., self.dim :]
                    new = turned(new, positions, self.cos, self.sin, self.style) if self.rotary_dim and at == 0 else new
                    lie[:, self.before[b] :] = new
                kv.append(lie)
            outputs.append((b, reference.attention(q[None], kv[0][None], kv[1][None], **options)))
        return outputs

    def of_sequence(self, result, b):
        """(heads, rows, dim) of the output, and (heads, rows) of the log-sum-exp."""
        o, lse = result
        first = sum(self.counts[:b])
        rows = slice(first, first + self.counts[b])
        if self.ragged:
            return (o[rows].swapaxes(0, 1) if self.layout == "bshd" else o[:, rows]), lse[:, rows]
        return (o[b].swapaxes(0, 1) if self.layout == "bshd" else o[b]), lse[b]


def same_bits(one, other):
    for left, right in zip(one, other):
        np.testing.assert_array_equal(left.view(np.uint8) if left.dtype.itemsize == 1 else left, right.view(np.uint8) if right.dtype.itemsize == 1 else right)


def check(step, **options):
    one, two = step.laid(step.caches), step.laid(step.caches)
    scales_one, scales_two = step.scale_arguments(), step.scale_arguments()
    together = step.in_one(one, scales_one, **options)
    same_bits(together, step.in_two(two, scales_two, **options))
    same_bits(one, two)
    same_bits(scales_one.values(), scales_two.values())
    mask = {"mask": "bottom_right" if options.pop("causal", False) else "none", **options}
    for name in ("num_splits", "batch_invariant", "threads"):
        mask.pop(name, None)
    tolerance = TOLERANCE[np.dtype(step.dtype).name]
    for b, (o, lse) in step.recomputed(one, scales_one, **mask):
        got = step.of_sequence(together, b)
        np.testing.assert_allclose(got[0].astype(np.float64), o[0], rtol=0, atol=tolerance)
        np.testing.assert_allclose(got[1].astype(np.float64), lse[0], rtol=tolerance, atol=tolerance)
    return together


OPTIONS = [{}, {"causal": True}, {"causal": True, "window": (11, 0)}, {"softcap": 5.0}, {"causal": True, "num_splits": 3}, {"batch_invariant": True}]


@pytest.mark.parametrize("seed", range(24))
def test_appending_within_attention_equals_recomputing(seed):
    check(Step(seed), **OPTIONS[seed % len(OPTIONS)])


@pytest.mark.parametrize("seed", range(12))
def test_half_precision(seed):
    check(Step(100 + seed, dtype=np.float16), **OPTIONS[seed % len(OPTIONS)])


@pytest.mark.parametrize("seed", range(16))
@pytest.mark.parametrize("cache", ["float8_e4m3fn", "int8"])
def test_caches_of_8_bits(seed, cache):
    check(Step(200 + seed, cache, [np.float32, np.float16][seed % 2]), **OPTIONS[seed % len(OPTIONS)])


@pytest.mark.compiles
@pytest.mark.parametrize("seed", range(4))
def test_kernels_made_for_the_problem(seed):
    check(Step(300 + seed, dtype=np.float16, rows=[1, 1, 9, 150][seed], ragged=seed == 3), causal=True)


@pytest.mark.parametrize("places", ["table", "list", "dense", "rows"])
@pytest.mark.parametrize("ragged", [False, True])
def test_lengths_at_the_edge(places, ragged):
    """Empty sequences, first tokens, pages that are just full, sequences without a new token."""
    for before, counts in (([0, 0], [1, 1]), ([16, 15, 47], [1, 1, 1]), ([0, 5, 0], [0, 0, 0]), ([0, 31, 2], [0, 1, 3])):
        if not ragged and len(set(counts)) > 1:
            continue
        check(Step(7, before=before, counts=counts if ragged else None, rows=counts[0], ragged=ragged, places=places), causal=True)


def test_no_sequences_and_no_tokens():
    cache = np.full((3, 4, 2, 32), np.nan, np.float32)
    for batch, rows in ((0, 1), (2, 0)):
        q, new = np.zeros((batch, 4, rows, 32), np.float32), np.zeros((batch, 2, rows, 32), np.float32)
        k, v = cache.copy(), cache.copy()
        o = tilesmith.attention(q, k, v, k_new=new, v_new=new, seqlens_k=int32([0] * batch), block_table=np.zeros((batch, 2), np.int32))
        assert o.shape == q.shape and np.isnan(k).all() and np.isnan(v).all()


def test_a_sequence_of_no_keys_is_padding():
    """An engine's batch of fixed size: what pads it writes nothing, sees nothing, and changes no bit of the others."""
    step = Step(5, before=[20, 3], ragged=False, rows=1, places="table")
    wanted_caches = step.laid(step.caches)
    wanted = step.in_one(wanted_caches, {}, causal=True)
    q, new, where, rotary, _ = step.arguments()
    padded = [np.concatenate([x, np.full_like(x[:1], np.nan)]) for x in (q, *new)]
    where["block_table"] = np.concatenate([step.table, np.full_like(step.table[:1], -9)])
    if step.positions is not None:
        rotary["positions"] = np.append(rotary["positions"], -1)
    caches = step.laid(step.caches)
    o, lse = tilesmith.attention(padded[0], *caches, k_new=padded[1], v_new=padded[2], seqlens_k=int32([*step.after, 0]), causal=True, return_lse=True,
                                 **where, **rotary)  # fmt: skip
    same_bits((o[:2], lse[:2]), wanted)
    same_bits(caches, wanted_caches)
    assert not o[2].any() and np.isneginf(lse[2]).all()


@pytest.mark.parametrize("seed", range(6))
def test_a_sequence_has_its_own_bits(seed):
    step = Step(400 + seed, ragged=False, places="table")
    together = step.in_one(step.laid(step.caches), {}, causal=True, batch_invariant=True)
    for b in range(len(step.before)):
        q, new, where, rotary, _ = step.arguments()
        where["block_table"] = np.ascontiguousarray(step.table[b : b + 1])
        if step.positions is not None:
            rotary["positions"] = step.positions[b].astype(np.int64)
        alone = tilesmith.attention(q[b : b + 1], *step.laid(step.caches), k_new=new[0][b : b + 1], v_new=new[1][b : b + 1], seqlens_k=int32([step.after[b]]),
                                    causal=True, batch_invariant=True, return_lse=True, threads=1, **where, **rotary)  # fmt: skip
        same_bits(alone, (together[0][b : b + 1], together[1][b : b + 1]))


def test_slots(rng):
    """An engine's own mapping says where tokens go; a negative slot is nowhere."""
    caches = [np.zeros((6, 4, 2, 32), np.float32) for _ in range(2)]
    q, new = rng.uniform(-1, 1, (3, 4, 1, 32)).astype(np.float32), rng.uniform(-1, 1, (3, 2, 1, 32)).astype(np.float32)
    table, slots = int32([[5], [2], [-1]]), np.asarray([5 * 4 + 0, -1, -1], np.int64)
    o = tilesmith.attention(q, *caches, k_new=new, v_new=new, seqlens_k=int32([1, 1, 0]), block_table=table, slots=slots)
    np.testing.assert_array_equal(caches[0][5, 0], new[0, :, 0])
    assert not caches[0][2].any() and not o[1:].any()
    np.testing.assert_allclose(o[0], np.repeat(new[0], 2, 0), atol=1e-6)


def test_vectorized_pages(rng):
    """The same bits as of rows."""
    page, dim, before, rows = 8, 32, 13, 2
    q, new = rng.uniform(-1, 1, (1, 4, rows, dim)).astype(np.float16), rng.uniform(-1, 1, (1, 2, rows, dim)).astype(np.float16)
    own = rng.uniform(-1, 1, (2, 1, 2, before, dim)).astype(np.float16)
    table, results = int32([[1, 0]]), []
    cos, sin = rng.uniform(-1, 1, (2, 20, dim // 2)).astype(np.float32)
    for kv_layout in ("hnd", "vectorized"):
        shapes = [(2, 2, page, dim)] * 2 if kv_layout == "hnd" else [(2, 2, dim // 8, page, 8), (2, 2, page // 8, dim, 8)]
        caches = [np.zeros(shape, np.float16) for shape in shapes]
        given = {"block_table": table, "kv_layout": kv_layout}
        tilesmith.append_kv(*own, *caches, seqlens_k=int32([0]), **given)
        results.append(tilesmith.attention(q, *caches, k_new=new, v_new=new, seqlens_k=int32([before + rows]), causal=True, rotary_cos=cos, rotary_sin=sin,
                                           rotary_style="interleaved", return_lse=True, **given))  # fmt: skip
    same_bits(*results)


def refused(step, match, error=ValueError, caches=None, **changed):
    """The call with something else: refused, and nothing is written."""
    q, new, where, rotary, ragged = step.arguments()
    caches = step.laid(step.caches) if caches is None else caches
    kept = [x.copy() for x in caches]
    given = {"k_new": new[0], "v_new": new[1], "seqlens_k": int32(step.after), "causal": True, **where, **rotary, **ragged, **changed}
    with pytest.raises(error, match=match):
        tilesmith.attention(q, *caches, **given)
    same_bits(caches, kept)


def test_what_cannot_be(rng):
    step = Step(3, before=[20, 40], ragged=False, rows=2, places="table")
    _, new, _, _, _ = step.arguments()
    good = step.in_one(step.laid(step.caches), {}, causal=True)
    # Hostile numbers.
    for wrong in (-1, step.table.shape[1] * step.page + 1, np.iinfo(np.int32).max, np.iinfo(np.int32).min):
        refused(step, str(wrong), seqlens_k=int32([wrong, 42]))
    refused(step, "sequence 0 has 1 keys, 2 new ones included", seqlens_k=int32([1, 42]))
    for wrong in (-1, step.pages, np.iinfo(np.int32).max, np.iinfo(np.int32).min):
        table = step.table.copy()
        table[1, 41 // step.page] = wrong
        refused(step, str(wrong), block_table=table)
    for wrong in (step.pages * step.page, 1 << 62):
        refused(step, "goes to page", slots=np.asarray([0, 1, 2, wrong], np.int64))
    rotary = {"rotary_cos": rng.uniform(-1, 1, (50, 4)).astype(np.float32), "rotary_sin": rng.uniform(-1, 1, (50, 4)).astype(np.float32)}
    for wrong in (-1, 50, 1 << 40):
        refused(step, f"has the position {wrong}", positions=np.asarray([0, 1, wrong, 3], np.int64), **rotary)
    refused(step, "has the position 4[01]", positions=None, rotary_cos=rotary["rotary_cos"][:40], rotary_sin=rotary["rotary_sin"][:40])
    # What is not given, or does not fit.
    refused(step, "v_new is None", TypeError, v_new=None)
    refused(step, "k_new is None, and other", k_new=None, v_new=None, slots=np.zeros(4, np.int64))
    refused(step, "without seqlens_k", seqlens_k=None, block_table=None)
    refused(step, "k_new has the shape", k_new=np.ascontiguousarray(new[0][:1]))
    refused(step, "v_new is fp16", TypeError, v_new=new[1].astype(np.float16))
    refused(step, "slots has the type int32", TypeError, slots=np.zeros(4, np.int32))
    refused(step, "positions has the shape", positions=np.zeros(3, np.int64), **rotary)
    refused(step, "one of rotary_cos and rotary_sin", rotary_cos=rotary["rotary_cos"], rotary_sin=None)
    refused(step, "rotary_style is 'neox'", rotary_style="neox")
    refused(step, "k_row_scale", k_row_scale=np.ones((step.pages, step.page, step.heads), np.float32))
    caches = step.laid(step.caches)
    caches[1].flags.writeable = False
    refused(step, "v is read-only", caches=caches)
    eight = Step(3, "int8", before=[20], ragged=False, places="table")
    scales = np.ones((eight.pages, eight.heads, eight.page) if eight.kv_layout == "hnd" else (eight.pages, eight.page, eight.heads), np.float32)
    refused(eight, "k_scale and k_row_scale are given", k_scale=scales, k_row_scale=scales)
    refused(eight, "k_row_scale has the type fp32 and the shape", TypeError, k_row_scale=scales[:1], v_row_scale=scales)
    same_bits(step.in_one(step.laid(step.caches), {}, causal=True), good)


def test_lists_that_end_too_early():
    step = Step(3, before=[20, 40], ragged=False, rows=2, places="list")
    q, new, where, rotary, _ = step.arguments()
    refused(step, "an entry for each page", page_indices=where["page_indices"][:1].copy())
    refused(step, "page_indptr|offsets", page_indptr=int32([-3, 0, 1]))


def test_the_plan_says_what_it_did():
    step = Step(3, before=[20, 40], ragged=False, rows=1, places="table")
    caches = step.laid(step.caches)
    step.in_two(caches, {})
    attends = tilesmith.last_plan()
    step.in_one(caches, {})
    plan = tilesmith.last_plan()
    assert [each.role for each in plan.steps] == ["append", *(each.role for each in attends.steps)]
    assert plan.kernel == attends.kernel and "--append" in plan.problem and "--append" not in attends.problem
    q, new, where, rotary, _ = step.arguments()
    named = tilesmith.attention(q, *caches, k_new=new[0], v_new=new[1], seqlens_k=int32(step.after), kernel=plan.kernel, **where, **rotary)
    assert named.shape[-1] == step.dim_v
    kept = [x.copy() for x in caches]
    found = tilesmith.candidates(tilesmith.attention, q, *caches, k_new=new[0] + 1, v_new=new[1], seqlens_k=int32(step.after), **where, **rotary)
    assert found == tilesmith.candidates(tilesmith.attention, q, *caches, seqlens_k=int32(step.after), **where)
    same_bits(caches, kept)


def test_dropout_has_its_seed():
    step = Step(11, before=[60], ragged=False, rows=2, places="dense")
    results = [step.in_one(step.laid(step.caches), {}, dropout_p=0.4, seed=seed) for seed in (3, 3, 4)]
    same_bits(results[0], results[1])
    assert not np.array_equal(results[0][0], results[2][0])
    same_bits(results[0], step.in_two(step.laid(step.caches), {}, dropout_p=0.4, seed=3))
    assert step.in_one(step.laid(step.caches), {}, dropout_p=0.4)[0].shape == results[0][0].shape


# ------------------------------------------------------------------------------------------------------------- torch


def tensors_of(torch, given):
    return {name: torch.from_numpy(x) if isinstance(x, np.ndarray) else x for name, x in given.items()}


@pytest.mark.parametrize("seed", range(6))
def test_torch_tensors(seed):
    torch = pytest.importorskip("torch")
    step = Step(500 + seed, ["same", "int8"][seed % 2])
    caches, scales = step.laid(step.caches), step.scale_arguments()
    wanted = step.in_one(caches, scales, causal=True)
    q, new, where, rotary, ragged = step.arguments()
    pools, own_scales = [torch.from_numpy(x) for x in step.laid(step.caches)], tensors_of(torch, step.scale_arguments())
    out = torch.empty(wanted[0].shape, dtype=torch.from_numpy(q).dtype)
    given = tensors_of(torch, {"k_new": new[0], "v_new": new[1], "seqlens_k": int32(step.after), **where, **rotary, **ragged})
    got = tilesmith.attention(torch.from_numpy(q), *pools, **given, **own_scales, causal=True, return_lse=True, out=out, threads=1 + seed % 2)
    assert got[0] is out
    if seed % 2 == 1:  # as many threads cut keys alike
        same_bits([x.numpy() for x in got], wanted)
    same_bits([x.numpy() for x in pools], caches)
    same_bits([x.numpy() for x in own_scales.values()], scales.values())


def test_operators():
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    lengths, table = torch.tensor([9, 4], dtype=torch.int32), torch.tensor([[1, 2, 0], [3, 4, 0]], dtype=torch.int32)
    cos, sin, q, new = torch.rand(20, 8), torch.rand(20, 8), torch.rand(2, 4, 1, 16), torch.rand(2, 2, 1, 16)

    def step(q, new, pool, lengths):
        k, v = pool[:, 0], pool[:, 1]  # views of one pool
        return tilesmith.attention(q * 2, k, v, k_new=new, v_new=new + 1, seqlens_k=lengths, block_table=table, causal=True, rotary_cos=cos, rotary_sin=sin,
                                   return_lse=True, threads=1)  # fmt: skip

    pools = torch.rand(1, 5, 2, 4, 2, 16).repeat(2, 1, 1, 1, 1, 1)
    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    for lengths in (lengths, lengths + 1):
        assert all(map(torch.equal, step(q, new, pools[0], lengths), compiled(q, new, pools[1], lengths)))
        assert torch.equal(pools[0], pools[1])
    operators = torch.ops.tilesmith
    k, v = pools[0, :, 0].clone(), pools[0, :, 1].clone()

    def arguments(k, v, k_row_scale=None, v_row_scale=None, dropout_p=0.0):
        return (q, k, v, "bhsd", True, "none", -1, -1, None, 0.0, *(None,) * 6, dropout_p, 3, None, None, None, None, True, 0, False, table, lengths, None, None, 0,
                False, "nhd", None, new, new, cos, sin, None, None, k_row_scale, v_row_scale, "half")  # fmt: skip

    torch.library.opcheck(operators.append_attention, arguments(k, v))
    torch.library.opcheck(operators.append_attention_out, arguments(k, v), {"out": torch.empty_like(q)})
    narrow = [torch.zeros(5, 4, 2, 16, dtype=torch.int8) for _ in range(2)]
    torch.library.opcheck(operators.append_attention, arguments(*narrow, torch.ones(5, 4, 2), torch.ones(5, 4, 2)))
    with pytest.raises(tilesmith.Unsupported):
        tilesmith.attention(q.clone().requires_grad_(), k, v, k_new=new, v_new=new, seqlens_k=lengths, block_table=table)
    with pytest.raises(tilesmith.Unsupported):
        torch.compile(step, backend="eager")(q.clone().requires_grad_(), new, pools[0], lengths)
