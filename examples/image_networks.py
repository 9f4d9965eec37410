#!/usr/bin/env python3
"""ResNet-50 and MobileNet-v3 on Tilesmith's convolutions: a training step, and inference with BatchNorm folded into the
filters, so that bias, residual and activation are the convolution's own. Beside torch's functions, with the same random weights.

    python examples/image_networks.py                                    both networks
    python examples/image_networks.py --short                            small images, one block a stage
    python examples/image_networks.py --network resnet50 --device cuda --dtype bfloat16

Needs torch, and the package (pip install ., or PYTHONPATH=python with TILESMITH_LIBRARY).
"""

import argparse
import time

import torch
from torch import nn
from torch.nn import functional

import tilesmith

ACTIVATIONS = {None: lambda v: v, "relu": functional.relu, "hardswish": functional.hardswish}


class Tilesmith:
    """What a network is made of."""

    linear = staticmethod(tilesmith.linear)

    @staticmethod
    def conv2d(x, w, bias=None, *, residual=None, activation=None, **geometry):
        fused = activation if activation == "relu" else None
        y = tilesmith.conv2d(x, w, bias, residual=residual, activation=fused, **geometry)
        return y if fused else ACTIVATIONS[activation](y)


class Torch:
    """The same of torch."""

    linear = staticmethod(functional.linear)

    @staticmethod
    def conv2d(x, w, bias=None, *, residual=None, activation=None, **geometry):
        y = functional.conv2d(x, w, bias, **geometry)
        return ACTIVATIONS[activation](y if residual is None else y + residual)


class Layer(nn.Module):
    """A convolution, BatchNorm, a residual and an activation."""

    def __init__(self, channels, filters, size, stride=1, groups=1, activation="relu"):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(filters, channels // groups, size, size))
        nn.init.kaiming_normal_(self.weight)
        self.norm = nn.BatchNorm2d(filters)
        self.geometry = {"stride": stride, "padding": size // 2, "groups": groups}
        self.activation = activation

    def forward(self, use, x, residual=None):
        if self.training:
            y = self.norm(use.conv2d(x, self.weight, **self.geometry))
            return ACTIVATIONS[self.activation](y if residual is None else y + residual)
        scale = self.norm.weight / (self.norm.running_var + self.norm.eps).sqrt()
        bias = self.norm.bias - self.norm.running_mean * scale
        return use.conv2d(x, self.weight * scale[:, None, None, None], bias, residual=residual, activation=self.activation, **self.geometry)


class Bottleneck(nn.Module):
    """ResNet's, with the stride in its 3x3 layer."""

    def __init__(self, channels, width, stride):
        super().__init__()
        self.reduce, self.spatial = Layer(channels, width, 1), Layer(width, width, 3, stride)
        self.expand = Layer(width, 4 * width, 1)
        self.shortcut = Layer(channels, 4 * width, 1, stride, activation=None) if stride > 1 or channels != 4 * width else None

    def forward(self, use, x):
        residual = x if self.shortcut is None else self.shortcut(use, x)
        return self.expand(use, self.spatial(use, self.reduce(use, x)), residual)


class ResNet50(nn.Module):
    def __init__(self, short):
        super().__init__()
        self.stem, blocks, channels = Layer(3, 64, 7, 2), [], 64
        for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for number in range(1 if short else count):
                blocks.append(Bottleneck(channels, width, 1 if number else stride))
                channels = 4 * width
        self.blocks, self.head = nn.ModuleList(blocks), nn.Linear(channels, 1000)

    def forward(self, use, x):
        x = functional.max_pool2d(self.stem(use, x), 3, 2, 1)
        for block in self.blocks:
            x = block(use, x)
        return use.linear(x.mean((2, 3)), self.head.weight, self.head.bias)


class Inverted(nn.Module):
    """MobileNet's block: a wide depthwise layer, squeezed and excited, between two 1x1 layers."""

    def __init__(self, channels, filters, width, size, stride, squeeze, activation):
        super().__init__()
        self.widen = None if width == channels else Layer(channels, width, 1, activation=activation)
        self.depthwise = Layer(width, width, size, stride, width, activation)
        self.squeeze = nn.Conv2d(width, (width // 4 + 4) // 8 * 8, 1) if squeeze else None
        self.excite = nn.Conv2d(self.squeeze.out_channels, width, 1) if squeeze else None
        self.project = Layer(width, filters, 1, activation=None)
        self.same = stride == 1 and channels == filters

    def forward(self, use, x):
        y = self.depthwise(use, x if self.widen is None else self.widen(use, x))
        if self.squeeze is not None:
            small = use.conv2d(y.mean((2, 3), keepdim=True), self.squeeze.weight, self.squeeze.bias, activation="relu")
            y = y * functional.hardsigmoid(use.conv2d(small, self.excite.weight, self.excite.bias))
        return self.project(use, y, x if self.same else None)


class MobileNetV3(nn.Module):
    """The large one."""

    # filter, width, channels, squeezed, activation, stride
    BLOCKS = [(3, 16, 16, False, "relu", 1), (3, 64, 24, False, "relu", 2), (3, 72, 24, False, "relu", 1), (5, 72, 40, True, "relu", 2),
              (5, 120, 40, True, "relu", 1), (5, 120, 40, True, "relu", 1), (3, 240, 80, False, "hardswish", 2),
              (3, 200, 80, False, "hardswish", 1), (3, 184, 80, False, "hardswish", 1), (3, 184, 80, False, "hardswish", 1),
              (3, 480, 112, True, "hardswish", 1), (3, 672, 112, True, "hardswish", 1), (5, 672, 160, True, "hardswish", 2),
              (5, 960, 160, True, "hardswish", 1), (5, 960, 160, True, "hardswish", 1)]  # fmt: skip

    def __init__(self, short):
        super().__init__()
        self.stem, blocks, channels = Layer(3, 16, 3, 2, activation="hardswish"), [], 16
        for size, width, filters, squeeze, activation, stride in self.BLOCKS[: 5 if short else None]:
            blocks.append(Inverted(channels, filters, width, size, stride, squeeze, activation))
            channels = filters
        self.blocks, self.last = nn.ModuleList(blocks), Layer(channels, 960, 1, activation="hardswish")
        self.hidden, self.head = nn.Linear(960, 1280), nn.Linear(1280, 1000)

    def forward(self, use, x):
        x = self.stem(use, x)
        for block in self.blocks:
            x = block(use, x)
        h = functional.hardswish(use.linear(self.last(use, x).mean((2, 3)), self.hidden.weight, self.hidden.bias))
        return use.linear(h, self.head.weight, self.head.bias)


NETWORKS = {"resnet50": ResNet50, "mobilenet_v3": MobileNetV3}


def run(use, arguments):
    """Gradients, updated weights and inferred logits, all by name; seconds of the training step and of inference."""
    torch.manual_seed(arguments.seed)
    network = NETWORKS[arguments.network](arguments.short).to(arguments.device, getattr(torch, arguments.dtype), memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    x = torch.randn(arguments.batch, 3, arguments.size, arguments.size).to(arguments.device, getattr(torch, arguments.dtype),
                                                                            memory_format=torch.channels_last)  # fmt: skip
    labels = torch.arange(arguments.batch, device=arguments.device)

    def seconds(act):
        synchronize = torch.cuda.synchronize if arguments.device.startswith("cuda") else lambda: None
        synchronize()
        began = time.perf_counter()
        result = act()
        synchronize()
        return result, time.perf_counter() - began

    def step():
        loss = functional.cross_entropy(network(use, x).float(), labels)
        loss.backward()
        optimizer.step()

    with torch.no_grad():
        seconds(lambda: network.train()(use, x))  # kernels are chosen, and BatchNorm sees a first batch
    _, training = seconds(step)
    results = {f"gradient of {name}": each.grad for name, each in network.named_parameters()}
    with torch.no_grad():
        network.eval()(use, x)
        results["logits"], inference = seconds(lambda: network(use, x))
    return results, training, inference


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", choices=NETWORKS, help="one of them alone")
    parser.add_argument("--short", action="store_true", help="fewer blocks, images of 64 pixels")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--size", type=int, help="pixels of an image's side (224)")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"])
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    arguments.size = arguments.size or (64 if arguments.short else 224)
    # A network's depth multiplies the rounding of its layers.
    tolerance = {"float32": 1e-3, "bfloat16": 0.5, "float16": 0.2}[arguments.dtype]
    wrong = False
    for arguments.network in [arguments.network] if arguments.network else NETWORKS:
        ours, training, inference = run(Tilesmith, arguments)
        theirs, their_training, their_inference = run(Torch, arguments)
        # Of its own norm, or of a thousandth of the largest: a bias before the next layer's BatchNorm has a gradient of zero but for rounding.
        least = 1e-3 * max(each.float().norm().item() for each in theirs.values())
        apart = {name: (ours[name].float() - want.float()).norm().item() / max(want.float().norm().item(), least) for name, want in theirs.items()}
        worst = max(apart, key=apart.get)
        wrong |= not apart[worst] <= tolerance
        print(f"{arguments.network}: {len(apart)} results; apart by at most {apart[worst]:.1e} of their norm ({worst}), logits by {apart['logits']:.1e}")
        print(f"  training step {training * 1e3:.1f} ms, torch {their_training * 1e3:.1f}; inference {inference * 1e3:.1f} ms, torch {their_inference * 1e3:.1f}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
