"""Configurations and velocities as other libraries order them: joints, quaternions, and axes of the
base's velocity.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.math import spatial
from artix.math.arrays import check_finite, known_values
from artix.model.joints import JointType
from artix.model.topology import Topology

Array = jax.Array
Order = Literal["artix", "pinocchio", "mujoco"]
ORDERS = ("artix", "pinocchio", "mujoco")


class JointPlace(NamedTuple):
    """Where the coordinates of a joint are."""

    dofs: tuple[int, ...]
    """Its degrees of freedom in artix."""
    position: int
    """The first of its numbers in a configuration."""
    kind: str
    """What these numbers are: ``"numbers"`` as in artix, a ``"quaternion"``, or a
    ``"cosine and sine"``."""


def joint_places(
    topology: Topology,
    order: Order,
    joints: Sequence[str] | None,
    is_wheel: Sequence[bool],
    length: int,
) -> tuple[JointPlace, ...]:
    """Where the coordinates of the joints are in a configuration, joint by joint in its order.

    Args:
      topology: the robot's.
      order: whose coordinates they are.
      joints: names of the joints in their order; the order that the library has by itself when
        ``None``.
      is_wheel: whether each DOF turns without limits; Pinocchio has the cosine and sine of a
        URDF's.
      length: the length of the configuration, which tells whether it has cosines and sines.

    Raises:
      ValueError: names are missing, unknown or repeated, a joint has no counterpart in the library,
        or the length is not that of a configuration.
    """
    links = _links_in_order(topology, order, joints)
    dofs = {link: tuple(np.flatnonzero(topology.dof_link == link).tolist()) for link in links}
    base = 0 if topology.fixed_base else 7
    turned = {
        link: order == "pinocchio" and len(dofs[link]) == 1 and is_wheel[dofs[link][0]]
        for link in links
    }
    kinds = {}
    plain = base
    for link in links:
        is_ball = topology.joint_types[link] is JointType.SPHERICAL and order != "artix"
        if is_ball and len(dofs[link]) != 3:
            name = topology.joint_names[link - 1]
            raise ValueError(
                f"joint {name!r}: {order} has no spherical joint of {len(dofs[link])} axes"
            )
        kinds[link] = "quaternion" if is_ball else "numbers"
        plain += 4 if is_ball else len(dofs[link])
    with_wheels = plain + sum(turned.values())
    if length not in (plain, with_wheels):
        pairs = "" if plain == with_wheels else f", or {with_wheels} with cosines and sines,"
        hint = "" if topology.fixed_base else "; seven of them are the pose of the floating base"
        raise ValueError(
            f"position: expected {plain} numbers{pairs} in the order of {order}, found "
            f"{length}{hint}"
        )
    places = []
    start = base
    for link in links:
        is_pair = turned[link] and length == with_wheels
        places.append(JointPlace(dofs[link], start, "cosine and sine" if is_pair else kinds[link]))
        start += 2 if is_pair else 4 if kinds[link] == "quaternion" else len(dofs[link])
    return tuple(places)


def _links_in_order(topology: Topology, order: Order, joints: Sequence[str] | None) -> list[int]:
    """The links that joints move, in the order of the joints."""
    moving = [link for link in range(1, topology.num_links) if topology.joint_axes[link]]
    if joints is not None:
        known = {topology.joint_names[link - 1]: link for link in moving}
        if isinstance(joints, str) or sorted(joints) != sorted(known):
            missing = sorted({*known} - {*joints})
            others = sorted({*joints} - {*known})
            detail = (
                f"missing {missing}, unknown {others}"
                if missing or others
                else "a name appears twice"
            )
            raise ValueError(
                f"joints: expected the names of all joints that move, each once; {detail}"
            )
        return [known[name] for name in joints]
    if order == "artix":
        return moving
    children: dict[int, list[int]] = {}
    for link in range(1, topology.num_links):
        children.setdefault(topology.parent[link], []).append(link)
    if order == "pinocchio":  # It reads joints of URDF by name.
        for siblings in children.values():
            siblings.sort(key=lambda link: topology.joint_names[link - 1])
    ordered = []
    stack = [0]
    while stack:
        link = stack.pop()
        ordered.append(link)
        stack += reversed(children.get(link, []))
    return [link for link in ordered if link in moving]


def check_configurations(name: str, positions: Any, quaternions: Sequence[int]) -> None:
    """Raises ``ValueError`` if configurations [..., nq] are known, and a number is not finite or a
    quaternion is zero.

    Args:
      name: what the user calls them.
      positions: the configurations.
      quaternions: where their quaternions begin.
    """
    check_finite(name, positions)
    values = known_values(positions)
    if values is None:
        return
    for at in quaternions:
        if not values[..., at : at + 4].any(axis=-1).all():
            raise ValueError(f"{name}[{at}:{at + 4}]: expected a quaternion, found zeros")


@functools.partial(jax.jit, static_argnums=(0, 1, 2), inline=True)
def joints_from(
    order: Order, places: tuple[JointPlace, ...], base: int, position: Array, velocity: Array
) -> tuple[Array, Array]:
    """Positions and velocities of all DOFs [..., n].

    Args:
      order: whose coordinates these are.
      places: the joints.
      base: the number of velocities of the base, 0 or 6.
      position: configurations, shape [..., nq].
      velocity: velocities in the same order, shape [..., nv].
    """
    num_dofs = sum(len(place.dofs) for place in places)
    q, qd = (jnp.zeros((*x.shape[:-1], num_dofs), x.dtype) for x in (position, velocity))
    first = base
    for dofs, at, kind in places:
        if kind == "quaternion":
            quaternion = _quaternion(order, position[..., at : at + 4])
            values = jnp.moveaxis(spatial.quaternion_log(quaternion), 0, -1)
        elif kind == "cosine and sine":
            values = jnp.arctan2(position[..., at + 1], position[..., at])[..., None]
        else:
            values = position[..., at : at + len(dofs)]
        q = q.at[..., np.array(dofs)].set(values)
        qd = qd.at[..., np.array(dofs)].set(velocity[..., first : first + len(dofs)])
        first += len(dofs)
    return q, qd


@functools.partial(jax.jit, static_argnums=0, inline=True)
def root_from(order: Order, pose: Array, velocity: Array, center: Array) -> tuple[Array, Array]:
    """Pose of the root's frame, and the velocity of its centre of mass in world axes.

    Args:
      order: whose coordinates these are. MuJoCo's quaternions are wxyz. Its velocity is that of the
        frame's origin in world axes with the angular velocity in axes of the root, Pinocchio's is
        in axes of the root.
      pose: position [m] and quaternion of any length but zero, shape [..., 7].
      velocity: linear [m/s], angular [rad/s], shape [..., 6].
      center: the centre of mass in the root's frame [m], shape [3].
    """
    quaternion = _quaternion(order, pose[..., 3:])
    linear, angular = _first(velocity[..., :3]), _first(velocity[..., 3:])
    if order != "artix":
        linear = spatial.rotate(quaternion, linear) if order == "pinocchio" else linear
        angular = spatial.rotate(quaternion, angular)
        arm = spatial.rotate(
            quaternion, jnp.broadcast_to(center.reshape(3, *(1,) * (linear.ndim - 1)), linear.shape)
        )
        linear = linear + spatial.cross(angular, arm)
    pose = jnp.concatenate([pose[..., :3], jnp.moveaxis(quaternion, 0, -1)], axis=-1)
    return pose, jnp.moveaxis(jnp.concatenate([linear, angular]), 0, -1)


def _quaternion(order: Order, numbers: Array) -> Array:
    """Unit quaternions xyzw with their components first, [4, ...]."""
    xyzw = jnp.roll(numbers, -1, axis=-1) if order == "mujoco" else numbers
    return spatial.normalize(_first(xyzw))


def _first(components: Array) -> Array:
    """The last axis first, with an axis of items [k, ...]."""
    return jnp.moveaxis(components, -1, 0)
