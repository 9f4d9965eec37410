#!/usr/bin/env python3
"""A small decoder in the manner of Llama, with random weights, that generates on a cache of pages: Tilesmith's attention,
which writes new keys into it, and matmul, beside the same model in plain torch, which computes all tokens anew at each step.

    python examples/llama_decoder.py               prints both models' tokens, which are the same
    python examples/llama_decoder.py --device cuda --dtype bfloat16

Needs torch, and the package (pip install ., or PYTHONPATH=python with TILESMITH_LIBRARY).
"""
import argparse

import torch
from torch.nn.functional import rms_norm, scaled_dot_product_attention, silu

import tilesmith

LAYERS, WIDTH, HEADS, HEADS_KV, DIM, HIDDEN, VOCABULARY, PAGE = 2, 128, 4, 2, 32, 256, 512, 16


def weights(dtype, device):
    torch.manual_seed(0)

    def matrix(rows, columns):
        return (torch.randn(rows, columns) / rows**0.5).to(device, dtype)

    layers = [{"q": matrix(WIDTH, HEADS * DIM), "k": matrix(WIDTH, HEADS_KV * DIM), "v": matrix(WIDTH, HEADS_KV * DIM),
               "o": matrix(HEADS * DIM, WIDTH), "gate": matrix(WIDTH, HIDDEN), "up": matrix(WIDTH, HIDDEN), "down": matrix(HIDDEN, WIDTH)}
              for _ in range(LAYERS)]  # fmt: skip
    return torch.randn(VOCABULARY, WIDTH).to(device, dtype), layers, matrix(WIDTH, VOCABULARY)


def rotary(positions, device):
    angles = torch.arange(positions)[:, None] / 10000 ** (torch.arange(0, DIM, 2) / DIM)
    return angles.cos().to(device), angles.sin().to(device)


def decoder(model, tokens, multiply, attend, last=(slice(None), -1)):
    """Logits of the tokens that are `last`; attend(layer, q, k, v) keeps what it needs of (batch, tokens, heads, dim)."""
    embedding, layers, head = model
    x = embedding[tokens]
    for number, layer in enumerate(layers):
        y = rms_norm(x, (WIDTH,))
        q, k, v = (multiply(y, layer[name]).unflatten(-1, (-1, DIM)) for name in ("q", "k", "v"))
        x = x + multiply(attend(number, q, k, v).flatten(-2), layer["o"])
        y = rms_norm(x, (WIDTH,))
        x = x + multiply(silu(multiply(y, layer["gate"])) * multiply(y, layer["up"]), layer["down"])
    return multiply(rms_norm(x[last], (WIDTH,)), head)


def generate_with_tilesmith(model, prompts, count):
    device, dtype = model[0].device, model[0].dtype
    batch, length = prompts.shape
    longest = length + count
    width = -(-longest // PAGE)
    table = torch.randperm(batch * width).to(device, torch.int32).reshape(batch, width)
    caches = [[torch.empty(batch * width, PAGE, HEADS_KV, DIM, dtype=dtype, device=device) for _ in range(2)] for _ in range(LAYERS)]
    cos, sin = rotary(longest, device)
    lengths = torch.zeros(batch, dtype=torch.int32, device=device)

    def multiply(x, w):
        return tilesmith.matmul(x.flatten(0, -2).contiguous(), w).unflatten(0, x.shape[:-1])

    def attend(layer, q, k, v):
        return tilesmith.attention(q, *caches[layer], k_new=k, v_new=v, layout="bshd", seqlens_k=lengths, block_table=table, causal=True,
                                   rotary_cos=cos, rotary_sin=sin)  # fmt: skip

    tokens, made = prompts, []
    for _ in range(count):
        lengths += tokens.shape[1]
        logits = decoder(model, tokens, multiply, attend)
        tokens = logits.argmax(-1, keepdim=True)
        made.append(tokens)
    return torch.cat(made, 1)


def generate_with_torch(model, prompts, count):
    cos, sin = rotary(prompts.shape[1] + count, prompts.device)

    def turn(x):
        a, b = x.float().chunk(2, -1)
        c, s = cos[: x.shape[1], None], sin[: x.shape[1], None]
        return torch.cat((a * c - b * s, b * c + a * s), -1).to(x.dtype)

    def attend(_, q, k, v):
        q, k, v = (x.transpose(1, 2) for x in (turn(q), turn(k), v))
        return scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).transpose(1, 2)

    tokens = prompts
    for _ in range(count):
        tokens = torch.cat((tokens, decoder(model, tokens, torch.matmul, attend).argmax(-1, keepdim=True)), 1)
    return tokens[:, prompts.shape[1] :]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32", help="with fewer bits, roundings may choose another token")
    parser.add_argument("--tokens", type=int, default=24)
    options = parser.parse_args()
    model = weights(getattr(torch, options.dtype), options.device)
    prompts = torch.randint(VOCABULARY, (3, 21), device=options.device)
    with torch.inference_mode():
        ours = generate_with_tilesmith(model, prompts, options.tokens)
        theirs = generate_with_torch(model, prompts, options.tokens)
    for mine, other in zip(ours.tolist(), theirs.tolist()):
        print(mine, "the same" if mine == other else f"torch: {other}")
    return 0 if torch.equal(ours, theirs) else 1


if __name__ == "__main__":
    raise SystemExit(main())
