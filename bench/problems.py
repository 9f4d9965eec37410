"""Problems as text, for scripts that time the library on several of them: operands of torch (a GPU) or NumPy (the CPU), and the call.

A problem is an operation, a type, words for traits, and sizes:
    attention TYPE [causal] [window] [soft_cap] [sink] [alibi] [bias | bias_row] [dropout] [lse] [bshd] BxHQxHKVxSQxSKxD
    gemm TYPE [rcr|rrr|crr|ccr] [an activation or a gate] [bias] [residual] [scales] [blocks] [prefetch] [BATCHx]MxNxK
    weights TYPE MxNxK          int4 weights beside TYPE, a scale for every 128 of k
    grouped TYPE MxNxK          8 groups of m rows each, behind one another, with a matrix each
window: 1024 keys to the left; soft_cap: 30; dropout: 0.1; bias: of each head's queries and keys; bias_row: of each sequence's keys, as
padding masks are; scales: a vector for each of rows and columns; blocks: fp8 scales of 1x128 and 128x128; prefetch: b may be read while the call before ends.
"""
from typing import Any, Callable, NamedTuple

import tilesmith

import timing

GROUPS = 8
CPU_COLD_BYTES = 96 << 20
ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh")
GATES = ("glu", "reglu", "geglu", "geglu_tanh", "swiglu")
RESULTS = {"fp8": "bf16", "int8": "int32"}  # the result's type where it is not the operands'


class Case(NamedTuple):
    """A problem to be called: make() is a set of operands, of which the last is the result; call(*operands) computes it."""

    operation: str
    kind: str
    words: tuple[str, ...]
    sizes: tuple[int, ...]
    make: Callable[[], tuple[Any, ...]]
    call: Callable[..., Any]

    def flops(self):
        if self.operation == "attention":
            batch, heads, _, rows, keys, dim = self.sizes
            return 4 * batch * heads * dim * (sum(max(0, keys - rows + i + 1) for i in range(rows)) if "causal" in self.words else rows * keys)
        *batch, m, n, k = self.sizes
        return 2 * (batch[0] if batch else GROUPS if self.operation == "grouped" else 1) * m * n * k


class Torch:
    """Operands on the current CUDA device."""

    def __init__(self):
        import torch

        self.torch = torch
        self.types = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32, "fp8": torch.float8_e4m3fn, "int8": torch.int8,
                      "int32": torch.int32}  # fmt: skip

    def seed(self):
        self.torch.manual_seed(1)

    def normal(self, kind, *shape):
        if kind == "int8":
            return self.torch.randint(-128, 128, shape, dtype=self.torch.int8, device="cuda")
        made = self.torch.randn(shape, dtype=self.torch.float32 if kind == "fp32" else self.torch.bfloat16, device="cuda")
        return made.to(self.types[kind])

    def bytes(self, *shape):
        return self.torch.randint(0, 256, shape, dtype=self.torch.uint8, device="cuda")

    def empty(self, kind, *shape):
        return self.torch.empty(shape, dtype=self.types[kind], device="cuda")

    def ends(self, rows):
        return self.torch.arange(rows, (GROUPS + 1) * rows, rows, dtype=self.torch.int32, device="cuda")

    def transposed(self, x):
        return x.mT

    def bits(self, x):
        return x.contiguous().view(self.torch.uint8).cpu().numpy().tobytes()

    def floats(self, x):
        return x.flatten().float()

    def sets(self, make):
        return timing.sets_of(make)[0]


class NumPy:
    """Operands for the CPU; bf16 where ml_dtypes is installed."""

    def __init__(self):
        import numpy

        self.numpy = numpy
        self.types = {"fp16": numpy.float16, "fp32": numpy.float32, "int8": numpy.int8, "int32": numpy.int32}
        try:
            import ml_dtypes

            self.types["bf16"] = ml_dtypes.bfloat16
        except ImportError:
            pass

    def seed(self):
        self.random = self.numpy.random.default_rng(1)

    def normal(self, kind, *shape):
        if kind == "int8":
            return self.random.integers(-128, 128, shape, self.numpy.int8)
        return self.random.standard_normal(shape, self.numpy.float32).astype(self.types[kind])

    def bytes(self, *shape):
        return self.random.integers(0, 256, shape, self.numpy.uint8)

    def empty(self, kind, *shape):
        return self.numpy.empty(shape, self.types[kind])

    def ends(self, rows):
        return self.numpy.arange(rows, (GROUPS + 1) * rows, rows, dtype=self.numpy.int32)

    def transposed(self, x):
        return x.swapaxes(-1, -2)

    def bits(self, x):
        return x.tobytes()

    def floats(self, x):
        return x.ravel().astype(self.numpy.float32)

    def sets(self, make):
        first = make()
        again = iter([first])
        return timing.rotating_sets(lambda: next(again, None) or tuple(x.copy(order="K") for x in first), lambda x: x.nbytes, CPU_COLD_BYTES)[0]


def case_of(library, problem):
    """The case of a problem's text, with operands of `library`, a Torch or a NumPy. Raises ValueError for what is not known."""
    operation, kind, *words, sizes = problem.split()
    sizes = tuple(int(x) for x in sizes.split("x"))
    if kind not in library.types:
        raise ValueError(f"there is no type {kind} here")
    build = {"attention": _attention, "gemm": _gemm, "weights": _weights, "grouped": _grouped}.get(operation)
    if build is None:
        raise ValueError(f"there is no operation {operation}")
    words, unknown = list(words), []
    make, call = build(library, kind, words, sizes, unknown)
    if unknown:
        raise ValueError(f"{operation} has no {' and no '.join(unknown)}")
    return Case(operation, kind, tuple(words), sizes, make, call)


def _with(result_last, function, names, **options):
    """function(first two or three operands, named operands, out=the last)."""
    def call(*operands):
        plain, named = operands[:result_last], operands[result_last:-1]
        return function(*plain, out=operands[-1], **dict(zip(names, named)), **options)

    return call


def _attention(library, kind, words, sizes, unknown):
    batch, heads_q, heads_kv, rows, keys, dim = sizes
    shapes = {"sink": (heads_q,), "alibi": (heads_q,), "bias": (1, heads_q, rows, keys), "bias_row": (batch, 1, 1, keys)}
    tensors = [word for word in words if word in shapes]
    unknown += [word for word in words if word not in (*shapes, "causal", "window", "soft_cap", "dropout", "lse", "bshd")]

    def shape(heads, length):
        return (batch, length, heads, dim) if "bshd" in words else (batch, heads, length, dim)

    def make():
        q, k, v = (library.normal(kind, *shape(*each)) for each in ((heads_q, rows), (heads_kv, keys), (heads_kv, keys)))
        beside = [library.normal("fp32", *shapes[word]) for word in tensors]
        return (q, k, v, *beside, library.empty(RESULTS.get(kind, kind), *shape(heads_q, rows)))

    options = dict(causal="causal" in words, softcap=30.0 if "soft_cap" in words else 0.0, return_lse="lse" in words,
                   window=(1024, 0 if "causal" in words else -1) if "window" in words else (-1, -1),
                   layout="bshd" if "bshd" in words else "bhsd")  # fmt: skip
    if "dropout" in words:
        options.update(dropout_p=0.1, seed=1)
    return make, _with(3, tilesmith.attention, [word.removesuffix("_row") for word in tensors], **options)


def _gemm(library, kind, words, sizes, unknown):
    *batch, m, n, k = sizes
    layout = next((word for word in words if len(word) == 3 and set(word) <= {"r", "c"}), "rcr")
    activation, gate = (next((word for word in words if word in known), None) for known in (ACTIVATIONS, GATES))
    result = RESULTS.get(kind, kind) if kind != "int8" or not set(words) - {layout, "prefetch"} else "fp32"
    columns = n // 2 if gate else n
    beside = {
        "bias": lambda: [("bias", library.normal("fp32" if kind in ("fp8", "int8") else kind, n))],
        "residual": lambda: [("residual", library.normal(result, *batch, m, columns))],
        "scales": lambda: [("scale_a", abs(library.normal("fp32", m))), ("scale_b", abs(library.normal("fp32", n)))],
        "blocks": lambda: [("scale_a", abs(library.normal("fp32", *batch, m, -(-k // 128)))),
                           ("scale_b", library.transposed(abs(library.normal("fp32", *batch, -(-n // 128), -(-k // 128)))))],
    }  # fmt: skip
    chosen = [word for word in words if word in beside]
    unknown += [word for word in words if word not in (*beside, layout, activation, gate, "prefetch")]
    names = [name for word in chosen for name in {"scales": ("scale_a", "scale_b"), "blocks": ("scale_a", "scale_b")}.get(word, (word,))]

    def make():
        a = library.normal(kind, *batch, m, k) if layout[0] == "r" else library.transposed(library.normal(kind, *batch, k, m))
        b = library.normal(kind, *batch, k, n) if layout[1] == "r" else library.transposed(library.normal(kind, *batch, n, k))
        return (a, b, *(tensor for word in chosen for _, tensor in beside[word]()), library.empty(result, *batch, m, columns))

    options = dict(activation=activation, gate=gate, **(dict(prefetch_weights=True) if "prefetch" in words else {}))
    return make, _with(2, tilesmith.matmul, names, **options)


def _weights(library, kind, words, sizes, unknown):
    m, n, k = sizes
    unknown += words

    def make():
        return library.normal(kind, m, k), library.bytes(n, k // 2), library.normal(kind, n, -(-k // 128)), library.empty(kind, m, n)

    return make, _with(2, tilesmith.linear, ["scale_w"])


def _grouped(library, kind, words, sizes, unknown):
    m, n, k = sizes
    unknown += words

    def make():
        w = library.transposed(library.normal(kind, GROUPS, n, k))
        return library.normal(kind, GROUPS * m, k), w, library.ends(m), library.empty(RESULTS.get(kind, kind), GROUPS * m, n)

    return make, _with(2, tilesmith.grouped_matmul, ["group_ends"])
