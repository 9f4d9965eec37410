"""The words that arguments take, as types: for annotations of what is handed on to this package."""

from __future__ import annotations

import os
from typing import Literal, Optional, TypedDict, Union

Layout = Literal["bhsd", "bshd"]
KvLayout = Literal["nhd", "hnd"]  #: of a cache: (pages, page size, heads, dim) or (pages, heads, page size, dim)
PageLayout = Literal["nhd", "hnd", "vectorized"]  #: of one that attention reads; the last is (pages, heads, dim / x, page size, x) of keys
Mask = Literal["none", "top_left", "bottom_right"]
RotaryStyle = Literal["half", "interleaved"]
Activation = Literal["relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh"]
Gate = Literal["glu", "reglu", "geglu", "geglu_tanh", "swiglu"]
Build = Literal["allowed", "never"]
Determinism = Literal["bitwise", "tolerant"]


class CallOptions(TypedDict, total=False):
    """The arguments of `tilesmith.options`, which the functions that compute take too."""

    kernel: Optional[str]
    threads: Optional[int]
    build: Optional[Build]
    determinism: Optional[Determinism]
    tuning: Optional[Union[str, os.PathLike[str]]]
