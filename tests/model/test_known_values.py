"""States and controls that are nonsense are refused where their values are known, and only
there."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import artix
from artix import inverse_kinematics, physx
from artix.model.checks import check_known_state, check_quaternion

ROBOT = artix.robots.load("quadruped")
SOUND = artix.random_state(ROBOT, jax.random.key(0))
SCENE = artix.Scene({"one": ROBOT})

#: Nonsense, and what is said about it.
NONSENSE = {
    "nan": (
        SOUND.replace(joint_velocity=SOUND.joint_velocity.at[3].set(jnp.nan)),
        r"state.*joint_velocity: every number must be finite; found nan at \[3\]; if a step made it",
    ),
    "infinite": (
        SOUND.replace(root_pose=SOUND.root_pose.at[1].set(-jnp.inf)),
        r"state.*root_pose: every number must be finite; found -inf at \[1\]",
    ),
    "zero": (
        SOUND.replace(root_pose=SOUND.root_pose.at[3:].set(0)),
        r"state.*root_pose: expected a quaternion xyzw of length 1 .* found one of length zero; no rotation is",
    ),
    "long": (
        SOUND.replace(root_pose=SOUND.root_pose.at[3:].multiply(1.01)),
        r"state.*root_pose: expected a quaternion .* found one of length 1.01; divide it by its length, as",
    ),
}
FUNCTIONS = {
    "mass_matrix": lambda state: artix.mass_matrix(ROBOT, state),
    "kinetic_energy": lambda state: artix.kinetic_energy(ROBOT, state=state),
    "step": lambda state: artix.step(ROBOT, state, None, 0.01),
    "step_and_report": lambda state: artix.step_and_report(ROBOT, state, None, 0.01),
    "rollout": lambda state: artix.rollout(ROBOT, state, None, 0.01, num_steps=2),
    "scene_step": lambda state: artix.step(SCENE, {"one": state}, None, 0.01),
    "scene_rollout": lambda state: artix.rollout(SCENE, {"one": state}, None, 0.01, num_steps=2),
    "simulate": lambda state: physx.simulate(
        physx.create_simulation(ROBOT).replace(state=state), 0.01
    ),
}


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("kind", NONSENSE)
def test_states(function, kind):
    state, words = NONSENSE[kind]
    with pytest.raises(ValueError, match=words):
        FUNCTIONS[function](state)
    with pytest.raises(ValueError, match=words):
        FUNCTIONS[function](jax.tree.map(np.asarray, state))


def test_the_name_is_that_of_the_argument():
    state, _ = NONSENSE["nan"]
    for call in (
        lambda: artix.difference(ROBOT, SOUND, state),
        lambda: artix.difference(ROBOT, start=SOUND, end=state),
    ):
        with pytest.raises(ValueError, match=r"^end\.joint_velocity: "):
            call()


def test_values_that_are_not_known_are_not_refused():
    """What follows from a NaN is NaN."""
    for state, _ in NONSENSE.values():
        energy = jax.jit(lambda s: artix.kinetic_energy(ROBOT, s))(state)
        assert energy.shape == ()
        several = jax.tree.map(lambda x: jnp.stack([x, x]), state)
        assert jax.vmap(lambda s: artix.kinetic_energy(ROBOT, s))(several).shape == (2,)
    state, _ = NONSENSE["nan"]
    assert np.isnan(jax.jit(lambda s: artix.kinetic_energy(ROBOT, s))(state))
    # But a constant of a compiled function is known.
    with pytest.raises(ValueError, match="must be finite"):
        jax.jit(lambda: artix.kinetic_energy(ROBOT, state))()


def test_quaternions_of_any_length_where_they_mean_something():
    long, zero = NONSENSE["long"][0], NONSENSE["zero"][0]
    assert artix.is_normalized(ROBOT, artix.normalize(ROBOT, long))
    assert artix.kinematics.is_same_configuration(ROBOT, long, SOUND)
    assert artix.vector_field(0.0, long, (ROBOT, None)).root_pose.shape == (7,)
    for call in (
        lambda: artix.normalize(ROBOT, zero),
        lambda: artix.vector_field(0.0, zero, (ROBOT, None)),
    ):
        with pytest.raises(ValueError, match="length zero"):
            call()


@given(
    numbers=st.lists(st.floats(-1, 1, width=32), min_size=4, max_size=4).filter(
        lambda q: np.linalg.norm(q) > 1e-3
    ),
    digits=st.sampled_from([3, 4, 20]),
)
def test_rounded_quaternions_are_accepted(numbers, digits):
    """In float32, or typed with three digits or more."""
    for dtype in (np.float32, np.float64):
        quaternion = np.round(np.array(numbers) / np.linalg.norm(numbers), digits).astype(dtype)
        check_quaternion("pose", np.concatenate([np.zeros(3, dtype), quaternion]))


@settings(max_examples=300)
@given(
    field=st.sampled_from(["root_pose", "root_velocity", "joint_position", "joint_velocity"]),
    entry=st.integers(0, 5),
    value=st.sampled_from([np.nan, np.inf, -np.inf, 1e30, -3e38, 0.25]),
)
def test_only_what_is_not_finite_is_refused(field, entry, value):
    """Large numbers are sound, although their squares overflow in float32."""
    array = np.array(getattr(SOUND, field))
    if field == "root_pose":
        entry %= 3
    array[entry] = value
    state = SOUND.replace(**{field: array})
    if np.isfinite(value):
        check_known_state("state", state)
    else:
        with pytest.raises(
            ValueError,
            match=rf"state\.{field}: every number must be finite; found .* at \[{entry}\]",
        ):
            check_known_state("state", state)


@pytest.mark.slow
def test_states_that_artix_made_are_accepted():
    """In float32, after many steps and displacements, one after another outside ``jit``."""
    state = SOUND.replace(root_velocity=SOUND.root_velocity * 20)
    for _ in range(200):
        state = artix.step(ROBOT, state, None, 1e-3)
        state = artix.integrate(ROBOT, state, 0.3 * artix.generalized_velocity(ROBOT, state))
    assert artix.is_normalized(ROBOT, state)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("joint_force", np.nan),
        ("drive_target", np.nan),
        ("drive_target", np.inf),
        ("drive_target_velocity", np.nan),
        ("external_force", -np.inf),
    ],
)
def test_controls(field, value):
    shape = (ROBOT.topology.num_links, 6) if field == "external_force" else (12,)
    control = artix.Control(**{field: jnp.zeros(shape, ROBOT.dtype).at[2].set(value)})
    several = jax.tree.map(lambda x: jnp.stack([jnp.zeros_like(x), x]), control)
    words = rf"{field}: every number must be finite; found {value}"
    for call in (
        lambda: artix.step(ROBOT, SOUND, control, 0.01),
        lambda: artix.rollout(ROBOT, SOUND, several, 0.01),
        lambda: artix.step(SCENE, {"one": SOUND}, {"one": control}, 0.01),
    ):
        with pytest.raises(ValueError, match=words):
            call()


def test_an_infinite_joint_force_asks_for_the_largest():
    control = artix.Control(joint_force=jnp.full(12, jnp.inf, ROBOT.dtype))
    limited = ROBOT.replace(max_joint_force=jnp.full(12, 3.0, ROBOT.dtype))
    assert np.isfinite(artix.step(limited, SOUND, control, 0.01).joint_velocity).all()


@pytest.mark.slow
def test_seeds_outside_the_limits_are_said():
    arm = artix.robots.load("arm7")
    inside = artix.random_state(arm, jax.random.key(0))
    seeds = jax.tree.map(lambda x: jnp.stack([x, x]), inside)
    beyond = seeds.replace(joint_position=seeds.joint_position.at[1, 3].set(9.0))
    goal = artix.frame_pose(arm, inside, "tool")

    def tool(target):
        return [inverse_kinematics.FrameTask("tool", target)]

    words = rf"1 of 2 seeds lie outside .* seed 1, '{arm.topology.dof_names[3]}' is at 9, outside \[.*in radians"
    with pytest.warns(UserWarning, match=words):
        assert inverse_kinematics.solve(arm, tool(goal), beyond, iterations=3).solved
    with pytest.raises(
        ValueError, match=r"tasks\[0\].target: expected a quaternion xyzw of length 1"
    ):
        inverse_kinematics.solve(arm, tool(goal.at[3:].multiply(2)), seeds)
