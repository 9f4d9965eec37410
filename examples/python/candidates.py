"""Heuristics: what could compute a call, ranked by predicted time; a kernel asked for by name; the list as JSON."""

import dataclasses
import json

import numpy as np
import tilesmith

q = np.random.default_rng(1).standard_normal((1, 4, 200, 64), dtype=np.float32)
found = tilesmith.candidates(tilesmith.attention, q, q, q, causal=True)
print(f"{len(found.candidates)} candidates by the {found.policy}, {len(found.refusals)} kernels refused")
for candidate in found.candidates[:3]:
    print(f"  {candidate.predicted_seconds * 1e6:8.1f} us  {candidate.kernel}")
for refusal in found.refusals[:2]:
    print(f"  refused by {refusal.rule} ({refusal.figures}): {refusal.kernel}")
first = tilesmith.attention(q, q, q, causal=True)
last = tilesmith.attention(q, q, q, causal=True, kernel=found.candidates[-1].kernel)
assert tilesmith.last_plan().kernel == found.candidates[-1].kernel
np.testing.assert_allclose(first, last, atol=1e-5)
text = json.dumps([dataclasses.asdict(each) if dataclasses.is_dataclass(each) else each._asdict() for each in found.candidates])
assert len(json.loads(text)) == len(found.candidates)
