"""Whose tensors these are."""

from __future__ import annotations

import importlib
import sys
from importlib.abc import MetaPathFinder
from typing import Any, Callable, Optional, Protocol

from tilesmith._errors import WrongType

Serve = Callable[..., Any]


class OperatorOf(Protocol):
    def operator(self, serve: Serve) -> Optional[Serve]:
        """Who serves by torch's operator, where the call that `serve` would serve has to pass there; else None."""


class Servers:
    """The functions that serve one operation, by the type of its first tensor, filled in as types arrive. They are in the
    module _<library>_<module>: `operation` for plain tensors, <operation>_op for torch's others."""

    def __init__(self, module: str, operation: str) -> None:
        self.by_type: dict[type, Serve] = {}
        self._module = module
        self._operation = operation
        # torch's Tensor, who serves it, and who serves its subclasses
        self._torch: Optional[tuple[type, Serve, Serve]] = None
        _before_tracing.servers.append(self)

    def find(self, name: str, tensor: Any) -> Serve:
        """For the tensor, which the caller knows as `name`."""
        # torch.compile traces this too. It goes neither further, nor by a dictionary that changes meanwhile.
        torch = self._torch
        if torch is None or not isinstance(tensor, torch[0]):
            library = library_of(name, tensor)
            if library != "torch":
                serve = self.by_type[type(tensor)] = self._in_module(library, self._operation)
                return serve
            torch = self.add_torch()
            if (known := self.by_type.get(type(tensor))) is not None:
                return known
        return torch[2]

    def operator(self, serve: Serve) -> Optional[Serve]:
        """Who serves by torch's operator, where the call that `serve` would serve has to pass there: torch traces it, or its
        first tensor is of a subclass."""
        if (torch := self._torch) is None:
            return None
        _, plain, operator = torch
        traced = serve is plain and (sys.modules["torch"].compiler.is_compiling() or sys.modules["tilesmith._torch"].is_traced())
        return operator if traced or serve is operator else None

    def add_torch(self) -> tuple[type, Serve, Serve]:
        """Fills in all of torch's types, and returns who serves its subclasses. torch is imported."""
        torch = sys.modules["torch"]
        serve = self._in_module("torch", self._operation)
        added = self._torch = torch.Tensor, serve, self._in_module("torch", f"{self._operation}_op")
        # Subclasses (fake and wrapped tensors) have no data of their own and go through torch's dispatcher.
        self.by_type.update({torch.Tensor: serve, torch.nn.Parameter: serve})
        return added

    def _in_module(self, library: str, function: str) -> Serve:
        serve: Serve = getattr(importlib.import_module(f"tilesmith._{library}_{self._module}"), function)
        return serve


class Traced:
    """Functions of tilesmith.`module` that serve what torch traces, imported before torch.compile does."""

    def __init__(self, module: str, *functions: str) -> None:
        self._module = module
        self._names = functions
        self._functions: dict[str, Serve] = {}
        _before_tracing.servers.append(self)

    def now(self, first: Any) -> bool:
        """For a call whose first tensor this is."""
        if self._functions and sys.modules["torch"].compiler.is_compiling():
            return True
        if (torch := sys.modules.get("torch")) is None or not isinstance(first, torch.Tensor):
            return False
        if not importlib.import_module("tilesmith._torch").is_traced():
            return False
        if not self._functions:
            self.add_torch()
        return True

    def serve(self, function: str) -> Serve:
        return self._functions[function]

    def add_torch(self) -> None:
        module = importlib.import_module(f"tilesmith.{self._module}")
        self._functions = {name: getattr(module, name) for name in self._names}


class _BeforeTracing(MetaPathFinder):
    """Imports what serves torch's tensors before torch.compile traces the first call, because a traced function can neither
    import it nor look into a dictionary that the import changes. Finds nothing, so that imports go on as ever."""

    def __init__(self) -> None:
        self.servers: list[Servers | Traced] = []

    def watch(self) -> None:
        if "torch._dynamo" in sys.modules:
            self.add_torch()
        elif self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: Any, target: Any = None) -> None:
        if name == "torch._dynamo":
            sys.meta_path.remove(self)
            self.add_torch()

    def add_torch(self) -> None:
        for servers in self.servers:
            servers.add_torch()


_before_tracing = _BeforeTracing()
#: Called once all servers are there.
watch_for_tracing = _before_tracing.watch


def library_of(name: str, tensor: Any) -> str:
    """Without importing a library that is not imported yet: a tensor of it would have."""
    if (torch := sys.modules.get("torch")) is not None and isinstance(tensor, torch.Tensor):
        return "torch"
    if (numpy := sys.modules.get("numpy")) is not None and isinstance(tensor, numpy.ndarray):
        return "numpy"
    if hasattr(tensor, "__dlpack__") and hasattr(tensor, "__dlpack_device__"):
        return "dlpack"
    raise WrongType(f"{name} is a {type(tensor).__name__}", "a torch tensor, a NumPy array, or an array with __dlpack__")
