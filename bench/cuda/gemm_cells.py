"""What is checked: problems paired with configurations, one trait or awkward size each. Needs no PyTorch."""

from gemm_config import Hopper, Portable, Skinny, Stream, hopper_traits, traits

CONFIGS = dict(
    coop=dict(),
    ping_pong=dict(tile_n=128, ping_pong=True, stages=6),
    tall=dict(tile_m=256, tile_n=128),
    three=dict(tile_m=192, tile_n=192, warpgroups=3, stages=3),
    small=dict(tile_m=64, tile_n=64, ping_pong=True, stages=8),
    odd=dict(tile_n=224, stages=4),
    narrow=dict(tile_m=64, tile_n=48, warpgroups=1, stages=4, blocks_per_sm=2),
    pair_m=dict(cluster_m=2),
    pair_n=dict(tile_n=128, ping_pong=True, stages=6, cluster_n=2),
    split=dict(tile_n=128, stages=6, split_k=True, splits=3),
    split_pair=dict(tile_n=64, stages=8, ping_pong=True, split_k=True, splits=2, cluster_n=2),
    split_turns=dict(tile_m=64, tile_n=128, ping_pong=True, stages=6, split_k=True, splits=4),
)
FP8 = dict(a="e4m3", b="e4m3")
INT8 = dict(a="s8", b="s8")


def _hopper_cases():
    cases = []

    def case(name, problem, config, **more):
        cases.append((name, problem, dict(config, **more)))

    for name, config in CONFIGS.items():
        case(f"{name}", dict(m=1000, n=712, k=520), config)
        case(f"{name}, one row", dict(m=1, n=8, k=8), config)
        case(f"{name}, primes", dict(m=257, n=523, k=331), config)
        case(f"{name}, next at end", dict(m=300, n=712, k=520), config, next_at_end=True, b_first=True)
    for name in ("coop", "ping_pong", "tall", "pair_m", "pair_n", "odd", "split"):
        for layout in ("rrr", "crr", "ccr"):
            if name == "odd" and layout != "rrr":
                continue
            major = dict(row_major_a=layout[0] == "r", row_major_b=layout[1] == "r")
            case(f"{name} {layout}", dict(m=999, n=713, k=521, **major), CONFIGS[name])
    for kind, d in (("e4m3", "f32"), ("e5m2", "bf16"), ("s8", "s32"), ("f32", "f32")):
        for layout in ("rrr", "crr", "ccr"):
            major = dict(row_major_a=layout[0] == "r", row_major_b=layout[1] == "r")
            for name in ("coop", "ping_pong", "tall", "split"):
                tile = dict(CONFIGS[name], stages=3 if name != "ping_pong" else 4)
                case(f"{kind} {layout} {name}", dict(m=999, n=713, k=521, a=kind, b=kind, d=d, **major), tile)
            case(f"{kind} {layout}, one of each", dict(m=1, n=1, k=1, a=kind, b=kind, d=d, **major), CONFIGS["ping_pong"])
    for which, layout in (("pair_m", "rrr"), ("pair_n", "ccr")):
        major = dict(row_major_a=layout[0] == "r", row_major_b=layout[1] == "r")
        tile = dict(CONFIGS[which], stages=3) if which == "pair_m" else dict(tile_m=256, tile_n=128, stages=3, cluster_n=2)
        case(f"e4m3 {layout} {which}", dict(m=999, n=713, k=521, d="f32", **FP8, **major), tile)
    case("many tiles", dict(m=4000, n=3000, k=200), CONFIGS["ping_pong"])
    case("many tiles, bands of columns", dict(m=4000, n=3000, k=200), CONFIGS["coop"], band=5, band_columns=True)
    case("batch", dict(m=300, n=200, k=100, batch=7), CONFIGS["ping_pong"])
    case("batch, coop, pairs of blocks", dict(m=300, n=600, k=100, batch=3), CONFIGS["pair_m"])
    for kind in ("f16", "f32"):
        case(f"output {kind}", dict(m=333, n=600, k=200, d=kind), CONFIGS["coop"])
        case(f"output {kind}, direct", dict(m=333, n=601, k=200, d=kind), CONFIGS["coop"], store_box=False)
    case("output e4m3", dict(m=333, n=600, k=20, d="e4m3"), CONFIGS["coop"])
    case("fp16", dict(m=333, n=600, k=200, a="f16", b="f16", d="f16"), CONFIGS["ping_pong"])
    for a, b in (("e4m3", "e4m3"), ("e4m3", "e5m2"), ("e5m2", "e4m3"), ("e5m2", "e5m2")):
        case(f"{a} x {b}", dict(m=333, n=600, k=400, a=a, b=b), CONFIGS["ping_pong"])
    case("fp8, coop, split", dict(m=333, n=600, k=1000, d="f32", **FP8), CONFIGS["split"])
    case("fp8 promoted", dict(m=333, n=600, k=1000, d="f32", **FP8), CONFIGS["coop"], tile_n=128, promote=True)
    case("fp8 promoted, ping-pong", dict(m=333, n=600, k=1000, **FP8), CONFIGS["small"], promote=True)
    case(
        "fp8 output e4m3", dict(m=333, n=608, k=100, d="e4m3", tensor_scales=True, exact=False, **FP8), CONFIGS["coop"]
    )
    case(
        "fp8 block scales",
        dict(m=333, n=600, k=1000, d="f32", block_scales=True, exact=False, **FP8),
        CONFIGS["coop"],
        tile_n=128,
    )
    case(
        "fp8 block scales, bf16, batch",
        dict(m=150, n=300, k=700, batch=3, block_scales=True, exact=False, **FP8),
        CONFIGS["coop"],
        tile_n=128,
    )
    for d in ("s32", "f32", "bf16", "s8"):
        case(f"int8 to {d}", dict(m=333, n=608, k=410, d=d, **INT8), CONFIGS["ping_pong"])
    case("int8 split", dict(m=333, n=608, k=1410, d="s32", **INT8), CONFIGS["split"])
    for which in ("split", "split_pair", "split_turns"):
        case(f"atomic {which}", dict(m=333, n=608, k=1410), CONFIGS[which], add_parts=True)
    case("atomic int8", dict(m=333, n=608, k=1410, d="s32", **INT8), CONFIGS["split"], add_parts=True)
    case(
        "int8 scaled by row and column",
        dict(m=333, n=608, k=410, exact=False, epilogue=(("scale_m", "f32"), ("scale_n", "f32")), **INT8),
        CONFIGS["coop"],
    )
    case("tf32", dict(m=333, n=600, k=204, a="f32", b="f32", d="f32"), CONFIGS["coop"], tile_n=128)
    case("tf32, random", dict(m=333, n=600, k=204, a="f32", b="f32", d="f32", exact=False), CONFIGS["ping_pong"])
    for operation, kind in (
        ("add", "bf16"),
        ("add", "f32"),
        ("multiply", "f16"),
        ("bias_n", "bf16"),
        ("bias_n", "f32"),
        ("bias_m", "f32"),
        ("scale_n", "f32"),
        ("scale_m", "f32"),
        ("relu", "f32"),
        ("gelu", "f32"),
        ("gelu_tanh", "f32"),
        ("silu", "f32"),
        ("sigmoid", "f32"),
        ("tanh", "f32"),
        ("clamp", "f32"),
        ("gate_silu", "f32"),
        ("gate_gelu", "f32"),
        ("gate_gelu_tanh", "f32"),
        ("gate_sigmoid", "f32"),
        ("amax", "f32"),
    ):
        which = "coop" if len(cases) % 2 else "ping_pong"
        sizes = dict(m=333, n=520, k=72, exact=False, alpha=0.1)
        case(f"{operation} {kind}, {which}", dict(epilogue=((operation, kind),), **sizes), CONFIGS[which])
        if operation in ("add", "bias_n", "gate_silu", "amax", "gelu_tanh"):
            odd = dict(sizes, n=522 if operation.startswith("gate") else 523)
            case(
                f"{operation} {kind}, direct",
                dict(epilogue=((operation, kind),), **odd),
                CONFIGS[which],
                store_box=False,
            )
            case(f"{operation} {kind}, output f32", dict(epilogue=((operation, kind),), d="f32", **odd), CONFIGS[which])
    several = (("add", "bf16"), ("bias_n", "f32"), ("gelu_tanh", "f32"), ("multiply", "bf16"), ("amax", "f32"))
    case("several", dict(m=333, n=520, k=72, epilogue=several, exact=False, alpha=0.1, batch=2), CONFIGS["ping_pong"])
    case("several, split", dict(m=333, n=520, k=720, epilogue=several, exact=False, alpha=0.1), CONFIGS["split"])
    gated = (("bias_n", "bf16"), ("gate_silu", "f32"), ("amax", "f32"))
    case("gated to e4m3", dict(m=333, n=544, k=72, epilogue=gated, exact=False, alpha=0.1, d="e4m3"), CONFIGS["coop"])
    behind = ["scale_n f32", "bias_n bf16", "multiply bf16", "add f16", "bias_m f32", "silu f32", "clamp f32", "amax f32"]
    for gate in ("gate_relu", "gate_silu"):
        behind_gate = ((gate, "f32"), *(tuple(x.split()) for x in (behind[1:] if gate == "gate_silu" else behind[:1])))
        sizes = dict(m=333, n=520, k=72, exact=False, alpha=0.1, epilogue=behind_gate)
        case(f"behind {gate}", sizes, CONFIGS["coop"])
        case(f"behind {gate}, output f32, batch", dict(sizes, d="f32", batch=2), CONFIGS["ping_pong"])
        case(f"behind {gate}, odd", dict(sizes, n=522), CONFIGS["split"], store_box=False)
    for name in ("coop", "ping_pong", "tall", "three", "small", "narrow", "pair_m", "pair_n", "split", "split_turns"):
        for epilogue in ((("add", "bf16"),), (("multiply", "f16"), ("bias_n", "bf16"), ("add", "bf16"), ("relu", "f32"))):
            facts = dict(m=1500, n=2312, k=600, exact=False, alpha=0.1, batch=2, epilogue=epilogue)
            case(f"tensors, {name}", facts, CONFIGS[name])
    case("tensors, short k", dict(m=2500, n=2312, k=40, exact=False, epilogue=(("add", "bf16"),)), CONFIGS["coop"])
    for name in ("coop", "ping_pong", "split"):
        case(f"int8, C, {name}", dict(m=333, n=608, k=1410, d="s32", epilogue=(("add", "s32"),), **INT8), CONFIGS[name])
    groups = (100, 0, 1, 300, 128, 77)
    for grouping in (1, 2):
        facts = dict(m=300, n=520, k=200, grouping=grouping, group_rows=groups, exact=False, epilogue=(("add", "bf16"),))
        case(f"groups {grouping}, residual", facts, CONFIGS["coop"])
        for which in ("coop", "ping_pong", "pair_m"):
            case(
                f"groups {grouping} {which}",
                dict(m=300, n=520, k=200, grouping=grouping, group_rows=groups),
                CONFIGS[which],
            )
    few = dict(tile_m=64, tile_n=128, warpgroups=1, stages=8, copy_rows=16)
    for grouping in (1, 2):
        facts = dict(m=300, n=520, k=200, grouping=grouping, group_rows=groups)
        case(f"groups {grouping}, rows of 16", facts, few)
        case(f"groups {grouping}, rows of 8, residual", dict(facts, epilogue=(("add", "bf16"),), exact=False), few, copy_rows=8)
        most_empty = tuple({7: 1, 40: 17, 41: 3, 62: 64}.get(g, 0) for g in range(70))
        case(f"groups {grouping}, most empty", dict(m=64, n=712, k=520, grouping=grouping, group_rows=most_empty), few)
        scaled = dict(m=64, n=712, k=520, grouping=grouping, group_rows=most_empty, block_scales=True, exact=False, **FP8)
        case(f"groups {grouping}, most empty, fp8 blocks", scaled, few)
    case(
        "groups 1, fp8 blocks",
        dict(m=300, n=520, k=600, grouping=1, group_rows=groups, block_scales=True, exact=False, **FP8),
        CONFIGS["coop"],
        tile_n=128,
    )
    case(
        "groups 1, bias",
        dict(
            m=300,
            n=520,
            k=60,
            grouping=1,
            group_rows=groups,
            exact=False,
            row_major_b=True,
            epilogue=(("bias_n", "bf16"), ("scale_m", "f32")),
        ),
        CONFIGS["coop"],
    )
    return cases


def _skinny_cases():
    cases = []

    def case(name, problem, config=None):
        cases.append((name, problem, dict(stages=4, **(config or {}))))

    for m in (1, 5, 8, 9, 16):
        rows = 8 if m <= 8 else 16
        case(f"{m} rows", dict(m=m, n=4000, k=1000), dict(rows=rows))
    case("odd columns", dict(m=3, n=1003, k=72), dict(rows=8))
    case("tiny", dict(m=1, n=1, k=8), dict(rows=8))
    case("batch", dict(m=7, n=333, k=520, batch=5), dict(rows=8, columns=8))
    case("wide groups", dict(m=16, n=3000, k=520), dict(columns=32, warps=8))
    case("split", dict(m=16, n=200, k=5000), dict(split_k=True, splits=5))
    case("split, more parts than steps", dict(m=2, n=100, k=72), dict(split_k=True, splits=9, rows=8, warps=4))
    case("fp16", dict(m=4, n=777, k=200, a="f16", b="f16", d="f32"), dict(rows=8))
    case("fp8", dict(m=13, n=1000, k=2000, **FP8))
    case("int8", dict(m=13, n=1000, k=2000, d="s32", **INT8))
    case("int8 split", dict(m=3, n=100, k=4000, d="s32", **INT8), dict(split_k=True, splits=3, rows=8))
    case("int8, C", dict(m=13, n=1000, k=2000, d="s32", epilogue=(("add", "s32"),), **INT8))
    behind = (("gate_relu", "f32"), ("bias_n", "f32"), ("multiply", "bf16"), ("relu", "f32"), ("amax", "f32"))
    case("behind a gate", dict(m=11, n=522, k=72, epilogue=behind, exact=False, alpha=0.1, batch=2))
    several = (("add", "bf16"), ("bias_n", "f32"), ("gate_gelu_tanh", "f32"), ("amax", "f32"))
    case("several", dict(m=11, n=522, k=72, epilogue=several, exact=False, alpha=0.1, batch=2))
    return cases


PORTABLE = dict(
    square=dict(),
    small=dict(tile_m=64, tile_n=64, warps_m=2, warps_n=2, stages=3, blocks_per_sm=2),
    flat=dict(tile_m=16, tile_n=128, warps_m=1, warps_n=4, stages=3),
    split=dict(split_k=True, splits=4, stages=3),
)


def _portable_cases():
    cases = []

    def case(name, problem, config="square", **more):
        cases.append((name, problem, dict(PORTABLE[config], **more)))

    for name in PORTABLE:
        case(name, dict(m=500, n=333, k=331), name)
        case(f"{name}, one of each", dict(m=1, n=1, k=1), name)
    kinds = dict(bf16="bf16", f16="f16", f32="f32", s8="s32")
    for kind, d in kinds.items():
        for layout in ("rcr", "rrr", "crr", "ccr"):
            facts = dict(a=kind, b=kind, d=d, row_major_a=layout[0] == "r", row_major_b=layout[1] == "r")
            case(f"{kind} {layout}", dict(m=201, n=301, k=203, **facts))
            case(f"{kind} {layout}, unaligned", dict(m=201, n=301, k=203, aligned=False, **facts))
    case("tf32, random", dict(m=300, n=300, k=500, a="f32", b="f32", d="f32", exact=False))
    case(
        "three products, random", dict(m=300, n=300, k=500, a="f32", b="f32", d="f32", exact=False), three_products=True
    )
    case("fp8", dict(m=300, n=300, k=500, **FP8), architecture="sm_90a")
    for d in ("bf16", "f32", "s8"):
        case(f"int8 to {d}", dict(m=300, n=302, k=500, d=d, **INT8))
    case("batch", dict(m=70, n=100, k=64, batch=9), "small")
    for grouping in (1, 2):
        case(f"groups {grouping}", dict(m=300, n=220, k=200, grouping=grouping, group_rows=(100, 0, 1, 300, 128, 77)))
    for operation in "add bias_n bias_m scale_n scale_m multiply gelu gelu_tanh silu clamp gate_silu amax".split():
        for d in ("bf16", "f32"):
            facts = dict(m=133, n=222, k=70, exact=False, alpha=0.1, d=d, epilogue=((operation, "bf16"),))
            case(f"{operation}, output {d}", facts)
            case(f"{operation}, output {d}, unaligned", dict(facts, aligned=False), "small")
    case("int8, C", dict(m=300, n=302, k=500, d="s32", epilogue=(("add", "s32"),), **INT8))
    behind = (("gate_gelu", "f32"), ("bias_n", "f32"), ("multiply", "bf16"), ("clamp", "f32"), ("amax", "f32"))
    for aligned in (True, False):
        facts = dict(m=133, n=222, k=70, exact=False, alpha=0.1, epilogue=behind, aligned=aligned)
        case(f"behind a gate, aligned {aligned}", facts, "small")
    several = (("add", "f16"), ("bias_n", "f32"), ("relu", "f32"), ("multiply", "bf16"), ("amax", "f32"))
    case("several, split", dict(m=133, n=222, k=700, exact=False, alpha=0.1, epilogue=several), "split")
    return cases


def checks(only=""):
    """(name, problem facts, configuration) triples. Integers unless a case says otherwise."""
    out = []
    for name, facts, tile in _hopper_cases():
        facts = dict(dict(exact=True), **facts)
        out.append((f"hopper {name}", facts, lambda p, tile=tile: Hopper(**dict(hopper_traits(p), **tile))))
    for name, facts, tile in _skinny_cases():
        facts = dict(dict(exact=True), **facts)
        out.append((f"skinny {name}", facts, lambda p, tile=tile: Skinny(**dict(traits(p), **tile))))
    shared = ("rows", "split_k", "splits")
    for name, facts, tile in _skinny_cases():
        facts = dict(dict(exact=True), **facts)
        wide = len(name) % 2 == 0
        tile = dict({k: v for k, v in tile.items() if k in shared}, columns=112 if wide else 48, early_b=wide)
        tile.update(stages=4, boxes=2)
        out.append((f"stream {name}", facts, lambda p, tile=tile: Stream(**dict(traits(p), **tile))))
    for name, facts, tile in _portable_cases():
        facts = dict(dict(exact=True), **facts)
        aligned = facts.get("aligned", True)
        out.append(
            (
                f"portable {name}",
                facts,
                lambda p, tile=tile, aligned=aligned: Portable(**dict(traits(p), aligned=aligned, **tile)),
            )
        )
    return [c for c in out if only in c[0]]


def extras():
    """(what, problem facts, configurations' tiles): what is timed beyond plain products against cuBLAS."""
    square = dict(m=4096, n=4096, k=4096)
    coop, turns = dict(band=16), dict(tile_n=128, ping_pong=True, stages=6, band=16)
    for name, epilogue in (
        ("plain", ()),
        ("bias", (("bias_n", "bf16"),)),
        ("bias, relu", (("bias_n", "bf16"), ("relu", "f32"))),
        ("bias, gelu", (("bias_n", "bf16"), ("gelu", "f32"))),
        ("bias, gelu_tanh", (("bias_n", "bf16"), ("gelu_tanh", "f32"))),
        ("silu", (("silu", "f32"),)),
        ("residual", (("add", "bf16"),)),
        ("residual, bias, silu", (("add", "bf16"), ("bias_n", "bf16"), ("silu", "f32"))),
        ("row and column scales", (("scale_m", "f32"), ("scale_n", "f32"))),
        ("swiglu", (("gate_silu", "f32"),)),
        ("amax", (("amax", "f32"),)),
    ):
        yield f"epilogue: {name}", dict(square, epilogue=epilogue), (coop, turns)
    yield "output f32", dict(square, d="f32"), (coop, turns)
    yield "direct stores", dict(square), (dict(coop, store_box=False), dict(turns, store_box=False))
    for layout in ("rrr", "crr", "ccr"):
        major = dict(row_major_a=layout[0] == "r", row_major_b=layout[1] == "r")
        yield f"layout {layout}", dict(square, **major), (coop, turns)
    tall = dict(tile_m=256, tile_n=128, band=16)
    for kind, d in (("e4m3", "bf16"), ("s8", "s32"), ("f32", "f32")):
        for layout in ("rcr", "rrr", "crr", "ccr"):
            major = dict(row_major_a=layout[0] == "r", row_major_b=layout[1] == "r")
            yield f"layout {kind} {layout}", dict(square, a=kind, b=kind, d=d, **major), (coop, turns, tall)
    for kind, d in (("f16", "f16"), ("f32", "f32")):
        yield f"type {kind}", dict(square, a=kind, b=kind, d=d), (coop, turns)
    fp8 = dict(a="e4m3", b="e4m3")
    narrow = dict(tile_n=128, stages=6, band=16)
    yield "fp8", dict(square, **fp8), (coop, turns)
    yield "fp8 promoted", dict(square, **fp8), (
        dict(narrow, promote=True),
        dict(tile_n=192, stages=4, promote=True, band=16),
        dict(tile_m=64, tile_n=128, ping_pong=True, stages=8, promote=True, band=16),
    )
    yield "fp8 block scales", dict(square, block_scales=True, **fp8), (
        narrow,
        dict(tile_m=64, tile_n=128, ping_pong=True, stages=8, band=16),
    )
    for m, n, k in ((128, 256, 16384), (64, 1024, 16384), (256, 1024, 8192), (512, 512, 8192)):
        tiles = [
            dict(tile_m=64, tile_n=width, warpgroups=1, stages=8, split_k=True, splits=splits, add_parts=added)
            for width in (64, 128)
            for splits in (2, 4, 8, 16)
            if splits * -(-m // 64) * -(-n // width) <= 132
            for added in (False, True)
        ]
        yield f"split {m}x{n}x{k}", dict(m=m, n=n, k=k), tiles
    rows = (512,) * 8
    yield "groups in a row", dict(square, grouping=1, group_rows=rows), (coop, turns)
    yield "groups, masked", dict(square, m=1024, grouping=2, group_rows=(300, 1024, 77, 512, 900, 11, 640, 632)), (
        turns,
    )
