"""What is commanded during a step, and how far joints are from their targets and limits."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.kinematics.tree import by_body, where_spherical
from artix.math import spatial, struct
from artix.math.arrays import check_finite, is_known
from artix.model.articulation import Articulation
from artix.model.checks import check_type, check_vector
from artix.model.topology import Topology

Array = jax.Array


class Control(struct.PyTreeNode):
    """The input that acts on an articulation during one step. Fields that are ``None`` have no
    effect.

    Attributes:
      joint_force: commanded joint forces [N m or N], shape [n]; clipped to
        ``articulation.max_joint_force``.
      drive_target: target positions of the drives [rad or m], shape [n]; if ``None``,
        ``articulation.drive.target_position``.
      drive_target_velocity: target velocities of the drives [rad/s or m/s], shape [n]; if ``None``,
        ``articulation.drive.target_velocity``.
      external_force: wrench on each link at its centre of mass, force [N] then torque [N m] in
        world axes, shape [L, 6].

    Examples:
      >>> pole = artix.robots.load("cart_pole")
      >>> push = artix.Control(joint_force=jnp.array([12.0, 0.0]))
      >>> state = artix.step(pole, artix.neutral_state(pole), push, 0.01)
      >>> print(state.joint_velocity[0])  # 12 N on what feels like 1.05 kg for 0.01 s
      0.114
    """

    joint_force: Array | None = None
    drive_target: Array | None = None
    drive_target_velocity: Array | None = None
    external_force: Array | None = None


def check_control(articulation: Articulation, control: Control, called: str = "control") -> None:
    """Checks the shapes and dtypes of a control, which errors call ``called``.

    See :func:`artix.model.checks.check_vector`.
    """
    check_type(called, control, Control)
    tree = articulation.topology
    for name, shape, meaning in (
        ("joint_force", (tree.num_dofs,), "n joint DOFs"),
        ("drive_target", (tree.num_dofs,), "n joint DOFs"),
        ("drive_target_velocity", (tree.num_dofs,), "n joint DOFs"),
        ("external_force", (tree.num_links, 6), "L links, force then torque"),
    ):
        value = getattr(control, name)
        if value is not None:
            check_vector(f"{called}.{name}", value, shape, articulation.dtype, meaning)


def check_known_control(control: Control | None, called: str = "control") -> None:
    """Raises ``ValueError`` if a control, or controls for each step, are known and have a number
    that is not finite.

    A joint force may be infinite, which asks for the largest one.
    """
    if isinstance(control, Control):
        check_finite(f"{called}.joint_force", control.joint_force, infinite=True)
        for name in ("drive_target", "drive_target_velocity", "external_force"):
            check_finite(f"{called}.{name}", getattr(control, name))


def warn_of_missing_gains(articulation: Articulation, control: Control | None) -> None:
    """Warns of targets for drives that exert no force, like those of robots from URDF, unless the
    gains are traced.
    """
    targets = (
        None
        if not isinstance(control, Control)
        else (control.drive_target, control.drive_target_velocity)
    )
    if (
        targets is None
        or all(target is None for target in targets)
        or not isinstance(articulation, Articulation)
    ):
        return
    if articulation.topology.num_dofs and lacks_gains(articulation):
        warnings.warn(
            "the targets in control have no effect, as all drives have stiffness 0 and damping 0 "
            "(a URDF has no gains); set them with "
            "articulation.replace(drive=articulation.drive.replace(stiffness=..., damping=...))",
            stacklevel=5,
        )


def lacks_gains(articulation: Articulation) -> bool:
    """Whether it is known that no drive exerts a force."""
    gains = articulation.drive.stiffness, articulation.drive.damping
    return is_known(*gains) and not any(np.any(np.asarray(gain)) for gain in gains)


class Commands(NamedTuple):
    """Commands to the joints during a step, [n] each."""

    joint_force: Array
    """Commanded forces within their limits [N m or N]."""
    target_position: Array
    """Position targets of the drives [rad or m]."""
    target_velocity: Array
    """Velocity targets of the drives [rad/s or m/s]."""


def commands_of(articulation: Articulation, control: Control) -> Commands:
    """The commands of a control: forces clipped to their limits, and targets."""
    drive, limit = articulation.drive, articulation.max_joint_force
    force = jnp.zeros_like(limit) if control.joint_force is None else control.joint_force
    target, velocity = control.drive_target, control.drive_target_velocity
    return Commands(
        joint_force=jnp.clip(force, -limit, limit),
        target_position=drive.target_position if target is None else target,
        target_velocity=drive.target_velocity if velocity is None else velocity,
    )


def position_error(
    topology: Topology, position: Array, target: Array, turn: Array | None = None
) -> Array:
    """Target minus position, [n].

    The position of a spherical joint is a rotation, which does not count turns, so that its error
    is the shortest way: with one axis the angle left, and with several axes twice the vector part
    of the rotation left. A ``turn`` of the joint frames, quaternions [4, B-1], is part of the
    rotation, not of its target.
    """
    error = target - position
    if not topology.has_spherical:
        return error
    wanted, rotation = (spatial.quaternion_exp(by_body(topology, x)) for x in (target, position))
    if turn is not None:
        rotation = spatial.quaternion_product(turn, rotation)
    product = spatial.quaternion_product(spatial.conjugate(wanted), rotation)
    product = jnp.where(product[3] < 0, -product, product)
    several, spherical = (
        jnp.asarray(topology.dof_is_one_of_several),
        jnp.asarray(topology.dof_is_spherical),
    )
    remainder = jnp.where(spherical, error - 2 * jnp.pi * jnp.round(error / (2 * jnp.pi)), error)
    return jnp.where(several, where_spherical(topology, -2 * product[:3], error), remainder)


def room(limit: Array, position: Array, sign: int) -> Array:
    """Distance of positions from a limit above (1) or below (-1): negative beyond it, infinite
    without a limit.
    """
    limited = jnp.isfinite(limit)
    return jnp.where(limited, sign * (jnp.where(limited, limit, 0) - position), jnp.inf)
