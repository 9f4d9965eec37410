#!/usr/bin/env python3
"""Trains a small GPT on the characters of this repository's documents: Tilesmith's attention and linear, whose gradients
torch's autograd takes from Tilesmith too, beside the same model with torch's functions, from the same seed.

    python examples/train_gpt.py                   both loss curves
    python examples/train_gpt.py --short           of a smaller model, in fewer steps
    python examples/train_gpt.py --repeat          and trains with Tilesmith once more: every loss and weight has the same bits
    python examples/train_gpt.py --device cuda --dtype bfloat16
    python examples/train_gpt.py --device cuda --dtype bfloat16 --graph     steps that a CUDA graph replays

Needs torch, and the package (pip install ., or PYTHONPATH=python with TILESMITH_LIBRARY).
"""

import argparse
import statistics
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

import tilesmith

DIM = 32  # of a head
CAPTURED_STEP = 3  # with --graph: the steps before have made whatever is made once


class Tilesmith:
    """What a block is made of. A residual is added where the product is computed."""

    @staticmethod
    def linear(x, layer, activation=None, residual=None):
        return tilesmith.linear(x, layer.weight, layer.bias, activation=activation, residual=residual)

    @staticmethod
    def attention(q, k, v):
        return tilesmith.attention(q, k, v, layout="bshd", causal=True)


class Torch:
    """The same of torch."""

    @staticmethod
    def linear(x, layer, activation=None, residual=None):
        y = functional.linear(x, layer.weight, layer.bias)
        y = y if activation is None else functional.gelu(y, approximate="tanh")
        return y if residual is None else y + residual

    @staticmethod
    def attention(q, k, v):
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, use):
        q, k, v = use.linear(self.before_attention(x), self.qkv).unflatten(-1, (3, -1, DIM)).unbind(2)
        x = use.linear(use.attention(q, k, v).flatten(-2), self.projection, residual=x)
        return use.linear(use.linear(self.before_mlp(x), self.up, "gelu_tanh"), self.down, residual=x)


class Gpt(nn.Module):
    def __init__(self, use, layers, width, context):
        super().__init__()
        self.use = use
        self.token, self.position = nn.Embedding(256, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.head = nn.Linear(width, 256)

    def forward(self, tokens):
        x = self.token(tokens) + self.position.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x, self.use)
        return self.use.linear(functional.layer_norm(x, x.shape[-1:]), self.head)


def characters():
    """Of the repository's documents."""
    pages = sorted((Path(__file__).parents[1] / "docs").glob("*.md"))
    return torch.frombuffer(bytearray(b"".join(page.read_bytes() for page in pages)), dtype=torch.uint8).long()


def replayed(step, window, stream):
    """`step` as a CUDA graph: a call brings the window to where the graph reads it and starts all of the step's kernels at once."""
    read, graph = window.clone(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        loss = step(read)

    def replay(window):
        read.copy_(window)
        graph.replay()
        return loss

    return replay


def train(use, text, arguments):
    """(the loss of each step, the trained weights, the seconds of each step)."""
    torch.manual_seed(arguments.seed)
    model = Gpt(use, arguments.layers, arguments.width, arguments.context).to(arguments.device, getattr(torch, arguments.dtype))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.95), fused=True, capturable=arguments.graph)
    offsets = torch.arange(arguments.context + 1, device=text.device)
    losses, seconds = [], []

    def step(window):
        logits = model(window[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1).float(), window[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def run(step):
        begin = time.perf_counter()
        at = torch.randint(len(text) - arguments.context - 1, (arguments.batch, 1)).to(text.device)
        window = text[at + offsets]
        losses.append(step(window).item())
        seconds.append(time.perf_counter() - begin)
        return window

    if arguments.graph:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(CAPTURED_STEP):
                window = run(step)
            step = replayed(step, window, stream)
            for _ in range(CAPTURED_STEP, arguments.steps):
                run(step)
    else:
        for _ in range(arguments.steps):
            run(step)
    return losses, [weight.detach() for weight in model.parameters()], seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="a smaller model, 20 steps")
    parser.add_argument("--repeat", action="store_true", help="train with Tilesmith again, and compare the bits")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--graph", action="store_true", help="capture a step in a CUDA graph, and replay it")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.graph and not arguments.device.startswith("cuda"):
        parser.error("--graph is for CUDA devices")
    arguments.layers, arguments.width, arguments.context = (2, 64, 64) if arguments.short else (4, 128, 128)
    arguments.steps = arguments.steps or (20 if arguments.short else 100)
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # else each tensor that a program makes empty is written twice

    text = characters().to(arguments.device)
    ours, weights, our_seconds = train(Tilesmith, text, arguments)
    theirs, _, their_seconds = train(Torch, text, arguments)
    print("step   Tilesmith   torch")
    for step in sorted({*range(0, arguments.steps, max(arguments.steps // 10, 1)), arguments.steps - 1}):
        print(f"{step:4}   {ours[step]:9.6f}   {theirs[step]:9.6f}")
    print(f"largest difference of losses: {max(abs(a - b) for a, b in zip(ours, theirs)):.2g}")
    print(f"seconds: {sum(our_seconds):.2f} and {sum(their_seconds):.2f}, of that the first step, which compiles kernels that no store has, "
          f"{our_seconds[0]:.2f} and {their_seconds[0]:.2f}")
    medians = [1e3 * statistics.median(seconds[min(CAPTURED_STEP + 1, len(seconds) - 1) :]) for seconds in (our_seconds, their_seconds)]
    print(f"milliseconds of a later step: {medians[0]:.2f} and {medians[1]:.2f}, {medians[1] / medians[0]:.2f} times as fast")
    if not arguments.repeat:
        return 0
    again, other_weights, _ = train(Tilesmith, text, arguments)
    same = ours == again and all(map(torch.equal, weights, other_weights))
    print(f"the same bits again: {'yes' if same else 'no'}")
    return 0 if same else 1


if __name__ == "__main__":
    raise SystemExit(main())
