"""The operators of the serving functions, which torch.compile sees. Each does what the function does on plain tensors."""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor

from tilesmith import _serving
from tilesmith._torch import define, refuse_gradient


def _check_no_gradient(tensors: Any) -> None:
    if torch.is_grad_enabled() and any(isinstance(tensor, Tensor) and tensor.requires_grad for tensor in tensors):
        refuse_gradient("serving")


# ---------------------------------------------------------------------------------------------------- merge_states


def merge_states_op(outputs: list[Any], lses: list[Any], layout: Any, out: Any) -> tuple[Any, Any]:
    """tilesmith.merge_states as the operator."""
    _check_no_gradient((*outputs, *lses, out))
    if out is None:
        output, lse = torch.ops.tilesmith.merge_states(outputs, lses, layout)
        return output, lse
    return out, torch.ops.tilesmith.merge_states_out(outputs, lses, layout, out=out)


def _merge_states(outputs: list[Tensor], lses: list[Tensor], layout: str) -> tuple[Tensor, Tensor]:
    return _serving.merge_states(outputs, lses, layout=layout)  # type: ignore[arg-type]


def _merge_states_out(outputs: list[Tensor], lses: list[Tensor], layout: str, *, out: Tensor) -> Tensor:
    lse: Tensor = _serving.merge_states(outputs, lses, layout=layout, out=out)[1]  # type: ignore[arg-type]
    return lse


def _fake_merge_states(outputs: list[Tensor], lses: list[Tensor], layout: str) -> tuple[Tensor, Tensor]:
    first = outputs[0]
    head, row = (-3, -2) if layout == "bhsd" else (-2, -3)
    lse_shape = (*first.shape[:-3], first.shape[head], first.shape[row])
    return first.new_empty(first.shape), first.new_empty(lse_shape, dtype=torch.float32)


def _fake_merge_states_out(outputs: list[Tensor], lses: list[Tensor], layout: str, *, out: Tensor) -> Tensor:
    return _fake_merge_states(outputs, lses, layout)[1]


define("merge_states(Tensor[] outputs, Tensor[] lses, str layout) -> (Tensor, Tensor)", _merge_states, _fake_merge_states, "serving")
define("merge_states_out(Tensor[] outputs, Tensor[] lses, str layout, *, Tensor(a!) out) -> Tensor", _merge_states_out,
       _fake_merge_states_out)  # fmt: skip

# ------------------------------------------------------------------------------------------------------- append_kv

_ARGUMENTS = (
    "Tensor k, Tensor v, Tensor(a!) k_cache, Tensor(b!) v_cache, str layout, str kv_layout, Tensor? seqlens_k, Tensor? block_table, "
    "Tensor? page_indices, Tensor? page_indptr, Tensor? slots, Tensor? cu_seqlens, Tensor? q, Tensor? rotary_cos, "
    "Tensor? rotary_sin, str rotary_style, Tensor? positions, Tensor? k_scale=None, Tensor? v_scale=None, "
    "Tensor(d!)? k_row_scale=None, Tensor(e!)? v_row_scale=None, bool lengths_after=False"
)
_NAMES = tuple(argument.split()[-1].split("=")[0] for argument in _ARGUMENTS.split(", "))


def append_kv_op(*given: Any, out_q: Any) -> Optional[Tensor]:
    """tilesmith.append_kv as the operator; `given` are its arguments in the schema's order."""
    _check_no_gradient((*given, out_q))
    if out_q is not None:
        torch.ops.tilesmith.append_kv_out(*given, out_q=out_q)
        turned: Optional[Tensor] = out_q
        return turned
    turned = torch.ops.tilesmith.append_kv(*given)
    return None if given[_NAMES.index("q")] is None else turned


def _append_kv(*given: Any) -> Tensor:
    turned: Optional[Tensor] = _serving.append_kv(**dict(zip(_NAMES, given)))
    return given[0].new_empty(0) if turned is None else turned


def _append_kv_out(*given: Any, out_q: Tensor) -> None:
    _serving.append_kv(**dict(zip(_NAMES, given)), out_q=out_q)


def _fake_append_kv(*given: Any) -> Tensor:
    q = given[_NAMES.index("q")]
    empty: Tensor = given[0].new_empty(0) if q is None else q.new_empty(q.shape)
    return empty


def _fake_append_kv_out(*given: Any, out_q: Tensor) -> None:
    return None


define(f"append_kv({_ARGUMENTS}) -> Tensor", _append_kv, _fake_append_kv)
define(f"append_kv_out({_ARGUMENTS}, *, Tensor(c!) out_q) -> ()", _append_kv_out, _fake_append_kv_out)
