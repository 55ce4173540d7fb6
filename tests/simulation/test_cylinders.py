"""Cylinders on, under and between other shapes, against closed forms."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import artix
from artix import Axis, Control, Geometry, Ground, Joint, Scene
from tests.support.rollouts import last, reported_rollout

GRAVITY, DT = 9.81, 0.005
RADIUS, HALF, MASS = 0.05, 0.1, 1.0


def can(name: str, dtype: str, friction: float = 0.6) -> artix.Articulation:
    """A homogeneous cylinder, a sensor for the ground."""
    builder = artix.ArticulationBuilder(gravity=(0, 0, -GRAVITY), name=name)
    across = MASS * (RADIUS**2 / 4 + HALF**2 / 3)
    inertia = (across, across, MASS * RADIUS**2 / 2)
    builder.add_link(mass=MASS, inertia=inertia, name=name, angular_damping=0.0)
    shape = Geometry.cylinder(RADIUS, HALF, friction=friction, sensor=True)
    builder.add_geometry(name, shape, name="shape")
    return builder.build(dtype)


def fixed(shapes: dict[str, Geometry], dtype: str) -> artix.Articulation:
    """Shapes of a body that does not move."""
    builder = artix.ArticulationBuilder(fixed_base=True, gravity=(0, 0, -GRAVITY), name="base")
    builder.add_link(name="base")
    for name, shape in shapes.items():
        builder.add_geometry("base", shape, name=name)
    return builder.build(dtype)


def of_points(half, **options) -> Geometry:
    """A box as a hull of its corners."""
    corners = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))
    return Geometry.hull(corners * half, **options)


#: The half edges come first.
BLOCKS = {"box": Geometry.box, "hull": of_points}


def at(state: artix.State, place, turn=(0.0, 0.0, 0.0, 1.0)) -> artix.State:
    return state.replace(root_pose=jnp.array([*place, *turn], state.root_pose.dtype))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_can_stands_on_a_free_box(dtype: str) -> None:
    """On four equal forces, and stays where it is."""
    builder = artix.ArticulationBuilder(gravity=(0, 0, -GRAVITY), name="table")
    builder.add_link(mass=5.0, inertia=(0.1, 0.1, 0.1), name="table", angular_damping=0.0)
    builder.add_geometry("table", Geometry.box((0.3, 0.3, 0.1), friction=0.6), name="top")
    members = {"table": builder.build(dtype), "can": can("can", dtype)}
    ground = Ground.flat(friction=0.6).astype(dtype)
    scene = Scene(members, ground=ground, pairs=[("can/shape", "table/top")])
    states = scene.neutral_state()
    states["table"] = at(states["table"], (0, 0, 0.1))
    states["can"] = at(states["can"], (0.02, 0.01, 0.3))
    end, report = last(reported_rollout(scene, states, None, DT, 200))
    moved = np.abs(end["can"].root_pose - states["can"].root_pose)
    assert np.max(moved) < {"float32": 1e-8, "float64": 1e-15}[dtype]
    wanted = np.tile([0.0, 0.0, MASS * GRAVITY / 4], (4, 1))
    np.testing.assert_allclose(
        report.link_contacts.force, wanted, atol={"float32": 2e-2, "float64": 1e-9}[dtype]
    )


@pytest.mark.slow
@pytest.mark.parametrize("block", list(BLOCKS))
def test_a_can_tips_over_an_edge(block: str) -> None:
    """When its centre is beyond the edge, at whatever angle its points are."""
    members = {
        "base": fixed({"top": BLOCKS[block]((0.3, 0.3, 0.1), friction=0.6)}, "float64"),
        "can": can("can", "float64"),
    }
    scene = Scene(members, pairs=[("can/shape", "base/top")])
    states = scene.neutral_state()

    def run(shift, angle):
        turn = jnp.stack([0 * angle, 0 * angle, jnp.sin(angle / 2), jnp.cos(angle / 2)])
        start = jnp.concatenate([jnp.stack([0.3 + shift, 0 * shift, 0.2 + 0 * shift]), turn])
        every = states | {"can": states["can"].replace(root_pose=start)}
        path = artix.rollout(scene, every, None, DT, num_steps=100)
        return path["can"].root_pose[-1] - start

    angles = jnp.tile(jnp.linspace(0, np.pi / 4, 4), 2)
    moved = jax.jit(jax.vmap(run))(jnp.repeat(jnp.array([-1e-4, 0.01]), 4), angles)
    assert np.max(np.abs(moved[:4])) < 1e-10
    assert np.all(moved[4:, 2] < -0.01)


@pytest.mark.slow
@pytest.mark.parametrize("block", list(BLOCKS))
def test_a_cylinder_rolls_down_a_box(block: str) -> None:
    """With 2/3 of the acceleration of a sliding one, without slip, over 1 s; also if it is thrown
    across the box, along its axis, which friction stops: it moves as a plane says."""
    slope = np.deg2rad(5.0)
    tilt = np.array([0.0, np.sin(slope / 2), 0.0, np.cos(slope / 2)])
    top = BLOCKS[block]((3.0, 0.5, 0.1), pose=(0, 0, 0, *tilt), friction=0.6)
    members = {"base": fixed({"top": top}, "float64"), "can": can("can", "float64")}
    scene = Scene(members, pairs=[("can/shape", "base/top")])
    down, up = (
        np.array([np.cos(slope), 0, -np.sin(slope)]),
        np.array([np.sin(slope), 0, np.cos(slope)]),
    )
    states = scene.neutral_state()
    run = jax.jit(lambda s: artix.rollout(scene, s, None, DT, num_steps=200))
    for yaw in np.deg2rad([0.0, 10.0]):
        # Its axis lies in the face, at this angle from y.
        axis = np.cos(yaw) * np.array([0.0, 1.0, 0.0]) + np.sin(yaw) * down
        frame = np.stack([up, np.cross(axis, up), axis], axis=1)
        quaternion = Rotation.from_matrix(frame).as_quat()
        path = run(states | {"can": at(states["can"], 0.1 * up + RADIUS * up, quaternion)})["can"]
        rolling = np.cos(yaw) * down - np.sin(yaw) * np.array([0.0, 1.0, 0.0])
        speed = 2 / 3 * GRAVITY * np.sin(slope) * np.cos(yaw) * DT * np.arange(1, 201)
        np.testing.assert_allclose(
            path.root_velocity[:, :3], speed[:, None] * rolling, atol=1e-6 * GRAVITY
        )
        spin = speed[:, None] / RADIUS * np.cross(up, rolling)
        np.testing.assert_allclose(path.root_velocity[:, 3:], spin, atol=1e-4)


def gripper(dtype: str, block: str) -> artix.Articulation:
    """Two pads that slide along y."""
    builder = artix.ArticulationBuilder(fixed_base=True, gravity=(0, 0, -GRAVITY), name="hand")
    builder.add_link(name="palm")
    for side, name in ((-1, "left"), (1, "right")):
        place = (0, (RADIUS + 0.01) * side, 0, 0, 0, 0, 1)
        slide = Joint.prismatic(Axis.Y, parent_pose=place)
        builder.add_link("palm", slide, mass=0.1, inertia=(1e-4,) * 3, name=name)
        builder.add_geometry(name, BLOCKS[block]((0.03, 0.01, 0.03), friction=0.8), name=name)
    return builder.build(dtype)


@pytest.mark.slow
@pytest.mark.parametrize("block", list(BLOCKS))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_two_pads_hold_a_can(dtype: str, block: str) -> None:
    """By its wall, from 1.05 times the force that its weight needs; at 0.95 times it slides as the
    closed form says."""
    members = {"hand": gripper(dtype, block), "can": can("can", dtype, friction=0.8)}
    pairs = [("can/shape", "hand/left"), ("can/shape", "hand/right")]
    scene = Scene(members, pairs=pairs)
    states, needed = scene.neutral_state(), MASS * GRAVITY / (2 * 0.8)

    def run(factor):
        control = {"hand": Control(joint_force=factor * needed * jnp.array([1.0, -1.0], dtype))}
        return artix.rollout(scene, states, control, DT, num_steps=200)["can"]

    path = jax.jit(jax.vmap(run))(jnp.array([0.95, 1.05, 3.0], dtype))
    moved = np.abs(path.root_pose[1:] - states["can"].root_pose)
    assert np.max(moved) < {"float32": 1e-6, "float64": 1e-12}[dtype]
    speed = -0.05 * GRAVITY * 20 * DT
    np.testing.assert_allclose(path.root_velocity[0, 19, 2], speed, rtol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "shape",
    [
        Geometry.box((0.2, 0.04, 0.02), friction=0.6),
        Geometry.sphere(0.03, friction=0.6),
        of_points((0.2, 0.04, 0.02), friction=0.6),
    ],
    ids=["beam", "ball", "beam of points"],
)
def test_what_lies_on_a_drum_stays(shape: Geometry) -> None:
    """A beam that is longer than the drum is wide, off its centre, and a ball."""
    builder = artix.ArticulationBuilder(gravity=(0, 0, -GRAVITY), name="load")
    builder.add_link(mass=1.0, inertia=(1e-3, 1e-2, 1e-2), name="load", angular_damping=0.0)
    builder.add_geometry("load", shape, name="shape")
    drum = fixed({"drum": Geometry.cylinder(0.1, 0.2, friction=0.6)}, "float64")
    members = {"base": drum, "load": builder.build("float64")}
    scene = Scene(members, pairs=[("load/shape", "base/drum")])
    states = scene.neutral_state()
    height = 0.2 + (0.02 if shape.points else shape.size[-1])
    states["load"] = at(states["load"], (0.05, 0.02, height))
    path = jax.jit(lambda s: artix.rollout(scene, s, None, DT, num_steps=200))(states)["load"]
    assert np.max(np.abs(path.root_pose[-1] - states["load"].root_pose)) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["capsule", "cylinder"])
def test_a_plank_rests_across_a_roller(kind: str) -> None:
    """A weight holds one end of the plank on the ground. The roller is longer than the plank is
    wide, and whichever way the plank leans, the roller's lowest point is just past one of the
    plank's edges; if the other edge did not touch as well, the plank would rattle from edge to edge
    and creep."""

    def free(name: str, geom: str, place: str) -> str:
        return f'<body name="{name}" pos="{place}"><freejoint/><geom {geom}/></body>'

    bodies = (
        f'<body name="roller" pos="0 0 0.05" quat="1 1 0 0"><freejoint/>'
        f'<geom type="{kind}" size="0.05 0.2" mass="2"/></body>'
        + free("plank", 'type="box" size="0.5 0.1 0.01" mass="1"', "0 0 0.111")
        + free("weight", 'type="box" size="0.04 0.04 0.04" mass="0.5"', "-0.4 0 0.162")
    )
    scene, state = artix.load_world(
        f'<mujoco><default><geom friction="0.6"/></default><worldbody>'
        f'<geom type="plane" size="1 1 1"/>{bodies}</worldbody></mujoco>',
        dtype="float64",
    )
    path, report = artix.rollout(scene, state, None, 0.005, num_steps=400, with_report=True)
    assert report.is_solved[-200:].all()
    for name in scene.names:
        moved = path[name].root_pose[-1] - path[name].root_pose[-200]
        assert np.abs(moved).max() < 1e-9, name
    assert path["weight"].root_pose[-1, 2] < 0.08  # It has lowered its end.


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_cans_are_stacked(dtype: str) -> None:
    """Three of them, off centre."""
    members = {"base": fixed({"top": Geometry.box((0.3, 0.3, 0.1), friction=0.6)}, dtype)}
    members |= {f"can{k}": can(f"can{k}", dtype) for k in range(3)}
    pairs = [("can0/shape", "base/top"), ("can1/shape", "can0/shape"), ("can2/shape", "can1/shape")]
    scene = Scene(members, pairs=pairs)
    states = scene.neutral_state()
    for k in range(3):
        place = (0.01 * (-1) ** k, 0.007 * k, 0.1 + HALF * (2 * k + 1))
        states[f"can{k}"] = at(states[f"can{k}"], place)
    path = jax.jit(lambda s: artix.rollout(scene, s, None, DT, num_steps=200))(states)
    for k in range(3):
        moved = path[f"can{k}"].root_pose[-1] - states[f"can{k}"].root_pose
        assert np.max(np.abs(moved)) < {"float32": 1e-6, "float64": 1e-12}[dtype]


@pytest.mark.slow
@pytest.mark.parametrize(
    "shape",
    [
        Geometry.cylinder(0.02, 0.3, friction=0.6),
        Geometry.capsule(0.02, 0.3, friction=0.6),
    ],
    ids=["pole", "capsule"],
)
@pytest.mark.parametrize("base", ["can", "box"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_pole_lies_across(shape: Geometry, base: str, dtype: str) -> None:
    """Both ends are in the air, and its centre is not above that of the base, so the two points
    carry different loads."""
    under = {
        "can": Geometry.cylinder(RADIUS, HALF, friction=0.6),
        "box": Geometry.box((RADIUS, 0.2, HALF), friction=0.6),
    }[base]
    builder = artix.ArticulationBuilder(gravity=(0, 0, -GRAVITY), name="load")
    builder.add_link(mass=1.0, inertia=(3e-2, 3e-2, 2e-4), name="load", angular_damping=0.0)
    builder.add_geometry("load", shape, name="shape")
    members = {"base": fixed({"under": under}, dtype), "load": builder.build(dtype)}
    scene = Scene(members, pairs=[("load/shape", "base/under")])
    states = scene.neutral_state()
    along_x = (0.0, np.sqrt(0.5), 0.0, np.sqrt(0.5))
    states["load"] = at(states["load"], (0.02, 0.0, HALF + 0.02), along_x)
    end, report = last(reported_rollout(scene, states, None, DT, 200))
    moved = end["load"].root_pose - states["load"].root_pose
    assert np.max(np.abs(moved)) < {"float32": 3e-6, "float64": 1e-12}[dtype]
    carried = np.sort(np.asarray(report.link_contacts.force)[:, 2])
    wanted = GRAVITY * np.array([0.5 - 0.01 / RADIUS, 0.5 + 0.01 / RADIUS])
    np.testing.assert_allclose(carried[-2:], wanted, rtol={"float32": 1e-2, "float64": 1e-9}[dtype])


@pytest.mark.slow
def test_a_can_lies_between_two_cylinders() -> None:
    """Without friction, each pushes with ``W / (2 cos a)``, along the line between the axes."""
    angle = np.deg2rad(30.0)
    apart = 2 * RADIUS * np.sin(angle)
    shapes = {
        f"log{k}": Geometry.cylinder(RADIUS, 0.3, pose=(apart * side, 0, 0, 0, 0, 0, 1))
        for k, side in enumerate((-1, 1))
    }
    members = {"base": fixed(shapes, "float64"), "can": can("can", "float64", friction=0.0)}
    scene = Scene(members, pairs=[("can/shape", "base/log0"), ("can/shape", "base/log1")])
    # The logs are upright in the frame of their link; gravity is along y instead.
    down = jnp.array([0.0, -GRAVITY, 0.0])
    turned = tuple(member.replace(gravity=down) for member in scene.articulations)
    scene = scene.replace(articulations=turned)
    states = scene.neutral_state()
    states["can"] = at(states["can"], (0.0, 2 * RADIUS * np.cos(angle), 0.05))
    end, report = last(reported_rollout(scene, states, None, DT, 100))
    assert np.max(np.abs(end["can"].root_pose - states["can"].root_pose)) < 1e-9
    force = np.asarray(report.link_contacts.force)
    for k, side in enumerate((-1, 1)):
        total = np.sum(force[4 * k : 4 * k + 4], axis=0)
        wanted = np.array([-side * np.tan(angle), 1.0, 0.0]) * MASS * GRAVITY / 2
        np.testing.assert_allclose(total, wanted, atol=1e-6)
