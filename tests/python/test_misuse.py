"""Every public function refuses what cannot be by the package's own exceptions, with a hint, and computes afterwards."""

import ctypes

import numpy as np
import pytest

import tilesmith

ONE = np.ones((4, 4), np.float32)
Q = np.ones((1, 1, 4, 8), np.float32)


class Odd:
    """Compares, converts and prints with exceptions."""

    __hash__ = None

    def __eq__(self, other):
        raise RuntimeError("no comparison")

    def __repr__(self):
        raise RuntimeError("no text")

    def __index__(self):
        raise RuntimeError("no index")


class Exporter:
    """An array by DLPack alone, as odd as its arguments."""

    def __init__(self, capsule, device=(1, 0)):
        self.capsule, self.device = capsule, device

    def __dlpack__(self, **_):
        if isinstance(self.capsule, Exception):
            raise self.capsule
        return self.capsule

    def __dlpack_device__(self):
        if isinstance(self.device, Exception):
            raise self.device
        return self.device


def capsule(name):
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(8, name, None)


NAME = b"something else"
WRONG_TENSORS = {
    "None": lambda: None,
    "a number": lambda: 3,
    "a text": lambda: "q",
    "a nested list": lambda: [[[[1.0]]]],
    "a dict": lambda: {},
    "an odd object": Odd,
    "a type": lambda: np.ndarray,
    "complex": lambda: Q.astype(np.complex64),
    "double": lambda: Q.astype(np.float64),
    "bool": lambda: Q.astype(bool),
    "objects": lambda: Q.astype(object),
    "texts": lambda: Q.astype(str),
    "dates": lambda: np.zeros(Q.shape, "datetime64[s]"),
    "records": lambda: np.zeros(Q.shape, [("a", "f4")]),
    "other bytes": lambda: Q.astype(">f4"),
    "no dimension": lambda: np.float32(1),
    "an array of no dimension": lambda: np.array(1, np.float32),
    "nine dimensions": lambda: np.ones((1,) * 9, np.float32),
    "reversed": lambda: Q[..., ::-1],
    "half elements": lambda: np.frombuffer(bytes(4 * Q.size + 1), np.uint8)[1:].view(np.float32).reshape(Q.shape),
    "masked": lambda: np.ma.masked_array(Q),
    "another capsule": lambda: Exporter(capsule(NAME)),
    "no capsule": lambda: Exporter("x"),
    "a refusing exporter": lambda: Exporter(BufferError("no")),
    "an odd device": lambda: Exporter(capsule(NAME), "cpu:0"),
    "no device": lambda: Exporter(capsule(NAME), None),
    "a failing device": lambda: Exporter(capsule(NAME), RuntimeError("no")),
    "another device": lambda: Exporter(capsule(NAME), (77, 0)),
}

#: By argument, values that it cannot have.
WRONG_OPTIONS = {
    "layout": [1, [], {}, "BHSD", Odd(), None],
    "causal": ["yes", 2, [], Odd(), None, np.ones(2)],
    "mask": [1, [], {}, "causal", Odd(), None],
    "window": [1, "ab", (1,), (1, 2, 3), ([1], 2), (10**30, 0), (0.5, 1), {}, {"a": 1}, Odd(), None, (-2, 0)],
    "scale": ["1", [1], {}, 10**400, float("nan"), 1e39, 1j, Odd(), np.ones(2)],
    "softcap": ["1", [1], {}, 10**400, -1, float("inf"), Odd(), None],
    "dropout_p": ["1", [1], {}, 10**400, -1, 1, 2.0, float("nan"), Odd(), None],
    "max_seqlen_q": [1, [1], "1", 10**30, Odd()],
    "max_seqlen_k": [1, [1], "1", 10**30, Odd()],
    "diagonal": ["1", [1], 0.5, 10**30, Odd(), None],
    "return_lse": ["yes", [], 2, Odd(), None],
    "alpha": ["1", [1], {}, 10**400, 1e39, 1j, Odd(), None, np.ones(2)],
    "activation": [1, [], {}, "Relu", Odd()],
    "gate": [1, [], {}, "swish", Odd()],
    "clamp": [1, (1,), (1, 2, 3), (2, 1), ("a", "b"), ([1], 2), {}, "ab", Odd(), (float("nan"), 1)],
    "out_dtype": ["float99", [1], {}, 3, Odd(), np.complex64, object],
    "tf32": ["yes", [], 2, Odd(), None],
    "prefetch_weights": ["yes", [], 2, Odd(), None],
    "is_causal": ["yes", [], 2, Odd(), None],
    "enable_gqa": ["yes", [], 2, Odd(), None],
    "need_dbias": ["yes", [], 2, Odd(), None, True],
    "need_dsink": ["yes", [], 2, Odd(), None, True],
    "deterministic": ["yes", [], 2, Odd()],
}
GEMM = ("alpha", "activation", "gate", "clamp", "out_dtype", "tf32")


def grouped(a, b, **options):
    return tilesmith.grouped_matmul(a, b, group_ends=options.pop("group_ends", np.array([4], np.int32)), **options)


def of_lists(a, b, **options):
    return tilesmith.grouped_matmul([a], [b], **options)


#: The function, its tensors, its optional tensors, its options.
FUNCTIONS = {
    "attention": (tilesmith.attention, (Q, Q, Q), ("bias", "alibi", "sink", "q_scale", "k_scale", "v_scale", "cu_seqlens_q", "out"),
                  ("layout", "causal", "mask", "window", "scale", "softcap", "dropout_p", "max_seqlen_q", "max_seqlen_k", "return_lse", "diagonal", "tf32")),
    "attention_backward": (tilesmith.attention_backward, (Q, Q, Q, Q, Q, Q[..., 0]),
                           ("bias", "alibi", "sink", "cu_seqlens_q", "dlse", "dq", "dk", "dv"),
                           ("layout", "causal", "mask", "window", "scale", "softcap", "dropout_p", "max_seqlen_q", "diagonal", "tf32",
                            "need_dbias", "need_dsink", "deterministic")),
    "scaled_dot_product_attention": (tilesmith.scaled_dot_product_attention, (Q, Q, Q), ("attn_mask",),
                                     ("dropout_p", "is_causal", "scale", "enable_gqa")),
    "matmul": (tilesmith.matmul, (ONE, ONE), ("c", "bias", "multiply", "residual", "scale_a", "zero_b", "amax", "out"),
               (*GEMM, "prefetch_weights")),
    "mm_plus_mm": (tilesmith.mm_plus_mm, (ONE,) * 4, ("bias", "multiply", "residual", "out"), GEMM),
    "linear": (tilesmith.linear, (ONE, ONE), ("bias", "multiply", "scale_w", "zero_w", "amax", "out"), (*GEMM[1:], "prefetch_weights")),
    "grouped_matmul": (grouped, (ONE, ONE[None]), ("bias", "c", "scale_b", "group_ends", "out"), GEMM),
    "grouped_matmul of lists": (of_lists, (ONE, ONE), (), GEMM),
    "pack_weight": (tilesmith.pack_weight, (ONE,), (), ()),
}  # fmt: skip
CALLS = [(name, at, kind) for name, (_, tensors, _, _) in FUNCTIONS.items() for at in range(len(tensors)) for kind in WRONG_TENSORS]
OPTIONAL = [(name, option, kind) for name, (_, _, optional, _) in FUNCTIONS.items() for option in optional for kind in WRONG_TENSORS
            if kind != "None"]  # fmt: skip
OPTIONS = [(name, option, at) for name, (_, _, _, options) in FUNCTIONS.items() for option in options
           for at in range(len(WRONG_OPTIONS[option]))]  # fmt: skip


def refused(function, *arguments, **options):
    with pytest.raises(tilesmith.Error) as failure:
        function(*arguments, **options)
    assert failure.value.hint and failure.value.code != "internal", failure.value
    assert len(str(failure.value)) < 1000


@pytest.mark.parametrize(("name", "at", "kind"), CALLS)
def test_tensors(name, at, kind):
    function, tensors, _, _ = FUNCTIONS[name]
    refused(function, *tensors[:at], WRONG_TENSORS[kind](), *tensors[at + 1 :])


#: What these are is allowed.
ALLOWED = {("amax", "no dimension"), ("amax", "an array of no dimension"), ("scale_a", "a number"), ("scale_w", "a number"),
           ("scale_a", "no dimension"), ("scale_w", "no dimension"), ("scale_a", "an array of no dimension"),
           ("scale_w", "an array of no dimension"), ("scale_b", "a number"), ("scale_b", "an array of no dimension"),
           ("scale_b", "no dimension"), ("bias of attention", "an array of no dimension"),
           ("bias of attention_backward", "an array of no dimension"), ("attn_mask", "no dimension"),
           ("attn_mask", "an array of no dimension"), ("attn_mask", "bool"), ("attn_mask", "double"), ("attn_mask", "other bytes"),
           ("scale_a", "nine dimensions"), ("scale_b", "nine dimensions"), ("scale_w", "nine dimensions"),
           ("amax", "nine dimensions")}  # fmt: skip


@pytest.mark.parametrize(("name", "option", "kind"), OPTIONAL)
def test_optional_tensors(name, option, kind):
    if (option, kind) in ALLOWED or (f"{option} of {name}", kind) in ALLOWED:
        pytest.skip("allowed")
    function, tensors, _, _ = FUNCTIONS[name]
    refused(function, *tensors, **{option: WRONG_TENSORS[kind]()})


@pytest.mark.parametrize(("name", "option", "at"), OPTIONS)
def test_options(name, option, at):
    function, tensors, _, _ = FUNCTIONS[name]
    refused(function, *tensors, **{option: WRONG_OPTIONS[option][at]})


@pytest.mark.compiles
@pytest.mark.parametrize("name", FUNCTIONS)
def test_sensible_calls_compute(name):
    function, tensors, _, _ = FUNCTIONS[name]
    function(*tensors)


def torch_calls(torch):
    q, x = torch.ones(1, 1, 4, 8), torch.ones(4, 4)
    return {
        "attention": (tilesmith.attention, (q, q, q)),
        "attention_backward": (tilesmith.attention_backward, (q, q, q, q, q, q[..., 0].contiguous())),
        "scaled_dot_product_attention": (tilesmith.scaled_dot_product_attention, (q, q, q)),
        "matmul": (tilesmith.matmul, (x, x)),
        "mm_plus_mm": (tilesmith.mm_plus_mm, (x, x, x, x)),
        "linear": (tilesmith.linear, (x, x)),
        "grouped_matmul of lists": (of_lists, (x, x)),
    }


TORCH_NAMES = [name for name in FUNCTIONS if name not in ("grouped_matmul", "pack_weight")]


@pytest.mark.parametrize("name", TORCH_NAMES)
def test_torch_tensors(name):
    torch = pytest.importorskip("torch")
    function, tensors = torch_calls(torch)[name]
    whole = tensors[0]
    wrong = [whole.to_sparse(), whole.to(torch.complex64), whole.to(torch.complex64).conj(), whole.double(), whole.bool(),
             whole.to("meta"), torch.quantize_per_tensor(whole, 0.1, 0, torch.qint8), torch.tensor(1.0), whole.to_mkldnn(),
             torch.complex(whole, whole).conj().imag, torch.nested.nested_tensor([whole[0], whole[0]])]  # fmt: skip
    for each in wrong:
        for at in range(len(tensors)):
            refused(function, *tensors[:at], each, *tensors[at + 1 :])
            refused(function, *tensors[:at], each, *tensors[at + 1 :])
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.ones(whole.shape)
    for at in range(len(tensors)):
        refused(function, *tensors[:at], fake, *tensors[at + 1 :])
    with torch.no_grad():
        function(*tensors)


@pytest.mark.parametrize("name", TORCH_NAMES)
def test_torch_transforms(name):
    torch = pytest.importorskip("torch")
    function, tensors = torch_calls(torch)[name]

    def first(x):
        made = function(x, *tensors[1:])
        return made[0] if isinstance(made, list) else made

    function(*tensors)
    refused(torch.func.jvp, first, (tensors[0],), (tensors[0],))
    refused(torch.func.vmap(first), tensors[0].expand(2, *tensors[0].shape))
    refused(torch.func.grad(lambda x: first(x).sum()), tensors[0])
    function(*tensors)
