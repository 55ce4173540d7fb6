"""What a step is told besides the articulation and its state: controls (data) and options (static)."""

from __future__ import annotations

import dataclasses
from typing import Literal

import jax
from flax import struct

from artix.articulation import Articulation
from artix.checks import check_vector

Array = jax.Array


class Control(struct.PyTreeNode):
    """What acts on an articulation during one step; whatever is ``None`` is absent.

    Attributes:
      joint_force: commanded joint forces [N m or N], shape [n]; limited to ``articulation.max_joint_force``.
      drive_target: target positions of the drives [rad or m], shape [n]; ``articulation.drive.target_position`` if
        ``None``.
      drive_target_velocity: target velocities of the drives [rad/s or m/s], shape [n]; likewise.
      external_force: wrench on each link at its centre of mass, force [N] then torque [N m] in world axes, shape
        [L, 6].
    """

    joint_force: Array | None = None
    drive_target: Array | None = None
    drive_target_velocity: Array | None = None
    external_force: Array | None = None


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True, kw_only=True)
class SolverOptions:
    """How a step solves for the impulses of drives, friction, limits, mimic joints and tendons; static and hashable.

    Attributes:
      solver: ``"pgs"`` (projected Gauss-Seidel) or ``"tgs"`` (temporal Gauss-Seidel: one substep per position
        iteration), as ``PxSolverType``.
      position_iterations: sweeps over all rows before positions move (PhysX's default is 4).
      velocity_iterations: sweeps after that, which change velocities alone (PhysX's default is 1).
      external_forces_every_iteration: with ``"tgs"``, apply gravity, external and joint forces substep by substep,
        PhysX's scene flag ``eENABLE_EXTERNAL_FORCES_EVERY_ITERATION_TGS``.
      drive_limits_are_forces: whether a drive's ``max_force`` is a force rather than an impulse per step, PhysX's
        articulation flag ``eDRIVE_LIMITS_ARE_FORCES``.

    Raises:
      ValueError: a name is unknown, a count is out of range, or the options contradict each other.
    """

    solver: Literal["pgs", "tgs"] = "pgs"
    position_iterations: int = 4
    velocity_iterations: int = 1
    external_forces_every_iteration: bool = False
    drive_limits_are_forces: bool = True

    def __post_init__(self) -> None:
        if self.solver not in ("pgs", "tgs"):
            raise ValueError(f"solver must be 'pgs' or 'tgs'; found {self.solver!r}")
        for name, least in (("position_iterations", 1), ("velocity_iterations", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                raise ValueError(f"{name} must be an integer of at least {least}; found {value!r}")
        if self.external_forces_every_iteration and self.solver != "tgs":
            raise ValueError("external_forces_every_iteration needs solver='tgs', which has substeps")


def check_control(articulation: Articulation, control: Control) -> None:
    """Checks the shapes and dtypes of what a control gives; see :func:`artix.checks.check_vector`."""
    tree = articulation.topology
    for name, shape, meaning in (
        ("joint_force", (tree.num_dofs,), "n joint DOFs"),
        ("drive_target", (tree.num_dofs,), "n joint DOFs"),
        ("drive_target_velocity", (tree.num_dofs,), "n joint DOFs"),
        ("external_force", (tree.num_links, 6), "L links, force then torque"),
    ):
        value = getattr(control, name)
        if value is not None:
            check_vector(f"control.{name}", value, shape, articulation.dtype, meaning)
