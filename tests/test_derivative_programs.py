"""Derivatives as one operation must be those that JAX makes operation by operation, in every nesting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from artix.batch_rules import with_batch_rule
from artix.derivative_programs import derivative_along
from artix.lanes import evaluate_in_lanes

import artix
from artix.batches import evaluate_plainly
from tests.models import random_states, random_tree, state_at


def function(x, parameters):
    """Of [3] and a dictionary, results of two shapes."""
    turned = jnp.sin(parameters["matrix"] @ x) * x
    return {"all": turned * parameters["scale"], "sum": jnp.sum(turned**2)}


def ruled(evaluation) -> Callable[..., Any]:
    def derivative(function, arrays, tangents):
        return derivative_along(function, lambda tangents: evaluation, arrays, tangents)

    return with_batch_rule(function, evaluation, derivative)


def total(found) -> jax.Array:
    return jnp.sum(found["all"] ** 3) + jnp.sum(found["sum"])


def _gradient(f):
    return jax.grad(lambda x, p: total(f(x, p)), (0, 1))


def _of_one_tangent(f, x, p):
    """Of two tangents one is known when the derivative is transposed."""

    def along(d_x):
        return total(jax.jvp(f, (x, p), (d_x, jax.tree.map(jnp.ones_like, p)))[1])

    return jax.grad(along)(jnp.ones_like(x))


def _through_a_loop(f):
    def after(x, p):
        moved = jax.lax.scan(lambda x, _: (jax.checkpoint(f)(x, p)["all"] + x, None), x, None, length=3)[0]
        return jnp.sum(moved**2)

    return jax.grad(after, (0, 1))


NESTINGS = {
    "gradient": lambda f, x, p: _gradient(f)(x[0], p),
    "gradients": lambda f, x, p: jax.vmap(_gradient(f), (0, None))(x, p),
    "gradient of a batch": lambda f, x, p: _gradient(jax.vmap(f, (0, None)))(x, p),
    "gradients of batches": lambda f, x, p: jax.vmap(
        lambda scale: _gradient(jax.vmap(f, (0, None)))(x, {**p, "scale": scale})
    )(jnp.arange(2.0)),
    "batches of gradients of batches": lambda f, x, p: jax.vmap(_gradient(jax.vmap(f, (0, None))), (0, None))(
        jnp.stack([x, 2 * x]), p
    ),
    "one output": lambda f, x, p: jax.vmap(jax.grad(lambda x: f(x, p)["sum"]))(x),
    "tangents": lambda f, x, p: jax.jvp(lambda x: f(x, p), (x[0],), (x[1],)),
    "tangents of a batch": lambda f, x, p: jax.jvp(jax.vmap(f, (0, None)), (x, p), (x, p)),
    "shared tangents": lambda f, x, p: jax.vmap(
        lambda x: jax.jvp(lambda s: f(x, {**p, "scale": s}), (p["scale"],), (p["scale"],))
    )(x),
    "one of two tangents": lambda f, x, p: jax.vmap(lambda x: _of_one_tangent(f, x, p))(x),
    "forward Jacobians": lambda f, x, p: jax.vmap(jax.jacfwd(f, (0, 1)), (0, None))(x, p),
    "backward Jacobians": lambda f, x, p: jax.vmap(jax.jacrev(f, (0, 1)), (0, None))(x, p),
    "forward Jacobian of a batch": lambda f, x, p: jax.jacfwd(jax.vmap(f, (0, None)), (0, 1))(x, p),
    "backward Jacobian of a batch": lambda f, x, p: jax.jacrev(jax.vmap(f, (0, None)), (0, 1))(x, p),
    "Hessians": lambda f, x, p: jax.vmap(jax.hessian(lambda x: total(f(x, p))))(x),
    "Hessian of a batch": lambda f, x, p: jax.hessian(lambda x: jnp.sum(jax.vmap(f, (0, None))(x, p)["all"] ** 2))(x),
    "gradients of gradients": lambda f, x, p: jax.vmap(
        jax.grad(lambda x: jnp.sum(jax.grad(lambda x: total(f(x, p)))(x) ** 2))
    )(x),
    "linearized": lambda f, x, p: jax.vmap(lambda x: jax.linearize(lambda x: f(x, p), x)[1](2 * x))(x),
    "loop": lambda f, x, p: jax.vmap(_through_a_loop(f), (0, None))(x, p),
    "other axes": lambda f, x, p: jax.vmap(_gradient(f), (1, {"matrix": 2, "scale": None}))(
        x.T, {**p, "matrix": jnp.stack([p["matrix"]] * len(x), 2)}
    ),
}


@pytest.mark.parametrize("evaluation", [evaluate_in_lanes, evaluate_plainly], ids=["lanes", "plainly"])
@pytest.mark.parametrize("nesting", NESTINGS)
def test_nestings(nesting: str, evaluation) -> None:
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=(5, 3)))
    parameters = {"matrix": jnp.asarray(rng.normal(size=(3, 3))), "scale": jnp.asarray(0.7)}
    wanted = NESTINGS[nesting](function, x, parameters)
    found = NESTINGS[nesting](ruled(evaluation), x, parameters)
    compiled = jax.jit(lambda x, p: NESTINGS[nesting](ruled(evaluation), x, p))(x, parameters)
    for a in (found, compiled):
        for one, other in zip(jax.tree.leaves(a), jax.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["forward_dynamics", "step"])
def test_derivatives_of_batches_are_one_operation(name: str) -> None:
    robot = random_tree(3, 3, fixed_base=False)
    states = random_states(robot, 7)

    def moved(state):
        return motion(name, robot, state)

    for derivative in (jax.jacfwd(moved), jax.jacrev(moved)):
        operations = jax.make_jaxpr(jax.vmap(derivative))(states).eqns
        (found,) = (each.params["derivative"] for each in operations if each.primitive.name == "artix_derivative")
        assert found.size == 7 and found.tangents > 1


def motion(name: str, robot: artix.Articulation, state: artix.State) -> jax.Array:
    if name == "step":
        return artix.step(robot, state, None, 0.01).joint_velocity
    return artix.forward_dynamics(robot, state, jnp.ones(robot.topology.nv, robot.dtype))


@pytest.mark.parametrize("name", ["forward_dynamics", "step"])
def test_only_arguments_are_kept_for_gradients(name: str) -> None:
    robot = random_tree(3, 6, fixed_base=False)
    state = state_at(random_states(robot, 1), 0)
    kept = jax.make_jaxpr(lambda state: jax.tree.leaves(jax.vjp(lambda s: motion(name, robot, s), state)[1]))(state)
    assert sum(x.size for x in kept.out_avals) <= 2 * sum(x.size for x in jax.tree.leaves(state))


def test_without_compilation_no_program_is_traced() -> None:
    def traced(function, arrays, tangents):
        raise AssertionError("a program would be traced at every call")

    x, parameters = jnp.arange(3.0), {"matrix": jnp.ones((3, 3)), "scale": jnp.asarray(0.7)}
    found = _gradient(with_batch_rule(function, evaluate_plainly, traced))(x, parameters)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(_gradient(function)(x, parameters)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    with pytest.raises(AssertionError, match="traced"):
        jax.jit(_gradient(with_batch_rule(function, evaluate_plainly, traced)))(x, parameters)


def test_steps_of_robots_with_parameters_of_their_own() -> None:
    """Where drives are data a step has a condition, which the transposed program must get through."""
    robot = artix.robots.load("double_pendulum").astype("float64")
    drive = robot.drive.replace(stiffness=jnp.full(2, 50.0), max_force=jnp.full(2, 2.0))
    robot = robot.replace(drive=drive)
    scales, states = jnp.asarray([1.0, 2.0, 0.5]), random_states(robot, 3)
    robots = jax.vmap(lambda scale: robot.replace(link_mass=scale * robot.link_mass))(scales)

    def moved(robot, state):
        return jnp.sum(artix.step(robot, state, None, 0.01).joint_velocity ** 2)

    def gradient(state, robot):
        return jax.grad(lambda state, mass: moved(robot.replace(link_mass=mass), state), (0, 1))(state, robot.link_mass)

    found = jax.jit(jax.vmap(gradient))(states, robots)
    for k in range(3):
        alone = jax.jit(gradient)(*(jax.tree.map(lambda leaf, k=k: leaf[k], each) for each in (states, robots)))
        for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(alone), strict=True):
            np.testing.assert_allclose(one[k], other, rtol=1e-7, atol=1e-9)
