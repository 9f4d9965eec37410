#!/usr/bin/env python3
"""Makes data/demo/tensors.safetensors: queries, keys and values of a small attention layer reading the first paragraphs of the licence.

Each byte is embedded by a fixed random table with sinusoidal positions added (Vaswani et al. 2017, section 3.5), then projected to four query heads
and two key heads of 64 dimensions. Needs NumPy; its result is checked in, so nobody needs to run it.
"""
import json
import pathlib
import struct

import numpy as np

root = pathlib.Path(__file__).resolve().parent.parent
text = (root / "LICENSE").read_bytes().strip()[:320]
rng = np.random.default_rng(20)
width, dim, heads_q, heads_kv = 128, 64, 4, 2
position = np.arange(len(text))[:, None] / 10000 ** (np.arange(width)[None, :] // 2 * 2 / width)
x = rng.normal(size=(256, width))[np.frombuffer(text, np.uint8)] + np.where(np.arange(width) % 2 == 0, np.sin(position), np.cos(position))


def project(heads):
    return (x @ rng.normal(size=(width, heads * dim)) / np.sqrt(width)).reshape(1, len(text), heads, dim).transpose(0, 2, 1, 3).astype("<f2")


tensors = {"q": project(heads_q), "k": project(heads_kv), "v": project(heads_kv)}
header, offset = {}, 0
for name, tensor in tensors.items():
    header[name] = {"dtype": "F16", "shape": list(tensor.shape), "data_offsets": [offset, offset + tensor.nbytes]}
    offset += tensor.nbytes
encoded = json.dumps(header).encode()
encoded += b" " * (-len(encoded) % 8)
target = root / "data" / "demo" / "tensors.safetensors"
target.write_bytes(struct.pack("<Q", len(encoded)) + encoded + b"".join(np.ascontiguousarray(t).tobytes() for t in tensors.values()))
print(f"{target}: {target.stat().st_size} bytes")
