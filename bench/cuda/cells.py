"""What is checked and what is timed: problems paired with configurations. Needs no PyTorch until a problem is made."""

import dataclasses

import hopper
import portable


def _problem(**facts):
    import problem

    return problem.Problem(**facts)


EVERY = dict(softcap=20.0, bias=True, alibi=True, sink=True, dropout=0.3)
RAGGED = ((100, 100), (1, 300), (0, 50), (513, 257), (64, 0), (130, 1000))

# One trait or awkward size each. `tile` is the algorithm's part of the configuration.
HOPPER_CASES = [
    ("plain", {}, {}),
    ("ragged", dict(seqlen_q=333, seqlen_k=457), {}),
    ("causal", dict(seqlen_q=1000, seqlen_k=1000, window=(-1, 0)), {}),
    (
        "causal, late wait",
        dict(seqlen_q=1000, seqlen_k=1100, window=(-1, 0), heads_q=40, heads_kv=40),
        dict(late_wait=True),
    ),
    (
        "window ahead, three warpgroups",
        dict(seqlen_q=600, seqlen_k=600, window=(-1, 5), heads_q=60, heads_kv=60, head_dim_qk=64, head_dim_v=64),
        dict(warpgroups=3, ping_pong=True),
    ),
    (
        "causal ping-pong static",
        dict(seqlen_q=1000, seqlen_k=1000, window=(-1, 0)),
        dict(ping_pong=True, dynamic=False),
    ),
    ("causal top-left", dict(seqlen_q=300, seqlen_k=700, window=(-1, 0), bottom_right=False), {}),
    ("causal bottom-right, short keys", dict(seqlen_q=700, seqlen_k=300, window=(-1, 0)), {}),
    (
        "causal, early store",
        dict(seqlen_q=1000, seqlen_k=1000, window=(-1, 0), heads_q=40, heads_kv=40),
        dict(late_store=False),
    ),
    ("window", dict(seqlen_q=900, seqlen_k=1100, window=(200, 37)), {}),
    ("window ping-pong", dict(seqlen_q=900, seqlen_k=1100, window=(130, 0)), dict(ping_pong=True)),
    ("left window alone", dict(seqlen_q=600, seqlen_k=500, window=(64, -1)), {}),
    (
        "two query buffers",
        dict(seqlen_q=1000, seqlen_k=1000, window=(-1, 0), heads_q=40, heads_kv=40),
        dict(query_buffers=2),
    ),
    ("grouped heads", dict(heads_q=8, heads_kv=2, seqlen_q=500, seqlen_k=500, window=(-1, 0)), {}),
    ("packed heads", dict(heads_q=8, heads_kv=2, seqlen_q=130, seqlen_k=500, window=(-1, 0)), dict(packed_heads=4)),
    ("packed heads bshd", dict(heads_q=16, heads_kv=2, seqlen_q=33, seqlen_k=700, layout="bshd"), dict(packed_heads=8)),
    ("bshd", dict(batch=3, layout="bshd", seqlen_q=300, seqlen_k=300), {}),
    ("fp16", dict(bf16=False, seqlen_q=400, seqlen_k=400, window=(-1, 0)), {}),
    ("softcap", dict(softcap=20.0, scale=0.5), {}),
    ("softcap causal", dict(softcap=5.0, scale=0.5, window=(-1, 0)), {}),
    ("sink", dict(sink=True, window=(100, 0), seqlen_q=500, seqlen_k=500), {}),
    ("sink, rows that see nothing", dict(sink=True, window=(-1, 0), seqlen_q=500, seqlen_k=200), {}),
    ("group mode", dict(lengths=RAGGED), {}),
    ("group mode causal", dict(lengths=RAGGED, window=(-1, 0), layout="bshd"), {}),
    (
        "group mode packed",
        dict(lengths=((100, 100), (7, 300), (77, 200)), window=(-1, 0), heads_q=8, heads_kv=4),
        dict(packed_heads=2),
    ),
    ("tiny", dict(batch=1, heads_q=1, heads_kv=1, seqlen_q=1, seqlen_k=1), {}),
    (
        "warpgroups without rows",
        dict(seqlen_q=200, seqlen_k=1000, heads_q=40, heads_kv=40),
        dict(warpgroups=3, tile_n=64),
    ),
    (
        "warpgroups without rows, ping-pong",
        dict(seqlen_q=450, seqlen_k=450, heads_q=80, heads_kv=80, head_dim_qk=64, head_dim_v=64, window=(-1, 0)),
        dict(warpgroups=3, ping_pong=True),
    ),
    (
        "wide window, blocks passed on both sides",
        dict(seqlen_q=1500, seqlen_k=1500, heads_q=20, heads_kv=20, window=(300, 0)),
        dict(tile_n=64),
    ),
    ("negative scale", dict(scale=-0.1, window=(-1, 0)), {}),
    (
        "traits not asked for",
        dict(window=(-1, 0), seqlen_q=300, seqlen_k=200),
        dict(bias=True, bias_stages=1, alibi=True, sink=True, dropout=True, tile_n=64),
    ),
    ("scale next to zero", dict(scale=1e-42, window=(-1, 0)), {}),
    ("bias", dict(bias=True, seqlen_q=300, seqlen_k=500), dict(bias_stages=1)),
    ("bias by elements", dict(bias=True, bias_odd=True, seqlen_q=300, seqlen_k=333, window=(-1, 0)), {}),
    (
        "bias broadcast, causal",
        dict(bias=True, bias_broadcast=(0, 2), seqlen_q=700, seqlen_k=700, window=(-1, 0), heads_q=40, heads_kv=40),
        dict(bias_stages=2, tile_n=64),
    ),
    (
        "bias, soft cap, window, head dim 64",
        dict(bias=True, softcap=9.0, seqlen_q=900, seqlen_k=1001, window=(300, 40), head_dim_qk=64, head_dim_v=64),
        dict(bias_stages=1, warpgroups=3),
    ),
    (
        "bias, packed heads, group mode",
        dict(bias=True, lengths=RAGGED, window=(-1, 0), heads_q=8, heads_kv=2),
        dict(bias_stages=1, packed_heads=4),
    ),
    (
        "bias, head dim 256",
        dict(bias=True, seqlen_q=300, seqlen_k=500, head_dim_qk=256, head_dim_v=256),
        dict(bias_stages=1, tile_n=64),
    ),
    ("softcap, a cap too large for rows without a maximum", dict(softcap=80.0, scale=3.0, window=(-1, 0)), {}),
    ("softcap, large cap, negative scale", dict(softcap=200.0, scale=-2.0, seqlen_q=300, seqlen_k=400), {}),
    ("softcap, logits near zero", dict(softcap=50.0, window=(-1, 0), seqlen_q=700, seqlen_k=900), dict(late_wait=True)),
    ("softcap, negative scale, near", dict(softcap=30.0, scale=-0.05, window=(90, 30), seqlen_q=700, seqlen_k=900), {}),
    (
        "softcap, hidden keys that are NaN, near",
        dict(softcap=30.0, hidden_nan=True, seqlen_q=300, seqlen_k=400, window=(-1, 0), bottom_right=False),
        {},
    ),
    (
        "softcap, sink, rows that see nothing",
        dict(softcap=30.0, sink=True, window=(-1, 0), seqlen_q=500, seqlen_k=200),
        {},
    ),
    ("softcap fp16", dict(softcap=30.0, bf16=False, window=(-1, 0)), {}),
    ("softcap, group mode", dict(softcap=30.0, lengths=RAGGED, window=(-1, 0)), {}),
    ("negative logits", dict(negative=True, seqlen_q=300, seqlen_k=700), {}),
    ("softcap beyond its range", dict(softcap=0.5, scale=4.0, window=(-1, 0)), {}),
    (
        "softcap, hidden keys that are NaN",
        dict(softcap=20.0, hidden_nan=True, seqlen_q=300, seqlen_k=400, window=(-1, 0), bottom_right=False),
        {},
    ),
    ("alibi", dict(alibi=True, seqlen_q=300, seqlen_k=500, window=(-1, 0)), {}),
    (
        "alibi, three warpgroups, both sides",
        dict(alibi=True, seqlen_q=700, seqlen_k=500, heads_q=60, heads_kv=60),
        dict(warpgroups=3, tile_n=80, late_wait=True),
    ),
    ("dropout", dict(dropout=0.2, seqlen_q=300, seqlen_k=500, heads_q=60, heads_kv=60), {}),
    (
        "everything",
        dict(EVERY, seqlen_q=300, seqlen_k=333, window=(120, 30), heads_q=8, heads_kv=2, bf16=False),
        dict(tile_n=64, bias_stages=2),
    ),
    (
        "everything, packed, group mode",
        dict(EVERY, lengths=RAGGED, window=(-1, 0), heads_q=4, heads_kv=2),
        dict(packed_heads=2),
    ),
    (
        "everything, head dim 64",
        dict(EVERY, head_dim_qk=64, head_dim_v=64, window=(-1, 0), seqlen_q=600, seqlen_k=600),
        dict(warpgroups=3, tile_n=64, bias_stages=1),
    ),
    (
        "one warpgroup, two blocks an SM",
        dict(seqlen_q=700, seqlen_k=700, window=(-1, 0)),
        dict(warpgroups=1, blocks_per_sm=2, stages=1),
    ),
    (
        "three warpgroups",
        dict(head_dim_qk=64, head_dim_v=64, seqlen_q=900, seqlen_k=900, window=(-1, 0)),
        dict(warpgroups=3),
    ),
    (
        "head dim 64",
        dict(head_dim_qk=64, head_dim_v=64, seqlen_q=900, seqlen_k=900),
        dict(warpgroups=3, query_buffers=2),
    ),
    ("head dim 96", dict(head_dim_qk=96, head_dim_v=96, window=(-1, 0)), {}),
    ("head dim 72", dict(head_dim_qk=72, head_dim_v=72, window=(-1, 0)), {}),
    ("head dim 32", dict(head_dim_qk=32, head_dim_v=32, window=(-1, 0)), {}),
    ("head dims 192/128", dict(head_dim_qk=192, head_dim_v=128, seqlen_q=500, seqlen_k=500, window=(-1, 0)), {}),
    ("head dim 256", dict(head_dim_qk=256, head_dim_v=256, seqlen_q=500, seqlen_k=500), dict(tile_n=80)),
    (
        "head dim 256 causal",
        dict(head_dim_qk=256, head_dim_v=256, seqlen_q=500, seqlen_k=500, window=(-1, 0)),
        dict(tile_n=80),
    ),
    (
        "head dim 256 group mode",
        dict(head_dim_qk=256, head_dim_v=256, lengths=((100, 130), (300, 77))),
        dict(tile_n=80),
    ),
]


# In fp8: the layouts of every operand, and what scales and the transposition could spoil.
FP8_CASES = [
    ("plain", {}, {}),
    ("ragged", dict(seqlen_q=333, seqlen_k=457), {}),
    ("scales by head", dict(fp8="head", seqlen_q=700, seqlen_k=700, heads_q=8, heads_kv=2, batch=3), {}),
    ("scales by block", dict(fp8="block", seqlen_q=700, seqlen_k=900), {}),
    ("scales by block, causal", dict(fp8="block", seqlen_q=1000, seqlen_k=1000, window=(-1, 0), heads_q=40), {}),
    ("scales by block, 64 keys", dict(fp8="block", seqlen_q=700, seqlen_k=900, window=(300, 0)), dict(tile_n=64)),
    ("scales by block, group mode", dict(fp8="block", lengths=RAGGED, window=(-1, 0), heads_q=8, heads_kv=2), {}),
    ("causal", dict(seqlen_q=1000, seqlen_k=1100, window=(-1, 0), heads_q=40), dict(late_wait=True, query_buffers=2)),
    ("causal ping-pong", dict(seqlen_q=1000, seqlen_k=1000, window=(-1, 0)), dict(ping_pong=True, stages=3)),
    ("window, 192 keys", dict(seqlen_q=1500, seqlen_k=1500, window=(300, 10), heads_q=40), dict(tile_n=192)),
    ("group mode bshd", dict(lengths=RAGGED, layout="bshd"), {}),
    ("soft cap, sink, fp16", dict(softcap=20.0, sink=True, bf16=False, window=(-1, 0)), {}),
    ("alibi, bias, dropout", dict(alibi=True, bias=True, dropout=0.2, fp8="head", seqlen_q=300, seqlen_k=333), {}),
    ("negative scale", dict(scale=-0.1, window=(-1, 0)), {}),
    (
        "three warpgroups, causal",
        dict(seqlen_q=900, seqlen_k=1000, heads_q=40, window=(-1, 0)),
        dict(warpgroups=3, tile_n=96, stages=3, late_wait=True),
    ),
    ("head dim 64", dict(head_dim_qk=64, head_dim_v=64, seqlen_q=900, seqlen_k=900), dict(warpgroups=3)),
    (
        "head dim 64, by block, causal",
        dict(fp8="block", head_dim_qk=64, head_dim_v=64, seqlen_q=900, seqlen_k=900, window=(-1, 0), heads_q=40),
        dict(warpgroups=3, ping_pong=True, late_wait=True),
    ),
    ("head dims 192/128", dict(head_dim_qk=192, head_dim_v=128, seqlen_q=500, seqlen_k=500, window=(-1, 0)), {}),
    ("head dims 48/80", dict(head_dim_qk=48, head_dim_v=80, seqlen_q=500, seqlen_k=500), dict(tile_n=96)),
    (
        "head dim 256",
        dict(head_dim_qk=256, head_dim_v=256, seqlen_q=500, seqlen_k=500, heads_q=60),
        dict(tile_n=96, late_wait=True),
    ),
    (
        "head dim 256, by block, causal",
        dict(fp8="block", head_dim_qk=256, head_dim_v=256, window=(-1, 0)),
        dict(tile_n=64),
    ),
    ("tiny", dict(batch=1, heads_q=1, seqlen_q=1, seqlen_k=1), {}),
]
HOPPER_CASES += [
    (f"fp8 {name}", dict(dict(fp8="tensor", heads_kv=facts.get("heads_q", 4)), **facts), tile)
    for name, facts, tile in FP8_CASES
]


PORTABLE_CASES = [
    ("plain", {}, {}),
    ("ragged", dict(seqlen_q=333, seqlen_k=457), {}),
    ("causal", dict(seqlen_q=700, seqlen_k=700, window=(-1, 0)), {}),
    ("causal top-left", dict(seqlen_q=300, seqlen_k=500, window=(-1, 0), bottom_right=False), {}),
    ("causal bottom-right, short keys", dict(seqlen_q=500, seqlen_k=300, window=(-1, 0)), {}),
    ("window", dict(seqlen_q=600, seqlen_k=700, window=(200, 37)), {}),
    ("grouped heads bshd", dict(heads_q=8, heads_kv=2, layout="bshd", window=(-1, 0)), {}),
    ("fp16", dict(bf16=False), {}),
    (
        "traits not asked for",
        dict(window=(-1, 0), seqlen_q=300, seqlen_k=200),
        dict(bias=True, alibi=True, sink=True, dropout=True),
    ),
    ("negative scale", dict(scale=-0.1, window=(-1, 0)), {}),
    ("softcap", dict(softcap=20.0, scale=0.5), {}),
    (
        "softcap, hidden keys that are NaN",
        dict(softcap=20.0, hidden_nan=True, seqlen_q=300, seqlen_k=400, window=(-1, 0), bottom_right=False),
        {},
    ),
    ("bias", dict(bias=True, seqlen_q=130, seqlen_k=200), {}),
    ("alibi", dict(alibi=True, seqlen_q=200, seqlen_k=300, window=(-1, 0)), {}),
    ("sink", dict(sink=True, window=(100, 0)), {}),
    ("dropout", dict(dropout=0.2, seqlen_q=200, seqlen_k=300), {}),
    ("everything", dict(EVERY, seqlen_q=300, seqlen_k=333, window=(120, 30), heads_q=8, heads_kv=2, bf16=False), {}),
    ("everything, group mode", dict(EVERY, lengths=RAGGED, window=(-1, 0), heads_q=4, heads_kv=2), {}),
    ("group mode", dict(lengths=RAGGED, layout="bshd"), {}),
    ("head dim 32", dict(head_dim_qk=32, head_dim_v=32), {}),
    ("head dim 40", dict(head_dim_qk=40, head_dim_v=40, window=(-1, 0)), {}),
    ("head dim 64, eight warps", dict(head_dim_qk=64, head_dim_v=64), dict(warps=8, tile_n=96)),
    ("head dims 192/128", dict(head_dim_qk=192, head_dim_v=128, window=(-1, 0)), {}),
    ("head dim 256", dict(head_dim_qk=256, head_dim_v=256, window=(-1, 0)), {}),
    ("tiny", dict(batch=1, heads_q=1, heads_kv=1, seqlen_q=1, seqlen_k=1), {}),
    ("unaligned", dict(unaligned=True, seqlen_q=300, seqlen_k=257, window=(-1, 0)), dict(unaligned=True)),
    (
        "unaligned, head dims 37/51",
        dict(unaligned=True, head_dim_qk=37, head_dim_v=51, seqlen_q=200, seqlen_k=300, heads_q=8, heads_kv=2),
        dict(unaligned=True),
    ),
    (
        "unaligned, head dim 250, group mode",
        dict(unaligned=True, head_dim_qk=250, head_dim_v=250, lengths=RAGGED, bf16=False),
        dict(unaligned=True),
    ),
]


def checks():
    """(name, problem, configuration); the problem is None where PyTorch is missing."""
    try:
        import torch  # noqa: F401
    except ImportError:
        torch = None
    out = []
    for template, cases in ((hopper, HOPPER_CASES), (portable, PORTABLE_CASES)):
        for name, facts, tile in cases:
            facts = dict(dict(batch=2), **facts)
            p = _problem(**facts) if torch else None
            if template is portable:
                tile = dict(tile, architecture=_architecture())
                config = portable.Config(**dict(portable.traits(Facts(facts)), **tile))
            else:
                config = hopper.Config(**dict(hopper.hopper_traits(Facts(facts)), **tile))
            out.append((f"{template.__name__}: {name}", p, config))
    return out


class Facts:
    """The fields of a problem that decide a configuration, with the problem's defaults; free of PyTorch."""

    DEFAULTS = dict(
        bf16=True,
        head_dim_qk=128,
        head_dim_v=128,
        window=(-1, -1),
        lengths=(),
        sink=False,
        softcap=0.0,
        bias=False,
        alibi=False,
        dropout=0.0,
        scale=0.0,
        fp8="",
    )

    def __init__(self, facts):
        for name, value in self.DEFAULTS.items():
            setattr(self, name, facts.get(name, value))


# Configurations worth a try beside the table's, by head dimension.
EXPLORED = {
    64: [dict(warpgroups=3, ping_pong=p, late_wait=l) for p in (False, True) for l in (False, True)]
    + [
        dict(warpgroups=1, blocks_per_sm=3, tile_n=64, stages=3, query_buffers=2),
        dict(warpgroups=1, blocks_per_sm=2, query_buffers=2),
    ],
    128: [dict(query_buffers=2, ping_pong=p, late_wait=l) for l in (False, True) for p in (False, True)]
    + [dict(stages=3, ping_pong=True, late_wait=True)]
    + [dict(tile_n=n, ping_pong=True, late_wait=True) for n in (160, 176)]
    + [
        dict(warpgroups=1, blocks_per_sm=2, tile_n=64, query_buffers=q, late_wait=l)
        for q in (1, 2)
        for l in (False, True)
    ],
    256: [dict(tile_n=n, ping_pong=True, dynamic=d, late_wait=True) for n in (64, 80) for d in (False, True)],
}


def _cell(facts, configs):
    try:
        return _problem(**facts), [c for c in configs if c.fits()]
    except ImportError:
        return None, [c for c in configs if c.fits()]


def _more():
    """What lies beside the square grid: grouped heads, other head dimensions and types, traits."""
    base = dict(batch=4, heads_q=16, heads_kv=16, seqlen_q=4096, seqlen_k=4096, window=(-1, 0))
    grouped = dict(base, batch=1, heads_q=64, heads_kv=8)
    problems = [
        base,
        grouped,
        dict(grouped, window=(-1, -1)),
        dict(grouped, seqlen_q=16384, seqlen_k=16384),
        dict(base, bf16=False),
        dict(base, layout="bshd"),
        dict(base, head_dim_qk=32, head_dim_v=32),
        dict(base, head_dim_qk=80, head_dim_v=80),
        dict(base, head_dim_qk=96, head_dim_v=96),
        dict(base, head_dim_qk=192, head_dim_v=128),
        dict(base, head_dim_qk=192, head_dim_v=192),
        dict(base, window=(1023, 0)),
        dict(base, softcap=30.0),
        dict(base, sink=True),
        dict(base, alibi=True),
        dict(base, bias=True),
        dict(base, dropout=0.1),
        dict(base, batch=1, lengths=tuple((n, n) for n in (4096, 100, 2500, 900, 3000, 1500, 700, 3588))),
    ]
    out = []
    for facts in problems:
        facts_of = Facts(facts)
        tile = hopper.table(facts_of.head_dim_qk, facts["window"][1] == 0, facts["seqlen_k"])
        if facts_of.head_dim_qk > 128:
            tile.update(tile_n=96 if facts_of.head_dim_v > 128 else 128)
        configs = [hopper.Config(**hopper.hopper_traits(facts_of), **hopper.trait_tile(facts_of, tile))]
        configs.append(portable.Config(**portable.traits(facts_of), architecture=_architecture()))
        out.append(_cell(facts, configs))
    return out


def _architecture():
    try:
        import torch
    except ImportError:
        return "sm_80"
    return "sm_%d%d" % torch.cuda.get_device_capability()


def bf16_twin(p):
    """What an fp8 problem is compared with, torch having no fp8 attention: our own kernel in bf16."""
    twin = dataclasses.replace(p, fp8="")
    tile = hopper.table(p.head_dim_qk, p.window[1] == 0, p.seqlen_k)
    return twin, hopper.Config(**hopper.hopper_traits(twin), **tile)


def timed(args):
    """(problem, configurations) of each cell: 16k tokens a batch, hidden size 2048; or the other cells."""
    if args.more:
        return _more()
    out = []
    for head_dim in map(int, args.head_dims.split(",")):
        for mask in args.masks.split(","):
            for seqlen in map(int, args.seqlens.split(",")):
                heads = 2048 // head_dim
                facts = dict(
                    fp8=args.fp8,
                    batch=16384 // seqlen,
                    heads_q=heads,
                    heads_kv=heads,
                    seqlen_q=seqlen,
                    seqlen_k=seqlen,
                    head_dim_qk=head_dim,
                    head_dim_v=head_dim,
                    window=(-1, 0 if mask == "causal" else -1),
                )
                tiles = [hopper.table(head_dim, mask == "causal", seqlen)]
                if args.fp8:
                    tiles = [hopper.fp8_table(head_dim, args.fp8 == "block", mask == "causal", seqlen)]
                elif args.explore:
                    tiles = EXPLORED[head_dim]
                configs = [hopper.Config(**hopper.hopper_traits(Facts(facts)), **tile) for tile in tiles]
                out.append(_cell(facts, configs))
    return out
