"""Writes the golden files beside it: run with numpy, ml_dtypes and safetensors installed."""
from pathlib import Path

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

here = Path(__file__).parent
values = np.arange(-3, 9).reshape(3, 4)
for code in ("f8", "f4", "f2", "i8", "i4", "i2", "i1"):
    np.save(here / f"{code}.npy", (values * (0.5 if code[0] == "f" else 1)).astype(f"<{code}"))
for code in ("u8", "u4", "u2", "u1"):
    np.save(here / f"{code}.npy", (values + 3).astype(f"<{code}"))
np.save(here / "b1.npy", values % 2 == 0)
np.save(here / "fortran.npy", np.asfortranarray(np.arange(24, dtype="<i4").reshape(2, 3, 4)))
np.save(here / "scalar.npy", np.array(2.5, dtype="<f4"))
np.save(here / "empty.npy", np.zeros((0, 3), dtype="<f4"))
np.save(here / "big_endian.npy", values.astype(">f4"))
np.save(here / "bfloat16.npy", values.astype(ml_dtypes.bfloat16))
with open(here / "version2.npy", "wb") as file:
    np.lib.format.write_array(file, values.astype("<f4"), version=(2, 0))

halves = values * 0.5
save_file(
    {
        "f32": halves.astype(np.float32),
        "f16": halves.astype(np.float16),
        "bf16": halves.astype(ml_dtypes.bfloat16),
        "e4m3": halves.astype(ml_dtypes.float8_e4m3fn),
        "i32": values.astype(np.int32),
        "i64": values.astype(np.int64),
    },
    here / "tensors.safetensors",
    metadata={"note": "metadata is skipped"},
)
