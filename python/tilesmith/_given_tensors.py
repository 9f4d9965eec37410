"""The tensors of a call, of whichever library they are, for operations that have one server for all."""

from __future__ import annotations

import importlib
import random
from typing import Any, Callable, Optional, Sequence

from tilesmith._errors import WrongType
from tilesmith._repeated import Output, RepeatedCalls
from tilesmith._tensor_library import library_of
from tilesmith._views import View


class TensorLibrary:
    """NumPy or torch, as a call's first tensor has it."""

    def __init__(self, name: str, first: Any) -> None:
        self.kind = library_of(name, first)
        if self.kind == "dlpack":
            raise WrongType(f"{name} is a {type(first).__name__}", "a torch tensor or a NumPy array")
        self._module: Any = importlib.import_module(f"tilesmith._{self.kind}")
        self._type = type(first)
        self._repeated: dict[str, RepeatedCalls] = {}
        self._types = {self._type, type(None)}
        self._grad_enabled: Callable[[], bool] = self._module.grad_enabled if self.kind == "torch" else bool
        self._raw_stream: Callable[[int], int] = self._module.raw_stream if self.kind == "torch" else int
        #: Of tensors, which may be None: kernels wrote to them.
        self.wrote: Callable[..., None] = self._module.tell_all_written if self.kind == "torch" else _nobody_asks
        self.address: Callable[[Any], int] = self._module.address
        self._described: Callable[[Sequence[Any]], tuple[object, Sequence[int]]] = self._module.described

    def described(self, tensors: Sequence[Any], names: Callable[[], Sequence[str]]) -> tuple[object, Sequence[int]]:
        """What a call is found by: the tensors' types, sizes, strides and devices; and their addresses, 0 for those there are
        not. Errors: a tensor of another library, or one that requires a gradient."""
        grad_enabled = self._grad_enabled()
        if grad_enabled or not self._types.issuperset(map(type, tensors)):
            for at, tensor in enumerate(tensors):
                if tensor is not None and (type(tensor) is not self._type or (grad_enabled and tensor.requires_grad)):
                    self.view(names()[at], tensor)
        return self._described(tensors)

    def view(self, name: str, tensor: Any) -> Optional[View]:
        """Errors: as of `described`, and a tensor that has no memory."""
        if tensor is None:
            return None
        if library_of(name, tensor) != self.kind:
            raise WrongType(f"{name} is a {type(tensor).__name__}", f"a {'torch tensor' if self.kind == 'torch' else 'NumPy array'}, as the others are")
        if self._grad_enabled() and tensor.requires_grad:
            self._module.refuse_gradient("serving")
        view: View = self._module.view_of(name, tensor)
        return view._replace(data_type=view.data_type.removeprefix("torch."))

    def new(self, like: Any, shape: tuple[int, ...], data_type: str) -> Any:
        if self.kind == "torch":
            # The sizes as arguments of their own: torch takes a microsecond longer to read a tuple of them.
            dtype = self._module.DTYPES[data_type]
            return like.new_empty(*shape) if dtype is like.dtype else like.new_empty(*shape, dtype=dtype)
        return self._module.np.empty(shape, self._module.dtype_of(data_type, like.dtype))

    def output(self, word: int, at: int, like: Any, shape: tuple[int, ...], data_type: str, is_room: bool = False) -> Output:
        """new() of a repeated call: `like` is its argument at that place."""
        if self.kind == "torch":
            output: Output = self._module.new_output(word, at, like, shape, self._module.DTYPES[data_type], is_room=is_room)
            return output
        return Output(word, -1, self._module.np.empty, (shape, self._module.dtype_of(data_type, like.dtype)), None, is_room)

    def repeated(self, operation: str, kinds: str) -> RepeatedCalls:
        """Calls of the operation, one for all of its calls."""
        found = self._repeated.get(operation)
        if found is None:
            found = self._repeated[operation] = self._module.repeated_calls(kinds)
        return found

    def longest(self, given: Optional[int], offsets: Any) -> Optional[int]:
        """Of the sequences that offsets divide packed rows into, where it is not given. Waits for a GPU."""
        most: Optional[int] = self._module.longest(given, offsets)
        return most

    def threads(self) -> int:
        """That the library wants of a call on the CPU; 0: it has no wish."""
        wanted: int = self._module.torch_threads() if self.kind == "torch" else 0
        return wanted

    def draw_seed(self) -> int:
        """From torch's default generator, or Python's."""
        return int(self._module.draw_seed()) if self.kind == "torch" else random.getrandbits(64)

    def stream(self, index: int) -> int:
        """The current one of that device; 0 for -1, the CPU."""
        return self._raw_stream(index) if index >= 0 else 0


def _nobody_asks(*written: Any) -> None:
    """NumPy's arrays have no versions."""


_libraries: dict[type, TensorLibrary] = {}


def library_for(name: str, first: Any) -> TensorLibrary:
    """Of the tensor that decides for its call."""
    found = _libraries.get(type(first))
    if found is None:
        found = _libraries[type(first)] = TensorLibrary(name, first)
    return found
