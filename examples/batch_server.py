#!/usr/bin/env python3
"""A server's loop with continuous batching, around the model of llama_decoder.py: requests join as they come and as pages are
free, prompts are computed beside others' next tokens in one ragged batch, and who is done leaves and gives its pages back. Every
request's tokens are compared with those of plain torch, which computes each sequence alone and anew at each step.

    python examples/batch_server.py
    python examples/batch_server.py --device cuda --dtype bfloat16 --cache float8_e4m3fn --requests 40

Needs torch, and the package (pip install ., or PYTHONPATH=python with TILESMITH_LIBRARY).
"""
import argparse
from collections import deque
from dataclasses import dataclass, field

import torch
from llama_decoder import DIM, HEADS_KV, LAYERS, PAGE, VOCABULARY, decoder, generate_with_torch, rotary, weights

import tilesmith


@dataclass
class Request:
    prompt: list[int]
    count: int  #: tokens to make
    arrival: int  #: the step in which it comes
    made: list[int] = field(default_factory=list)
    pages: list[int] = field(default_factory=list)
    cached: int = 0  #: tokens whose keys and values are in the cache

    @property
    def news(self):
        """Tokens that the next step computes: at first the prompt, then the one that was made last."""
        return (self.prompt + self.made)[self.cached :]

    @property
    def pages_needed(self):
        return -(-(len(self.prompt) + self.count) // PAGE)


class Server:
    def __init__(self, model, pages, longest, cache_dtype):
        self.model, self.device = model, model[0].device
        shape = (pages, PAGE, HEADS_KV, DIM)
        self.caches = [[torch.empty(shape, dtype=cache_dtype, device=self.device) for _ in range(2)] for _ in range(LAYERS)]
        # An 8-bit cache holds numbers divided by these. A real server measures them; here 4 is beyond what the model makes.
        largest = {torch.float8_e4m3fn: 448, torch.int8: 127}.get(cache_dtype)
        scale = None if largest is None else torch.full((1,), 4 / largest, device=self.device)
        self.scales = {"k_scale": scale, "v_scale": scale}
        self.free, self.running, self.longest = list(range(pages)), [], longest
        self.cos, self.sin = rotary(longest, self.device)

    def join(self, waiting):
        """Takes from the queue, in its order, who finds pages enough for all its tokens."""
        while waiting and waiting[0].pages_needed <= len(self.free):
            request = waiting.popleft()
            request.pages = [self.free.pop() for _ in range(request.pages_needed)]
            self.running.append(request)

    def step(self):
        """Computes one token of every request that runs; those that are done leave."""
        numbers = dict(dtype=torch.int32, device=self.device)
        news = [request.news for request in self.running]
        offsets = torch.tensor([0] + [len(tokens) for tokens in news], **numbers).cumsum(0, dtype=torch.int32)
        after = torch.tensor([request.cached for request in self.running], **numbers) + offsets.diff()
        table = torch.zeros(len(self.running), -(-self.longest // PAGE), **numbers)
        for b, request in enumerate(self.running):
            table[b, : len(request.pages)] = torch.tensor(request.pages, **numbers)
        keys = {"layout": "bshd", "block_table": table, **self.scales}

        def multiply(x, w):
            return tilesmith.matmul(x.flatten(0, -2).contiguous(), w).unflatten(0, x.shape[:-1])

        def attend(layer, q, k, v):
            return tilesmith.attention(q[0], *self.caches[layer], k_new=k[0], v_new=v[0], seqlens_k=after, cu_seqlens_q=offsets, causal=True,
                                       max_seqlen_q=max(map(len, news)), rotary_cos=self.cos, rotary_sin=self.sin, **keys)[None]  # fmt: skip

        tokens = torch.tensor([sum(news, [])], device=self.device)
        logits = decoder(self.model, tokens, multiply, attend, last=(0, offsets[1:].long() - 1))
        for request, computed, token in zip(self.running, news, logits.argmax(-1).tolist()):
            request.cached += len(computed)
            request.made.append(token)
            if len(request.made) == request.count:
                self.free += request.pages
        self.running = [request for request in self.running if len(request.made) < request.count]


def serve(server, requests):
    """Runs all requests; returns steps and the most that ran at a time."""
    coming, waiting, steps, most = deque(requests), deque(), 0, 0
    while coming or waiting or server.running:
        while coming and coming[0].arrival <= steps:
            waiting.append(coming.popleft())
        server.join(waiting)
        most = max(most, len(server.running))
        if server.running:
            server.step()
        elif waiting:
            raise RuntimeError(f"a request needs {waiting[0].pages_needed} pages, and the cache has {len(server.free)}")
        steps += 1
    return steps, most


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32", help="with fewer bits, roundings may choose another token")
    parser.add_argument("--cache", help="elements of the cache: --dtype's, float8_e4m3fn or int8, which choose other tokens more often")
    parser.add_argument("--requests", type=int, default=12)
    parser.add_argument("--pages", type=int, default=16, help="few, so that requests wait for others to leave")
    options = parser.parse_args()
    dtype = getattr(torch, options.dtype)
    model = weights(dtype, options.device)
    lengths = torch.randint(1, 40, (options.requests,)).tolist()
    requests = [Request(torch.randint(VOCABULARY, (length,)).tolist(), 1 + 5 * number % 13, 2 * number // 3)
                for number, length in enumerate(lengths)]  # fmt: skip
    longest = max(len(request.prompt) + request.count for request in requests)
    server = Server(model, options.pages, longest, getattr(torch, options.cache or options.dtype))
    wrong = 0
    with torch.inference_mode():
        steps, most = serve(server, requests)
        for request in requests:
            alone = generate_with_torch(model, torch.tensor([request.prompt], device=options.device), request.count)[0].tolist()
            wrong += request.made != alone
            print(request.made, "the same" if request.made == alone else f"torch: {alone}")
    print(f"{len(requests)} requests in {steps} steps, at most {most} at a time; {len(server.free)} of {options.pages} pages are free")
    return 1 if wrong and not options.cache else 0


if __name__ == "__main__":
    raise SystemExit(main())
