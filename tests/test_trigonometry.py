"""Cosine and sine of float32 angles by polynomials, against NumPy's in float64."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from artix.trigonometry import cosine_and_sine


@pytest.mark.parametrize("largest", [0.8, 4.0, 100.0, 1e4])
def test_float32_is_exact_to_rounding(largest):
    angles = np.random.default_rng(0).uniform(-largest, largest, 200_000).astype(np.float32)
    found = jax.jit(cosine_and_sine)(angles)
    expected = np.cos(angles.astype(float)), np.sin(angles.astype(float))
    # Half a unit in the last place of 1 is 3e-8; without fused multiplications the reduction adds as much.
    np.testing.assert_allclose(found, expected, rtol=0, atol=9e-8)
    np.testing.assert_allclose(np.square(found).sum(0), 1, rtol=0, atol=2.5e-7)


def test_quarter_turns_and_what_lies_beside_them():
    angles = np.float32(np.pi / 4) * np.arange(-16, 17, dtype=np.float32)
    angles = np.concatenate([np.nextafter(angles, -np.inf), angles, np.nextafter(angles, np.inf)])
    expected = np.cos(angles.astype(float)), np.sin(angles.astype(float))
    np.testing.assert_allclose(cosine_and_sine(angles), expected, rtol=0, atol=9e-8)


def test_large_angles_are_exact_to_their_own_rounding():
    angles = np.random.default_rng(1).uniform(-1e6, 1e6, 10_000).astype(np.float32)
    expected = np.cos(angles.astype(float)), np.sin(angles.astype(float))
    np.testing.assert_allclose(cosine_and_sine(angles), expected, rtol=0, atol=6e-8 * 1e6)


def test_float64_is_that_of_the_library():
    angles = np.linspace(-7.0, 7.0, 101)
    with jax.enable_x64(True):
        cosine, sine = cosine_and_sine(jnp.asarray(angles))
    assert cosine.dtype == np.float64
    np.testing.assert_allclose((cosine, sine), (np.cos(angles), np.sin(angles)), rtol=0, atol=3e-16)


def test_derivatives_are_those_of_the_functions_to_any_order():
    angles = np.linspace(-9.0, 9.0, 61, dtype=np.float32)
    x = angles.astype(float)
    orders = [(np.cos(x), np.sin(x)), (-np.sin(x), np.cos(x)), (-np.cos(x), -np.sin(x)), (np.sin(x), -np.cos(x))]
    for place in (0, 1):
        function = lambda angle: cosine_and_sine(angle)[place]  # noqa: B023, E731
        for order in range(4):
            np.testing.assert_allclose(jax.vmap(function)(angles), orders[order][place], rtol=0, atol=9e-8)
            function = jax.grad(function)


def test_what_is_no_number_stays_none():
    for value in cosine_and_sine(np.array([np.nan, np.inf, -np.inf], np.float32)):
        assert np.isnan(value).all()
