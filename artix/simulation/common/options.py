"""What a step is told besides the articulation and its state: controls (data) and options (static)."""

from __future__ import annotations

import dataclasses
from typing import Literal

import jax

from artix.math import struct
from artix.model.articulation import Articulation
from artix.model.checks import check_type, check_vector

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


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True, kw_only=True)
class SolverOptions:
    """How a step solves for the impulses of drives, friction, limits, mimic and loop joints and tendons; static.

    Attributes:
      solver: ``"implicit"``: all springs, dampers and hard relations in one linear system, inequalities by sweeps over
        the DOFs; textbook mechanics without PhysX's particularities. ``"pgs"`` (projected Gauss-Seidel) or ``"tgs"``
        (temporal Gauss-Seidel: one substep per position iteration): PhysX's law, as ``PxSolverType``. ``"rk4"``: the
        classical Runge-Kutta method of order 4 on :func:`artix.vector_field`, for smooth forces alone: limits, dry
        friction and envelopes have no part in it, and mimic and loop joints are refused.
      tendon_law: with ``"implicit"`` and ``"rk4"``, whether tendons pull by PhysX's law or by virtual work, which keeps
        energy and so suits optimisation. PhysX's fixed tendons put the reaction on a root link instead of the parent
        links, and its spatial tendons pull at the ends of their paths alone, whatever the coefficients between.
      position_iterations: sweeps over all rows before positions move (PhysX's default is 4).
      velocity_iterations: sweeps after that, which change velocities alone (PhysX's default is 1); ``"implicit"`` has
        none.
      external_forces_every_iteration: with ``"tgs"``, apply gravity, external and joint forces substep by substep,
        PhysX's scene flag ``eENABLE_EXTERNAL_FORCES_EVERY_ITERATION_TGS``.
      substeps: parts of equal length into which a step is divided, under one control; a report is that of the last.
      smooth_friction: with ``"implicit"``, the speed [rad/s or m/s] below which dry friction fades instead of sticking:
        ``-dynamic v / sqrt(v^2 + smooth_friction^2)``, implicit in time, with derivatives at rest as elsewhere; static
        friction has no part in it. 0 for stick and slip.
      contact_iterations: with a ground and ``"implicit"``, Newton steps on the laws of all contacts. The last ones of
        the ``position_iterations`` sweeps begin with one each and leave contacts to it, but for one sweep over the
        contacts at the end; at least two sweeps over all rows come first.
      max_contacts_per_geometry: with a ground and ``"implicit"``, the most contacts of one shape with one of its
        surfaces, of which the nearest are taken; ``None`` for all, which are 8 for a box.
      max_link_contacts: with ``"implicit"``, the most contacts between links of one articulation, of which the nearest
        are taken; ``None`` for all candidates. Each adds three rows, candidates that are left out little: 4 of them
        double the operations of a humanoid's step on both feet.
      allowed_penetration: with a ground and ``"implicit"``, the depth [m] to which rigid contacts may penetrate without
        being pushed out. Where it is less than what rounding makes of gaps, a box on its corners rests on those that
        happen to be lowest.
      contact_smoothing: with a ground and ``"implicit"``, the energy E [J] by which contacts push before they touch: at
        rest a contact with a gap d pushes with the force E/d, so that a weight W hovers at E/W. It gives optimisers a
        slope towards the ground. 0 for contacts that push when they touch.
      max_separation_speed: with a ground, the speed [m/s] at which rigid contacts that penetrate separate at most;
        PhysX's maximal depenetration velocity.
      contact_distance: with a ground and ``"pgs"`` or ``"tgs"``, the gap [m] from which on contacts count; the sum of
        PhysX's contact offsets of the two shapes.
      restitution_threshold: with a ground, the speed of approach [m/s] above which contacts bounce.
      drive_limits_are_forces: whether a drive's ``max_force`` is a force rather than an impulse per step, PhysX's
        articulation flag ``eDRIVE_LIMITS_ARE_FORCES``.

    Raises:
      ValueError: a name is unknown, a count is out of range, or the options contradict each other.

    Examples:
      >>> pole = artix.robots.load("cart_pole")
      >>> state = artix.neutral_state(pole).replace(joint_velocity=jnp.array([0.0, 1.0]))
      >>> converged = artix.step(pole, state, None, 0.01)
      >>> physx = artix.step(pole, state, None, 0.01, artix.SolverOptions(solver="tgs", position_iterations=8))
      >>> print(jnp.abs(converged.joint_velocity - physx.joint_velocity).max() < 1e-2)
      True
    """

    solver: Literal["implicit", "pgs", "tgs", "rk4"] = "implicit"
    tendon_law: Literal["physx", "virtual_work"] = "physx"
    position_iterations: int = 4
    velocity_iterations: int = 1
    external_forces_every_iteration: bool = False
    substeps: int = 1
    smooth_friction: float = 0.0
    contact_iterations: int = 2
    max_contacts_per_geometry: int | None = None
    max_link_contacts: int | None = 8
    allowed_penetration: float = 1e-5
    contact_smoothing: float = 0.0
    max_separation_speed: float = 1.0
    contact_distance: float = 0.04
    restitution_threshold: float = 0.2
    drive_limits_are_forces: bool = True

    def __post_init__(self) -> None:
        if self.solver not in ("implicit", "pgs", "tgs", "rk4"):
            raise ValueError(f"solver must be 'implicit', 'pgs', 'tgs' or 'rk4'; found {self.solver!r}")
        if self.tendon_law not in ("physx", "virtual_work"):
            raise ValueError(f"tendon_law must be 'physx' or 'virtual_work'; found {self.tendon_law!r}")
        if self.tendon_law != "physx" and self.solver in ("pgs", "tgs"):
            raise ValueError(
                "tendon_law='virtual_work' needs solver='implicit' or 'rk4'; the others follow PhysX's law"
            )
        counts = {"position_iterations": 1, "velocity_iterations": 0, "substeps": 1, "contact_iterations": 0}
        if self.max_contacts_per_geometry is not None:
            counts["max_contacts_per_geometry"] = 1
        if self.max_link_contacts is not None:
            counts["max_link_contacts"] = 1
        for name, least in counts.items():
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                raise ValueError(f"{name} must be an integer of at least {least}; found {value!r}")
        speeds = ("smooth_friction", "max_separation_speed", "restitution_threshold")
        for name in (*speeds, "allowed_penetration", "contact_distance", "contact_smoothing"):
            value = getattr(self, name)
            if not (isinstance(value, int | float) and 0 <= value < float("inf")):
                raise ValueError(f"{name} must be finite and at least 0; found {value!r}")
        for name in ("smooth_friction", "contact_smoothing"):
            if getattr(self, name) and self.solver != "implicit":
                raise ValueError(f"{name} needs solver='implicit'; found solver={self.solver!r}")
        if self.external_forces_every_iteration and self.solver != "tgs":
            raise ValueError("external_forces_every_iteration needs solver='tgs', which has substeps")


def check_control(articulation: Articulation, control: Control, called: str = "control") -> None:
    """Checks the shapes and dtypes of a control, ``called`` so; see :func:`artix.model.checks.check_vector`."""
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
