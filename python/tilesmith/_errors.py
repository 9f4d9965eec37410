"""Exceptions: what is wrong, and what would be right."""

from __future__ import annotations

from typing import Any


class Error(Exception):
    """Base of every exception of this package.

    code: the library's word for it ("invalid_argument", "unsupported", "compile_failed", ...).
    message: what is wrong and where, with the offending value.
    hint: what would be right; may be "".
    """

    def __init__(self, message: str, hint: str = "", code: str = "invalid_argument") -> None:
        # Not by the constructor of exceptions, which torch.compile does not trace.
        self.args = (f"{message} ({hint})" if hint else message,)
        self.code = code
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[Any, ...]:  # the constructor's arguments are not args: exceptions travel between processes
        return type(self), (self.message, self.hint, self.code)


class InvalidArgument(Error, ValueError):
    """The call asks for something that cannot be."""


class WrongType(Error, TypeError):
    """An argument's type or data type cannot be."""


class Unsupported(Error, NotImplementedError):
    """Meaningful, but no kernel or machine here can serve it."""


class OutOfMemory(Error, MemoryError):
    """Memory or disk space is exhausted."""


class Failure(Error, RuntimeError):
    """Something did not work: a compiler, a file, a launch."""


_BY_CODE: dict[str, type[Error]] = {
    "invalid_argument": InvalidArgument,
    "parse": InvalidArgument,
    "unsupported": Unsupported,
    "out_of_memory": OutOfMemory,
}


def error_of(code: str, message: str, hint: str) -> Error:
    """The exception for one of the library's codes."""
    return _BY_CODE.get(code, Failure)(message, hint, code)
