"""torch tensors: what they look like, and the library of operators that torch.compile sees.

Plain tensors go straight to the library. Everything else (a function being compiled, fake tensors, subclasses) goes
through torch.ops.tilesmith, whose implementations on the CPU and on CUDA are the same straight way.
"""

from __future__ import annotations

from collections import namedtuple
from contextlib import nullcontext
from typing import Any, Iterable, NoReturn, Optional, Sequence, overload

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import forward_ad
from torch.autograd.graph import increment_version

from tilesmith._conditions import OptionValues, conditions
from tilesmith._described import described as described, exchange
from tilesmith._errors import InvalidArgument, Unsupported
from tilesmith._library import CPU, CUDA
from tilesmith._options import options
from tilesmith._repeated import Asked, Output, Question, RepeatedCalls
from tilesmith._views import View, dense_strides

TYPES: dict[torch.dtype, str] = {
    torch.float32: "fp32",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.float8_e4m3fn: "fp8",
    torch.float8_e5m2: "bf8",
    torch.int8: "int8",
    torch.int32: "int32",
    torch.uint32: "uint32",
    torch.uint8: "uint8",
}
DTYPES = {name: dtype for dtype, name in TYPES.items()}
_KINDS = {"cpu": CPU, "cuda": CUDA}

# torch.empty_strided of the CPU and of the current GPU without torch's dispatcher, as the code that torch.compile makes calls it: in half the time.
_makers = {kind: getattr(torch._C._dynamo.guards, f"_empty_strided_{kind}", None) for kind in _KINDS}

operators = torch.library.Library("tilesmith", "DEF")  # type: ignore[no-untyped-call]

is_compiling = torch.compiler.is_compiling
# Whether Dynamo reads the code: one frame of Python in place of two. torch.export without it passes tensors that no repeated call has.
is_dynamo_compiling = torch.compiler.is_dynamo_compiling
jit_traces = torch._C._is_tracing
_count_modes = torch._C._len_torch_dispatch_stack
_is_excluded = torch._C._dispatch_tls_is_dispatch_key_excluded
_PYTHON = torch._C.DispatchKey.Python
grad_enabled = torch.is_grad_enabled
torch_threads = torch.get_num_threads
_BESIDE = (Question(torch_threads, "int", "libtorch_cpu.so", "_ZN2at15get_num_threadsEv"),
           Question(_count_modes, "long", "libc10.so", "_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv"),
           Question(jit_traces, "reference", "libtorch_cpu.so", "_ZN5torch3jit6tracer15getTracingStateEv"))  # fmt: skip
_GRAD_ENABLED = Question(grad_enabled, "bool", "libc10.so", "_ZN3c108GradMode10is_enabledEv")
# The same as torch.cuda.current_stream(index).cuda_stream without making an object for it.
raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None) or (
    lambda index: torch.cuda.current_stream(index).cuda_stream)  # fmt: skip


def is_traced() -> bool:
    """Whether calls pass torch's dispatcher though their tensors are plain: torch.compile, torch.jit.trace, make_fx and modes of
    __torch_dispatch__ know of what passes there alone. A trace of anything else would repeat a result's memory without its kernel."""
    return is_compiling() or jit_traces() or (_count_modes() > 0 and not _is_excluded(_PYTHON))


def is_recorded() -> bool:
    """Whether torch.compile, torch.jit.trace, make_fx or torch.export makes a graph of what runs."""
    if is_compiling() or jit_traces():
        return True
    from torch.fx.experimental.proxy_tensor import get_proxy_mode

    return get_proxy_mode() is not None


def repeated_calls(kinds: str) -> RepeatedCalls:
    """Of plain tensors, that nothing traces."""
    if not exchange:
        return RepeatedCalls("", (), None)
    return RepeatedCalls(kinds, (Tensor, torch.nn.Parameter), Asked(torch.dtype, exchange, _BESIDE, _GRAD_ENABLED, forward_ad, raw_stream))


def new_output(word: int, at: int, like: Tensor, shape: Sequence[int], dtype: torch.dtype, strides: Optional[Sequence[int]] = None,
               is_room: bool = False) -> Output:  # fmt: skip
    """For a repeated call, whose argument at the place `at` is `like`: a tensor as of new_empty, or new_empty_strided."""
    make = _makers.get(like.device.type)
    # Modes see what they are to see. The current GPU is the tensor's where there is one alone.
    if make is None or _count_modes() > 0 or (like.is_cuda and torch.cuda.device_count() > 1):
        named = None if dtype is like.dtype else {"dtype": dtype}
        if strides is not None:
            return Output(word, at, type(like).new_empty_strided, (tuple(shape), tuple(strides)), named, is_room)
        # The sizes as arguments of their own: torch takes a microsecond longer to read a tuple of them.
        return Output(word, at, type(like).new_empty, tuple(shape) or ((),), named, is_room)
    return Output(word, -1, make, (tuple(shape), dense_strides(shape) if strides is None else tuple(strides), dtype), None, is_room)


def is_plain(tensor: Tensor) -> bool:
    """Subclasses (fake and wrapped tensors) have no data of their own and go through torch's dispatcher."""
    return type(tensor) in (Tensor, torch.nn.Parameter)


@overload
def view_of(name: str, tensor: Tensor) -> View: ...
@overload
def view_of(name: str, tensor: None) -> None: ...
def view_of(name: str, tensor: Optional[Tensor]) -> Optional[View]:
    if tensor is None:
        return None
    if tensor.layout is torch.strided:
        check_memory(name, tensor)
        check_sign(name, tensor)
    if tensor.device.type not in _KINDS or tensor.layout is not torch.strided:
        raise Unsupported(f"{name} is a {tensor.layout} tensor on {tensor.device}",
                          "strided tensors on the CPU or a CUDA device", "unsupported")  # fmt: skip
    return View(TYPES.get(tensor.dtype, str(tensor.dtype)), tuple(tensor.shape), tensor.stride(),
                _KINDS[tensor.device.type], tensor.device.index or 0)  # fmt: skip


def check_sign(name: str, tensor: Tensor) -> None:
    if tensor.is_neg():  # a view of the imaginary part of a conjugate: its memory has the other sign
        raise InvalidArgument(f"{name} is a lazily negated view", f"{name}.resolve_neg()")


def check_memory(name: str, tensor: Tensor) -> None:
    kind = "meta tensor" if tensor.is_meta else type(tensor).__name__
    if tensor.is_meta or isinstance(tensor, FakeTensor) or (tensor.numel() > 0 and tensor.data_ptr() == 0):
        raise InvalidArgument(f"{name} is a {kind}, which has no memory",
                              "a tensor with data, on the CPU or a CUDA device; for the result's shape alone, FakeTensors for all")  # fmt: skip


def describe(tensor: Optional[Tensor]) -> object:
    return None if tensor is None else (tensor.dtype, tensor.shape, tensor.stride(), tensor.device)


def address(tensor: Optional[Tensor]) -> int:
    return 0 if tensor is None else tensor.data_ptr()


#: Of a tensor: kernels write behind torch's back, and a backward pass whose saved tensor changed must fail, as behind torch's own functions.
tell_written = increment_version


def tell_all_written(*tensors: Optional[Tensor]) -> None:
    for tensor in tensors:
        if tensor is not None:
            tell_written(tensor)


def longest(given: Optional[int], offsets: Optional[Tensor]) -> Optional[int]:
    """Of the sequences that the offsets divide packed rows into, where it is not given. Waits for a GPU."""
    if given is not None or offsets is None:
        return given
    # What is no contiguous dimension is refused later, and may be one number in 2**45 places.
    if offsets.dim() != 1 or offsets.numel() < 2 or not offsets.is_contiguous():
        return 0
    return int((offsets[1:] - offsets[:-1]).max())


def draw_seed() -> Tensor:
    """From torch's default generator, so that torch.manual_seed decides it."""
    return torch.randint((1 << 63) - 1, (), device="cpu")


def signed_seed(seed: int) -> int:
    """A seed as an operator's integer."""
    return seed - (1 << 64) if seed >> 63 else seed


def refuse_gradient(operation: str) -> NoReturn:
    """Raises instead of giving the error to a caller's `raise`: in code that torch.compile traces, torch 2.11 loses that one."""
    raise Unsupported(f"a tensor requires a gradient, and {operation} is forward only",
                      "call it under torch.no_grad(), or on detached tensors", "unsupported")  # fmt: skip


def options_here() -> tuple[Any, ...]:
    """This thread's options, as an operator takes them."""
    return NO_OPTIONS if conditions.now is None else conditions.now.options


def check_no_tangents(operation: str, tensors: Iterable[Any]) -> None:
    """For calls inside a level of forward mode: a result would lack the tangent, silently."""
    primal_of: Any = forward_ad.unpack_dual
    if any(isinstance(tensor, Tensor) and primal_of(tensor).tangent is not None for tensor in tensors):
        raise Unsupported(f"a tensor has a tangent of forward-mode differentiation, and {operation} carries none",
                          "torch's own operation, or the primal of torch.autograd.forward_ad.unpack_dual", "unsupported")  # fmt: skip


#: The options of a call as an operator's arguments, in the order of OptionValues. Not `kernel`: Inductor passes arguments by
#: name to a function of its own that has one of that name.
OPTION_ARGUMENTS = "str? kernel_name=None, SymInt? threads=None, str? build=None, str? determinism=None, str? tuning=None"
NO_OPTIONS = OptionValues()


def under(values: tuple[Any, ...]) -> Any:
    """For a with statement: the options that an operator was given hold."""
    return options(**dict(zip(OptionValues._fields, values))) if values.count(None) != len(values) else nullcontext()


def define(schema: str, implementation: Any, fake: Any, no_backward: Optional[str] = None) -> None:
    """An operator of torch.ops.tilesmith: the same implementation for the CPU and CUDA. `no_backward` names an operation
    whose results may not be differentiated."""
    name = schema[: schema.index("(")]
    operators.define(schema)  # type: ignore[no-untyped-call]
    for key in ("CPU", "CUDA"):
        operators.impl(name, implementation, key)  # type: ignore[no-untyped-call]
    torch.library.register_fake(f"tilesmith::{name}", fake, lib=operators)
    if no_backward:

        def refuse(context: Any, *gradients: Any) -> Any:
            refuse_gradient(no_backward)

        torch.library.register_autograd(f"tilesmith::{name}", refuse, lib=operators)


def define_gradient(name: str, backward: Any, keep: Any) -> None:
    """Of an operator: keep(ctx, inputs, output) saves what backward(context, *gradients) reads."""
    torch.library.register_autograd(f"tilesmith::{name}", backward, setup_context=keep, lib=operators)


def differentiated(implementation: Any, backward: Any, keep: Any) -> Any:
    """The same for plain tensors outside of torch.compile: a call of an operator takes a tenth of a millisecond longer."""

    class Differentiated(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Any:
            output = implementation(*inputs)
            keep(ctx, inputs, output)
            return output

    Differentiated.backward = staticmethod(backward)  # type: ignore[method-assign]
    return Differentiated.apply


def all_plain(tensors: Iterable[Optional[Tensor]]) -> bool:
    return all(tensor is None or is_plain(tensor) for tensor in tensors)


def argument_names(arguments: str) -> tuple[str, ...]:
    """Of a schema's arguments."""
    return tuple(argument.split("=")[0].split()[-1] for argument in arguments.split(", "))


def named_arguments(names: tuple[str, ...], defaults: tuple[Any, ...]) -> Any:
    """A named tuple of an operator's arguments, the last ones with these defaults: torch leaves out arguments that equal theirs."""
    return namedtuple("named_arguments", names, defaults=defaults)
