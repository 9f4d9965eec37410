"""The tensors of a call, of whichever library they are, for operations that have one server for all."""

from __future__ import annotations

import importlib
from typing import Any

from tilesmith._errors import WrongType
from tilesmith._library import CUDA
from tilesmith._tensor_library import library_of
from tilesmith._views import View


class GivenTensors:
    """The library whose tensors a call takes, by its first one: NumPy or torch."""

    def __init__(self, name: str, first: Any) -> None:
        self.kind = library_of(name, first)
        if self.kind == "dlpack":
            raise WrongType(f"{name} is a {type(first).__name__}", "a torch tensor or a NumPy array")
        self._module = importlib.import_module(f"tilesmith._{self.kind}")
        self._first = name

    def view(self, name: str, tensor: Any) -> View:
        if library_of(name, tensor) != self.kind:
            raise WrongType(f"{name} is a {type(tensor).__name__}", f"what {self._first} is")
        if self.kind == "torch" and tensor.requires_grad and self._module.grad_enabled():
            raise self._module.no_gradient("serving")
        view: View = self._module.view_of(name, tensor)
        return view._replace(data_type=view.data_type.removeprefix("torch."))

    def address(self, tensor: Any) -> int:
        at: int = self._module.address(tensor)
        return at

    def stream(self, view: View) -> int:
        """The current one of the tensors' device; 0 on the CPU."""
        at: int = self._module.raw_stream(view.index) if view.kind == CUDA else 0
        return at

    def new(self, like: Any, shape: tuple[int, ...], data_type: str) -> Any:
        if self.kind == "torch":
            return like.new_empty(shape, dtype=self._module.DTYPES[data_type])
        import numpy as np

        return np.empty(shape, self._module.dtype_of(data_type, like.dtype))
