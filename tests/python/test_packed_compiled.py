"""Packed weights in what torch.compile and torch.export trace, and their operators."""

import pytest

import tilesmith

torch = pytest.importorskip("torch", reason="torch is not installed")

pytestmark = pytest.mark.compiles

LINEAR = [{}, {"activation": "gelu"}, {"gate": "swiglu"}, {"clamp": (-1, 1)}, {"scale_x": 0.5}, {"scale_w": torch.rand(66)}, {"threads": 1}]
CONV = [{}, {"padding": 1, "stride": 2}, {"padding": "same", "activation": "relu"}]


@pytest.fixture
def make():
    torch.manual_seed(5)
    torch._dynamo.reset()
    return torch.randn


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("options", LINEAR)
def test_linear(make, options, dynamic):
    packed, bias = tilesmith.pack_weight(make(66, 50)), make(66)
    layer = lambda x: tilesmith.linear(x * 2, packed, bias, **options)
    compiled = torch.compile(layer, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for x in (make(2, 7, 50), make(3, 5, 50), make(50)):
        torch.testing.assert_close(compiled(x), layer(x), rtol=0, atol=0)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("options", CONV)
def test_convolution(make, options, dynamic):
    packed = tilesmith.pack_conv_weight(make(12, 4, 3, 3))
    layer = lambda x: tilesmith.conv2d(x * 2, packed, **options)
    compiled = torch.compile(layer, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for x in (make(2, 4, 9, 8), make(3, 4, 6, 7).to(memory_format=torch.channels_last)):
        expected, got = layer(x), compiled(x)
        torch.testing.assert_close(got, expected, rtol=0, atol=0)
        assert got.stride() == expected.stride()


def test_transposed_and_data_gradient(make):
    packed = tilesmith.pack_conv_weight(make(4, 6, 3, 3), transposed=True)
    for layer in (lambda x: tilesmith.conv_transpose2d(x * 2, packed, padding=1),
                  lambda x: tilesmith.conv_backward_data(x * 2, packed, (x.shape[0], 6, x.shape[2] + 2, x.shape[3] + 2))):  # fmt: skip
        compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend="aot_eager")
        for x in (make(2, 4, 9, 8), make(3, 4, 6, 7)):
            torch.testing.assert_close(compiled(x), layer(x), rtol=0, atol=0)


def test_outputs(make):
    packed, filters = tilesmith.pack_weight(make(66, 50)), tilesmith.pack_conv_weight(make(12, 4, 3, 3))

    def step(x, image, out, out_image):
        y, most = tilesmith.linear(x * 2, packed, amax=True)
        tilesmith.linear(x * 3, packed, out=out)
        tilesmith.conv2d(image, filters, out=out_image)
        return y, most, out + 1, out_image + 1

    inputs = make(7, 50), make(2, 4, 9, 8), make(7, 66), make(2, 12, 7, 6)
    expected = [x.clone() for x in step(*inputs)]
    got = torch.compile(step, fullgraph=True, backend="aot_eager")(*inputs)
    torch.testing.assert_close(got, tuple(expected), rtol=0, atol=0)


def test_another_weight_of_the_module(make):
    """Compiled code reads the weight that the module has when it is called."""

    class Layer(torch.nn.Module):
        def forward(self, x):
            return tilesmith.linear(x, self.packed)

    layer, x = Layer(), make(3, 50)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for w in (make(66, 50), make(66, 50), make(33, 50)):
        layer.packed = tilesmith.pack_weight(w)
        torch.testing.assert_close(compiled(x), x @ w.T, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("strict", [False, True])
def test_export(make, strict):
    class Layers(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.filters, self.weight = tilesmith.pack_conv_weight(make(12, 4, 3, 3)), tilesmith.pack_weight(make(66, 48))

        def forward(self, x):
            return tilesmith.linear(tilesmith.conv2d(x, self.filters).flatten(1), self.weight)

    layers, x = Layers(), make(5, 4, 4, 4)
    assert torch.equal(torch.export.export(layers, (x,), strict=strict).module()(x), layers(x))


def test_packing_is_left_out_of_the_graph(make):
    """torch.compile runs it as Python, and fullgraph refuses it."""
    x, w = make(3, 50), make(66, 50)
    layer = lambda x, w: tilesmith.linear(x * 2, tilesmith.pack_weight(w))
    torch.testing.assert_close(torch.compile(layer, backend="aot_eager")(x, w), layer(x, w), rtol=0, atol=0)
    torch._dynamo.reset()  # what was compiled without fullgraph would serve
    with pytest.raises(torch._dynamo.exc.Unsupported, match="_packed_weight.py"):  # where the trace ended
        torch.compile(layer, fullgraph=True, backend="aot_eager")(x, w)


def test_no_gradient(make):
    packed, filters = tilesmith.pack_weight(make(66, 50)), tilesmith.pack_conv_weight(make(12, 4, 3, 3))
    for layer, x in ((lambda x: tilesmith.linear(x, packed), make(3, 50)), (lambda x: tilesmith.conv2d(x, filters), make(2, 4, 9, 8))):
        compiled = torch.compile(layer, backend="aot_eager")
        with pytest.raises(tilesmith.Unsupported, match="requires a gradient"):
            compiled(x.clone().requires_grad_())
        with torch.no_grad():
            torch.testing.assert_close(compiled(x.clone().requires_grad_()), layer(x), rtol=0, atol=0)


def test_opcheck(make):
    operators, check = torch.ops.tilesmith, torch.library.opcheck
    packed, x = tilesmith.pack_weight(make(66, 50)), make(2, 7, 50)

    def linear(bias=None, residual=None, scale_w=None, gate=None):
        return (x, packed.data, 66, 50, "fp32", bias, None, residual, None, scale_w, None, None, 1.0, None, gate, None, False, False)

    for arguments in (linear(), linear(make(66), make(2, 7, 66)), linear(scale_w=torch.rand(66), gate="glu")):
        check(operators.linear_packed, arguments)
    check(operators.linear_packed_out, linear(), {"out": make(2, 7, 66), "amax": torch.zeros(())})
    w, image = make(12, 4, 3, 3), make(2, 4, 9, 8)

    def conv(form, a, w, shape, bias=None):
        kept = tilesmith.pack_conv_weight(w, transposed=form != "conv")
        return (form, a, kept.data, list(w.shape), "fp32", None, bias, None, shape, [1, 1], [1, 1], [1, 1], [1, 1], 1, None, "relu")

    for arguments in (conv("conv", image, w, [2, 12, 9, 8], make(12)), conv("conv", image.to(memory_format=torch.channels_last), w, [2, 12, 9, 8]),
                      conv("transposed", make(2, 12, 9, 8), w, [2, 4, 9, 8], make(4))):  # fmt: skip
        check(operators.conv_packed, arguments)
    check(operators.conv_packed_out, conv("conv", image, w, [2, 12, 9, 8]), {"out": make(2, 12, 9, 8)})
    with pytest.raises(tilesmith.InvalidArgument, match="form is 'backward_weight'"):
        operators.conv_packed(*conv("conv", image, w, [2, 12, 9, 8])[:0], "backward_weight", *conv("conv", image, w, [2, 12, 9, 8])[1:])
