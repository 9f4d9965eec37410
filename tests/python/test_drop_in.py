"""Composable Kernel's C functions, called as its Python scripts call them: argument types declared for ctypes, arrays of
NumPy's by their addresses, bf16 as uint16. Results are compared with float64."""

import ctypes
import json
import math
import os

import numpy as np
import pytest

import reference

pytestmark = pytest.mark.skipif("TILESMITH_DROP_IN" not in os.environ, reason="TILESMITH_DROP_IN names no library")

INT, FLOAT, POINTER, TEXT, TIME = ctypes.c_int, ctypes.c_float, ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_float)
SIZES = [INT] * 7 + [FLOAT]
SIGNATURES = {
    "fmha_dispatcher_initialize": (INT, [TEXT]),
    "fmha_dispatcher_kernel_count": (INT, []),
    "fmha_dispatcher_cleanup": (None, []),
    "fmha_dispatcher_run_fwd": (INT, [POINTER] * 4 + SIZES + [INT] * 8 + [TEXT] + [INT] * 6 + [TIME]),
    "fmha_dispatcher_run_bwd": (INT, [POINTER] * 9 + SIZES + [TEXT] + [INT] * 8 + [TIME]),
    "fmha_dispatcher_run_splitkv": (INT, [POINTER] * 4 + SIZES + [INT] * 3 + [TEXT] + [INT] * 10 + [TIME]),
    "fmha_dispatcher_run_pagedkv": (INT, [POINTER] * 4 + SIZES + [INT] * 3 + [TEXT] + [INT] * 5 + [TIME]),
    "fmha_dispatcher_run_appendkv": (INT, [POINTER] * 3 + [INT] * 11 + [TEXT, TIME]),
    "fmha_dispatcher_run_batch_prefill": (INT, [POINTER] * 4 + SIZES + [INT] * 6 + [TEXT] + [INT] * 5 + [TIME]),
    "fmha_dispatcher_appended": (INT, [POINTER] * 3),
    "ck_fmha_register_kernels": (INT, [POINTER, TEXT]),
    "dispatcher_init": (INT, []),
    "dispatcher_initialize": (INT, []),
    "dispatcher_cleanup": (None, []),
    "dispatcher_get_kernel_config": (INT, [ctypes.POINTER(INT)] * 9),
    "dispatcher_select_kernel": (INT, [ctypes.c_int64] * 3 + [TEXT, INT]),
    "dispatcher_is_supported": (INT, [ctypes.c_int64] * 3),
    "dispatcher_run_gemm": (INT, [POINTER] * 3 + [ctypes.c_int64] * 3 + [TIME]),
    "dispatcher_run_grouped_gemm": (INT, [INT] + [ctypes.POINTER(ctypes.c_int64)] * 3 + [ctypes.POINTER(POINTER)] * 3 + [TIME]),
    "dispatcher_get_kernel_name": (TEXT, []),
    "dispatcher_get_kernel_name_at": (INT, [INT, TEXT, INT]),
    "dispatcher_get_kernel_count": (INT, []),
    "dispatcher_export_registry_json": (TEXT, []),
    "conv_dispatcher_init": (INT, []),
    "conv_dispatcher_cleanup": (INT, []),
    "conv_dispatcher_version": (TEXT, []),
    "conv_dispatcher_has_kernels": (INT, []),
    "conv_dispatcher_has_bwd_data": (INT, []),
    "conv_dispatcher_has_bwd_weight": (INT, []),
    "conv_dispatcher_get_kernel_count": (INT, []),
    "conv_dispatcher_get_kernel_name": (INT, [INT, TEXT, INT]),
    "conv_dispatcher_is_supported": (INT, [POINTER]),
    "conv_dispatcher_select_kernel": (INT, [POINTER, TEXT, INT]),
    "conv_dispatcher_run": (FLOAT, [POINTER] * 5),
}


class ConvProblem(ctypes.Structure):
    _fields_ = [(name, INT) for name in (
        "N G C K input_d input_h input_w filter_z filter_y filter_x stride_d stride_h stride_w "
        "pad_d pad_h pad_w dilation_d dilation_h dilation_w direction").split()]  # fmt: skip


@pytest.fixture
def lib(monkeypatch):
    monkeypatch.setenv("TILESMITH_CK_DEVICE", "cpu")
    library = ctypes.CDLL(os.environ["TILESMITH_DROP_IN"])
    for name, (result, arguments) in SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    yield library
    library.fmha_dispatcher_cleanup()
    library.dispatcher_cleanup()
    library.conv_dispatcher_cleanup()


@pytest.fixture
def attention(lib):
    assert lib.fmha_dispatcher_initialize(b"gfx942") == 0
    return lib


def stored(values, dtype):
    """As a script stores a tensor, and what it then is in float64."""
    values = np.ascontiguousarray(values, np.float32)
    if dtype == "bf16":
        bits = values.view(np.uint32)
        kept = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
        return kept, loaded(kept, dtype)
    kept = np.ascontiguousarray(values.astype({"fp16": np.float16, "fp32": np.float32}[dtype]))
    return kept, kept.astype(np.float64)


def loaded(array, dtype):
    if dtype == "bf16":
        return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return array.astype(np.float64)


TOLERANCE = {"fp32": 2e-5, "fp16": 4e-3, "bf16": 3e-2}


def near(got, expected, dtype):
    np.testing.assert_allclose(got, expected, rtol=0, atol=TOLERANCE[dtype] * max(1.0, np.abs(expected).max()))


class Call:
    """Inputs of one attention call and its arguments in the script's order."""

    def __init__(self, rng, dtype="fp16", batch=2, heads=(4, 2), rows=(33, 70), dims=(64, 64)):
        self.dtype, self.batch, self.heads, self.rows, self.dims = dtype, batch, heads, rows, dims
        make = lambda head, row, dim: stored(rng.uniform(-1, 1, (batch, head, row, dim)), dtype)  # noqa: E731
        (self.q, self.q64), (self.k, self.k64), (self.v, self.v64) = (
            make(heads[0], rows[0], dims[0]), make(heads[1], rows[1], dims[0]), make(heads[1], rows[1], dims[1]))  # fmt: skip
        self.o = np.full((batch, heads[0], rows[0], dims[1]), 77, self.q.dtype)
        self.scale = 1 / math.sqrt(dims[0])
        self.time = ctypes.c_float(-5)

    def sizes(self):
        return (self.batch, *self.heads, *self.rows, *self.dims, self.scale)

    def forward(self, lib, mask=0, window=(-1, -1), bias=0, lse=0, dropout=0, perm=1, group=0, logits=0, sink=0, traits=(0, 0), v_row=1):
        """The result as (batch, head, row, dim)."""
        into, back = layout(perm, group)
        q, k, v, o = (into(x) for x in (self.q, self.k, self.v, self.o))
        code = lib.fmha_dispatcher_run_fwd(
            q.ctypes.data, k.ctypes.data, v.ctypes.data, o.ctypes.data, *self.sizes(), mask, bias, lse, dropout, *traits, v_row,
            perm, self.dtype.encode(), group, *window, logits, sink, 0, ctypes.byref(self.time))  # fmt: skip
        return code, loaded(back(o, self.batch), self.dtype)

    def expected(self, **traits):
        return reference.attention(self.q64, self.k64, self.v64, scale=self.scale, **traits)[0]


def layout(perm, group):
    """From (batch, head, row, dim) to the layout that perm and group mean, and back."""
    if not group:
        order = (0, 1, 2, 3) if perm else (0, 2, 1, 3)
        return (lambda x: np.ascontiguousarray(x.transpose(order))), (lambda x, _: x.transpose(order))
    if perm:  # (head, token, dim)
        into = lambda x: np.ascontiguousarray(x.transpose(1, 0, 2, 3)).reshape(x.shape[1], -1, x.shape[3])  # noqa: E731
        return into, lambda x, batch: x.reshape(x.shape[0], batch, -1, x.shape[2]).transpose(1, 0, 2, 3)
    into = lambda x: np.ascontiguousarray(x.transpose(0, 2, 1, 3)).reshape(-1, x.shape[1], x.shape[3])  # noqa: E731
    return into, lambda x, batch: x.reshape(batch, -1, *x.shape[1:]).transpose(0, 2, 1, 3)


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp32"])
@pytest.mark.parametrize("perm,group", [(1, 0), (0, 0), (1, 1), (0, 1)])
def test_forward_in_every_layout(attention, rng, dtype, perm, group):
    call = Call(rng, dtype, dims=(64, 32))
    code, o = call.forward(attention, perm=perm, group=group)
    assert code == 0 and call.time.value > 0
    near(o, call.expected(), dtype)


MASKS = [
    ((0, -1, -1), {}),
    ((0, 5, 0), {}),  # without a mask the window is not read
    ((1, -1, 0), {"mask": "top_left"}),
    ((1, -1, -1), {"mask": "top_left"}),
    ((1, 9, 0), {"mask": "top_left", "window": (9, -1)}),
    ((1, 9, 4), {"window": (9, 4), "diagonal": 33 - 70}),
    ((2, -1, 0), {"mask": "bottom_right"}),
    ((2, 9, 0), {"mask": "bottom_right", "window": (9, -1)}),
    ((2, 9, 4), {"window": (9, 4)}),
    ((3, 9, 0), {"window": (9, 0)}),
]


@pytest.mark.parametrize("given,meant", MASKS)
def test_masks(attention, rng, given, meant):
    call = Call(rng)
    code, o = call.forward(attention, mask=given[0], window=given[1:])
    assert code == 0
    near(o, call.expected(**meant), "fp16")


def test_features_have_the_values_that_no_argument_gives(attention, rng):
    call = Call(rng)
    heads = call.heads[0]
    for bias in (1, 2):  # of zeros
        near(call.forward(attention, bias=bias)[1], call.expected(), "fp16")
    near(call.forward(attention, sink=1)[1], call.expected(sink=np.zeros(heads)), "fp16")
    call.q64 *= 40
    call.q = call.q64.astype(np.float16)
    near(call.forward(attention, logits=1)[1], call.expected(softcap=30.0), "fp16")
    call = Call(rng)
    near(call.forward(attention, dropout=1, lse=1)[1], call.expected(dropout_p=0.2, seed=1), "fp16")
    # A kernel for larger head dims serves smaller ones, not the other way round.
    assert call.forward(attention, traits=(128, 128))[0] == 0
    assert call.forward(attention, traits=(32, 64))[0] == -2


def test_fp8_is_read_as_e4m3(attention):
    """1, 2, 0.5 and 0 in e4m3 are 0x38, 0x40, 0x30 and 0."""
    table = {0x38: 1.0, 0x40: 2.0, 0x30: 0.5, 0x00: 0.0}
    rng = np.random.default_rng(3)
    q, k, v = (rng.choice(list(table), (1, 2, rows, 32)).astype(np.uint8) for rows in (5, 40, 40))
    wide = [np.vectorize(table.get)(x) for x in (q, k, v)]
    expected = reference.attention(*wide, scale=0.1)[0]
    o = np.zeros((1, 2, 5, 32), np.uint16)
    run = lambda dtype: attention.fmha_dispatcher_run_fwd(  # noqa: E731
        q.ctypes.data, k.ctypes.data, v.ctypes.data, o.ctypes.data, 1, 2, 2, 5, 40, 32, 32, 0.1, 0, 0, 0, 0, 0, 0, 1, 1,
        dtype, 0, -1, -1, 0, 0, 0, None)  # fmt: skip
    assert run(b"fp8bf16") == 0
    near(loaded(o, "bf16"), expected, "bf16")
    for other in (b"fp8", b"bf8", b"fp8fp32", b"fp12", b""):
        assert run(other) == -2


def pages_of(x, page):
    """(batch, head, row, dim) as (pages, head, page, dim), each sequence's last page filled with NaN."""
    batch, heads, rows, dim = x.shape
    each = -(-rows // page)
    full = np.full((batch, heads, each * page, dim), 0x7FFF if x.dtype == np.uint16 else np.nan, x.dtype)
    full[:, :, :rows] = x
    return np.ascontiguousarray(full.reshape(batch, heads, each, page, dim).transpose(0, 2, 1, 3, 4))


@pytest.mark.parametrize("splits", [1, 3, 8])
@pytest.mark.parametrize("perm,group", [(1, 0), (0, 1)])
@pytest.mark.parametrize("page", [0, 16])
def test_splits(attention, rng, splits, perm, group, page):
    call = Call(rng, rows=(3, 200))
    into, back = layout(perm, group)
    k, v = (pages_of(x, page) if page else into(x) for x in (call.k, call.v))
    q, o = into(call.q), into(call.o)
    code = attention.fmha_dispatcher_run_splitkv(
        q.ctypes.data, k.ctypes.data, v.ctypes.data, o.ctypes.data, *call.sizes(), 2, splits, 1, b"fp16", 1, group, perm, 0, 0, 0,
        int(page > 0), page, -1, 0, ctypes.byref(call.time))  # fmt: skip
    assert code == 0 and call.time.value > 0
    near(loaded(back(o, call.batch), "fp16"), call.expected(mask="bottom_right"), "fp16")


@pytest.mark.parametrize("page", [1, 16, 64])
def test_pages(attention, rng, page):
    call = Call(rng, "bf16")
    into, back = layout(0, 1)
    q, o, k, v = into(call.q), into(call.o), pages_of(call.k, page), pages_of(call.v, page)
    code = attention.fmha_dispatcher_run_pagedkv(
        q.ctypes.data, k.ctypes.data, v.ctypes.data, o.ctypes.data, *call.sizes(), 1, page, 1, b"bf16", 0, 0, 1, 0, 2,
        ctypes.byref(call.time))  # fmt: skip
    assert code == 0
    near(loaded(back(o, call.batch), "bf16"), call.expected(mask="top_left", sink=np.zeros(4)), "bf16")


@pytest.mark.parametrize("vectorized", [True, False])
@pytest.mark.parametrize("lookup", [0, 1])
def test_batch_prefill(attention, rng, vectorized, lookup):
    call, page, vec = Call(rng, dims=(64, 32)), 16, 8
    into, back = layout(0, 1)
    q, o, k, v = into(call.q), into(call.o), pages_of(call.k, page), pages_of(call.v, page)
    if vectorized:
        k = np.ascontiguousarray(k.reshape(*k.shape[:-1], -1, vec).swapaxes(-3, -2))  # (dim / vec, page, vec)
        v = np.ascontiguousarray(v.reshape(*v.shape[:3], page // vec, vec, -1).swapaxes(-2, -1))  # (page / vec, dim, vec)
    arguments = (*call.sizes(), 2, 0, page, 0 if vectorized else 1, lookup, 1, b"fp16", 0, 0, 0, 0, 0)
    pointers = (q.ctypes.data, k.ctypes.data, v.ctypes.data, o.ctypes.data)
    assert attention.fmha_dispatcher_run_batch_prefill(*pointers, *arguments, ctypes.byref(call.time)) == 0
    near(loaded(back(o, call.batch), "fp16"), call.expected(mask="bottom_right"), "fp16")
    # The later form of the function has a scale's kind where this one has the time's place.
    assert attention.fmha_dispatcher_run_batch_prefill(*pointers, *arguments, ctypes.cast(3, TIME)) == -2


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp32"])
@pytest.mark.parametrize("group", [0, 1])
@pytest.mark.parametrize("features", [{}, {"mask": 2}, {"mask": 1, "bias": 1, "dbias": 1}, {"dropout": 1, "deterministic": 1}])
def test_backward(attention, rng, dtype, group, features):
    call = Call(rng, dtype, dims=(32, 64))
    into, back = layout(1, group)
    traits = {"mask": {1: "top_left", 2: "bottom_right"}.get(features.get("mask"), "none")}
    if "dropout" in features:
        traits |= {"dropout_p": 0.2, "seed": 1}
    o64, lse = reference.attention(call.q64, call.k64, call.v64, scale=call.scale, **traits)
    o, dout = stored(o64, dtype)[0], stored(rng.uniform(-1, 1, o64.shape), dtype)[0]
    lse = np.ascontiguousarray(lse if not group else lse.transpose(1, 0, 2).reshape(lse.shape[1], -1), np.float32)
    tensors = [into(x) for x in (call.q, call.k, call.v, o)] + [lse, into(dout)]
    gradients = [into(np.full_like(x, 77)) for x in (call.q, call.k, call.v)]
    code = attention.fmha_dispatcher_run_bwd(
        *(x.ctypes.data for x in tensors + gradients), *call.sizes(), dtype.encode(), features.get("mask", 0), features.get("bias", 0),
        features.get("dropout", 0), features.get("dbias", 0), features.get("deterministic", 0), group, 0, 128,
        ctypes.byref(call.time))  # fmt: skip
    assert code == 0 and call.time.value > 0
    expected = reference.attention_backward(loaded(dout, dtype), call.q64, call.k64, call.v64, scale=call.scale, **traits)
    for got, name in zip(gradients, ("dq", "dk", "dv")):
        near(loaded(back(got, call.batch), dtype), expected[name], dtype)


def turned(x, positions, interleaved):
    """Rotary embeddings of the whole head, base 10000."""
    dim = x.shape[-1]
    angle = np.asarray(positions)[:, None] * 10000.0 ** (-2 * np.arange(dim // 2) / dim)
    cos, sin = np.cos(angle), np.sin(angle)
    a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., : dim // 2], x[..., dim // 2 :])
    first, second = a * cos - b * sin, b * cos + a * sin
    return np.stack([first, second], -1).reshape(x.shape) if interleaved else np.concatenate([first, second], -1)


@pytest.mark.parametrize("rope", [0, 1, 2])
@pytest.mark.parametrize("page", [0, 16])
def test_append(attention, rng, rope, page):
    call = Call(rng, rows=(9, 12), dims=(64, 32))
    before, new = call.rows
    q, k, v = call.q.copy(), call.k.copy(), call.v.copy()
    assert attention.fmha_dispatcher_appended(None, None, None) == -1  # nothing was appended yet
    code = attention.fmha_dispatcher_run_appendkv(
        q.ctypes.data, k.ctypes.data, v.ctypes.data, call.batch, *call.heads, before, new, *call.dims, 1, rope, int(page > 0), page,
        b"fp16", ctypes.byref(call.time))  # fmt: skip
    assert code == 0 and call.time.value > 0
    assert np.array_equal(q, call.q) and np.array_equal(k, call.k) and np.array_equal(v, call.v)  # inputs stay
    after = np.zeros_like(q)
    rows = before + new
    caches = [np.full((call.batch, call.heads[1], rows, dim), 7, np.float16) for dim in call.dims]
    if page:
        caches = [pages_of(x, page) for x in caches]
    assert attention.fmha_dispatcher_appended(after.ctypes.data, caches[0].ctypes.data, caches[1].ctypes.data) == 0
    if page:
        caches = [x.transpose(0, 2, 1, 3, 4).reshape(call.batch, call.heads[1], -1, x.shape[-1]) for x in caches]
    expected_q, expected_k = call.q64, call.k64
    if rope:
        expected_q = turned(call.q64, np.full(before, before), rope == 1)
        expected_k = turned(call.k64, np.arange(before, rows), rope == 1)
    near(after.astype(np.float64), expected_q, "fp16")
    for cache, expected in zip(caches, (expected_k, call.v64)):
        near(cache[:, :, before:rows].astype(np.float64), expected, "fp16")
        assert not cache[:, :, :before].any() and not cache[:, :, rows:].any()


def test_attention_answers_with_numbers(lib, rng, capfd):
    call = Call(rng)
    assert lib.fmha_dispatcher_kernel_count() == 0
    assert call.forward(lib)[0] == -1 and "not initialised" in capfd.readouterr().err
    assert lib.fmha_dispatcher_initialize(None) == 0
    assert lib.fmha_dispatcher_initialize(b"cpu") == 0  # a second time changes nothing
    assert lib.fmha_dispatcher_kernel_count() > 10
    for wrong, words in (({"mask": 7}, "mask_type"), ({"bias": 3}, "bias_type"), ({"v_row": 0}, "is_v_rowmajor")):
        assert call.forward(lib, **wrong)[0] == -2
        assert words in capfd.readouterr().err
    call.dtype = "fp8"
    call_of_nothing = lambda: lib.fmha_dispatcher_run_fwd(None, *[call.k.ctypes.data] * 3, *call.sizes(), *[0] * 8, b"fp16", *[0] * 6, None)  # noqa: E731
    assert call_of_nothing() == -1 and "q is null" in capfd.readouterr().err
    call = Call(rng, heads=(3, 2))
    assert call.forward(lib)[0] == -2
    assert lib.ck_fmha_register_kernels(None, b"gfx942") == 0
    lib.fmha_dispatcher_cleanup()
    assert lib.fmha_dispatcher_kernel_count() == 0 and call.forward(lib)[0] == -1


def test_a_device_that_is_none(lib, monkeypatch, capfd):
    monkeypatch.setenv("TILESMITH_CK_DEVICE", "toaster")
    assert lib.fmha_dispatcher_initialize(b"gfx942") == -1 and "TILESMITH_CK_DEVICE" in capfd.readouterr().err
    assert lib.dispatcher_init() == -1 and lib.conv_dispatcher_init() == -1


def in_order(matrix, letter):
    """The bytes of a matrix, rows or columns behind one another."""
    return np.ascontiguousarray(matrix if letter == "r" else matrix.T)


@pytest.mark.parametrize("kind", ["", "fp16_rcr", "bf16_rrr", "fp32_crc", "bf16_ccr", "int8_rcr", "fp8_rcr"])
def test_gemm(lib, rng, monkeypatch, kind):
    if kind:
        monkeypatch.setenv("TILESMITH_CK_GEMM", kind)
    dtype, letters = (kind or "fp16_rcr").split("_")
    m, n, k = 50, 33, 70
    c_type = {"int8": np.int32, "fp8": np.float16, "bf16": np.uint16, "fp32": np.float32}.get(dtype, np.float16)
    if dtype == "int8":
        a64, b64 = (rng.integers(-9, 10, shape).astype(np.int8) for shape in ((m, k), (k, n)))
        a, b = a64, b64
    elif dtype == "fp8":
        codes = np.array([0x00, 0x30, 0x38, 0x40, 0xB8], np.uint8)
        values = np.array([0, 0.5, 1, 2, -1])
        chosen = [rng.integers(0, 5, shape) for shape in ((m, k), (k, n))]
        (a, b), (a64, b64) = [codes[x] for x in chosen], [values[x] for x in chosen]
    else:
        (a, a64), (b, b64) = (stored(rng.uniform(-1, 1, shape), dtype) for shape in ((m, k), (k, n)))
    a, b = in_order(a, letters[0]), in_order(b, letters[1])
    c = np.full((m, n) if letters[2] == "r" else (n, m), 77, c_type)
    time = ctypes.c_float(-5)
    assert lib.dispatcher_init() == 0 and lib.dispatcher_initialize() == 0
    assert lib.dispatcher_run_gemm(a.ctypes.data, b.ctypes.data, c.ctypes.data, m, n, k, ctypes.byref(time)) == 0
    assert time.value > 0
    got = (loaded(c, "bf16") if c_type is np.uint16 else c.astype(np.float64)).reshape(c.shape)
    expected = a64.astype(np.float64) @ b64.astype(np.float64)
    near(got if letters[2] == "r" else got.T, expected, {"int8": "fp32", "fp8": "fp16"}.get(dtype, dtype))


def test_grouped_gemm(lib, rng):
    assert lib.dispatcher_initialize() == 0
    shapes = [(5, 32, 64), (100, 17, 64), (1, 1, 8)]
    matrices = [(stored(rng.uniform(-1, 1, (m, k)), "fp16"), stored(rng.uniform(-1, 1, (n, k)), "fp16")) for m, n, k in shapes]
    results = [np.full((m, n), 77, np.float16) for m, n, _ in shapes]
    sizes = [(ctypes.c_int64 * 3)(*column) for column in zip(*shapes)]
    addresses = [(POINTER * 3)(*column) for column in zip(*(
        (a.ctypes.data, b.ctypes.data, c.ctypes.data) for ((a, _), (b, _)), c in zip(matrices, results)))]  # fmt: skip
    time = ctypes.c_float(-5)
    assert lib.dispatcher_run_grouped_gemm(3, *sizes, *addresses, ctypes.byref(time)) == 0 and time.value > 0
    for ((_, a64), (_, b64)), c in zip(matrices, results):
        near(c.astype(np.float64), a64 @ b64.T, "fp16")
    addresses[1][1] = None
    assert lib.dispatcher_run_grouped_gemm(3, *sizes, *addresses, None) == -1
    assert lib.dispatcher_run_grouped_gemm(0, *sizes, *addresses, None) == -1


def test_gemm_kernels_are_named(lib, monkeypatch):
    assert lib.dispatcher_get_kernel_count() == 0 and lib.dispatcher_get_kernel_name() == b""
    assert lib.dispatcher_is_supported(64, 64, 64) == 0
    assert lib.dispatcher_initialize() == 0
    count = lib.dispatcher_get_kernel_count()
    assert count > 1
    buffer = ctypes.create_string_buffer(256)
    names = []
    for i in range(count):
        assert lib.dispatcher_get_kernel_name_at(i, buffer, 256) == 0
        names.append(buffer.value.decode())
    assert len(set(names)) == count and names[0] == lib.dispatcher_get_kernel_name().decode()
    assert lib.dispatcher_get_kernel_name_at(count, buffer, 256) == -1 and lib.dispatcher_get_kernel_name_at(-1, buffer, 256) == -1
    assert lib.dispatcher_get_kernel_name_at(0, buffer, 5) == 0 and buffer.value.decode() == names[0][:4]
    exported = json.loads(lib.dispatcher_export_registry_json())
    assert exported["metadata"]["total_kernels"] == count and [kernel["name"] for kernel in exported["kernels"]] == names
    config = [INT(-1) for _ in range(9)]
    assert lib.dispatcher_get_kernel_config(*(ctypes.byref(x) for x in config)) == 0
    tile = exported["kernels"][0]["algorithm"]["tile_shape"]
    assert [x.value for x in config[:3]] == [tile[x] for x in "mnk"] and tile["m"] > 0
    assert lib.dispatcher_get_kernel_config(*[None] * 9) == 0
    assert lib.dispatcher_is_supported(64, 64, 64) == 1 and lib.dispatcher_is_supported(0, 64, 64) == 0
    assert lib.dispatcher_select_kernel(64, 64, 64, buffer, 256) == 0 and buffer.value
    assert lib.dispatcher_select_kernel(-1, 64, 64, buffer, 256) == -1
    time = ctypes.c_float(-5)
    memory = np.zeros(64, np.float16).ctypes.data
    assert lib.dispatcher_run_gemm(memory, memory, memory, 0, 1, 1, ctypes.byref(time)) == -2 and time.value == -1
    assert lib.dispatcher_run_gemm(None, memory, memory, 1, 1, 1, None) == -1
    lib.dispatcher_cleanup()
    assert lib.dispatcher_run_gemm(memory, memory, memory, 1, 1, 1, None) == -1
    for wrong in ("fp16", "fp16_rc", "fp16_rcx", "fp12_rcr"):
        monkeypatch.setenv("TILESMITH_CK_GEMM", wrong)
        assert lib.dispatcher_initialize() == -1


def convolution(x, w, stride, pad, dilation):
    """(n, *pixels, g, c) and (g, k, *taps, c) to (n, *pixels, g, k), in float64."""
    spatial = x.ndim - 3
    x = np.pad(x, [(0, 0), *((p, p) for p in pad), (0, 0), (0, 0)])
    taps = w.shape[2:-1]
    out = [(x.shape[1 + d] - dilation[d] * (taps[d] - 1) - 1) // stride[d] + 1 for d in range(spatial)]
    y = np.zeros((x.shape[0], *out, w.shape[0], w.shape[1]))
    for tap in np.ndindex(*taps):
        window = tuple(slice(tap[d] * dilation[d], tap[d] * dilation[d] + stride[d] * (out[d] - 1) + 1, stride[d]) for d in range(spatial))
        y += np.einsum("n...gc,gkc->n...gk", x[(slice(None), *window)], w[(slice(None), slice(None), *tap)])
    return y


def gradient(function, at, seed):
    """Of sum(function(at) * seed), a linear function, by its value at each unit vector."""
    result = np.zeros(at.size)
    for i in range(at.size):
        unit = np.zeros(at.size)
        unit[i] = 1
        result[i] = (function(unit.reshape(at.shape)) * seed).sum()
    return result.reshape(at.shape)


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp32"])
@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("groups", [1, 2])
def test_convolution(lib, rng, monkeypatch, dtype, depth, groups):
    monkeypatch.setenv("TILESMITH_CK_CONV", dtype)
    assert lib.conv_dispatcher_init() == 0
    c, k, pixels, taps = 2, 3, (5, 4), (3, 2)
    stride, pad, dilation = (2, 1), (1, 2), (1, 2)
    if depth > 1:
        pixels, taps, stride, pad, dilation = (depth, *pixels), (2, *taps), (1, *stride), (1, *pad), (1, *dilation)
    (x, x64), (w, w64) = (
        stored(rng.uniform(-1, 1, shape), dtype) for shape in ((2, *pixels, groups, c), (groups, k, *taps, c)))  # fmt: skip
    y64 = convolution(x64, w64, stride, pad, dilation)
    dy, dy64 = stored(rng.uniform(-1, 1, y64.shape), dtype)

    def problem(direction):
        deep = lambda values, flat: tuple(values) if depth > 1 else (flat, *values)  # noqa: E731
        return ConvProblem(2, groups, groups * c, groups * k, *deep(pixels, 1), *deep(taps, 1), *deep(stride, 1), *deep(pad, 0),
                           *deep(dilation, 1), direction)  # fmt: skip

    def run(direction, first, second, result):
        asked = problem(direction)
        assert lib.conv_dispatcher_is_supported(ctypes.byref(asked)) == 1
        milliseconds = lib.conv_dispatcher_run(first.ctypes.data, second.ctypes.data, result.ctypes.data, ctypes.byref(asked), None)
        assert milliseconds > 0
        return loaded(result, dtype)

    near(run(0, x, w, np.full(y64.shape, 77, x.dtype)), y64, dtype)
    near(run(1, dy, w, np.full_like(x, 77)), gradient(lambda at: convolution(at, w64, stride, pad, dilation), x64, dy64), dtype)
    near(run(2, x, dy, np.full_like(w, 77)), gradient(lambda at: convolution(x64, at, stride, pad, dilation), w64, dy64), dtype)


def test_convolution_answers_with_numbers(lib, capfd, monkeypatch):
    good = ConvProblem(1, 1, 8, 8, 1, 6, 6, 1, 3, 3, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0)
    memory = np.zeros(9 * 64, np.float16).ctypes.data
    run = lambda problem: lib.conv_dispatcher_run(memory, memory, memory, ctypes.byref(problem), None)  # noqa: E731
    assert run(good) == -1 and lib.conv_dispatcher_is_supported(ctypes.byref(good)) == 0
    assert lib.conv_dispatcher_has_kernels() == 0 and lib.conv_dispatcher_get_kernel_count() == 0
    assert lib.conv_dispatcher_init() == 0
    assert lib.conv_dispatcher_version()
    assert lib.conv_dispatcher_has_kernels() == lib.conv_dispatcher_has_bwd_data() == lib.conv_dispatcher_has_bwd_weight() == 1
    buffer = ctypes.create_string_buffer(256)
    for i in range(lib.conv_dispatcher_get_kernel_count()):
        assert lib.conv_dispatcher_get_kernel_name(i, buffer, 256) == 0 and buffer.value
    assert lib.conv_dispatcher_get_kernel_name(i + 1, buffer, 256) == -1 and lib.conv_dispatcher_get_kernel_name(0, None, 9) == -1
    assert lib.conv_dispatcher_select_kernel(ctypes.byref(good), buffer, 256) == 0 and buffer.value
    for field, value in (("direction", 3), ("G", 3), ("stride_h", 0), ("G", 0), ("filter_y", 99)):
        wrong = ConvProblem.from_buffer_copy(good)
        setattr(wrong, field, value)
        assert run(wrong) == -3 and lib.conv_dispatcher_is_supported(ctypes.byref(wrong)) == 0
    assert lib.conv_dispatcher_run(None, memory, memory, ctypes.byref(good), None) == -1
    assert "slot 0 is null" in capfd.readouterr().err
    assert lib.conv_dispatcher_cleanup() == 0 and run(good) == -1
    monkeypatch.setenv("TILESMITH_CK_CONV", "fp8")
    assert lib.conv_dispatcher_init() == -1 and "TILESMITH_CK_CONV" in capfd.readouterr().err
