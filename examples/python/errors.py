"""What a wrong call is told: one of the package's classes, what is wrong, and what would be right."""

import numpy as np
import tilesmith

q = np.zeros((1, 8, 16, 64), np.float32)
wrong_calls = {
    "heads that do not divide": lambda: tilesmith.attention(q, q[:, :3], q[:, :3]),
    "a type that differs": lambda: tilesmith.attention(q, q.astype(np.float16), q),
    "a mask that does not exist": lambda: tilesmith.attention(q, q, q, mask="left"),
    "inner sizes that differ": lambda: tilesmith.matmul(q, q),
    "an activation that does not exist": lambda: tilesmith.linear(q, q[0, 0], activation="swish"),
    "a kernel that does not exist": lambda: tilesmith.attention(q, q, q, kernel="fastest"),
}
for name, call in wrong_calls.items():
    try:
        call()
    except tilesmith.Error as error:
        print(f"{name}: {type(error).__name__}: {error.message} ({error.hint})")
        assert error.code and error.message
    else:
        raise SystemExit(f"{name} was not refused")
