"""Reads the state of an articulation from a stage."""

from __future__ import annotations

import numpy as np

from artix.io.common.poses import compose, inverse, joint_motion, rotation_matrix
from artix.io.usd.articulation import UsdArticulation
from artix.io.usd.joints import UsdJoint
from artix.io.usd.stacks import is_between
from artix.io.usd.units import DEGREE
from artix.math.arrays import device_array
from artix.model.articulation import Articulation, State
from artix.model.topology import Topology

#: Largest tolerated distance of a body from the pose given by its joint's state [m; chord of unit quaternions].
PLACE_TOLERANCE = 1e-3


def read_state(description: UsdArticulation, articulation: Articulation) -> State:
    """Reads the state of an articulation; warns if poses of bodies contradict the positions of their joints."""
    assert isinstance(articulation.topology, Topology)  # Builders never make padded articulations.
    position, velocity = (dict.fromkeys(articulation.topology.dof_names, 0.0) for _ in range(2))
    misplaced = []
    for parent, joint, child in description.tree.edges:
        local = _joint_state(description, joint, parent, position, velocity)
        if not is_between(child) and not is_between(parent or ""):
            error = _place_error(description, joint, parent, child, local)
            if max(error) > PLACE_TOLERANCE:
                misplaced.append((error, joint, child))
    _note_misplaced(description, misplaced)
    vectors = [_root_pose(description), _root_velocity(description), [*position.values()], [*velocity.values()]]
    return State(*(device_array(vector, articulation.dtype) for vector in vectors))


def _joint_state(
    description: UsdArticulation,
    joint: UsdJoint,
    parent: str | None,
    position: dict[str, float],
    velocity: dict[str, float],
) -> np.ndarray:
    """Stores a joint's state under the names of its degrees of freedom; returns the joint motion ``J(q)`` as a pose."""
    sign = joint.sign(parent)
    applied = joint.prim.instances("PhysicsJointStateAPI")
    for axis in joint.axes:
        if axis.instance not in applied:
            continue
        unit = sign * description.scene.units.axis(axis.angular).position
        space, name = f"state:{axis.instance}:physics", joint.dof(axis)
        position[name] = joint.prim.read_number(f"{space}:position") * unit
        velocity[name] = joint.prim.read_number(f"{space}:velocity") * unit
    return joint_motion([axis.axis for axis in joint.axes], [position[joint.dof(axis)] for axis in joint.axes])


def _place_error(
    description: UsdArticulation, joint: UsdJoint, parent: str | None, child: str, motion: np.ndarray
) -> tuple[float, float]:
    """How far a body is from the pose given by its joint's state [m; chord of unit quaternions]."""
    scene = description.scene
    first, second = joint.frames(parent)
    parent_frame = first if parent is None else compose(scene.pose(parent), first)
    expected = compose(compose(parent_frame, motion), inverse(second))
    actual = scene.pose(child)
    distance = float(np.linalg.norm(expected[:3] - actual[:3]))
    return distance, min(float(np.linalg.norm(expected[3:] - sign * actual[3:])) for sign in (1.0, -1.0))


def _note_misplaced(description: UsdArticulation, misplaced: list[tuple[tuple[float, float], UsdJoint, str]]) -> None:
    """Reports the bodies that are not where their joints put them, in one warning that shows the worst."""
    if not misplaced:
        return
    (distance, chord), joint, child = max(misplaced, key=lambda entry: max(entry[0]))
    turn = 4.0 * np.arcsin(min(1.0, 0.5 * chord)) / DEGREE
    others = f" ({len(misplaced)} bodies differ, this one the most)" if len(misplaced) > 1 else ""
    message = (
        f"body <{child}> is {distance:.3g} m and {turn:.3g} degrees from the pose given by the joint's frames and "
        f"state{others}; the articulation follows the joint, as in PhysX"
    )
    fix = "nothing, or author PhysicsJointStateAPI or the body's transform"
    description.scene.report.warning(joint.prim, message, fix)


def _root_pose(description: UsdArticulation) -> np.ndarray:
    path = description.tree.root
    return description.scene.pose(path) if path is not None else np.array([0.0, 0, 0, 0, 0, 0, 1])


def _root_velocity(description: UsdArticulation) -> np.ndarray:
    """Velocity of the root's centre of mass and its angular velocity, in world axes; zero for a fixed base."""
    path = description.tree.root
    if path is None or description.tree.fixed_base:
        return np.zeros(6)
    scene = description.scene
    prim, above = scene.prims[path], path.rpartition("/")[0] or "/"
    linear, angular = (prim.read_array(f"physics:{name}", 3) for name in ("velocity", "angularVelocity"))
    rotation = rotation_matrix(scene.pose(above)[3:])
    linear = np.zeros(3) if linear is None else rotation @ scene.point(above, linear)
    angular = np.zeros(3) if angular is None else rotation @ angular * DEGREE
    return np.concatenate([linear, angular])
