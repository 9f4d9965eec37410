"""Scales of float8 tensors: what is refused, and what the structure says of those that are not. Results are for a GPU
(test_cuda.py): no CPU has a kernel for float8, which the library says after everything else was found right."""

import numpy as np
import pytest

import tilesmith

torch = pytest.importorskip("torch", reason="torch is not installed")
from tilesmith import _attention_arguments, _attention_call, _library, _torch_attention, _views  # noqa: E402 (needs torch)

BLOCK_SCALE = 16


def qkv(batch=2, heads_q=4, heads_kv=2, rows_q=200, rows_k=333, dim=64, dtype=torch.float8_e4m3fn):
    return tuple(torch.zeros(batch, heads, rows, dim).to(dtype)
                 for heads, rows in ((heads_q, rows_q), (heads_kv, rows_k), (heads_kv, rows_k)))  # fmt: skip


def structure_of(*tensors, **options):
    """The structure that a call filled in, the long way."""
    _torch_attention.calls.by_key.clear()
    return structure_again(*tensors, **options)


def structure_again(*tensors, **options):
    """The same of a call like one before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_torch_attention, "_run", lambda *arguments: NotImplemented)
        tilesmith.attention(*tensors, **options)
    (call,) = _torch_attention.calls.by_key.values()
    return call._call


def numbers(scale):
    return scale.data, scale.batch, scale.head, scale.block


def test_no_scales():
    call = structure_of(*qkv())
    for scale in (call.q_scale, call.k_scale, call.v_scale):
        assert numbers(scale) == (None, 0, 0, 0)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (1, 1, 1)])
def test_by_tensor(shape):
    scales = [torch.ones(shape) for _ in range(3)]
    call = structure_of(*qkv(), q_scale=scales[0], k_scale=scales[1], v_scale=scales[2])
    for scale, tensor in zip((call.q_scale, call.k_scale, call.v_scale), scales):
        assert numbers(scale) == (tensor.data_ptr(), 0, 0, 0)
    assert not call.traits & BLOCK_SCALE


def test_by_head():
    q_scale, k_scale, v_scale = torch.ones(2, 4), torch.ones(2, 2).t(), torch.ones(1, 2)
    call = structure_of(*qkv(), q_scale=q_scale, k_scale=k_scale, v_scale=v_scale)
    assert numbers(call.q_scale) == (q_scale.data_ptr(), 4, 1, 0)
    assert numbers(call.k_scale) == (k_scale.data_ptr(), 1, 2, 0)
    assert numbers(call.v_scale) == (v_scale.data_ptr(), 0, 1, 0)
    assert not call.traits & BLOCK_SCALE


def test_by_block():
    q_scale, k_scale, v_scale = torch.ones(2, 4, 2), torch.ones(2, 2, 3), torch.ones(2, 2, 6)[:, :, ::2]
    call = structure_of(*qkv(), q_scale=q_scale, k_scale=k_scale, v_scale=v_scale)
    assert numbers(call.q_scale) == (q_scale.data_ptr(), 8, 2, 1)
    assert numbers(call.k_scale) == (k_scale.data_ptr(), 6, 3, 1)
    assert numbers(call.v_scale) == (v_scale.data_ptr(), 12, 6, 2)
    assert call.traits & BLOCK_SCALE


def test_one_by_block_beside_one_by_tensor_and_none():
    k_scale, v_scale = torch.ones(2, 2, 3), torch.ones(())
    call = structure_of(*qkv(), k_scale=k_scale, v_scale=v_scale)
    assert numbers(call.q_scale) == (None, 0, 0, 0)
    assert numbers(call.k_scale) == (k_scale.data_ptr(), 6, 3, 1)
    assert numbers(call.v_scale) == (v_scale.data_ptr(), 0, 0, 0)
    assert call.traits & BLOCK_SCALE


def test_one_block_is_no_block():
    """Up to 128 rows a scale by block is one by head, and the kernel that looks for no other serves it."""
    call = structure_of(*qkv(rows_q=128, rows_k=5), q_scale=torch.ones(2, 4, 1), k_scale=torch.ones(2, 2, 1))
    assert numbers(call.q_scale)[1:] == (4, 1, 0) and numbers(call.k_scale)[1:] == (2, 1, 0)
    assert not call.traits & BLOCK_SCALE


def test_variable_lengths_count_blocks_by_sequence():
    q, k, v = (x[0] for x in qkv(batch=1))
    offsets = dict(cu_seqlens_q=torch.tensor([0, 10, 200], dtype=torch.int32),
                   cu_seqlens_k=torch.tensor([0, 40, 333], dtype=torch.int32))  # fmt: skip
    q_scale, k_scale = torch.ones(2, 4, 2), torch.ones(2, 2, 3)  # of at most 190 and 293 rows
    call = structure_of(q, k, v, q_scale=q_scale, k_scale=k_scale, v_scale=k_scale, **offsets)
    assert numbers(call.q_scale)[1:] == (8, 2, 1) and numbers(call.k_scale)[1:] == (6, 3, 1)
    with pytest.raises(ValueError, match=r"\(batch, heads_kv, seqlen_k / 128 rounded up\) = \(2, 2, 3\)"):
        tilesmith.attention(q, k, v, k_scale=torch.ones(2, 2, 2), **offsets)


def test_repeated_calls_store_the_pointers_again():
    tensors = qkv()
    first, second = torch.ones(2, 4), torch.ones(2, 4)
    structure_of(*tensors, q_scale=first)
    call = structure_again(*tensors, q_scale=second)
    assert call.q_scale.data == second.data_ptr() and call.k_scale.data is None
    q, k, v = (torch.randn(x.shape).to(x.dtype) for x in tensors)
    results = []
    for scale in (1.0, 0.25, 4.0):
        results.append(tilesmith.attention(q, k, v, q_scale=torch.full((2, 4), scale)))
        with tilesmith.options(threads=1):
            assert torch.equal(results[-1], tilesmith.attention(q, k, v, q_scale=torch.full((2, 4), scale), scale=64**-0.5))
    assert not torch.equal(results[0], results[1]) and not torch.equal(results[0], results[2])


@pytest.mark.parametrize(
    ("options", "exception", "words"),
    [
        (dict(q_scale=0.5), TypeError, "q_scale is a float, q is a torch tensor (torch.tensor(..., device=q.device)"),
        (dict(v_scale=np.ones(1, "f4")), TypeError, "v_scale is a ndarray, q is a torch tensor (torch tensors)"),
        (dict(k_scale=torch.ones((), dtype=torch.float64)), TypeError, "k_scale is torch.float64 (float32)"),
        (dict(v_scale=torch.ones((), dtype=torch.bfloat16)), TypeError, "v_scale is bf16 (float32)"),
        (dict(q_scale=torch.ones(2)), ValueError, "q_scale has the shape (2,) (what broadcasts to (batch, heads_q) = (2, 4))"),
        (dict(q_scale=torch.ones(4, 2)), ValueError, "q_scale has the shape (4, 2)"),
        (dict(k_scale=torch.ones(2, 4)), ValueError, "(batch, heads_kv) = (2, 2)"),
        (dict(q_scale=torch.ones(2, 4, 3)), ValueError, "(batch, heads_q, seqlen_q / 128 rounded up) = (2, 4, 2)"),
        (dict(v_scale=torch.ones(2, 2, 333)), ValueError, "(batch, heads_kv, seqlen_k / 128 rounded up) = (2, 2, 3)"),
        (dict(v_scale=torch.ones(1, 2, 2, 3)), ValueError, "v_scale has the shape (1, 2, 2, 3)"),
        (dict(q_scale=torch.ones(1, requires_grad=True)), NotImplementedError, "attention has none of float8"),
    ],
)  # fmt: skip
def test_errors(options, exception, words):
    with pytest.raises(exception) as caught:
        tilesmith.attention(*qkv(), **options)
    assert isinstance(caught.value, tilesmith.Error)
    assert words in str(caught.value)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e5m2])
def test_scales_belong_to_e4m3(dtype):
    with pytest.raises(ValueError, match=r"k_scale is given, and q, k and v are .* \(no scales, or float8"):
        tilesmith.attention(*qkv(dtype=dtype), k_scale=torch.ones(()))


def test_an_output_must_not_lie_on_a_scale():
    q, k, v = qkv(rows_q=1, rows_k=1)
    memory = torch.zeros(q.numel(), dtype=torch.float32)
    out = memory.view(torch.bfloat16)[: q.numel()].view(q.shape)
    with pytest.raises(ValueError, match="out and v_scale may share memory"):
        tilesmith.attention(q, k, v, v_scale=memory[3], out=out)


def test_devices_mixed_up():
    views = [_views.View("fp8", (1, 1, 1, 64), (64, 64, 64, 1), _library.CUDA, 0)] * 3
    options = _attention_arguments.Options("bhsd", False, "none", (-1, -1), None, 0.0, 0.0, None, None, False)
    with pytest.raises(ValueError, match="q is on cuda:0, k_scale on cpu"):
        _attention_call.prepare(_attention_arguments.Tensors(*views, k_scale=_views.View("fp32", (), (), _library.CPU, 0)), options)


def test_numpy():
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    q, k, v = (np.zeros(x.shape, ml_dtypes.float8_e4m3fn) for x in qkv())
    scales = dict(q_scale=np.ones((2, 4), "f4"), k_scale=np.ones((2, 2, 3), "f4"), v_scale=np.array(1, "f4"))
    assert not tilesmith.attention(q, k, v, **scales).any()
    with pytest.raises(TypeError, match="q_scale is a float, q is a NumPy array"):
        tilesmith.attention(q, k, v, q_scale=0.5)


def test_numpy_without_float8():
    q, k, v = (np.zeros(x.shape, np.float32) for x in qkv())
    with pytest.raises(ValueError, match="v_scale is given, and q, k and v are fp32"):
        tilesmith.attention(q, k, v, v_scale=np.ones(1, "f4"))


def test_the_operator_takes_scales():
    from torch._subclasses.fake_tensor import FakeTensorMode

    tensors, scales = qkv(), dict(q_scale=torch.ones(2, 4, 2), k_scale=torch.ones(2, 2), v_scale=torch.ones(()))
    compiled = torch.compile(lambda q, k, v, **scales: tilesmith.attention(q, k, v, **scales), fullgraph=True,
                             backend="aot_eager")  # fmt: skip
    assert not compiled(*tensors, **scales).any()
    with FakeTensorMode() as mode:
        q, k, v = (mode.from_tensor(x) for x in tensors)
        o = tilesmith.attention(q, k, v, **{name: mode.from_tensor(x) for name, x in scales.items()})
    assert o.shape == q.shape and o.dtype == torch.bfloat16
