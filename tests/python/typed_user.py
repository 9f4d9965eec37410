"""What a user with a strict type checker writes: test_types.py checks it, nothing runs it."""

from typing import Any, Callable, assert_type

import numpy as np
import numpy.typing as npt

import tilesmith
import tilesmith.typing as words

Array = npt.NDArray[np.float32]


def attend(q: Array, k: Array, v: Array, wanted: bool) -> Array:
    assert_type(tilesmith.attention(q, k, v, mask="top_left", layout="bshd"), Array)
    o, lse = assert_type(tilesmith.attention(q, k, v, return_lse=True), tuple[Array, Array])
    assert_type(tilesmith.attention(q, k, v, return_lse=wanted), Array | tuple[Array, Array])
    assert_type(tilesmith.scaled_dot_product_attention(q, k, v, is_causal=True, threads=2), Array)
    assert_type(tilesmith.attention_backward(o, q, k, v, o, lse, mask="top_left", threads=2), tuple[Array, ...])
    return o + lse[..., None]


def project(x: Array, w: Array, activation: words.Activation, given: words.CallOptions) -> Any:
    with tilesmith.options(threads=4, build="never", determinism="bitwise"):
        y = tilesmith.linear(x, w, activation=activation, clamp=(0, 6), **given)
    return tilesmith.matmul(y, w, kernel=None, threads=1, clamp=[-1.0, 1.0])


def choose(x: Array, w: Array) -> list[str]:
    found = assert_type(tilesmith.candidates(tilesmith.linear, x, w), tilesmith.Candidates)
    assert_type(tilesmith.last_plan().kernel, str)
    assert_type(tilesmith.store_stats(), tilesmith.StoreStats)
    assert_type(tilesmith.pack_weight(w).shape, tuple[int, int])
    assert_type(tilesmith.__version__, str)
    return [each.kernel for each in found.candidates]


def refused(call: Callable[[], Any]) -> str:
    try:
        call()
    except tilesmith.Error as error:
        return error.message + error.hint + error.code
    return ""


def wrong(q: Array) -> None:
    """Each line is an error, and the checker says which."""
    tilesmith.attention(q, q, q, mask="causal")  # type: ignore[call-overload]
    tilesmith.attention(q, q, q, layout="sbhd")  # type: ignore[call-overload]
    tilesmith.linear(q, q, activation="geluu")  # type: ignore[arg-type]
    tilesmith.matmul(q, q, gate="swish")  # type: ignore[arg-type]
    tilesmith.matmul(q, q, threads="4")  # type: ignore[arg-type]
    tilesmith.matmul(q, q, thread=4)  # type: ignore[call-arg]
    tilesmith.options(build="now")  # type: ignore[arg-type]
