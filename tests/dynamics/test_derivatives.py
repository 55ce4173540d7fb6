"""Derivatives of every public function: exact, the same both ways, and finite at every
singular-looking state.

All functions are differentiated in one program: forwards along a direction in all inputs, backwards
from each function in turn, and both once more.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from tests.support.bases import BASES
from tests.support.models import random_quaternion, random_states, state_at, tree_of

#: Each test compiles one program for minutes.
KINDS = ["spherical_012", "revolute_swing1", "prismatic_y", "fixed", "spherical_12"]
PARENTS = [0, 1, 1, 2, 3]
PARAMETERS = (
    "link_mass",
    "link_com_pose",
    "link_inertia",
    "joint_parent_pose",
    "joint_child_pose",
    "armature",
    "gravity",
    "gravity_scale",
    "frame_local_pose",
)
STATE = ("root_pose", "root_velocity", "joint_position", "joint_velocity")
STEP = 1e-5
TOLERANCE = 1e-6


def outputs(articulation, inputs: dict) -> dict:
    """Every public function of the core, of one dictionary of differentiable inputs."""
    a = articulation.replace(**{name: inputs[name] for name in PARAMETERS})
    s = artix.State(*(inputs[name] for name in STATE))
    acceleration, wrench, dnu = inputs["acceleration"], inputs["external_force"], inputs["dnu"]
    found = {
        "forward_kinematics": artix.forward_kinematics(a, s),
        "link_accelerations": artix.frame_acceleration(
            a, s, acceleration, offset="com", classical=True
        ),
        "dense_jacobian": artix.physx.dense_jacobian(a, s),
        "frame_pose": artix.frame_pose(a, s, "tool", inputs["offset"]),
        "frame_velocity": artix.frame_velocity(a, s, "tool"),
        "frame_jacobian": artix.frame_jacobian(a, s, "middle", axes="local"),
        "frame_jacobian_rate": artix.frame_jacobian_rate(a, s, "tool", axes="local"),
        "mass_matrix": artix.mass_matrix(a, s, armature=True),
        "gravity_compensation": artix.gravity_compensation(a, s),
        "coriolis_compensation": artix.coriolis_compensation(a, s),
        "bias_force": artix.bias_force(a, s),
        "inverse_dynamics": artix.inverse_dynamics(a, s, acceleration, wrench),
        "generalized_external_force": artix.generalized_external_force(a, s, wrench),
        "center_of_mass": artix.center_of_mass(a, s, "root"),
        "center_of_mass_jacobian": artix.center_of_mass_jacobian(a, s),
        "centroidal_momentum_matrix": artix.centroidal_momentum_matrix(a, s),
        "centroidal_momentum": artix.centroidal_momentum(a, s),
        "kinetic_energy": artix.kinetic_energy(a, s, armature=True),
        "potential_energy": artix.potential_energy(a, s),
        "joint_velocity_from_rate": artix.joint_velocity_from_rate(a, s, s.joint_velocity),
        "joint_rate_from_velocity": artix.joint_rate_from_velocity(a, s, s.joint_velocity),
    }
    moved = artix.integrate(a, s, dnu)
    found["integrate"] = (moved.root_pose, moved.joint_position)
    other = s.replace(
        root_pose=inputs["other_root_pose"], joint_position=inputs["other_joint_position"]
    )
    found["difference"] = artix.difference(a, s, other)
    flat = {
        name: jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(value)])
        for name, value in found.items()
    }
    # Weights make one number of each function: every entry counts, differently.
    return {
        name: value @ jnp.cos(jnp.arange(1.0, value.size + 1.0, dtype=value.dtype))
        for name, value in flat.items()
    }


def together(articulation, inputs):
    found = outputs(articulation, inputs)
    return jnp.stack([found[name] for name in sorted(found)])


def along(articulation, inputs, direction):
    """Derivatives of all functions along a direction."""
    return jax.jvp(functools.partial(together, articulation), (inputs,), (direction,))[1]


@jax.jit
def values(articulation, inputs):
    return jax.vmap(lambda x: together(articulation, x))(inputs)


@jax.jit
def forward(articulation, inputs, directions):
    """First and second derivatives along directions, each of all functions."""

    def one(direction):
        return jax.jvp(lambda x: along(articulation, x, direction), (inputs,), (direction,))

    return jax.vmap(one)(directions)


@jax.jit
def backward(articulation, inputs, direction):
    """Gradients of all functions, and the derivative along a direction of the gradient of their
    sum."""
    value, pull = jax.vjp(functools.partial(together, articulation), inputs)
    gradients = jax.vmap(pull)(jnp.eye(value.size, dtype=value.dtype))[0]
    total = jax.grad(lambda x: jnp.sum(together(articulation, x)))
    return gradients, jax.jvp(total, (inputs,), (direction,))[1]


def case(fixed_base: bool):
    """An articulation, its inputs, and directions in the state, in each parameter and in all inputs
    together."""
    rng = np.random.default_rng(4)
    a = tree_of(KINDS, PARENTS, fixed_base=fixed_base, armature=0.3, seed=7)
    s = state_at(random_states(a, 1, seed=2), 0)
    n, nv, links = a.topology.num_dofs, a.topology.nv, a.topology.num_links
    inputs = {name: getattr(a, name) for name in PARAMETERS} | {
        name: getattr(s, name) for name in STATE
    }
    inputs |= {
        "acceleration": rng.normal(size=nv),
        "external_force": rng.normal(size=(links, 6)),
        "dnu": rng.uniform(-0.5, 0.5, size=nv),
        "offset": np.concatenate([rng.normal(size=3), random_quaternion(rng)]),
        "other_root_pose": np.concatenate([rng.normal(size=3), random_quaternion(rng)]),
        "other_joint_position": rng.uniform(-1.0, 1.0, n),
    }
    inputs = {name: jnp.asarray(value) for name, value in inputs.items()}
    groups = {"state": STATE, **{name: (name,) for name in PARAMETERS}, "all": tuple(inputs)}
    directions = {
        name: {
            key: jnp.asarray(rng.normal(size=x.shape) * (key in members))
            for key, x in inputs.items()
        }
        for name, members in groups.items()
    }
    stacked = {key: jnp.stack([directions[name][key] for name in groups]) for key in inputs}
    return a, inputs, tuple(groups), stacked


def relative(found, wanted):
    """Errors relative to the larger of one and the wanted number, each on its own."""
    return np.abs(np.asarray(found) - np.asarray(wanted)) / np.maximum(
        1.0, np.abs(np.asarray(wanted))
    )


@pytest.mark.exhaustive
@BASES
def test_against_central_differences(fixed_base: bool) -> None:
    a, inputs, groups, directions = case(fixed_base)
    names = sorted(outputs(a, inputs))
    first, second = forward(a, inputs, directions)
    at = {
        step: values(a, {k: inputs[k][None] + step * directions[k] for k in inputs})
        for step in (STEP, -STEP)
    }
    wanted = (at[STEP] - at[-STEP]) / (2 * STEP)
    errors = relative(first, wanted)
    assert {
        (groups[i], names[j]): errors[i, j]
        for i, j in zip(*np.nonzero(~(errors <= TOLERANCE)), strict=True)
    } == {}
    assert np.count_nonzero(np.asarray(wanted)) > 0.5 * wanted.size
    # The second derivative along everything, against differences of the first.
    whole = len(groups) - 1
    direction = {k: directions[k][whole] for k in inputs}
    repeated = {k: jnp.broadcast_to(v, (len(groups), *v.shape)) for k, v in direction.items()}
    ahead, behind = (
        forward(a, {k: inputs[k] + step * direction[k] for k in inputs}, repeated)[0][0]
        for step in (STEP, -STEP)
    )
    errors = relative(second[whole], (ahead - behind) / (2 * STEP))
    assert {names[j]: errors[j] for j in np.nonzero(~(errors <= 10 * TOLERANCE))[0]} == {}


@pytest.mark.exhaustive
@BASES
def test_forward_equals_reverse(fixed_base: bool) -> None:
    a, inputs, groups, directions = case(fixed_base)
    names = sorted(outputs(a, inputs))
    first, second = forward(a, inputs, directions)
    direction = {k: directions[k][-1] for k in inputs}
    gradients, curvatures = backward(a, inputs, direction)
    whole = len(groups) - 1
    dotted = sum(
        jnp.sum((gradients[k] * direction[k][None]).reshape(len(names), -1), axis=1) for k in inputs
    )
    errors = relative(dotted, first[whole])
    assert {names[j]: errors[j] for j in np.nonzero(~(errors <= 1e-9))[0]} == {}
    curvature = sum(jnp.sum(curvatures[k] * direction[k]) for k in inputs)
    assert abs(curvature - jnp.sum(second[whole])) <= 1e-9 * float(jnp.sum(jnp.abs(second[whole])))


HALF_TURNS = ([1.0, 0.0, 0.0, 0.0], [0.0, 0.6, 0.8, 0.0], [0.0, 0.0, -1.0, 0.0])


@pytest.mark.exhaustive  # One program of every quantity's second derivatives: ten minutes to compile.
@BASES
def test_finite_at_singular_looking_states(fixed_base: bool) -> None:
    a, inputs, groups, directions = case(fixed_base)
    names = sorted(outputs(a, inputs))
    direction = {k: directions[k][-1] for k in inputs}
    rest = artix.neutral_state(a)
    zero = {name: getattr(rest, name) for name in STATE} | {"dnu": jnp.zeros_like(inputs["dnu"])}
    zero |= {"other_root_pose": rest.root_pose, "other_joint_position": rest.joint_position}
    ball = a.topology.dofs("joint_1")
    half = jnp.zeros_like(rest.joint_position)
    cases = {"identity at rest": zero}
    for k, turn in enumerate(HALF_TURNS):
        pose = jnp.asarray([0.1, 0.2, 0.3, *turn])
        q = half.at[ball].set(jnp.pi * jnp.asarray(turn[:3]))
        cases[f"half turn {k}"] = zero | {"root_pose": pose, "joint_position": q}
        cases[f"half turn apart {k}"] = zero | {"other_root_pose": pose, "other_joint_position": q}
        dnu = jnp.zeros_like(inputs["dnu"]).at[a.topology.num_base_dofs :].set(q)
        if not fixed_base:
            dnu = dnu.at[3:6].set(jnp.pi * jnp.asarray(turn[:3]))
        cases[f"integrate by a half turn {k}"] = zero | {"dnu": dnu}
    bad = []
    for label, changed in cases.items():
        x = inputs | changed
        parts = {"values": values(a, {k: v[None] for k, v in x.items()})[0]}
        parts["first"], parts["second"] = (part.T for part in forward(a, x, directions))
        gradients, curvatures = backward(a, x, direction)
        parts |= {f"gradient to {key}": leaf for key, leaf in gradients.items()}
        bad += [
            (label, "curvature", key)
            for key, leaf in curvatures.items()
            if not np.all(np.isfinite(leaf))
        ]
        for what, part in parts.items():
            finite = np.isfinite(np.asarray(part)).reshape(len(names), -1).all(axis=1)
            bad += [
                (label, what, name) for name, good in zip(names, finite, strict=True) if not good
            ]
    assert bad == []
    assert len(groups) == 11
