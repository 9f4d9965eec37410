"""Random misuses of every public function: each computes, or is refused by an exception of the package with a hint.

A case is a sensible call with a few of its arguments replaced. TILESMITH_FUZZ_CASES says how many each function gets, and
TILESMITH_FUZZ_SEED which; a failure names the call's number, and `python -c "import test_fuzz; test_fuzz.show(NAME, SEED, NUMBER)"`
here shows its arguments."""

import functools
import os
import random

import numpy as np
import pytest
from test_misuse import WRONG_OPTIONS, WRONG_TENSORS, Odd

import tilesmith

CASES = int(os.environ.get("TILESMITH_FUZZ_CASES") or (4000 if os.environ.get("TILESMITH_TEST_THOROUGH") else 90))
SEED = int(os.environ.get("TILESMITH_FUZZ_SEED") or 1)

F, I, L = np.float32, np.int32, np.int64
#: The extent of most dimensions: few enough that random changes often agree.
SIZES = (0, 1, 2, 3, 4, 5, 8, 16, 17)
NUMPY_TYPES = ("f4", "f2", "f8", "i1", "u1", "i4", "i8", "c8", "?", ">f4", "u2", "O", "S3")


def ones(*shape, dtype=F):
    return np.ones(shape, dtype)


def table(*rows, dtype=I):
    return np.array(rows, dtype)


def attention_of(**more):
    return {"q": ones(2, 4, 3, 16), "k": ones(2, 2, 5, 16), "v": ones(2, 2, 5, 16), **more}


PAGED = {"q": ones(2, 4, 1, 16), "k": ones(3, 4, 2, 16), "v": ones(3, 4, 2, 16), "seqlens_k": table(5, 3)}
APPEND = {"k": ones(2, 2, 1, 16), "v": ones(2, 2, 1, 16), "k_cache": ones(3, 4, 2, 16), "v_cache": ones(3, 4, 2, 16), "seqlens_k": table(2, 0)}
ATTENTION_EXTRAS = {
    "layout": "bhsd", "causal": True, "mask": "top_left", "window": (2, 1), "scale": 0.5, "softcap": 3.0, "bias": ones(3, 5), "alibi": ones(4),
    "sink": ones(4), "dropout_p": 0.25, "seed": 7, "return_lse": True, "diagonal": 1, "tf32": True, "out": ones(2, 4, 3, 16)}  # fmt: skip
GEMM_EXTRAS = {
    "out": ones(4, 6), "out_dtype": F, "bias": ones(6), "activation": "gelu", "gate": "swiglu", "multiply": ones(4, 6), "residual": ones(4, 6),
    "clamp": (-1, 1), "amax": True, "tf32": True}  # fmt: skip
MATMUL_EXTRAS = {**GEMM_EXTRAS, "alpha": 2.0, "beta": 0.5, "c": ones(4, 6), "scale_a": 2.0, "scale_b": ones(6), "zero_b": ones(6)}

#: Of each function: what it is called with, and what it may be called with besides.
FUNCTIONS = {
    "attention": (tilesmith.attention, attention_of(), ATTENTION_EXTRAS),
    "attention of variable lengths": (
        tilesmith.attention,
        {"q": ones(4, 6, 16), "k": ones(2, 9, 16), "v": ones(2, 9, 16), "cu_seqlens_q": table(0, 2, 6), "cu_seqlens_k": table(0, 4, 9)},
        {"max_seqlen_q": 4, "max_seqlen_k": 5, "causal": True, "return_lse": True, "sink": ones(4), "layout": "bhsd"}),
    "attention with pages": (
        tilesmith.attention, {**PAGED, "block_table": table((0, 2), (1, 0))},
        {"causal": True, "return_lse": True, "window": (2, 0), "max_seqlen_k": 8, "layout": "bhsd", "sink": ones(4), "out": ones(2, 4, 1, 16)}),
    "attention that appends": (
        tilesmith.attention, {**PAGED, "k_new": ones(2, 2, 1, 16), "v_new": ones(2, 2, 1, 16), "block_table": table((0, 2), (1, 0))},
        {"causal": True, "return_lse": True, "rotary_cos": ones(9, 4), "rotary_sin": ones(9, 4), "rotary_style": "interleaved",
         "positions": np.array([4, 2]), "slots": np.array([8, 6]), "kv_layout": "nhd", "out": ones(2, 4, 1, 16)}),
    "attention with a list of pages": (
        tilesmith.attention, {**PAGED, "page_indices": table(0, 2, 1), "page_indptr": table(0, 2, 3)},
        {"max_seqlen_k": 5, "cu_seqlens_q": table(0, 1, 2), "return_lse": True, "softcap": 2.0, "kv_layout": "nhd", "num_splits": 2,
         "tree_mask": table((1,), (1,))}),
    "attention with last pages": (
        tilesmith.attention, {**{name: x for name, x in PAGED.items() if name != "seqlens_k"}, "page_indices": table(0, 2, 1),
                              "page_indptr": table(0, 2, 3), "last_page_len": table(1, 3)},
        {"kv_layout": "nhd", "tree_mask": ones(2, 1, 1, dtype=bool), "max_seqlen_k": 8}),
    "attention with rows of a cache": (
        tilesmith.attention, {**PAGED, "seqlens_k": table(4, 3), "cache_batch_idx": table(2, 0)}, {"num_splits": 3, "max_seqlen_k": 4}),
    "cascade_attention": (
        tilesmith.cascade_attention,
        {"q": ones(4, 6, 16), "k_cache": ones(3, 4, 2, 16), "v_cache": ones(3, 4, 2, 16), "levels": [
            {"cu_seqlens_q": table(0, 6), "block_table": table((2,)), "seqlens_k": table(4)},
            {"cu_seqlens_q": table(0, 2, 6), "block_table": table((0,), (1,)), "seqlens_k": table(3, 4)}]},
        {"causal": False, "scale": 0.5, "softcap": 3.0, "sink": ones(4), "layout": "bhsd", "kv_layout": "nhd", "out": ones(4, 6, 16)}),
    "attention_backward": (
        tilesmith.attention_backward,
        {"do": ones(2, 4, 3, 16), **attention_of(), "o": ones(2, 4, 3, 16), "lse": ones(2, 4, 3)},
        {**{name: value for name, value in ATTENTION_EXTRAS.items() if name not in ("out", "return_lse")}, "dlse": ones(2, 4, 3),
         "need_dbias": True, "need_dalibi": True, "need_dsink": True, "deterministic": True, "dq": ones(2, 4, 3, 16), "dv": ones(2, 2, 5, 16)}),
    "scaled_dot_product_attention": (
        tilesmith.scaled_dot_product_attention, {"query": ones(2, 4, 3, 16), "key": ones(2, 4, 5, 16), "value": ones(2, 4, 5, 16)},
        {"attn_mask": ones(3, 5, dtype=bool), "dropout_p": 0.1, "is_causal": True, "scale": 0.5, "enable_gqa": True}),
    "matmul": (tilesmith.matmul, {"a": ones(4, 8), "b": ones(8, 6)}, {**MATMUL_EXTRAS, "prefetch_weights": True}),
    "mm_plus_mm": (tilesmith.mm_plus_mm, {"a": ones(4, 8), "b": ones(8, 6), "c": ones(4, 3), "d": ones(3, 6)}, {**GEMM_EXTRAS, "alpha": 2.0}),
    "linear": (tilesmith.linear, {"x": ones(4, 8), "w": ones(6, 8)},
               {**GEMM_EXTRAS, "scale_x": 2.0, "scale_w": ones(6), "zero_w": ones(6), "prefetch_weights": True}),
    "linear of integer weights": (
        tilesmith.linear, {"x": ones(4, 64, dtype=np.float16), "w": ones(6, 64, dtype=np.int8), "scale_w": ones(6)},
        {"zero_w": ones(6, dtype=np.int8), "bias": ones(6), "scale_x": 2.0}),
    "linear of a packed weight": (lambda x, n, k, data_type, data, bias: tilesmith.linear(x, tilesmith.PackedWeight(data, n, k, data_type), bias),
                                  {"x": ones(4, 8), "n": 6, "k": 8, "data_type": "fp32", "data": "packed", "bias": None}, {}),
    "grouped_matmul": (tilesmith.grouped_matmul, {"a": ones(4, 8), "b": ones(2, 8, 6), "group_ends": table(1, 4)}, MATMUL_EXTRAS),
    "grouped_matmul by rows": (tilesmith.grouped_matmul, {"a": ones(2, 4, 8), "b": ones(2, 8, 6), "group_rows": table(1, 4)}, MATMUL_EXTRAS),
    "grouped_matmul of lists": (tilesmith.grouped_matmul, {"a": [ones(4, 8), ones(2, 3)], "b": [ones(8, 6), ones(3, 6)]},
                                {"bias": [ones(6), ones(6)], "activation": "relu", "out": [ones(4, 6), ones(2, 6)], "scale_a": [1.0, 2.0],
                                 "alpha": 2.0, "clamp": (-1, 1), "group_ends": table(1, 4), "amax": True}),
    "pack_weight": (tilesmith.pack_weight, {"w": ones(6, 8)}, {}),
    "merge_states": (tilesmith.merge_states, {"outputs": [ones(2, 4, 3, 16)] * 2, "lses": [ones(2, 4, 3)] * 2},
                     {"layout": "bshd", "out": ones(2, 4, 3, 16)}),
    "append_kv": (tilesmith.append_kv, APPEND,
                  {"block_table": table((0, 2), (1, 0)), "slots": table(3, 8, dtype=L), "q": ones(2, 4, 1, 16), "rotary_cos": ones(9, 8),
                   "rotary_sin": ones(9, 8), "rotary_style": "interleaved", "positions": table(2, 0, dtype=L), "out_q": ones(2, 4, 1, 16),
                   "layout": "bhsd", "page_indices": table(0, 1), "page_indptr": table(0, 1, 2), "cu_seqlens": table(0, 1, 2)}),
    "candidates": (lambda function=None, **given: tilesmith.candidates(function, **given),
                   {"function": tilesmith.matmul, "a": ones(4, 8), "b": ones(8, 6)}, {**MATMUL_EXTRAS}),
    "options": (lambda **given: computed_under(tilesmith.options(**given)), {"threads": 1}, {}),
}  # fmt: skip
NAMES = list(FUNCTIONS)
#: The functions that take options for their call.
WITH_OPTIONS = [name for name in NAMES if not name.startswith(("pack", "merge", "append", "linear of a packed"))]

WRONG_CALL_OPTIONS = {
    "kernel": ["", "no_such_kernel", 3, "a\0b", "\ud800", "x" * 5000, [], Odd(), "gemm_on_x86_64", "a+b", b"k"],
    "threads": [0, -1, 4097, 10**30, 1.5, "2", [], Odd(), True, 1, 3, np.int64(2), np.ones(1, I)],
    "build": ["sometimes", 1, [], Odd(), "never", "now"],
    "determinism": ["no", 1, [], Odd(), "tolerant"],
    "tuning": [3, "", b"x", "/", "/nonexistent/file", "/dev/null", "a\0b", "x" * 5000, Odd(), __file__],
}
SCALARS = [None, 0, 1, -1, 2**31, 2**63, -(2**63), 10**30, 0.5, float("nan"), float("inf"), -0.0, 1e300, True, "", "bhsd", "none", "x" * 3000,
           b"bytes", (), [], {}, (1, 2), [0.5], ("a",), Odd(), object(), print, 1j, np.float64(2), np.int8(1), np.array([]), range(3), ...]  # fmt: skip
RARE_NUMBERS = (np.nan, np.inf, -np.inf, 3e38, -1.0, 0.0, 1e-40)
RARE_INTEGERS = (-1, -(2**31), 2**31 - 1, 0, 1, 2, 3, 7, 100)


def computed_under(options):
    with options:
        return tilesmith.matmul(ones(4, 8), ones(8, 6))


def torch_module():
    try:
        import torch
    except ImportError:
        return None
    return torch


TORCH = torch_module()
TORCH_TYPES = [getattr(TORCH, name) for name in ("float32", "float16", "bfloat16", "float64", "int8", "uint8", "int32", "int64", "bool", "complex64",
               "float8_e4m3fn", "float8_e5m2") if hasattr(TORCH, name)]  # fmt: skip


class Exported:
    """An array of another library: DLPack alone."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **given):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def is_torch(value):
    return TORCH is not None and isinstance(value, TORCH.Tensor)


def other_layout(rng, array):
    """The same kind of tensor of another shape, type, layout or content."""
    act = rng.choice(("size", "drop", "add", "permute", "step", "broadcast", "flip", "dtype", "values", "offset", "huge", "read only"))
    torch = is_torch(array)
    shape = list(array.shape)
    if act == "size" and shape:
        shape[rng.randrange(len(shape))] = rng.choice(SIZES)
        return array.new_ones(shape) if torch else np.ones(shape, array.dtype)
    if act == "drop" and shape:
        return array[0] if shape[0] else array.reshape(shape[1:]) if 0 in shape[1:] else array
    if act == "add":
        return array[None]
    if act == "permute":
        order = rng.sample(range(len(shape)), len(shape))
        return array.permute(order) if torch else array.transpose(order)
    if act == "step" and shape:
        return array[..., :: rng.choice((2, 3))]
    if act == "broadcast":
        if torch:
            return array[:1].expand(rng.choice(SIZES), *shape[1:]) if shape and shape[0] else array
        return np.broadcast_to(array[:1], (rng.choice(SIZES), *shape[1:])) if shape and shape[0] else array
    if act == "flip" and shape and not torch:
        return array[..., ::-1] if rng.random() < 0.5 else array[::-1]
    if act == "dtype":
        return array.to(rng.choice(TORCH_TYPES)) if torch else array.astype(rng.choice(NUMPY_TYPES), casting="unsafe")
    if act == "values" and array.dtype in ((TORCH.float32, TORCH.int32, TORCH.int64) if torch else (F, I, L)) and 0 not in shape:
        changed = array.clone() if torch else array.copy()
        floating = changed.dtype.is_floating_point if torch else changed.dtype.kind == "f"
        changed.reshape(-1)[rng.randrange(changed.numel() if torch else changed.size)] = rng.choice(RARE_NUMBERS if floating else RARE_INTEGERS)
        return changed
    if act == "offset" and not torch and array.dtype.kind in "fi" and array.size:
        raw = np.zeros(array.nbytes + 1, np.uint8)[1:]
        return raw.view(array.dtype).reshape(shape)
    if act == "huge" and not torch and shape:
        return np.broadcast_to(array.reshape(-1)[:1], (2**45, *shape[1:])) if array.size else array
    if act == "read only" and not torch:
        changed = array.copy()
        changed.flags.writeable = False
        return changed
    return array


def other_torch(rng, array):
    """A torch tensor instead, of any kind."""
    if not is_torch(array):
        try:
            array = TORCH.from_numpy(np.ascontiguousarray(array))
        except TypeError:
            return array
    kind = rng.choice(("plain", "meta", "sparse", "gradient", "parameter", "subclass", "nested", "conjugate", "inference", "negated"))
    floating = array.dtype.is_floating_point
    if kind == "meta":
        return array.to("meta")
    if kind == "sparse" and array.dim():
        return array.to_sparse()
    if kind == "gradient" and floating:
        return array.clone().requires_grad_()
    if kind == "parameter" and floating:
        return TORCH.nn.Parameter(array.clone(), requires_grad=rng.random() < 0.5)
    if kind == "subclass":
        return array.as_subclass(type("Own", (TORCH.Tensor,), {}))
    if kind == "nested" and array.dim() > 1 and array.shape[0]:
        return TORCH.nested.nested_tensor(list(array))
    if kind == "conjugate":
        return array.to(TORCH.complex64).conj()
    if kind == "negated" and array.dtype == TORCH.float32:
        return TORCH.complex(array, array).conj().imag
    if kind == "inference":
        with TORCH.inference_mode():
            return array.clone()
    return array


def if_possible(change, rng, array):
    """Not every kind of tensor has every other."""
    try:
        return change(rng, array)
    except (RuntimeError, TypeError, ValueError, MemoryError, NotImplementedError):
        return array


def is_tensor(value):
    return isinstance(value, np.ndarray) or is_torch(value)


def changed(rng, name, value, others):
    """Another value for an argument."""
    roll = rng.random()
    if isinstance(value, list) and value and is_tensor(value[0]) and roll < 0.8:
        entries = list(value)
        act = rng.choice(("entry", "entry", "entry", "longer", "shorter", "tuple", "array", "none"))
        if act == "entry":
            at = rng.randrange(len(entries))
            entries[at] = changed(rng, name, entries[at], others)
        elif act == "longer":
            entries.append(entries[0])
        elif act == "shorter":
            entries.pop()
        elif act == "none":
            entries[-1] = None
        return tuple(entries) if act == "tuple" else entries if act != "array" else value[0]
    if is_tensor(value):
        if roll < 0.55:
            for _ in range(rng.choice((1, 1, 2))):
                value = if_possible(other_layout, rng, value)
            return value
        if roll < 0.7 and TORCH is not None:
            return if_possible(other_torch, rng, value)
        if roll < 0.75:
            return Exported(value) if hasattr(value, "__dlpack__") else value
        if roll < 0.8:
            return [value]
        if roll < 0.9:
            return WRONG_TENSORS[rng.choice(list(WRONG_TENSORS))]()
        tensors = [other for other in others if is_tensor(other)]
        return rng.choice(tensors) if tensors else None
    if roll < 0.6 and name in WRONG_OPTIONS:
        return rng.choice(WRONG_OPTIONS[name])
    if name in WRONG_CALL_OPTIONS:
        return rng.choice(WRONG_CALL_OPTIONS[name])
    return rng.choice(SCALARS)


def in_torch(value):
    if isinstance(value, np.ndarray):
        return TORCH.from_numpy(value.copy())
    return [in_torch(each) for each in value] if isinstance(value, list) else {F: TORCH.float32}.get(value, value) if isinstance(value, type) else value


@functools.cache
def packed_bytes():
    return tilesmith.pack_weight(ones(6, 8)).data


def case(name, number, seed=SEED):
    """The arguments of a function's case."""
    rng = random.Random(f"{seed} {name} {number}")
    _, usual, extras = FUNCTIONS[name]
    given = dict(usual)
    for extra in rng.sample(list(extras), rng.choice((0, 0, 1, 1, 2, 3)) if len(extras) > 2 else 0):
        given[extra] = extras[extra]
    if "data_type" in given:
        given["data"] = packed_bytes()
    if TORCH is not None and rng.random() < 0.5:
        given = {key: in_torch(value) for key, value in given.items()}
    given = {key: value.copy() if isinstance(value, np.ndarray) else value for key, value in given.items()}
    others = list(given.values())
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        key = rng.choice(list(given))
        given[key] = changed(rng, key, given[key], others)
    if name == "options" or (name in WITH_OPTIONS and rng.random() < 0.2):
        key = rng.choice(list(WRONG_CALL_OPTIONS))
        given[key] = rng.choice(WRONG_CALL_OPTIONS[key])
    return given


def fault(name, given):
    """What is wrong with how a call went; "" where nothing is."""
    try:
        FUNCTIONS[name][0](**given)
    except tilesmith.Error as error:
        if not error.hint or error.code == "internal" or len(str(error)) > 1000:
            return f"{type(error).__name__} {error.code}: {error.message[:500]} ({error.hint[:200]})"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:500]}"
    return ""


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.compiles] * name.startswith("linear of a packed")) for name in NAMES])
@pytest.mark.filterwarnings("ignore")
def test_misuses(name):
    faults = {number: found for number in range(CASES) if (found := fault(name, case(name, number)))}
    assert not faults, "\n".join(f"{name} {number}: {found}" for number, found in faults.items())
    assert tilesmith._conditions.conditions.now is None
    assert (tilesmith.matmul(ones(4, 8), ones(8, 6)) == 8).all()


def show(name, seed, number):
    for key, value in (given := case(name, number, seed)).items():
        like = f"{tuple(value.shape)} {value.dtype} {value.strides if isinstance(value, np.ndarray) else ''}" if is_tensor(value) else ""
        print(f"{key}: {type(value).__name__} {like}")
        try:
            print(f"    {value!r}"[:300])
        except Exception:
            print("    without a text")
    FUNCTIONS[name][0](**given)
