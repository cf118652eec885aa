from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention_core.activations import GELU, RELU, SILU, SWISH, erf, gelu, gelu_tanh, relu, swish
from attention_core.numbers import show

pytestmark = pytest.mark.filterwarnings("error")

ROWS = np.random.default_rng(14).normal(size=(3, 7, 5)) * 3
numbers = st.floats(-30, 30)


@given(numbers)
def test_each_function_is_its_formula(x: float) -> None:
    assert relu(x) == (x if x > 0 else 0)
    assert erf(x) == math.erf(x)
    assert gelu(x) == pytest.approx(x * (1 + math.erf(x / math.sqrt(2))) / 2, rel=1e-12, abs=1e-15)
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
    assert gelu_tanh(x) == pytest.approx(0.5 * x * (1 + math.tanh(inner)), rel=1e-12, abs=1e-15)
    assert swish(x) == pytest.approx(x / (1 + math.exp(-x)), rel=1e-12)
    assert swish(x, 1.7) == pytest.approx(x / (1 + math.exp(-1.7 * x)), rel=1e-12)


@pytest.mark.parametrize("function", [relu, erf, gelu, gelu_tanh, swish])
def test_the_shape_stays_and_every_number_is_on_its_own(function: object) -> None:
    assert callable(function)
    result = function(ROWS)
    assert result.shape == ROWS.shape
    assert result.dtype == np.float64
    for place in np.ndindex(ROWS.shape):
        assert result[place] == pytest.approx(float(function(ROWS[place])), rel=1e-14)
    assert function(np.zeros((0, 5))).shape == (0, 5)


def test_gelu_is_the_number_times_the_share_of_a_normal_distribution_below_it() -> None:
    """Counted with a fine sum of the density."""
    grid = np.linspace(-9, 1.3, 400_001)
    density = np.exp(-(grid**2) / 2) / math.sqrt(2 * math.pi)
    share = float((density[1:] + density[:-1]).sum() * (grid[1] - grid[0]) / 2)
    assert float(gelu(1.3)) == pytest.approx(1.3 * share, rel=1e-9)


def test_the_two_forms_of_gelu_differ_by_less_than_0_0005() -> None:
    x = np.linspace(-10, 10, 20_001)
    apart = np.abs(gelu(x) - gelu_tanh(x)).max()
    assert 0.0004 < apart < 0.0005


def test_swish_goes_from_half_the_number_to_relu_as_alpha_grows() -> None:
    """Ramachandran et al. 2017, section 4."""
    np.testing.assert_allclose(swish(ROWS, 0.0), ROWS / 2)
    np.testing.assert_allclose(swish(ROWS, 1e4), relu(ROWS), atol=1e-4)


def test_numbers_of_any_size_go_through_without_a_warning() -> None:
    large = np.array([[-1e6, -800.0, 0.0, 800.0, 1e6]])
    for function in (relu, gelu, gelu_tanh, swish):
        np.testing.assert_allclose(function(large), [[0, 0, 0, 800, 1e6]], atol=1e-12)
    for operation in (RELU, GELU, SILU):
        for j in range(5):
            assert operation.work((large,), 0, j, show).text.endswith(
                show(float(operation.compute(large)[0, j]))
            )


def test_cells_are_worked_in_steps() -> None:
    x = np.array([[-1.0, 2.0]])
    assert RELU.work((x,), 0, 0, show).text == "max(0, −1) = 0"
    assert GELU.work((x,), 0, 0, show).text == "(−1) × (1 + erf(−1 / √2)) / 2 ≈ (−1) × 0.16 = −0.16"
    assert SILU.work((x,), 0, 0, show).text == "−1 / (1 + e^(−(−1))) ≈ −1 / 3.72 ≈ −0.27"
    assert SILU.work((x,), 0, 1, show).latex == (
        r" &= \frac{2}{1 + e^{-2}}",
        r"&\approx \frac{2}{1.14}",
        r"&\approx 1.76",
    )
    assert SWISH.work((x, np.array(-3.0)), 0, 1, show).text == "2 / (1 + e^(−(−3) × 2)) ≈ 2 / 404.43 ≈ 0.00"


def test_pytorch_gives_the_same_numbers_where_it_is_installed() -> None:
    torch = pytest.importorskip("torch")
    x, f = torch.tensor(ROWS), torch.nn.functional
    for ours, theirs in (
        (relu(ROWS), torch.relu(x)),
        (gelu(ROWS), f.gelu(x)),
        (gelu_tanh(ROWS), f.gelu(x, approximate="tanh")),
        (swish(ROWS), f.silu(x)),
    ):
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-12, atol=1e-14)
