"""scaled_dot_product_attention beside torch's, on random arguments."""


import numpy as np
import pytest

import tilesmith

torch = pytest.importorskip("torch", reason="torch is not installed")
theirs = torch.nn.functional.scaled_dot_product_attention
ours = tilesmith.scaled_dot_product_attention


def tensors(random, lead, heads_q, heads, rows, columns, dim, dim_v, dtype=torch.float32):
    shape = lambda h, n, d: (*lead, *((h,) if h else ()), n, d)
    return [torch.tensor(random.standard_normal(shape(h, n, d)), dtype=dtype)
            for h, n, d in ((heads_q, rows, dim), (heads, columns, dim), (heads, columns, dim_v))]  # fmt: skip


@pytest.mark.parametrize("case", range(12))
def test_random_arguments(case):
    random = np.random.default_rng(case)
    lead = [(2,), (), (2, 3), (1,)][case % 4]
    heads = int(random.integers(1, 4))
    gqa = case % 3 == 0
    q, k, v = tensors(random, lead, heads * (2 if gqa else 1), heads, int(random.integers(1, 40)), int(random.integers(1, 50)), 64, 64)
    options = {"enable_gqa": gqa, "scale": [None, 0.3][case % 2]}
    full = (*q.shape[:-1], k.shape[-2])
    kind = ("causal", "bool", "float", "none", "bool rows")[case % 5]
    if kind == "causal":
        options["is_causal"] = True
    elif kind == "float":
        options["attn_mask"] = torch.tensor(random.standard_normal(full[-2:]), dtype=torch.float32)
    elif kind == "bool":
        options["attn_mask"] = torch.tensor(random.random(full) < 0.7)
        options["attn_mask"][..., 0] = True
    elif kind == "bool rows":
        options["attn_mask"] = torch.tensor(random.random((full[-2], 1)) < 0.9).expand(full[-2], full[-1])
    expected = theirs(q.double(), k.double(), v.double(), **{n: x.double() if kind == "float" and n == "attn_mask" else x for n, x in options.items()})
    # Rows that see nothing are 0, as in torch since 2.5; NaN before.
    torch.testing.assert_close(ours(q, k, v, **options).double(), expected.nan_to_num(0), rtol=0, atol=3e-5)


def test_three_dimensions_have_no_heads():
    q, k, v = tensors(np.random.default_rng(1), (3,), None, None, 9, 14, 64, 64)
    mask = torch.rand(3, 9, 14) < 0.8
    mask[..., 0] = True
    torch.testing.assert_close(ours(q, k, v, mask), theirs(q, k, v, mask), rtol=0, atol=3e-5)
    torch.testing.assert_close(ours(q[0], k[0], v[0]), theirs(q[0], k[0], v[0]), rtol=0, atol=3e-5)


def test_positional_order_and_half_types():
    q, k, v = tensors(np.random.default_rng(2), (1,), 2, 2, 20, 20, 64, 64, torch.bfloat16)
    torch.testing.assert_close(ours(q, k, v, None, 0.0, True), theirs(q, k, v, None, 0.0, True), rtol=0, atol=3e-2)
    mask = torch.zeros(20, 20, dtype=torch.bfloat16)
    torch.testing.assert_close(ours(q, k, v, mask), theirs(q, k, v, mask), rtol=0, atol=3e-2)


def test_numpy():
    q, k, v = (x.numpy() for x in tensors(np.random.default_rng(3), (2,), 2, 2, 7, 11, 64, 64))
    mask = np.arange(11) < 5
    expected = theirs(*(torch.from_numpy(x) for x in (q, k, v)), attn_mask=torch.from_numpy(mask)[None])
    np.testing.assert_allclose(ours(q, k, v, attn_mask=mask), expected.numpy(), rtol=0, atol=3e-5)


def test_compiled():
    q, k, v = tensors(np.random.default_rng(4), (2,), 2, 2, 9, 14, 64, 64)
    mask = torch.rand(9, 14) < 0.8
    for options in ({}, {"is_causal": True}, {"attn_mask": mask}):
        compiled = torch.compile(lambda *x: ours(*x, **options), fullgraph=True, backend="eager")
        torch.testing.assert_close(compiled(q, k, v), ours(q, k, v, **options), rtol=0, atol=0)


@pytest.mark.parametrize("change, message", [
    (dict(query=3), "query is int"),
    (dict(query=torch.zeros(4)), "query has 1 dimensions"),
    (dict(key=torch.zeros(1, 3, 14, 64)), "key"),
    (dict(key=torch.zeros(1, 1, 14, 64), value=torch.zeros(1, 1, 14, 64)), "query has 2 heads, key has 1"),
    (dict(key=torch.zeros(2, 14, 64)), "key has the shape"),
    (dict(attn_mask=torch.zeros(9, 13)), "attn_mask has the shape"),
    (dict(attn_mask=torch.zeros(9, 14, dtype=torch.int32)), "attn_mask has the data type"),
    (dict(attn_mask=[[1]]), "attn_mask is list"),
    (dict(attn_mask=np.zeros((9, 14), "f4")), "attn_mask is ndarray"),
    (dict(attn_mask=torch.zeros(9, 14), is_causal=True), "is_causal beside attn_mask"),
    (dict(is_causal=1), "is_causal is int"),
    (dict(dropout_p=1.5), "dropout"),
])  # fmt: skip
def test_misuse(change, message):
    q, k, v = tensors(np.random.default_rng(5), (1,), 2, 2, 9, 14, 64, 64)
    with pytest.raises(tilesmith.Error) as error:
        ours(**{"query": q, "key": k, "value": v, **change})
    assert message in str(error.value) and error.value.hint, error.value
