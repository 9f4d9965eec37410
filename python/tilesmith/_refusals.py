"""What a call is told whose arguments are so odd that Python or the tensors' library stumbled over them.

What can be wrong with sensible arguments is checked where they are read. A repeated call checks nothing, so that values
which cannot be looked up, and tensors without memory, come to light by another library's exception. Here it becomes one of
the package's own.
"""

from __future__ import annotations

import functools
import inspect
import sys
from typing import Any, Callable, Mapping, ParamSpec, TypeVar

from tilesmith._errors import Error, Failure, InvalidArgument, OutOfMemory, Unsupported, WrongType
from tilesmith._views import number, shown

Given = ParamSpec("Given")
Result = TypeVar("Result")

_NUMBERS = ("scale", "softcap", "dropout_p", "alpha", "beta")
#: What the arguments that are no tensors are.
_KINDS = {
    **dict.fromkeys(_NUMBERS, "a number"),
    **dict.fromkeys(("causal", "return_lse", "tf32", "prefetch_weights", "is_causal", "enable_gqa"), "True or False"),
    **dict.fromkeys(("layout", "kv_layout", "rotary_style", "mask", "activation", "gate"), "a word"),
    **dict.fromkeys(("seed", "diagonal", "max_seqlen_q", "max_seqlen_k", "num_splits"), "a whole number"),
    "window": "(left, right), bounds of 0 or more, or -1 for none",
    "clamp": "(low, high), two numbers",
    "out_dtype": "a data type of the tensors' library",
}


#: Exceptions by which torch ends a computation that it needs no more of: no errors.
_SIGNALS = ("_StopRecomputationError",)


#: How torch says that memory is exhausted, and NumPy that no memory is as large.
_TOO_LARGE = ("DefaultCPUAllocator", "array is too big", "Maximum allowed dimension exceeded")


def refusal(function: str, error: Exception, arguments: Mapping[str, Any]) -> Exception:
    """Of a call of the package's function, by argument."""
    if isinstance(error, Error) or type(error).__name__ in _SIGNALS:
        return error
    # torch's are RuntimeErrors: of a class of its own on a GPU, and on the CPU of none.
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or any(words in str(error) for words in _TOO_LARGE):
        return OutOfMemory(f"{function}: {shown(str(error))}", "smaller tensors, or more memory", "out_of_memory")
    for name, kind in _KINDS.items():
        value = arguments.get(name)
        if value is None:
            continue
        try:
            hash(value)
            if name in _NUMBERS:
                number(name, value)
        except Error as own:
            return own
        except Exception:
            return WrongType(f"{name} is {shown(value)}", kind)
    if (torch := sys.modules.get("torch")) is not None:
        for name, value in arguments.items():
            for tensor in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(tensor, torch.Tensor) and (kind := _odd_kind(torch, tensor)):
                    return Unsupported(f"{name} is {kind}, and {function} reads plain tensors alone", "torch's own operation",
                                       "unsupported")  # fmt: skip
    told = f"{function} fails: {type(error).__name__}: {shown(str(error))}"
    hint = f"arguments as help(tilesmith.{function}) describes them"
    if isinstance(error, NotImplementedError):
        return Unsupported(told, hint, "unsupported")
    # An operator's schema, of which torch says it by a RuntimeError.
    if isinstance(error, (TypeError, AttributeError)) or "Expected a value of type" in str(error):
        return WrongType(told, hint)
    if isinstance(error, (ValueError, ArithmeticError, LookupError, BufferError)):
        return InvalidArgument(told, hint)
    return Failure(told, hint, "internal")


def refusing(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """A public function whose calls take so long that a wrapper costs nothing, with its refusals."""

    @functools.wraps(function)
    def call(*arguments: Given.args, **named: Given.kwargs) -> Result:
        try:
            return function(*arguments, **named)
        except Error:
            raise
        except Exception as error:
            try:
                given: Mapping[str, Any] = inspect.signature(function).bind(*arguments, **named).arguments
            except TypeError:
                given = named
            raise refusal(function.__name__, error, given) from error

    return call


def _odd_kind(torch: Any, tensor: Any) -> str:
    wrapped = getattr(getattr(torch._C, "_functorch", None), "is_functorch_wrapped_tensor", None)
    if wrapped is not None and wrapped(tensor):
        return "a tensor of a torch.func transform (vmap, jvp, grad)"
    if type(tensor).__name__ == "FakeTensor":
        return "a FakeTensor, which has no memory, beside others"
    if tensor.is_meta:
        return "a meta tensor, which has no memory"
    if tensor.is_nested:
        return "a nested tensor"
    return "" if tensor.layout is torch.strided else f"a {tensor.layout} tensor"
