"""The public functions of matrix products: they only find out whose tensors these are."""

from __future__ import annotations

from typing import Any, Optional, Sequence, Unpack

from tilesmith._candidates import listed_functions
from tilesmith._errors import Error, InvalidArgument, WrongType
from tilesmith._gemm_operands import Operands
from tilesmith._options import under
from tilesmith._packed_weight import PackedWeight
from tilesmith._refusals import refusal
from tilesmith._tensor_library import Servers
from tilesmith.typing import Activation, CallOptions, Gate

_servers = Servers("gemm", "gemm")
_SERVED_BY = _servers.by_type
_list_servers = Servers("gemm_list", "gemm_list")


def matmul(
    a: Any,
    b: Any,
    *,
    out: Any = None,
    out_dtype: Any = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    c: Any = None,
    bias: Any = None,
    activation: Optional[Activation] = None,
    gate: Optional[Gate] = None,
    multiply: Any = None,
    residual: Any = None,
    clamp: Optional[Sequence[float]] = None,
    scale_a: Any = None,
    scale_b: Any = None,
    zero_b: Any = None,
    amax: Any = None,
    tf32: bool = False,
    prefetch_weights: bool = False,
    **options: Unpack[CallOptions],
) -> Any:
    """A matrix product and what follows it, in one kernel, rounded once.

    With i a row and j a column, computed in float32 in this order, every step optional:

        v = alpha * scale_a[i] * scale_b[j] * sum over l of a[i, l] b[l, j]
        v = v + beta * c[i, j] + bias[j]
        v = activation(v), or the gate of columns 2 j and 2 j + 1
        out[i, j] = min(max(v * multiply[i, j] + residual[i, j], low), high)

    a, b: tensors of one kind (torch, NumPy, DLPack) and one device, shapes by torch.matmul's rules: (..., m, k) and
        (..., k, n), whose leading dimensions are broadcast; one-dimensional a or b is a row or a column, and the result
        lacks that dimension. float32, float16, bfloat16, int8 or float8 (e4m3 and e5m2 mix), where the device has
        kernels. One of the last two dimensions is contiguous: transposed views are read as they are, and nothing is
        copied. Leading dimensions are joined where strides go on from one into the next (with the rows too, where b has
        none): of contiguous tensors, those that are all a's, all b's or in both are one call of the library. Where more than
        one dimension is left, as of (2, 1, m, k) and (3, k, n), the largest is the batch of a call, and there is one call for
        each member of the others.
    out: where to write the result, contiguous rows or, without a gate, contiguous columns (a transposed view), which costs the
        same; may be c, multiply or residual, and overlaps nothing else. None makes a new dense tensor of contiguous rows.
    out_dtype: of the result, as the tensors' library names it; None is out's, else the inputs', bfloat16 for float8, and
        for int8 int32, or float32 with anything but alpha, beta and c. int8 gives int8 (rounded to nearest, limited to
        -128 .. 127) too.
    alpha: a number. beta: a number, read with c alone. For an int32 result alpha is 0 or 1 and beta whole.
    c: added before bias and activation, broadcast to (..., m, n). multiply, residual: behind the activation, broadcast to
        the result's shape. All three have contiguous rows, or columns where out has, and one data type: the result's, or another that has kernels.
    bias: float32, float16 or bfloat16: (n,), contiguous, or (m, 1), one for each row.
    activation: "relu", "gelu" (v (1 + erf(v / sqrt 2)) / 2), "gelu_tanh" (v (1 + tanh(sqrt(2 / pi) (v + 0.044715 v^3))) / 2),
        "silu" (v sigmoid(v)), "sigmoid" or "tanh".
    gate: "glu", "reglu", "geglu", "geglu_tanh" or "swiglu": joins columns 2 j and 2 j + 1 to f(v[2 j]) v[2 j + 1], f being
        sigmoid, relu, gelu, gelu_tanh or silu. The result has n / 2 columns; bias and c have n. See linear for weights.
    clamp: (low, high), limits; -inf and inf are none.
    scale_a, scale_b: what the stored values of a and b are multiplied by: numbers, float32 tensors of one element, or
        float32 vectors, one for each row of a, (m,), (m, 1), (..., m) or (..., m, 1), and column of b, (n,) or (1, n).
        Beside vectors beta is 1. On a GPU the kernel itself reads a tensor of one element. float8 also takes scales by blocks,
        float32: scale_a (..., m, ceil(k / 128)), one for 128 elements of a row, beside scale_b (..., ceil(k / 128),
        ceil(n / 128)), one for 128 by 128; a and b then lie along k (b is a transposed view).
    zero_b: zero points of integer weights, see linear.
    amax: float32 of one element, which becomes the larger of itself and every magnitude of the result before rounding (so
        it is zero beforehand). True: a new one, and (result, amax) is returned. Not for int32 results.
    tf32: float32 matrices are rounded to 10 bits of mantissa in the products, where the device has such instructions.
    prefetch_weights: a promise for GPUs: b holds weights, which no kernel writes that may still be running in the stream when this
        one is launched. Kernels of few rows (16 and less) then begin to read b while the kernel before ends.

    Returns the result, of the inputs' kind, on their device; on a GPU it is queued on the current stream. Sums are
    float32, of int8 int32 (modulo 2^32). k of 0 makes the products zeros.

    The first call of a problem chooses a kernel and may compile it; later ones take a few microseconds.
    torch's autograd differentiates by a, b, c, bias, multiply and residual of float32, float16 and bfloat16. An activation, a
    gate, multiply or clamp is then a step of torch's own, behind the rounding of the product; gradients are products of this
    package. Not with `out`, amax, tensors of scales, integer and packed weights, and groups: those are refused unless gradients
    are off.
    kernel, threads, build, determinism, tuning: tilesmith.options', for this call alone.

    Errors: ValueError (tilesmith.InvalidArgument), TypeError (tilesmith.WrongType), NotImplementedError
    (tilesmith.Unsupported: no kernel for this), MemoryError, RuntimeError; all with `message` and `hint`. The library's
    own call the result d.
    """
    if b is None:
        raise _none("b")
    if clamp.__class__ is list:
        clamp = tuple(clamp)
    serve = _SERVED_BY.get(type(a)) or _servers.find("a", a)
    if options:
        serve = under("matmul", options, _servers, serve)
    try:
        return serve("matmul", a, b, c, bias, multiply, residual, scale_a, scale_b, out, None, zero_b, None, None, amax, out_dtype, alpha, beta,
                     activation, gate, clamp, tf32, prefetch_weights)  # fmt: skip
    except Error:
        raise
    except Exception as error:
        raise refusal("matmul", error, locals()) from error


def mm_plus_mm(
    a: Any,
    b: Any,
    c: Any,
    d: Any,
    *,
    out: Any = None,
    out_dtype: Any = None,
    alpha: float = 1.0,
    bias: Any = None,
    activation: Optional[Activation] = None,
    gate: Optional[Gate] = None,
    multiply: Any = None,
    residual: Any = None,
    clamp: Optional[Sequence[float]] = None,
    amax: Any = None,
    tf32: bool = False,
    **options: Unpack[CallOptions],
) -> Any:
    """a b + c d and what follows it, in one kernel: the sums of the second product go on from the first's.

        v = alpha * (sum over l of a[i, l] b[l, j] + sum over l of c[i, l] d[l, j]) + bias[j]

    and on as in matmul, rounded once.

    a, b: (..., m, k) and (..., k, n). c, d: (..., m, k2) and (..., k2, n), of a's and b's data types, c contiguous along the
        same dimension as a, and d as b. k and k2 may differ, and be 0. Leading dimensions are broadcast.
    The other arguments, types, errors and what is returned are matmul's. There are neither scales nor integer weights.

        h = tilesmith.mm_plus_mm(x, w, h, u, bias=bias, activation="tanh")      # a step of a recurrent network
    """
    if b is None:
        raise _none("b")
    for name, tensor in (("c", c), ("d", d)):
        if tensor is None:
            raise WrongType(f"{name} is None", "a matrix; matmul has one product")
    if clamp.__class__ is list:
        clamp = tuple(clamp)
    serve = _SERVED_BY.get(type(a)) or _servers.find("a", a)
    if options:
        serve = under("mm_plus_mm", options, _servers, serve)
    try:
        return serve("mm_plus_mm", a, b, None, bias, multiply, residual, None, None, out, None, None, c, d, amax, out_dtype, alpha, 1.0,
                     activation, gate, clamp, tf32, False)  # fmt: skip
    except Error:
        raise
    except Exception as error:
        raise refusal("mm_plus_mm", error, locals()) from error


def linear(
    x: Any,
    w: Any,
    bias: Any = None,
    activation: Optional[Activation] = None,
    gate: Optional[Gate] = None,
    *,
    out: Any = None,
    out_dtype: Any = None,
    multiply: Any = None,
    residual: Any = None,
    clamp: Optional[Sequence[float]] = None,
    scale_x: Any = None,
    scale_w: Any = None,
    zero_w: Any = None,
    amax: Any = None,
    tf32: bool = False,
    prefetch_weights: bool = False,
    **options: Unpack[CallOptions],
) -> Any:
    """A linear layer, torch.nn.functional.linear's x w^T + bias, and what follows it, in one kernel, rounded once.

    x: (..., k). w: (n, k), torch.nn.Linear's weight, or what pack_weight made of it. bias: (n,). The result is (..., n), or
        (..., n / 2) with a gate.
    gate: "glu", "reglu", "geglu", "geglu_tanh" or "swiglu": f(y[..., 2 j]) y[..., 2 j + 1], of y = x w^T + bias. The rows of
        two weights, that of f and the other, are interleaved once for it:
        w = torch.stack((w_gate, w_up), 1).flatten(0, 1), and their biases likewise.
    scale_x, scale_w: of the rows of x and of w, as scale_a and scale_b of matmul; (n, 1) is taken too. By blocks:
        (..., ceil(k / 128)) and (ceil(n / 128), ceil(k / 128)).
    Integer weights: w may be int8, or uint8 (n, k / 2), k even, of pairs of int4 (two's complement, the one of lower k in
        the low half), beside x of float16 or bfloat16. scale_w, float32 or of x's type, is then (n,) or by blocks of k, (n,
        ceil(k / depth)), depth a power of two from 32 on; w * scale_w is rounded to x's type before the product. With
        zero_w, int8 (beside int4 at most 119) of scale_w's shape, it is (w - zero_w) * scale_w. Weights without a sign,
        as AWQ and GPTQ have them, are these with their top bit turned: w ^ 0x88 and zero_w - 8 for pairs of int4, w ^ 0x80
        and zero_w - 128 for bytes. matmul and grouped_matmul take b, scale_b and zero_b likewise, k and n in their order.
    prefetch_weights: matmul's promise, of w.
    The other arguments, types, errors and what is returned are matmul's.

        h = tilesmith.linear(x, w1, b1, activation="gelu")
        h = tilesmith.linear(x, w_gate_and_up, gate="swiglu")
        y = tilesmith.linear(h, w2, residual=x)
    """
    if w is None:
        raise _none("w")
    if clamp.__class__ is list:
        clamp = tuple(clamp)
    serve = _SERVED_BY.get(type(x)) or _servers.find("x", x)
    if options:
        serve = under("linear", options, _servers, serve)
    form = "linear"
    if w.__class__ is PackedWeight:
        if w.is_packed:
            form = "packed"
        else:
            w = w.data
    try:
        return serve(form, x, w, None, bias, multiply, residual, scale_x, scale_w, out, None, zero_w, None, None, amax, out_dtype, 1.0,
                     1.0, activation, gate, clamp, tf32, prefetch_weights)  # fmt: skip
    except Error:
        raise
    except Exception as error:
        raise refusal("linear", error, locals()) from error


def grouped_matmul(
    a: Any,
    b: Any,
    *,
    group_ends: Any = None,
    group_rows: Any = None,
    out: Any = None,
    out_dtype: Any = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    c: Any = None,
    bias: Any = None,
    activation: Optional[Activation] = None,
    gate: Optional[Gate] = None,
    multiply: Any = None,
    residual: Any = None,
    clamp: Optional[Sequence[float]] = None,
    scale_a: Any = None,
    scale_b: Any = None,
    zero_b: Any = None,
    amax: Any = None,
    tf32: bool = False,
    **options: Unpack[CallOptions],
) -> Any:
    """Products of groups of rows with a matrix each, in one kernel: the experts of a mixture. How many rows a group has is
    read on the device. Of lists, the products of their entries.

    b: (groups, k, n). Weights stored (groups, n, k) go in as transposed views.
    group_ends: int32, (groups,): the rows of all groups lie behind one another. a is (rows, k) and the result (rows, n):
        rows group_ends[g - 1] (0 for the first) to group_ends[g] are a's times b[g]. torch._grouped_mm's offs. The last
        end may be below rows, and groups may be empty.
    group_rows: int32, (groups,): every group has room for m rows, of which it uses the first group_rows[g]. a is
        (groups, m, k) and the result (groups, m, n).
        One of the two is given. Rows of the result that belong to no group are left as they are, which in a new tensor
        is anything.
    bias: (n,), or (groups, n), contiguous rows. scale_b: numbers, (n,) or (groups, n). scale_a: one for each row of a. By
        blocks, for float8: scale_a (..., ceil(k / 128)), scale_b (groups, ceil(k / 128), ceil(n / 128)).
    c, multiply, residual and out: of the result's shape (c: with n columns) or what broadcasts to it.
    The other arguments, the order of operations, types and errors are matmul's. On the CPU group_ends and group_rows are
    checked; on a GPU, where nothing waits for them, what is beyond the rows there are is limited to them.

        h = tilesmith.grouped_matmul(x, w1.mT, group_ends=ends, gate="swiglu")     # w1 is (experts, 2 hidden, k)
        y = tilesmith.grouped_matmul(h, w2.mT, group_ends=ends)

    Lists: a and b are lists of torch tensors or NumPy arrays of any sizes, group_ends and group_rows are not given, and
    entry i of the result, a list, is matmul(a[i], b[i]). out, c, bias, multiply, residual, scale_a, scale_b and zero_b are
    lists too, one entry for each product; the other arguments hold for all. No entry of out overlaps what another product reads or
    writes. On the CPU all products are one job for its threads; on a GPU products of one type and layout share launches
    where there is a kernel for it (last_plan().steps), and others are queued one after another. An error names the
    product, and nothing is computed then. A list of none gives one.

        y = tilesmith.grouped_matmul([x0, x1, x2], [w0.T, w1.T, w2.T], bias=[b0, b1, b2], activation="relu")
    """
    if b is None:
        raise _none("b")
    if clamp.__class__ is list:
        clamp = tuple(clamp)
    if isinstance(a, (list, tuple)):
        if group_ends is not None or group_rows is not None:
            raise InvalidArgument("a is a list, and group_ends or group_rows is given", "tensors, or neither of the two")
        if amax is not None:
            raise InvalidArgument("amax is given, and a is a list", "tensors, or no amax")
        if not a:
            return []
        compute = _list_servers.by_type.get(type(a[0])) or _list_servers.find("a[0]", a[0])
        if options:
            compute = under("grouped_matmul", options, _list_servers, compute)
        lists = Operands(a, b, c, bias, multiply, residual, scale_a, scale_b, out, zero_b=zero_b)
        try:
            return compute(lists, out_dtype, alpha, beta, activation, gate, clamp, tf32)
        except Error:
            raise
        except Exception as error:
            raise refusal("grouped_matmul", error, locals()) from error
    if (group_ends is None) == (group_rows is None):
        raise InvalidArgument(f"{'neither' if group_ends is None else 'each'} of group_ends and group_rows is given",
                              "group_ends for rows behind one another, group_rows for a matrix a group")  # fmt: skip
    form, groups = ("grouped", group_ends) if group_rows is None else ("masked", group_rows)
    serve = _SERVED_BY.get(type(a)) or _servers.find("a", a)
    if options:
        serve = under("grouped_matmul", options, _servers, serve)
    try:
        return serve(form, a, b, c, bias, multiply, residual, scale_a, scale_b, out, groups, zero_b, None, None, amax, out_dtype, alpha, beta,
                     activation, gate, clamp, tf32, False)  # fmt: skip
    except Error:
        raise
    except Exception as error:
        raise refusal("grouped_matmul", error, locals()) from error


def _none(name: str) -> WrongType:
    return WrongType(f"{name} is None", "a tensor, as the first argument is")


listed_functions.update((matmul, mm_plus_mm, linear, grouped_matmul))
