"""Torch's autograd and torch.compile: attention and linear as any other function (takes torch; on a GPU where there is one)."""

import torch
import tilesmith

device = "cuda" if torch.cuda.is_available() else "cpu"
dtype = torch.bfloat16 if device == "cuda" else torch.float32
torch.manual_seed(1)
x = torch.randn(2, 64, 256, device=device, dtype=dtype)
projection = torch.randn(3 * 256, 256, device=device, dtype=dtype).div_(16).requires_grad_()


def loss(attend, linear):
    q, k, v = linear(x, projection).view(2, 64, 3, 4, 64).permute(2, 0, 3, 1, 4)
    return attend(q, k, v).float().square().mean()


def ours(x, w):
    return tilesmith.linear(x, w)


def causal(q, k, v):
    return tilesmith.attention(q, k, v, causal=True)


def torchs(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


gradients = {}
for name, arguments in {"torch": (torchs, torch.nn.functional.linear), "tilesmith": (causal, ours),
                        "compiled": (torch.compile(causal, fullgraph=True, backend="aot_eager"), ours)}.items():  # fmt: skip
    (gradients[name],) = torch.autograd.grad(loss(*arguments), projection)
for name in ("tilesmith", "compiled"):
    apart = (gradients[name] - gradients["torch"]).norm() / gradients["torch"].norm()
    print(f"{name}: {apart:.1e} from torch's gradient")
    assert apart < (2e-2 if dtype == torch.bfloat16 else 1e-5)
