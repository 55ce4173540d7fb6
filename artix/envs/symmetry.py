"""The mirror symmetry of a robot, found from the robot itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import artix
from artix.envs.legs import find_feet, link_of
from artix.io.common.poses import poses_at_zero, rotation_matrix
from artix.math.arrays import device_array

Array = jax.Array

#: The reflection at the sagittal plane, y to -y in the axes of the root.
REFLECTION = np.diag([1.0, -1.0, 1.0])
#: Joints are each other's mirror images to this fraction of the robot's size, and their axes to
#: this angle [rad].
PLACE, AXIS = 0.02, 0.03
#: Masses and their moments are so to this fraction; descriptions of real robots are not exact.
MASS = 0.15


class SignedPermutation(NamedTuple):
    """A reflection of numbers: ``x'[i] = sign[i] * x[permutation[i]]``. It is its own inverse.

    Examples:
      >>> from artix.envs.symmetry import SignedPermutation
      >>> swap = SignedPermutation(np.array([1, 0, 2]), np.array([1.0, 1.0, -1.0]))
      >>> swap(jnp.array([1.0, 2.0, 3.0])).tolist()
      [2.0, 1.0, -3.0]
    """

    permutation: np.ndarray
    sign: np.ndarray

    def __call__(self, x: Array) -> Array:
        """The mirror image of [..., n]."""
        return x[..., self.permutation] * device_array(self.sign, x.dtype)


class Mirror(NamedTuple):
    """How a robot looks in the mirror.

    Attributes:
      joints: of numbers of its joints, [n].
      bodies: the mirror image of each moving part.
      feet: the mirror image of each foot, by number.
      asymmetry: the largest difference between the mass or the first moment of mass of a part and
        that of its mirror image, relative to the mass, and to the mass times the size, of the
        robot.
    """

    joints: SignedPermutation
    bodies: np.ndarray
    feet: np.ndarray
    asymmetry: float

    def state(self, state: artix.State) -> artix.State:
        """The mirror image of a state at the plane y = 0 of the world.

        Steps commute with it: the step of the mirror image is the mirror image of the step, as far
        as masses are symmetric and the solver has converged.
        """
        dtype = state.joint_position.dtype
        polar, axial = [1.0, -1.0, 1.0], [-1.0, 1.0, -1.0]
        turn = jnp.asarray([*polar, *axial, 1.0], dtype)
        return state.replace(
            root_pose=turn * state.root_pose,
            root_velocity=jnp.asarray([*polar, *axial], dtype) * state.root_velocity,
            joint_position=self.joints(state.joint_position),
            joint_velocity=self.joints(state.joint_velocity),
        )


def find_mirror(articulation: artix.Articulation, feet: Sequence[str] | None = None) -> Mirror:
    """The mirror symmetry of a robot at the plane y = 0 of its root.

    Parts are paired from the root outwards: the mirror image of a joint is the one whose place and
    axis, while all joints are at zero, are the reflected ones. The signs follow from the axes: a
    reflection turns rotations about x and z, and slides along y, the other way.

    Args:
      articulation: a floating robot of joints with one axis each, with x forward and y left in its
        root.
      feet: names of its feet, links or frames or shapes on them; found by
        :func:`artix.envs.legs.find_feet` if ``None``.

    Returns:
      The symmetry.

    Raises:
      ValueError: the robot is not symmetric (the message says where), its base is fixed, or it has
        joints with several axes.

    Examples:
      >>> from artix.envs.symmetry import find_mirror
      >>> mirror = find_mirror(artix.robots.load("quadruped"))
      >>> print(mirror.joints.permutation[:4], mirror.joints.sign[:4], mirror.feet)
      [1 0 3 2] [-1. -1. -1. -1.] [1 0 3 2]
    """
    topology: Any = articulation.topology
    if topology.fixed_base:
        raise ValueError(f"{topology.name}: only a floating robot has a mirror image")
    if any(len(axes) > 1 for axes in topology.joint_axes):
        raise ValueError(f"{topology.name}: joints with several axes have no mirror image here")
    parts = _parts(articulation)
    size = max(float(np.ptp(parts.place, axis=0).max()), 1e-6)
    bodies, signs = np.zeros(topology.num_bodies, int), np.ones(topology.num_dofs)
    permutation = np.arange(topology.num_dofs)
    pending = [(0, 0)]
    while pending:
        body, image = pending.pop()
        mine, its = (np.flatnonzero(parts.parent == k).tolist() for k in (body, image))
        if len(mine) != len(its):
            raise ValueError(
                f"{topology.name} is not symmetric: {len(mine)} joints on {parts.names[body]!r} "
                f"and {len(its)} on its mirror image {parts.names[image]!r}"
            )
        free = list(its)
        for child in mine:
            far = [_distance(parts, child, each, size) for each in free]
            best = int(np.argmin(far))
            if far[best] > 1.0:
                raise ValueError(
                    f"{topology.name} is not symmetric at y = 0: no joint is the mirror image of "
                    f"that of {parts.names[child]!r}; the nearest is that of "
                    f"{parts.names[free[best]]!r}, at {_apart(parts, child, free[best]):.3g} m"
                )
            other = free.pop(best)
            bodies[child] = other
            permutation[parts.dof[child]] = parts.dof[other]
            signs[parts.dof[child]] = np.sign(_image_axis(parts, child) @ parts.axis[other])
            pending.append((child, other))
    if np.any(bodies[bodies] != np.arange(len(bodies))):
        raise ValueError(f"{topology.name} is not symmetric: its parts do not come in pairs")
    asymmetry = _asymmetry(parts, bodies, size)
    if asymmetry > MASS:
        raise ValueError(
            f"{topology.name} is not symmetric: masses differ from their mirror images by "
            f"{100 * asymmetry:.0f} %"
        )
    names = find_feet(articulation) if feet is None else tuple(feet)
    return Mirror(
        SignedPermutation(permutation, signs), bodies, _feet(topology, names, bodies), asymmetry
    )


class _Parts(NamedTuple):
    """The moving parts while all joints are at zero, in the axes of the root."""

    names: list[str]
    parent: np.ndarray
    dof: np.ndarray
    slides: np.ndarray
    place: np.ndarray
    axis: np.ndarray
    mass: np.ndarray
    moment: np.ndarray


def _parts(articulation: artix.Articulation) -> _Parts:
    topology: Any = articulation.topology
    poses = poses_at_zero(articulation)
    count = topology.num_bodies
    names, dof = [topology.link_names[0]] * count, np.full(count, -1)
    place, axis = np.zeros((count, 3)), np.zeros((count, 3))
    mass, moment, slides = np.zeros(count), np.zeros((count, 3)), np.zeros(count, bool)
    joint_pose, com_pose, link_mass = (
        np.asarray(each, float)
        for each in (
            articulation.joint_child_pose,
            articulation.link_com_pose,
            articulation.link_mass,
        )
    )
    for link, axes in enumerate(topology.joint_axes):
        body, rotation = int(topology.link_body[link]), rotation_matrix(poses[link, 3:])
        com = rotation @ com_pose[link, :3] + poses[link, :3]
        mass[body] += link_mass[link]
        moment[body] += link_mass[link] * com
        if axes:
            names[body] = topology.link_names[link]
            dof[body] = topology.dofs(topology.joint_names[link - 1]).start
            slides[body] = topology.joint_types[link] is artix.JointType.PRISMATIC
            place[body] = rotation @ joint_pose[link, :3] + poses[link, :3]
            frame = rotation @ rotation_matrix(joint_pose[link, 3:])
            axis[body] = frame[:, int(axes[0]) % 3]
    parent = np.array([-1, *topology.body_parent[1:]], int)
    return _Parts(names, parent, dof, slides, place, axis, mass, moment)


def _image_axis(parts: _Parts, body: int) -> np.ndarray:
    """The axis of a joint in the mirror: of a slide as a vector, of a rotation as an axial one."""
    return (1.0 if parts.slides[body] else -1.0) * REFLECTION @ parts.axis[body]


def _apart(parts: _Parts, body: int, image: int) -> float:
    """Distance between the mirrored place of a joint and that of another [m], across the axis."""
    way = REFLECTION @ parts.place[body] - parts.place[image]
    axis = parts.axis[image]
    return float(np.linalg.norm(way - (way @ axis) * axis))


def _distance(parts: _Parts, body: int, image: int, size: float) -> float:
    """How far a joint is from being the mirror image of another; above 1 it is not."""
    if parts.slides[body] != parts.slides[image]:
        return np.inf
    tilt = np.linalg.norm(np.cross(_image_axis(parts, body), parts.axis[image]))
    centres = [parts.moment[k] / max(parts.mass[k], 1e-9) for k in (body, image)]
    away = np.linalg.norm(REFLECTION @ centres[0] - centres[1]) / size
    # Where several joints fit, such as coaxial ones, the masses that they move tell them apart.
    return max(_apart(parts, body, image) / (PLACE * size), float(tilt) / AXIS) + 1e-3 * float(away)


def _asymmetry(parts: _Parts, bodies: np.ndarray, size: float) -> float:
    total = max(float(parts.mass.sum()), 1e-9)
    masses = np.abs(parts.mass - parts.mass[bodies]) / total
    moments = np.abs(parts.moment @ REFLECTION - parts.moment[bodies]) / (total * size)
    return float(max(masses.max(), moments.max()))


def _feet(topology: Any, names: Sequence[str], bodies: np.ndarray) -> np.ndarray:
    """The mirror image of each foot."""
    of_foot = [int(topology.link_body[link_of(topology, name)]) for name in names]
    images = []
    for name, body in zip(names, of_foot, strict=True):
        if bodies[body] not in of_foot:
            raise ValueError(
                f"{topology.name} is not symmetric: the foot {name!r} has no mirror image among "
                "the feet"
            )
        images.append(of_foot.index(int(bodies[body])))
    return np.array(images)
