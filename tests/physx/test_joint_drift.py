"""Spherical joints that drift off their free axes; ``test_physx_steps.py`` compares the drift with
PhysX's."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import ArticulationBuilder, Axis, Drive, Joint, SolverOptions
from artix.math import spatial
from artix.math.lie import so3_exp

OPTIONS = SolverOptions(solver="pgs")
DT = 0.01
#: Links and axes of the DOFs.
FREE = ([1, 1, 2], [0, 2, 1])


@functools.cache
def _universal(*, fixed_base: bool = True):
    """A bar on a driven joint with twist and swing2 free, and a bar on a joint with swing1 free,
    all frames oblique."""
    parent, child = (
        [0.1, -0.2, 0.3, *so3_exp(jnp.asarray(turn))]
        for turn in ([0.3, 0.2, -0.5], [-0.4, 0.6, 0.1])
    )
    spherical = functools.partial(Joint.spherical, parent_pose=parent, child_pose=child)
    drive = Drive(stiffness=20.0, damping=1.0, target=0.3)
    builder = ArticulationBuilder(fixed_base=fixed_base, name="universal")
    builder.add_link(mass=2.0, inertia=[0.3, 0.2, 0.1])
    builder.add_link(
        0, spherical((Axis.TWIST, Axis.SWING2), drive=drive), mass=1.0, inertia=[0.03, 0.02, 0.04]
    )
    builder.add_link(1, spherical((Axis.SWING1,)), mass=1.0, inertia=[0.03, 0.02, 0.04])
    return builder.build("float64")


@functools.cache
def _start(*, fixed_base: bool = True):
    state = artix.random_state(_universal(fixed_base=fixed_base), jax.random.key(1))
    return state, jnp.asarray([[0.0, 0.0, 0.0], [0.2, -0.3, 0.1], [0.1, 0.2, -0.1]])


def _joint_rotations(state, drift):
    """Rotation vectors of the joint frames against the parents' links, [3, 3]."""
    named = jnp.zeros((3, 3)).at[FREE].set(state.joint_position)
    turns = (spatial.quaternion_exp(vectors.T) for vectors in (drift, named))
    return spatial.quaternion_log(spatial.quaternion_product(*turns)).T


@functools.partial(jax.jit, static_argnums=3)
def _poses(articulation, state, drift, num_steps):
    """Poses of the links after steps, with the state and the drift."""

    def one(now, _):
        return artix.step_with_joint_drift(articulation, *now, None, DT, OPTIONS)[:2], None

    (state, drift), _ = jax.lax.scan(one, (state, drift), length=num_steps)
    return artix.frame_pose(artix.with_joint_drift(articulation, drift), state), state, drift


@pytest.mark.slow
def test_only_the_rotation_of_a_joint_matters() -> None:
    """Whichever part of it the positions name, and whichever the drift: the step and its drives are
    the same."""
    a = _universal()
    state, drift = _start()
    whole = _joint_rotations(state, drift)
    found = _poses(a, state.replace(joint_position=jnp.zeros(3)), whole, 1)
    for one, other in zip(*map(jax.tree.leaves, (found, _poses(a, state, drift, 1))), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


@pytest.mark.slow
def test_steps_that_forget_the_drift_are_those_of_step() -> None:
    a = _universal()
    state, _ = _start()
    end = jax.jit(artix.step, static_argnames="options")(a, state, None, DT, options=OPTIONS)
    poses, found, drift = _poses(a, state, jnp.zeros((3, 3)), 1)
    for one, other in zip(*map(jax.tree.leaves, (found, end)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)
    assert np.max(np.abs(poses - artix.frame_pose(a, end))) > 1e-5
    assert np.all(drift[0] == 0)
    np.testing.assert_allclose(
        _joint_rotations(found, drift)[FREE], found.joint_position, atol=1e-12
    )


@pytest.mark.parametrize(
    "fixed_base",
    [pytest.param(True, marks=pytest.mark.slow), pytest.param(False, marks=pytest.mark.exhaustive)],
)
def test_gradients_are_those_of_finite_differences(fixed_base: bool) -> None:
    a = _universal(fixed_base=fixed_base)
    weights = jnp.asarray(np.random.default_rng(0).normal(size=(3, 7)))

    def loss(state, drift, mass):
        return jnp.sum(weights * _poses(a.replace(link_mass=mass), state, drift, 3)[0])

    gradient = jax.jit(jax.grad(loss, argnums=(0, 1, 2)))
    point = (*_start(fixed_base=fixed_base), a.link_mass)
    found = gradient(*point)
    rng = np.random.default_rng(1)
    for _ in range(3):
        way = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape)), point)
        ends = [loss(*jax.tree.map(lambda x, d, h=h: x + h * d, point, way)) for h in (1e-5, -1e-5)]
        along = sum(
            jnp.sum(x * d) for x, d in zip(*map(jax.tree.leaves, (found, way)), strict=True)
        )
        np.testing.assert_allclose(along, (ends[0] - ends[1]) / 2e-5, rtol=1e-6)
    rest = (artix.neutral_state(a), jnp.zeros_like(point[1]), a.link_mass)
    assert all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(gradient(*rest)))


@pytest.mark.slow
def test_a_batch_is_its_members() -> None:
    a = _universal()
    state, drift = _start()
    scale = jnp.asarray([0.0, 1.0])
    states, drifts = jax.vmap(
        lambda k: (state.replace(joint_velocity=k * state.joint_velocity), k * drift)
    )(scale)
    found = jax.vmap(functools.partial(_poses, a, num_steps=1))(states, drifts)
    for k in range(2):
        alone = _poses(a, *jax.tree.map(lambda leaf, k=k: leaf[k], (states, drifts)), 1)
        for one, other in zip(*map(jax.tree.leaves, (found, alone)), strict=True):
            np.testing.assert_allclose(one[k], other, atol=1e-12)


@pytest.mark.slow
def test_substeps_hand_the_drift_on() -> None:
    a = _universal()
    end, drift, _ = artix.step_with_joint_drift(
        a, *_start(), None, 2 * DT, SolverOptions(solver="pgs", substeps=2)
    )
    _, wanted, wanted_drift = _poses(a, *_start(), 2)
    np.testing.assert_allclose(end.joint_position, wanted.joint_position, atol=1e-12)
    np.testing.assert_allclose(drift, wanted_drift, atol=1e-12)


def test_refusals() -> None:
    a = _universal()
    state, drift = _start()
    step = functools.partial(artix.step_with_joint_drift, a, state)
    for solver in ("implicit", "rk4"):
        with pytest.raises(
            ValueError, match=f"solver='{solver}' keeps spherical joints on their free axes"
        ):
            step(drift, None, DT, SolverOptions(solver=solver))
    with pytest.raises(ValueError, match=r"drift: expected shape \(3, 3\)"):
        step(drift[1:], None, DT, OPTIONS)
    with pytest.raises(TypeError, match="drift: expected dtype float64"):
        artix.with_joint_drift(a, drift.astype("float32"))
