"""Configurations of the GEMM templates: their source text, launch facts and launches."""

import ctypes
import dataclasses
from dataclasses import dataclass, fields

from gemm_facts import BYTES, OPERATIONS, SPEC, TYPES


def traits(p):
    """The part of every configuration that the problem decides."""
    return dict(
        type_a=p.a,
        type_b=p.b,
        type_d=p.d,
        row_major_a=p.row_major_a,
        row_major_b=p.row_major_b,
        pairs=p.aligned and p.n % 2 == 0,
        scaling=int(p.block_scales),
        grouping=p.grouping,
        epilogue=p.epilogue,
    )


def _source(config, include, skip=()):
    lines = [f"constexpr int kTypeScale = {TYPES.index('f32')};\n", "constexpr bool kSecond = false;\n"]
    if not hasattr(config, "add_parts"):
        lines.append("constexpr bool kAddParts = false;\n")
    lines.append("constexpr bool kZeroPoints = false;\n")
    for f in fields(config):
        value = getattr(config, f.name)
        name = "k" + "".join(w.capitalize() for w in f.name.split("_"))
        if f.name in skip:
            continue
        if f.name == "epilogue":
            for array, numbers in (
                ("kEpilogue", [OPERATIONS.index(o) for o, _ in value]),
                ("kEpilogueTypes", [TYPES.index(t) for _, t in value]),
            ):
                lines.append(f"constexpr int {array}[] = {{{', '.join(map(str, numbers or [0]))}}};\n")
            lines.append(f"constexpr int kEpilogueLength = {len(value)};\n")
        elif isinstance(value, bool):
            lines.append(f"constexpr bool {name} = {str(value).lower()};\n")
        else:
            number = TYPES.index(value) if f.name.startswith("type_") else value
            lines.append(f"constexpr int {name} = {number};\n")
    return "namespace ts::cfg {\n" + "".join(lines) + f'}}  // namespace ts::cfg\n#include "gemm/{include}.cuh"\n'


def operand_maps(t, rows_a, rows_b, edges=False):
    """The tensor maps of a and b, and their address: boxes of 128 bytes of k by so many rows, or, MN-major,
    squares of 128 bytes of m or n by as many elements of k. With `edges` also those of the last, cut tiles."""
    import driver
    import gemm_problem

    p, maps = t.p, gemm_problem.Maps()
    base = ctypes.addressof(maps)
    operands = [(t.a, p.a, rows_a, p.row_major_a), (t.b.transpose(1, 2), p.b, rows_b, not p.row_major_b)]
    places = [(0, *operands[0]), (1, *operands[1])]
    if edges:
        cut = [(x, kind, x.shape[1] % rows, along_k) for x, kind, rows, along_k in operands]
        places += [(i, *each) for i, each in zip((6, 7), cut) if each[2] > 0 and each[3]]  # edge_a, edge_b
    for i, x, kind, rows, along_k in places:
        size = BYTES[kind]
        outer, inner = (1, 2) if along_k else (2, 1)
        driver.encode_tensor_map(
            base + 128 * i,
            x.data_ptr(),
            (x.shape[inner], x.shape[outer], x.shape[0]),
            (size * x.stride(outer), size * x.stride(0)),
            (128 // size, rows if along_k else 128 // size, 1),
            {1: driver.UINT8, 2: driver.BITS16, 4: driver.TFLOAT32}[size],
        )
    return maps, base


def hopper_traits(p):
    store_box = p.aligned and p.columns() * BYTES[p.d] % 16 == 0
    tensors = [t for o, t in p.epilogue if o in ("add", "multiply")]
    staged = store_box and tensors and BYTES[p.d] == 2 and not p.gated() and p.n % 8 == 0
    return dict(traits(p), store_box=store_box, staged_tensors=bool(staged))


@dataclass(frozen=True)
class Hopper:
    type_a: str = "bf16"
    type_b: str = "bf16"
    type_d: str = "bf16"
    row_major_a: bool = True
    row_major_b: bool = False
    tile_m: int = 128
    tile_n: int = 256
    copy_rows: int = 0  # of a at a time; 0: the tile's
    warpgroups: int = 2
    ping_pong: bool = False
    boxes: int = 1
    stages: int = 4
    cluster_m: int = 1
    cluster_n: int = 1
    blocks_per_sm: int = 1
    store_box: bool = True
    pairs: bool = True
    staged_tensors: bool = False
    split_k: bool = False
    add_parts: bool = False
    stream_k: bool = False
    promote: bool = False
    scaling: int = 0
    grouping: int = 0
    epilogue: tuple = ()
    band: int = 8  # the host's choices alone: the order of tiles, the parts of k, the overlap of launches
    band_columns: bool = False
    splits: int = 1
    overlap: bool = True
    b_first: bool | None = None  # None: as the library does
    next_at_end: bool | None = None
    edges: bool = True

    def source(self):
        config = dataclasses.replace(self, copy_rows=self.rows_of_a())
        host = ("band", "band_columns", "splits", "overlap", "b_first", "next_at_end", "edges")
        return _source(config, "hopper/gemm", host)

    def rows_of_a(self):
        return self.copy_rows or self.tile_m // self.cluster_n

    def arch(self):
        return "sm_90a"

    def name(self):
        parts = [
            f"{self.tile_m}x{self.tile_n}",
            "pp" if self.ping_pong else f"coop{self.warpgroups}",
            f"s{self.stages}",
        ]
        parts += [f"cl{self.cluster_m}x{self.cluster_n}"] if self.cluster_m * self.cluster_n > 1 else []
        parts += [f"b{self.blocks_per_sm}"] if self.blocks_per_sm > 1 else []
        parts += [f"split{self.splits}"] if self.split_k else []
        parts += ["atomic"] if self.add_parts else []
        parts += ["streamk"] if self.stream_k else []
        parts += ["direct"] if not self.store_box else []
        parts += [f"rows{self.copy_rows}"] if self.copy_rows else []
        parts += ["promote"] if self.promote else []
        parts += [f"band{'N' if self.band_columns else 'M'}{self.band}"]
        parts += [] if self.b_first is None else [f"b_first{self.b_first:d}"]
        parts += [] if self.next_at_end is None else [f"at_end{self.next_at_end:d}"]
        parts += [] if self.edges else ["no edges"]
        return " ".join(parts + ([] if self.overlap else ["apart"]))

    # The launch facts of kernels/cuda/gemm/hopper/layout.cuh.
    def threads(self):
        return 128 * (self.warpgroups + 1)

    def tile_k(self):
        return 128 // BYTES[self.type_a]

    def transposes(self):
        return BYTES[self.type_a] != 2 and (not self.row_major_a or self.row_major_b)

    def gated(self):
        return any(o.startswith("gate") for o, _ in self.epilogue)

    def copied(self):
        """The operation whose tensor the copy engine brings, or None."""
        tensors = [i for i, (o, t) in enumerate(self.epilogue) if o in ("add", "multiply") and BYTES[t] == 2]
        return tensors[0] if self.staged_tensors and tensors else None

    def slab_row_bytes(self):
        reads = "add multiply bias_n scale_n".split()
        readers = sum(o in reads for o, _ in self.epilogue) - (self.copied() is not None)
        columns = 32 if readers > 1 else 64
        share = 2 if self.gated() else 1
        while columns > 16 and (self.tile_n % columns or columns * BYTES[self.type_d] // share > 128):
            columns //= 2
        return columns * BYTES[self.type_d] // share

    def shared_bytes(self):
        square = self.tile_k()
        rows_a = self.tile_m if self.row_major_a else -(-self.tile_m // square) * square
        rows_b = -(-self.tile_n // square) * square if self.row_major_b else self.tile_n
        barriers = (3 if self.transposes() else 2) * self.stages + 2
        slabs = self.warpgroups * 2 * -(-64 * self.slab_row_bytes() // 1024) * 1024 if self.store_box else 0
        return self.stages * (rows_a + rows_b) * 128 + slabs + 8 * barriers + 16 + 1024

    def fits(self):
        return self.shared_bytes() * self.blocks_per_sm <= 233472 - 1024 * self.blocks_per_sm

    def tiles(self, p):
        tiles_n = -(-p.n // (self.tile_n * self.cluster_n))
        if p.grouping:
            return tiles_n * sum(-(-r // (self.tile_m * self.cluster_m)) for r in p.group_rows)
        return tiles_n * -(-p.m // (self.tile_m * self.cluster_m)) * p.batch

    def workspace(self, p):
        """Bytes of partial sums and the number of counters of a split product or of stream-K (on at most 160 SMs)."""
        tile, counters = 4 * self.tile_m * self.tile_n, 1 if self.ping_pong else self.warpgroups
        if self.stream_k:
            blocks = 160 * self.blocks_per_sm
            return 2 * blocks * tile, 2 * blocks * counters
        if not self.split_k:
            return 0, 0
        tiles = self.tiles(p) * self.cluster_m * self.cluster_n
        return tiles * (1 if self.add_parts else self.splits) * tile, tiles * counters

    def maps(self, t):
        import driver

        p = t.p
        maps, base = operand_maps(t, self.rows_of_a(), self.tile_n // self.cluster_m, self.edges and not p.grouping)
        if self.store_box:
            size, row_bytes = BYTES[p.d], self.slab_row_bytes()
            driver.encode_tensor_map(
                base + 256,
                t.d.data_ptr(),
                (t.d.shape[2], t.d.shape[1], t.d.shape[0]),
                (size * t.d.stride(1), size * t.d.stride(0)),
                (row_bytes // size, 64, 1),
                {1: driver.UINT8, 2: driver.BITS16, 4: driver.UINT32}[size],
                driver.SWIZZLES[row_bytes],
            )
        if self.copied() is not None:
            c, row_bytes = t.operands[self.copied()][1], self.slab_row_bytes()
            driver.encode_tensor_map(
                base + 640,
                c.data_ptr(),
                (c.shape[2], c.shape[1], c.shape[0]),
                (2 * c.stride(1), 2 * c.stride(0)),
                (row_bytes // 2, self.tile_m, 1),
                driver.BITS16,
                driver.SWIZZLES[row_bytes],
            )
        return maps

    def launcher(self, kernel, t, sms, stream, workspace=None):
        p, a = t.p, t.args()
        a.band, a.band_columns = self.band, int(self.band_columns)
        a.splits = min(self.splits, -(-p.k // self.tile_k()))
        if self.split_k or self.stream_k:
            a.partials, a.counters = workspace.pointers(*self.workspace(p), self.add_parts)
        cluster = self.cluster_m * self.cluster_n
        grid = min(self.tiles(p) * a.splits, sms * self.blocks_per_sm // cluster) * cluster
        # As cuda_gemm_work of src/enumerate has it.
        rows = -(-p.m // (self.tile_m * self.cluster_m)) * self.cluster_m
        plain = not p.grouping and not self.stream_k
        long = -(-p.k // self.tile_k()) // a.splits >= SPEC["next_at_end"]["steps"] and 2 * grid > sms * self.blocks_per_sm
        a.b_first = plain and p.m <= SPEC["b_first_m"] if self.b_first is None else self.b_first
        a.edges = int(self.edges and not p.grouping)
        shared = plain and 1 < rows <= SPEC["next_at_end"]["rows_of_tiles"]
        a.next_at_end = shared and long if self.next_at_end is None else self.next_at_end
        return kernel.launcher_with((max(grid, cluster), 1, 1), (self.maps(t), a), stream, cluster, self.overlap)


@dataclass(frozen=True)
class Skinny:
    type_a: str = "bf16"
    type_b: str = "bf16"
    type_d: str = "bf16"
    row_major_a: bool = True
    row_major_b: bool = False
    rows: int = 16
    columns: int = 16
    warps: int = 16
    stages: int = 8
    blocks_per_sm: int = 1
    pairs: bool = True
    staged_tensors: bool = False
    split_k: bool = False
    scaling: int = 0
    grouping: int = 0
    epilogue: tuple = ()
    splits: int = 1  # the host's choices
    overlap: bool = True
    architecture: str = "sm_90a"

    def source(self):
        return _source(self, "skinny/gemm", ("splits", "overlap", "architecture"))

    def arch(self):
        return self.architecture

    def name(self):
        parts = [f"skinny {self.rows}x{self.columns}", f"w{self.warps}", f"s{self.stages}"]
        parts += [f"b{self.blocks_per_sm}"] if self.blocks_per_sm > 1 else []
        return " ".join(parts + ([f"split{self.splits}"] if self.split_k else []))

    # The launch facts of kernels/cuda/gemm/skinny/gemm.cuh.
    def threads(self):
        return 32 * self.warps

    def shared_bytes(self):
        return self.warps * self.stages * self.columns * 64 + 2 * self.warps * self.columns * 64 + 16

    def fits(self):
        return self.shared_bytes() * self.blocks_per_sm <= 233472 - 1024 * self.blocks_per_sm

    def items(self, p):
        return -(-p.n // self.columns) * p.batch * self.splits

    def workspace(self, p):
        return self.items(p) * self.columns * 64, self.items(p) // self.splits

    def launcher(self, kernel, t, sms, stream, workspace=None):
        a = t.args()
        a.splits = self.splits
        if self.split_k:
            a.partials, a.counters = workspace.pointers(*self.workspace(t.p))
        grid = min(self.items(t.p), sms * self.blocks_per_sm)
        return kernel.launcher_with((grid, 1, 1), (a,), stream, overlap=self.overlap)


@dataclass(frozen=True)
class Portable:
    type_a: str = "bf16"
    type_b: str = "bf16"
    type_d: str = "bf16"
    row_major_a: bool = True
    row_major_b: bool = False
    tile_m: int = 128
    tile_n: int = 128
    warps_m: int = 2
    warps_n: int = 4
    stages: int = 4
    blocks_per_sm: int = 1
    aligned: bool = True
    pairs: bool = True
    staged_tensors: bool = False
    three_products: bool = False
    split_k: bool = False
    scaling: int = 0
    grouping: int = 0
    epilogue: tuple = ()
    band: int = 8  # the host's choices
    band_columns: bool = False
    splits: int = 1
    overlap: bool = False
    architecture: str = "sm_80"

    def source(self):
        return _source(self, "mma_sm80/gemm", ("band", "band_columns", "splits", "overlap", "architecture"))

    def arch(self):
        return self.architecture

    def name(self):
        parts = [f"portable {self.tile_m}x{self.tile_n}", f"w{self.warps_m}x{self.warps_n}", f"s{self.stages}"]
        parts += [f"b{self.blocks_per_sm}"] if self.blocks_per_sm > 1 else []
        parts += [f"split{self.splits}"] if self.split_k else []
        return " ".join(parts + ([] if self.aligned else ["unaligned"]))

    # The launch facts of kernels/cuda/gemm/mma_sm80/layout.cuh.
    def threads(self):
        return 32 * self.warps_m * self.warps_n

    def shared_bytes(self):
        def operand(tile, along_k):
            if along_k or BYTES[self.type_a] != 2:
                return tile * (64 + 16)
            return 32 * (2 * tile + 16)

        stage = operand(self.tile_m, self.row_major_a) + operand(self.tile_n, not self.row_major_b)
        return self.stages * stage + 16

    def fits(self):
        return self.shared_bytes() <= 101376

    def tiles(self, p):
        tiles_n = -(-p.n // self.tile_n)
        if p.grouping:
            return tiles_n * sum(-(-r // self.tile_m) for r in p.group_rows)
        return tiles_n * -(-p.m // self.tile_m) * p.batch

    def workspace(self, p):
        return 4 * self.tiles(p) * self.splits * self.tile_m * self.tile_n, self.tiles(p)

    def launcher(self, kernel, t, sms, stream, workspace=None):
        a = t.args()
        a.band, a.band_columns, a.splits = self.band, int(self.band_columns), self.splits
        if self.split_k:
            a.partials, a.counters = workspace.pointers(*self.workspace(t.p))
        grid = max(1, self.tiles(t.p) * self.splits)
        return kernel.launcher_with((grid, 1, 1), (a,), stream, overlap=self.overlap)


@dataclass(frozen=True)
class Stream:
    """Few rows on Hopper: hopper/skinny.cuh."""

    type_a: str = "bf16"
    type_b: str = "bf16"
    type_d: str = "bf16"
    row_major_a: bool = True
    row_major_b: bool = False
    rows: int = 16
    columns: int = 32
    boxes: int = 4
    warps: int = 4
    stages: int = 8
    blocks_per_sm: int = 1
    pairs: bool = True
    staged_tensors: bool = False
    split_k: bool = False
    early_b: bool = False
    scaling: int = 0
    grouping: int = 0
    epilogue: tuple = ()
    splits: int = 1  # the host's choices
    overlap: bool = True

    def source(self):
        return _source(self, "hopper/skinny", ("splits", "overlap"))

    def arch(self):
        return "sm_90a"

    def name(self):
        parts = [f"stream {self.rows}x{self.columns}", f"k{self.boxes}", f"w{self.warps}", f"s{self.stages}"]
        parts += [f"b{self.blocks_per_sm}"] if self.blocks_per_sm > 1 else []
        parts += ["early"] if self.early_b else []
        return " ".join(parts + ([f"split{self.splits}"] if self.split_k else []))

    # The launch facts of kernels/cuda/gemm/hopper/skinny.cuh.
    def threads(self):
        return 32 * self.warps + 32

    def shared_bytes(self):
        ring = self.stages * self.boxes * (self.rows + self.columns) * 128
        return ring + self.warps * self.columns * 64 + 16 * self.stages + 16 + 1024

    def fits(self):
        return self.shared_bytes() * self.blocks_per_sm <= 233472 - 1024 * self.blocks_per_sm

    def items(self, p):
        return -(-p.n // self.columns) * p.batch * self.splits

    def workspace(self, p):
        own = -(-self.columns // 8 // self.warps) + 1
        return self.items(p) * 32 * self.warps * own * 16, self.items(p) // self.splits

    def launcher(self, kernel, t, sms, stream, workspace=None):
        a = t.args()
        a.splits = self.splits
        if self.split_k:
            a.partials, a.counters = workspace.pointers(*self.workspace(t.p))
        grid = min(self.items(t.p), sms * self.blocks_per_sm)
        maps, _ = operand_maps(t, self.rows, self.columns)
        return kernel.launcher_with((grid, 1, 1), (maps, a), stream, overlap=self.overlap)
