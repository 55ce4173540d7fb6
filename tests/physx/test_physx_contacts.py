"""Contacts by PhysX's law against those recorded from PhysX
(``tests/data/physx/contact/README.md``).

Every step begins at a recorded state; what friction remembers is artix's own. Bounds are a few
times what PhysX's float32 makes of the same law.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import Control, SolverOptions, State
from tests.support.physx_contact_scenes import RUNS, SCENES
from tests.support.physx_contacts import build, ground_of, options_of, recorded

#: Errors of a step: of positions [m, rad] and of velocities [m/s, rad/s], of 19 of 20 steps and of
#: all. Where float32 decides what slips, a step may differ by as much as slipping does.
BOUNDS = {
    "sphere": ((1e-7, 5e-5), (1e-7, 5e-5)),
    "box": ((5e-8, 2e-4), (1e-7, 1e-3)),
    "capsule": ((5e-8, 2e-4), (1e-7, 1e-3)),
    "leg": ((2e-6, 1e-3), (5e-6, 2e-3)),
    "quadruped": ((1e-5, 2e-2), (2e-4, 1e-1)),
}
EVERYDAY = {("box_drop", "tgs"), ("capsule_spin", "pgs_60hz"), ("leg", "tgs")}
EVERY_RUN = [(name, run) for name, scene in SCENES.items() for run in scene["runs"]]


def _marks(name: str, run: str) -> tuple[pytest.MarkDecorator, ...]:
    """Three scenes every day, all with the slow tests, and with other steps and versions of the
    solver once a week."""
    if (name, run) in EVERYDAY:
        return ()
    return (pytest.mark.slow if run in ("pgs", "tgs") else pytest.mark.exhaustive,)


@functools.cache
def states(name: str, run: str) -> State:
    data, joints = recorded(name, run), len(SCENES[name]["links"]) - 1
    none = np.zeros((len(data["pose"]), joints))
    return State(
        *(
            jnp.asarray(array)
            for array in (
                data["pose"][:, 0],
                data["velocity"][:, 0],
                data.get("q", none),
                data.get("qd", none),
            )
        )
    )


def control_of(name: str) -> Control | None:
    targets = SCENES[name]["joint_position"]
    return Control(drive_target=jnp.asarray(targets)) if targets else None


def errors(name: str, run: str) -> tuple[np.ndarray, np.ndarray]:
    """Of positions and of velocities, after every step from the recorded state before it."""
    scene = artix.Scene(build(name), ground=ground_of(name))
    options, dt = options_of(name, run), RUNS[run][3]
    wanted = states(name, run)

    def one(anchors, state):
        end = artix.step(
            scene, state.replace(contact_memory=anchors), control_of(name), dt, options
        )
        return end.contact_memory, end.replace(contact_memory=None)

    starts, ends = (
        jax.tree.map(lambda x, part=part: x[part], wanted) for part in (np.s_[:-1], np.s_[1:])
    )
    first = artix.remember_contacts(scene, scene.neutral_state(), options=options).contact_memory
    _, found = jax.jit(lambda: jax.lax.scan(one, first, starts))()
    position = [
        found.root_pose[:, :3] - ends.root_pose[:, :3],
        found.joint_position - ends.joint_position,
    ]
    velocity = [
        found.root_velocity - ends.root_velocity,
        found.joint_velocity - ends.joint_velocity,
    ]
    return tuple(
        np.max(np.abs(np.concatenate(each, axis=1)), axis=1) for each in (position, velocity)
    )


@pytest.mark.parametrize(
    ("name", "run"),
    [
        pytest.param(name, run, marks=_marks(name, run), id=f"{name}-{run}")
        for name, run in EVERY_RUN
    ],
)
def test_recorded_contacts(name: str, run: str) -> None:
    usual, every = BOUNDS[name.split("_")[0]]
    found = errors(name, run)
    for each, most, bound in zip(found, usual, every, strict=True):
        assert np.quantile(each, 0.95) < most
        assert np.max(each) < bound


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "run"),
    [
        ("box_drop", "pgs"),
        ("capsule_drop", "pgs"),
        ("capsule_drop", "tgs"),
        ("capsule_spin", "pgs_60hz"),
        ("leg", "pgs"),
        ("quadruped", "pgs"),
        ("quadruped", "tgs"),
    ],
)
def test_trajectories(name: str, run: str) -> None:
    """From the first state alone, through impact, slip and stick, to the last."""
    robot, ground, wanted = build(name), ground_of(name), states(name, run)
    start, steps = jax.tree.map(lambda x: x[0], wanted), SCENES[name]["steps"]
    options, dt = options_of(name, run), RUNS[run][3]
    found = artix.rollout(
        artix.Scene(robot, ground=ground), start, control_of(name), dt, options, num_steps=steps
    )
    np.testing.assert_allclose(found.root_pose[:, :3], wanted.root_pose[1:, :3], atol=1e-5)
    np.testing.assert_allclose(found.joint_position, wanted.joint_position[1:], atol=2e-5)


@pytest.mark.parametrize("solver", ["pgs", "tgs"])
def test_capsule_rolls_down(solver: str) -> None:
    """A solid cylinder's inertia about the axis: it rolls with two thirds of gravity along the
    slope, for 0.5 s."""
    lean, dt, steps = 0.1, 1 / 240, 120
    along = 9.81 * np.sin(lean)
    builder = artix.ArticulationBuilder(
        fixed_base=False, gravity=(along, 0.0, -9.81 * np.cos(lean))
    )
    inertia = (0.01, 0.01, 0.5 * 0.05**2)
    builder.add_link(
        None, mass=1.0, inertia=inertia, linear_damping=0.0, angular_damping=0.0, cfm_scale=0.0
    )
    builder.add_geometry(0, artix.Geometry.capsule(0.05, 0.1, friction=0.5))
    robot, options = builder.build(), SolverOptions(solver=solver, position_iterations=16)
    start = artix.neutral_state(robot)
    across = jnp.array([0.0, 0.0, 0.05, 0.5**0.5, 0.0, 0.0, 0.5**0.5])
    path = artix.rollout(
        robot,
        start.replace(root_pose=across),
        None,
        dt,
        options,
        num_steps=steps,
        ground=artix.Ground.flat(),
    )
    time = dt * np.arange(1, steps + 1)
    np.testing.assert_allclose(path.root_velocity[:, 0], 2 / 3 * along * time, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(
        path.root_velocity[:, 4], path.root_velocity[:, 0] / 0.05, rtol=1e-3, atol=1e-3
    )


def test_impulses() -> None:
    """Of the first step in touch, which needs no memory, and of what it is made."""
    name, run = "sphere_roll", "tgs"
    data, wanted = recorded(name, run), states(name, run)
    step = int(data["normal_contacts"][np.argmax(data["normal_contacts"][:, 2] > 0), 0])
    start = jax.tree.map(lambda x: x[step], wanted)
    robot, ground, options, dt = build(name), ground_of(name), options_of(name, run), RUNS[run][3]
    end, report = artix.step_and_report(artix.Scene(robot, ground=ground), start, None, dt, options)
    normal, friction = (
        data[key][data[key][:, 0] == step][0] for key in ("normal_contacts", "friction")
    )
    contacts = report.contacts
    np.testing.assert_allclose(contacts.impulse[0, 2], normal[2], rtol=1e-5)
    np.testing.assert_allclose(contacts.gap[0], normal[3], atol=1e-7)
    np.testing.assert_allclose(contacts.point[0], normal[4:7], atol=1e-7)
    np.testing.assert_allclose(
        contacts.force[0] * dt, normal[2] * normal[7:] + friction[2:5], atol=1e-5
    )
    np.testing.assert_allclose(contacts.force, contacts.link_force, rtol=1e-12)
    momentum = end.root_velocity[:3] - start.root_velocity[:3] - dt * robot.gravity
    np.testing.assert_allclose(contacts.force[0] * dt, momentum, rtol=1e-9, atol=1e-12)
    # Nothing but gravity and the contact acts: the root has no joint that could bear a wrench.
    np.testing.assert_allclose(report.incoming_joint_force, 0, atol=1e-9)


@pytest.mark.parametrize(
    "solver",
    [
        pytest.param("pgs", marks=pytest.mark.slow),
        pytest.param("tgs", marks=pytest.mark.exhaustive),
    ],
)
def test_gradients(solver: str) -> None:
    """Of a rollout of a sliding sphere by its speed, its friction and its mass against
    differences."""
    robot, ground = build("sphere_roll"), artix.Ground.flat(friction=0.0)
    options = SolverOptions(solver=solver)
    state = artix.neutral_state(robot)
    state = state.replace(
        root_pose=state.root_pose.at[2].set(0.0995),
        root_velocity=state.root_velocity.at[0].set(1.0),
    )

    def end(x):
        body = robot.replace(
            geometry=robot.geometry.replace(friction=0.1 * x[:1]), link_mass=x[1:2]
        )
        start = state.replace(root_velocity=state.root_velocity.at[0].set(x[2]))
        last = artix.rollout(
            artix.Scene(body, ground=ground), start, None, 0.005, options, num_steps=8
        )
        return last.root_pose[-1, 0] + last.root_velocity[-1, 4]

    at = jnp.array([1.0, 1.0, 1.0])
    found = jax.jit(jax.grad(end))(at)
    value = jax.jit(end)
    wanted = [(value(at.at[k].add(1e-6)) - value(at.at[k].add(-1e-6))) / 2e-6 for k in range(3)]
    assert np.min(np.abs(found)) > 1e-3
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.slow
def test_strong_friction_holds() -> None:
    """A sphere foot on a slope, on a leg that cannot roll: it creeps without anchors and stays with
    them."""
    builder = artix.ArticulationBuilder(fixed_base=False, gravity=(2.0, 0.0, -9.6))
    body = builder.add_link(
        None, mass=1.0, inertia=(0.1, 0.1, 0.1), linear_damping=0.0, angular_damping=0.0
    )
    for x in (-0.2, 0.2):
        for y in (-0.2, 0.2):
            builder.add_geometry(
                body, artix.Geometry.sphere(0.05, position=(x, y, 0.0), friction=0.5)
            )
    robot, ground, options = (
        builder.build(),
        artix.Ground.flat(friction=0.5),
        SolverOptions(solver="pgs"),
    )
    start = artix.neutral_state(robot)
    start = start.replace(root_pose=start.root_pose.at[2].set(0.05))
    held = artix.rollout(
        artix.Scene(robot, ground=ground), start, None, 0.005, options, num_steps=100
    )

    def without(state, _):
        return artix.step(artix.Scene(robot, ground=ground), state, None, 0.005, options), None

    crept, _ = jax.jit(lambda: jax.lax.scan(without, start, length=100))()
    assert abs(held.root_velocity[-1, 0]) < 1e-3
    assert abs(held.root_pose[-1, 0]) < crept.root_pose[0] / 5


@pytest.mark.slow
def test_refusals() -> None:
    robot, ground = build("sphere_roll"), artix.Ground.flat()
    state, options = artix.neutral_state(robot), SolverOptions(solver="pgs")
    field = artix.Ground(surfaces=(artix.HeightField.of(np.zeros((3, 3)), spacing=(1.0, 1.0)),))
    with pytest.raises(
        ValueError, match=r"support only planes; ground\.surfaces\[0\] is a HeightField"
    ):
        artix.step(artix.Scene(robot, ground=field), state, None, 0.01, options)
    soft = artix.Ground.flat(stiffness=1e4)
    with pytest.raises(
        ValueError, match=r"solver='pgs' has only rigid contacts, but ground\.surfaces\[0\]"
    ):
        artix.step(artix.Scene(robot, ground=soft), state, None, 0.01, options)
    scene = artix.Scene(robot, ground=ground)
    with pytest.raises(
        TypeError, match=r"memory of class FrictionAnchors, and the state has a ContactMemory: make"
    ):
        artix.step(scene, artix.remember_contacts(scene, state), None, 0.01, options)
    with pytest.raises(
        TypeError, match=r"memory of class ContactMemory, and the state has a FrictionAnchors: make"
    ):
        artix.step(scene, artix.remember_contacts(scene, state, options=options), None, 0.01)
    builder = artix.ArticulationBuilder(fixed_base=False)
    body = builder.add_link(None, mass=1.0, inertia=(1.0, 1.0, 1.0))
    builder.add_geometry(body, artix.Geometry.cylinder(0.1, 0.1), "wheel")
    rolling = builder.build()
    with pytest.raises(
        ValueError, match="support spheres, capsules and boxes; 'wheel' is a cylinder"
    ):
        artix.step(
            artix.Scene(rolling, ground=ground), artix.neutral_state(rolling), None, 0.01, options
        )
