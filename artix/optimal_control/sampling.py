"""Model-predictive control by sampling, for costs without a useful gradient: ``vmap`` of a
rollout.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from artix.math import random_keys
from artix.math.arrays import check_finite
from artix.model.checks import check_count, check_key, check_positive

Array = jax.Array


def mppi(
    cost: Callable[[Array], Array],
    controls: Array,
    key: Array,
    *,
    noise: float | Array = 1.0,
    temperature: float | Array = 1.0,
    samples: int = 256,
    iterations: int = 1,
) -> Array:
    """Model-predictive path integral control: samples around the controls, averaged with weights by
    their costs.

    Williams et al., *Information theoretic MPC for model-based reinforcement learning*, ICRA 2017.

    Args:
      cost: any function of a sequence of controls [T, nu]: ``total_cost`` of a :func:`rollout`, or
        one through :func:`artix.rollout` with contact. Samples whose cost is not finite do not
        count.
      controls: a first guess, shape [T, nu].
      key: a random key.
      noise: standard deviation of the samples, a number, [nu] or [T, nu].
      temperature: difference of costs over which a weight falls to 1/e.
      samples: number of samples in an iteration, one of which is the controls without noise.
      iterations: how often to repeat, each time from the average.

    Returns:
      Controls, shape [T, nu], in the unit of the guess; the guess itself if no sample has a finite
      cost.

    Raises:
      ValueError: a known guess is not finite, a number is not positive, ``noise`` has another
        shape, or ``cost`` does not return a number.
      TypeError: ``key`` is not a random key, or a count is not a whole number.

    Examples:
      >>> cost = lambda u: jnp.sum((u - 2.0) ** 2)
      >>> found = optimal_control.mppi(
      ...     cost, jnp.zeros((3, 1)), jax.random.key(0), iterations=30, temperature=0.1
      ... )
      >>> bool(jnp.all(jnp.abs(found - 2) < 0.3))
      True
    """

    def improve(controls: Array, key: Array) -> tuple[Array, None]:
        drawn, costs = _drawn(cost, controls, key, deviation, samples)
        weights = jax.nn.softmax(-costs / jnp.asarray(temperature, costs.dtype))
        average = jnp.tensordot(weights, drawn, 1)
        return jnp.where(jnp.any(jnp.isfinite(costs)), average, controls), None

    check_finite("controls", controls)
    check_key(key)
    check_count("samples", samples)
    check_count("iterations", iterations)
    check_positive("temperature", temperature, "the cost's unit")
    deviation = _deviation(noise, controls)
    return jax.lax.scan(improve, controls, jax.random.split(key, iterations))[0]


def cross_entropy(
    cost: Callable[[Array], Array],
    controls: Array,
    key: Array,
    *,
    noise: float | Array = 1.0,
    elites: int = 16,
    samples: int = 256,
    iterations: int = 10,
) -> Array:
    """The cross-entropy method: the next samples have the mean and deviation of the best ones.

    Rubinstein and Kroese, *The Cross-Entropy Method*, 2004.

    Args:
      cost: as for :func:`mppi`.
      controls: the first mean, shape [T, nu].
      key: a random key.
      noise: the first standard deviation, a number, [nu] or [T, nu]. It should reach the
        solution from the first mean: the deviation soon shrinks, and the mean then stops.
      elites: how many of the best samples count.
      samples: number of samples in an iteration.
      iterations: number of iterations.

    Returns:
      The last mean, shape [T, nu], in the unit of the first.

    Raises:
      ValueError: a known mean is not finite, a number is not positive, ``noise`` has another shape,
        there are more elites than samples, or ``cost`` does not return a number.
      TypeError: ``key`` is not a random key, or a count is not a whole number.

    Examples:
      >>> cost = lambda u: jnp.sum((u - 2.0) ** 2)
      >>> found = optimal_control.cross_entropy(
      ...     cost, jnp.zeros((3, 1)), jax.random.key(0), noise=2.0
      ... )
      >>> bool(jnp.all(jnp.abs(found - 2) < 0.1))
      True
    """

    def improve(carry: tuple[Array, Array], key: Array) -> tuple[tuple[Array, Array], None]:
        drawn, costs = _drawn(cost, carry[0], key, carry[1], samples)
        order = jnp.argsort(costs)[:elites]
        counts = (
            jnp.isfinite(costs[order]).astype(drawn.dtype).reshape(-1, *(1 for _ in controls.shape))
        )
        total = jnp.maximum(jnp.sum(counts), 1)
        mean = jnp.sum(counts * drawn[order], axis=0) / total
        deviation = jnp.sqrt(jnp.sum(counts * (drawn[order] - mean) ** 2, axis=0) / total)
        any_finite = jnp.any(counts > 0)
        return (
            jnp.where(any_finite, mean, carry[0]),
            jnp.where(any_finite, deviation, carry[1]),
        ), None

    check_finite("controls", controls)
    check_key(key)
    check_count("samples", samples)
    check_count("iterations", iterations)
    check_count("elites", elites)
    if elites > samples:
        raise ValueError(f"elites: expected at most the {samples} samples; found {elites}")
    return jax.lax.scan(
        improve, (controls, _deviation(noise, controls)), jax.random.split(key, iterations)
    )[0][0]


def _deviation(noise: float | Array, controls: Array) -> Array:
    """The standard deviation of each control, [T, nu]."""
    check_positive("noise", noise, "the controls' unit")
    if np.shape(noise) not in [controls.shape[k:] for k in range(controls.ndim + 1)]:
        raise ValueError(
            f"noise: expected a number, [nu] or [T, nu], as {controls.shape}; found shape "
            f"{np.shape(noise)}"
        )
    return jnp.broadcast_to(jnp.asarray(noise, controls.dtype), controls.shape)


def _drawn(
    cost, controls: Array, key: Array, deviation: Array, samples: int
) -> tuple[Array, Array]:
    """Sequences of controls, the first without noise, and their costs."""
    shape = samples, *controls.shape
    drawn = jax.random.normal(random_keys.quick(key), shape, controls.dtype).at[0].set(0)
    drawn = controls + deviation * drawn
    costs = jax.vmap(cost)(drawn)
    if costs.shape != (samples,):
        raise ValueError(
            f"cost: expected a number for each sequence of controls; found shape {costs.shape[1:]}"
        )
    return drawn, jnp.where(jnp.isfinite(costs), costs, jnp.inf)
