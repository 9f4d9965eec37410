"""Whose tensors these are."""

from __future__ import annotations

import importlib
import sys
from typing import Any, Callable

from tilesmith._errors import WrongType


class Servers:
    """The functions that serve one operation, by the type of its first tensor, filled in as types arrive. They are in the
    module _<library>_<module>: `operation` for plain tensors, with the suffix `others` for torch's others."""

    def __init__(self, module: str, operation: str, others: str = "_op") -> None:
        self.by_type: dict[type, Callable[..., Any]] = {}
        self._module = module
        self._operation = operation
        self._others = others

    def find(self, name: str, tensor: Any) -> Callable[..., Any]:
        """For the tensor, which the caller knows as `name`."""
        library = library_of(name, tensor)
        module = importlib.import_module(f"tilesmith._{library}_{self._module}")
        operation = self._operation
        if library == "torch":
            from tilesmith._torch import is_plain

            operation += "" if is_plain(tensor) else self._others
        serve = self.by_type[type(tensor)] = getattr(module, operation)
        return serve


def library_of(name: str, tensor: Any) -> str:
    """Without importing a library that is not imported yet: a tensor of it would have."""
    if (torch := sys.modules.get("torch")) is not None and isinstance(tensor, torch.Tensor):
        return "torch"
    if (numpy := sys.modules.get("numpy")) is not None and isinstance(tensor, numpy.ndarray):
        return "numpy"
    if hasattr(tensor, "__dlpack__") and hasattr(tensor, "__dlpack_device__"):
        return "dlpack"
    raise WrongType(f"{name} is a {type(tensor).__name__}", "a torch tensor, a NumPy array, or an array with __dlpack__")
