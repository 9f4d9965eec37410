"""Attention as training makes it, of q, k and v alone, prepared for their shapes both ways: a repeated call and its gradient only make
the results and store addresses. Everything else goes by _torch_attention_gradient.
"""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor
from torch.autograd import Function

from tilesmith import _attention_backward_call as backward_call
from tilesmith._attention_arguments import Arguments
from tilesmith._attention_call import Call
from tilesmith._kept_calls import KeptCalls
from tilesmith._torch import all_plain, grad_enabled, raw_stream, torch_threads, under, view_of
from tilesmith._torch_attention_backward import attention_bwd

_gradient_calls: KeptCalls[backward_call.Call] = KeptCalls()


class TrainedAttention:
    """A prepared call with the log-sum-exp, whose gradient can be prepared too. It belongs to the thread that made it, but for `gradient_call`."""

    __slots__ = ("call", "arguments", "options", "return_lse")

    def __init__(self, call: Call, arguments: Arguments, options: tuple[Any, ...]) -> None:
        self.call = call
        self.arguments = arguments._replace(q=None, k=None, v=None)  # what is no tensor
        self.options = None, *options[1:]  #: for the gradient; the kernel's name is the forward's own
        self.return_lse = arguments.return_lse

    def gradient_call(self, do: Tensor, dlse: Optional[Tensor], saved: tuple[Tensor, ...], results: tuple[Tensor, ...]) -> backward_call.Call:
        """This thread's: autograd has threads of its own for GPUs."""
        key = self, do.stride(), None if dlse is None else dlse.stride(), torch_threads()
        call = _gradient_calls.by_key.get(key)
        if call is None:
            q, k, v, o, lse = saved
            tensors = backward_call.Tensors(view_of("do", do), view_of("q", q), view_of("k", k), view_of("v", v), view_of("o", o), view_of("lse", lse),
                                            dlse=view_of("dlse", dlse))  # fmt: skip
            places = backward_call.Results(*map(view_of, ("dq", "dk", "dv"), results))
            options = self.arguments.options._replace(return_lse=True, num_splits=0, batch_invariant=False)
            with under(self.options):
                call = _gradient_calls.keep(key, backward_call.prepare(tensors, places, options, torch_threads()))
        return call

    def general(self, do: Tensor, dlse: Optional[Tensor], saved: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """dq, dk and dv by the operator's own way. A gradient of a gradient is refused there."""
        x = self.arguments
        q, k, v, o, lse = saved
        compute = attention_bwd if not grad_enabled() and all_plain((do, dlse)) else torch.ops.tilesmith.attention_bwd
        made: tuple[Tensor, ...] = compute(do, q, k, v, o, lse, x.layout, x.causal, x.mask, *x.window, x.scale, x.softcap, None, None, None, 0.0, None,
                                           None, None, None, None, x.diagonal, x.tf32, dlse, False, False, False, None, *self.options)  # fmt: skip
        return made[:3]


class _Differentiated(Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, attention: TrainedAttention) -> Any:
        call = attention.call
        o, lse = q.new_empty(*call.out_shape), q.new_empty(*call.lse_shape, dtype=torch.float32)
        stream = raw_stream(call.stream_device) if call.stream_device >= 0 else 0
        call.run(q.data_ptr(), k.data_ptr(), v.data_ptr(), o.data_ptr(), lse.data_ptr(), 0, 0, 0, 0, 0, stream)
        ctx.set_materialize_grads(False)  # None for an output that the loss does not depend on
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.attention, ctx.options = attention, attention.options
        return (o, lse) if attention.return_lse else o

    @staticmethod
    def backward(ctx: Any, do: Optional[Tensor], dlse: Optional[Tensor] = None) -> tuple[Optional[Tensor], ...]:
        attention: TrainedAttention = ctx.attention
        saved = q, k, v, o, lse = ctx.saved_tensors
        if do is None:
            do = torch.zeros_like(o)
        if grad_enabled() or type(do) is not Tensor or (dlse is not None and type(dlse) is not Tensor) or do.stride(-1) != 1 or do.dtype is not o.dtype:
            results = attention.general(do, dlse, saved)
        else:
            results = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
            call = attention.gradient_call(do, dlse, saved, results)
            inputs = (do.data_ptr(), q.data_ptr(), k.data_ptr(), v.data_ptr(), o.data_ptr(), lse.data_ptr(), 0, 0, 0, 0, 0,
                      0 if dlse is None else dlse.data_ptr())  # fmt: skip
            dq, dk, dv = results
            call.run(inputs, (dq.data_ptr(), dk.data_ptr(), dv.data_ptr(), 0, 0, 0), 0, raw_stream(call.stream_device) if call.stream_device >= 0 else 0)
        return tuple(gradient if needed else None for gradient, needed in zip((*results, None), ctx.needs_input_grad))


differentiated: Any = _Differentiated.apply
