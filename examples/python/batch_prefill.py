"""A batch as a server has it: a prompt, a chunk of a longer prompt and a decoding sequence in one call over pages."""

import numpy as np
import tilesmith

rng = np.random.default_rng(1)
queries, keys, page = [40, 16, 1], [40, 64, 33], 16
ends = np.cumsum([0, *queries], dtype=np.int32)
q = rng.standard_normal((ends[-1], 8, 64), dtype=np.float32)
k_cache, v_cache = rng.standard_normal((2, 12, page, 2, 64), dtype=np.float32)
table = np.array([[4, 9, 1, -1], [0, 3, 8, 2], [11, 7, 5, -1]], np.int32)
o = tilesmith.attention(q, k_cache, v_cache, layout="bshd", cu_seqlens_q=ends, block_table=table,
                        seqlens_k=np.array(keys, np.int32), mask="bottom_right")  # fmt: skip
for b, length in enumerate(keys):
    k, v = (cache[table[b, : -(-length // page)]].reshape(-1, 2, 64)[None, :length] for cache in (k_cache, v_cache))
    alone = tilesmith.attention(q[None, ends[b] : ends[b + 1]], k, v, layout="bshd", causal=True)
    np.testing.assert_allclose(o[ends[b] : ends[b + 1]], alone[0], atol=1e-5)
print("each sequence of the batch: as alone")
