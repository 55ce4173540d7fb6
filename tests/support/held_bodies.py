"""Hands that hold bodies by friction alone, and the closed forms of what they need."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

import artix
from artix import Axis, Control, Geometry, Joint, Scene

GRAVITY = 9.81
MASS, FRICTION = 0.3, 0.8
WEIGHT = MASS * GRAVITY


def body(geometry: Geometry, name: str) -> artix.ArticulationBuilder:
    """A free body of one shape."""
    builder = artix.ArticulationBuilder(gravity=(0, 0, -GRAVITY), name=name)
    builder.add_link(mass=MASS, inertia=(2e-4,) * 3, name=name, angular_damping=0.0)
    builder.add_geometry(name, geometry, name="shape")
    return builder


def three_fingers(
    geometry: Geometry, radius: float, dtype: str
) -> tuple[Scene, dict[str, artix.State]]:
    """Three flat pads on sliding fingers, 120 degrees apart around a body of this radius whose axis
    is vertical."""
    builder = artix.ArticulationBuilder(fixed_base=True, gravity=(0, 0, -GRAVITY), name="hand")
    builder.add_link(name="palm")
    thickness = 0.01
    for k in range(3):
        angle = 2 * np.pi * k / 3
        place = (radius + thickness) * np.cos(angle), (radius + thickness) * np.sin(angle), 0.0
        turn = (0.0, 0.0, np.sin(angle / 2), np.cos(angle / 2))
        slide = Joint.prismatic(Axis.X, parent_pose=(*place, *turn))
        name = f"finger{k}"
        builder.add_link("palm", slide, mass=0.1, inertia=(1e-4,) * 3, name=name)
        builder.add_geometry(
            name, Geometry.box((thickness, 0.02, 0.02), friction=FRICTION), name=name
        )
    members = {"hand": builder.build(dtype), "body": body(geometry, "body").build(dtype)}
    scene = Scene(members, pairs=[(f"hand/finger{k}", "body/shape") for k in range(3)])
    return scene, scene.neutral_state()


def inwards(force) -> dict[str, Control]:
    """Each of three fingers presses with this force."""
    return {"hand": Control(joint_force=-force * jnp.ones(3, jnp.asarray(force).dtype))}


def pads(
    turn: float, dtype: str, half: float = 0.015, *, as_hull: bool = False
) -> tuple[Scene, dict[str, artix.State]]:
    """Two square pads, turned about their normals, on either side of a cube of 6 cm, which may be a
    hull of its corners.
    """
    builder = artix.ArticulationBuilder(fixed_base=True, gravity=(0, 0, -GRAVITY), name="hand")
    builder.add_link(name="palm")
    pose = (0, 0, 0, 0, np.sin(turn / 2), 0, np.cos(turn / 2))
    for side, name in ((-1, "left"), (1, "right")):
        slide = Joint.prismatic(Axis.Y, parent_pose=(0, 0.04 * side, 0, 0, 0, 0, 1))
        builder.add_link("palm", slide, mass=0.1, inertia=(1e-4,) * 3, name=name)
        builder.add_geometry(
            name, Geometry.box((half, 0.01, half), pose=pose, friction=FRICTION), name=name
        )
    shape = Geometry.box((0.03,) * 3, friction=FRICTION)
    if as_hull:
        corners = 0.03 * np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
        shape = Geometry.hull(corners, friction=FRICTION)
    cube = body(shape, "cube").build(dtype)
    pairs = [("hand/left", "cube/shape"), ("hand/right", "cube/shape")]
    scene = Scene({"hand": builder.build(dtype), "cube": cube}, pairs=pairs)
    return scene, scene.neutral_state()


def needed_by_pads(offset: float, turn: float, half: float = 0.015) -> float:
    """The force on each pad that friction needs to hold a cube whose centre is ``offset`` beside
    that of the pads.

    Each corner of a square pad carries a quarter of the force. A pad bears half of the weight and
    its moment about the pad's centre, as long as no motion (a velocity 1 downwards with the angular
    velocity w) takes more power from the weight than friction of all corners can give back: ``(1 +
    w offset) W / 2 <= mu N / 4 sum_k |(1 + w x_k, w y_k)|``.
    """
    power, speeds = _motions(offset, turn, half)
    return float(np.max(power / np.mean(speeds, axis=0))) / FRICTION


def least_of_pads(offset: float, turn: float, half: float = 0.015) -> float:
    """The force on each pad below which no distribution over its corners holds the cube of
    :func:`needed_by_pads`.

    Forces may be such that the fastest corner carries everything. Between the two, the cube may
    stay or slide: both obey Coulomb's law.
    """
    power, speeds = _motions(offset, turn, half)
    return float(np.max(power / np.max(speeds, axis=0))) / FRICTION


def _motions(offset: float, turn: float, half: float) -> tuple[np.ndarray, np.ndarray]:
    """Powers of half of the weight and speeds of the four corners, for many motions."""
    angles = turn + np.pi / 4 + np.pi / 2 * np.arange(4)
    corners = half * np.sqrt(2) * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    rate = np.tan(np.linspace(-np.pi / 2, np.pi / 2, 200_001)[1:-1]) / half
    speeds = np.stack([np.hypot(1 + rate * x, rate * y) for x, y in corners])
    return (1 + rate * offset) * WEIGHT / 2, speeds


def peg(depth, dtype: str, stiffness: float = 1e4) -> tuple[Scene, dict[str, artix.State]]:
    """A square peg in a square hole that is too tight by ``depth`` on each side, held by four
    compliant walls.

    Each wall has four contacts, which press with ``stiffness * depth`` each.
    """
    builder = artix.ArticulationBuilder(fixed_base=True, name="hole")
    builder.add_link(name="hole")
    pairs = []
    for k, (x, y) in enumerate(((1, 0), (-1, 0), (0, 1), (0, -1))):
        size = (0.01, 0.03, 0.02) if x else (0.03, 0.01, 0.02)
        place = (0.02 * x, 0.02 * y, 0.0)
        wall = Geometry.box(
            size, pose=(*place, 0, 0, 0, 1), friction=FRICTION, stiffness=stiffness, damping=10.0
        )
        builder.add_geometry("hole", wall, name=f"wall{k}")
        pairs.append(("peg/shape", f"hole/wall{k}"))
    peg = body(Geometry.box((0.01, 0.01, 0.04), friction=FRICTION), "peg").build(dtype)
    hole = builder.build(dtype)
    pose = hole.geometry.pose.at[:, :2].multiply(1 - depth / 0.02)
    hole = hole.replace(geometry=hole.geometry.replace(pose=pose))
    scene = Scene({"hole": hole, "peg": peg}, pairs=pairs)
    return scene, scene.neutral_state()
