"""A GEMM problem: its tensors, its float64 reference (the meaning of kernels/cuda/gemm/abi.h), its argument struct."""

import ctypes
import math

import torch

import driver
from gemm_facts import BYTES, Problem

TORCH = dict(
    f32=torch.float32,
    bf16=torch.bfloat16,
    f16=torch.float16,
    e4m3=torch.float8_e4m3fn,
    e5m2=torch.float8_e5m2,
    s8=torch.int8,
    s32=torch.int32,
)


class Operand(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("row_stride", ctypes.c_longlong),
        ("batch_stride", ctypes.c_longlong),
        ("value", ctypes.c_float),
        ("limit", ctypes.c_float),
    ]


class Args(ctypes.Structure):
    _fields_ = (
        [(x, ctypes.c_void_p) for x in "a b d scale_a scale_b zero_b group_ends partials counters".split()]
        + [
            (x, ctypes.c_longlong)
            for x in (
                "a_stride b_stride d_stride a_batch_stride b_batch_stride d_batch_stride scale_a_row_stride "
                "scale_a_block_stride scale_a_batch_stride scale_b_row_stride scale_b_block_stride "
                "scale_b_batch_stride zero_b_row_stride zero_b_block_stride zero_b_batch_stride"
            ).split()
        ]
        + [("epilogue", Operand * 8), ("alpha", ctypes.c_float)]
        + [(x, ctypes.c_int) for x in "m n k batch groups band band_columns b_first next_at_end edges splits scale_shift k2".split()]
        + [(x, ctypes.c_void_p) for x in "a2 b2".split()]
        + [(x, ctypes.c_longlong) for x in "a2_stride b2_stride a2_batch_stride b2_batch_stride".split()]
    )


class Maps(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * (10 * 128))]


def _poison(storage):
    if storage.dtype in (torch.int8, torch.int32):
        storage.fill_(77)
    elif storage.element_size() == 1:
        storage.view(torch.uint8).fill_(0x7F)
    else:
        storage.fill_(math.nan)


def _matrix(p, type_name, entries, rows, columns, row_major=True):
    """An empty [entries, rows, columns] view amid NaNs: padding behind rows, and a row of it behind every entry."""
    inner, outer = (columns, rows) if row_major else (rows, columns)
    step = 16 // BYTES[type_name]
    pitch = (-(-inner // step) * step + step) if p.aligned else inner + 3
    first = 0 if p.aligned else 1
    if p.dense:
        view = torch.empty(entries, outer, inner, dtype=TORCH[type_name], device="cuda")
        return view, view if row_major else view.transpose(1, 2)
    storage = torch.empty(entries * (outer + 1) * pitch + first, dtype=TORCH[type_name], device="cuda")
    _poison(storage)
    view = storage[first:].view(entries, outer + 1, pitch)[:, :outer, :inner]
    return storage, view if row_major else view.transpose(1, 2)


class Tensors:
    def __init__(self, p, seed=1):
        g = torch.Generator(device="cuda").manual_seed(seed)
        self.p = p

        def draw(shape, exact=p.exact):
            if exact:
                return torch.randint(-2, 3, shape, generator=g, device="cuda").float()
            return torch.randn(shape, generator=g, device="cuda", dtype=torch.float32)

        def matrix(type_name, entries, rows, columns, row_major=True):
            storage, view = _matrix(p, type_name, entries, rows, columns, row_major)
            values = draw((entries, rows, columns))
            if type_name == "s8" and not p.exact:
                values = (values * 40).round().clamp(-128, 127)
            view.copy_(values.to(TORCH[type_name]))
            return storage, view

        self.storage_a, self.a = matrix(p.a, p.entries(), p.rows(), p.k, p.row_major_a)
        self.storage_b, self.b = matrix(p.b, p.entries_b(), p.k, p.n, p.row_major_b)
        self.storage_d, self.d = _matrix(p, p.d, p.entries(), p.rows(), p.columns())
        self.scale_a = self.scale_b = None
        blocks = -(-p.k // 128)
        if p.tensor_scales:
            self.scale_a, self.scale_b = (torch.rand(1, generator=g, device="cuda") + 0.5 for _ in range(2))
        if p.block_scales:
            self.scale_a = torch.rand(p.entries(), blocks, p.rows(), generator=g, device="cuda") + 0.5
            self.scale_b = torch.rand(p.entries_b(), -(-p.n // 128), blocks, generator=g, device="cuda") + 0.5
        self.group_ends = None
        if p.grouping:
            rows = list(p.group_rows)
            ends = [sum(rows[: i + 1]) for i in range(len(rows))]
            self.group_ends = torch.tensor(ends if p.grouping == 1 else rows, dtype=torch.int32, device="cuda")
        self.operands = []  # of each operation: (storage or None, view or None, value, limit)
        columns = p.n
        for operation, kind in p.epilogue:
            value, limit = (-3.0 if p.d == "s32" else 0.5, 0.0) if operation == "add" else (-0.75, 1.5)
            if operation.startswith("gate_"):
                columns //= 2
            if operation in ("add", "multiply"):
                self.operands.append((*matrix(kind, p.entries(), p.rows(), columns), value, limit))
            elif operation in ("bias_n", "scale_n", "bias_m", "scale_m"):
                along_n = operation.endswith("n")
                length, entries = (columns, p.entries_b()) if along_n else (p.rows(), p.entries())
                self.operands.append((*matrix(kind, entries, 1, length), value, limit))
            elif operation == "amax":
                amax = torch.zeros(1, 1, 1, device="cuda")
                self.operands.append((amax, amax, value, limit))
            else:
                self.operands.append((None, None, value, limit))
        self.poison()

    def poison(self):
        _poison(self.storage_d)
        for (operation, _), (storage, _, _, _) in zip(self.p.epilogue, self.operands):
            if operation == "amax":
                storage.zero_()

    def args(self):
        p, a = self.p, Args()
        a.a, a.b, a.d = self.a.data_ptr(), self.b.data_ptr(), self.d.data_ptr()
        a.a_stride = self.a.stride(1 if p.row_major_a else 2)
        a.b_stride = self.b.stride(1 if p.row_major_b else 2)
        a.d_stride = self.d.stride(1)
        a.a_batch_stride, a.b_batch_stride, a.d_batch_stride = (x.stride(0) for x in (self.a, self.b, self.d))
        if self.scale_a is not None:
            a.scale_a, a.scale_b = self.scale_a.data_ptr(), self.scale_b.data_ptr()
        if p.block_scales:
            a.scale_a_row_stride, a.scale_a_block_stride = 1, self.scale_a.stride(1)
            a.scale_a_batch_stride = self.scale_a.stride(0)
            a.scale_b_row_stride, a.scale_b_block_stride = self.scale_b.stride(1), 1
            a.scale_b_batch_stride = self.scale_b.stride(0)
        if p.grouping:
            a.group_ends, a.groups = self.group_ends.data_ptr(), len(p.group_rows)
        for i, (_, view, value, limit) in enumerate(self.operands):
            o = a.epilogue[i]
            o.value, o.limit = value, limit
            if view is not None:
                o.data, o.row_stride, o.batch_stride = view.data_ptr(), view.stride(1), view.stride(0)
        a.alpha, a.n, a.k, a.batch = p.alpha, p.n, p.k, p.batch
        a.m = p.rows()  # contiguous groups: of all together
        a.band, a.splits = 8, 1
        return a

    def untouched(self):
        """Whether everything around the results is still as it was, the rows of d that no group has included."""
        written = torch.zeros(self.storage_d.shape, dtype=torch.bool, device="cuda")
        d = written.as_strided(self.d.size(), self.d.stride(), self.d.storage_offset())
        for entry, rows, _ in _group_slices(self.p):
            d[entry, rows] = True
        poison = torch.empty_like(self.storage_d)
        _poison(poison)
        bits = {1: torch.int8, 2: torch.int16, 4: torch.int32}[poison.element_size()]
        return torch.equal(self.storage_d.view(bits)[~written], poison.view(bits)[~written])


def _activation(name, x, value, limit):
    if name == "relu":
        return x.clamp(min=0)
    if name == "gelu":
        return torch.nn.functional.gelu(x)
    if name == "gelu_tanh":
        return torch.nn.functional.gelu(x, approximate="tanh")
    if name == "silu":
        return torch.nn.functional.silu(x)
    if name == "sigmoid":
        return torch.sigmoid(x)
    if name == "tanh":
        return torch.tanh(x)
    assert name == "clamp", name
    return x.clamp(value, limit)


def _group_slices(p):
    """(entry of a and d, rows, entry of b) of every group or batch entry."""
    if p.grouping == 1:
        starts = [sum(p.group_rows[:i]) for i in range(len(p.group_rows) + 1)]
        return [(0, slice(starts[g], starts[g + 1]), g) for g in range(len(p.group_rows))]
    if p.grouping == 2:
        return [(g, slice(0, min(r, p.m)), g) for g, r in enumerate(p.group_rows)]
    return [(z, slice(0, p.m), z) for z in range(p.batch)]


def tf32(x):
    """Rounded to tf32 as the copy engine rounds: to nearest, ties away from zero."""
    bits = x.contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)


def reference(t):
    """[(entry, rows, result in float64)] and the largest magnitude (amax) in float64."""
    p = t.p
    out, most = [], 0.0
    for entry, rows, g in _group_slices(p):
        a, b = t.a[entry, rows], t.b[g]
        a, b = (x.float().double() for x in (a, b))
        if p.block_scales:
            x = torch.zeros(a.shape[0], p.n, dtype=torch.float64, device="cuda")
            columns = t.scale_b[g].repeat_interleave(128, 0)[: p.n].double()
            for block in range(-(-p.k // 128)):
                ks = slice(128 * block, 128 * block + 128)
                x += (a[:, ks] @ b[ks]) * t.scale_a[entry, block, rows].double()[:, None] * columns[None, :, block]
        else:
            x = a @ b
        x = x * p.alpha
        if p.tensor_scales:
            x = x * t.scale_a.double() * t.scale_b.double()
        for (operation, _), (_, view, value, limit) in zip(p.epilogue, t.operands):
            if operation == "add":
                x = x + value * view[entry, rows].double()
            elif operation == "multiply":
                x = x * view[entry, rows].double()
            elif operation == "bias_n":
                x = x + view[g].double()
            elif operation == "scale_n":
                x = x * view[g].double()
            elif operation == "bias_m":
                x = x + view[entry, 0, rows].double()[:, None]
            elif operation == "scale_m":
                x = x * view[entry, 0, rows].double()[:, None]
            elif operation.startswith("gate_"):
                x = _activation(operation[5:], x[:, 0::2], value, limit) * x[:, 1::2]
            elif operation == "amax":
                most = max(most, x.abs().max().item() if x.numel() else 0.0)
            else:
                x = _activation(operation, x, value, limit)
        out.append((entry, rows, x))
    return out, most


def rounded(x, type_name):
    """float64 values as the output type holds them."""
    if type_name == "s32":
        return x.round().to(torch.int32)
    if type_name == "s8":
        return x.float().round().clamp(-128, 127).to(torch.int8)
    limit = dict(e4m3=448.0, e5m2=57344.0).get(type_name)
    return (x if limit is None else x.clamp(-limit, limit)).float().to(TORCH[type_name])
