"""Options of the solver of a step, and the solvers that rooms above provide: what they offer, and
how :func:`artix.step` finds them by name.
"""

from __future__ import annotations

import dataclasses
import importlib
import warnings
from typing import Any, Literal, Protocol

import jax

from artix.contact.ground import Ground
from artix.model.articulation import Articulation, State
from artix.model.checks import check_count
from artix.simulation.common.control import Control
from artix.simulation.common.report import StepReport

Array = jax.Array

#: The modules that register these solvers when they are imported. They live in a room above, which
#: this one cannot import, and are imported when the first step asks for them.
HOMES = {"pgs": "artix.physx.solver.step", "tgs": "artix.physx.solver.step"}


_ITERATIONS = ("position_iterations", "velocity_iterations")
_CONTACT_BUDGETS = ("max_contacts_per_geometry", "max_ground_contacts", "max_link_contacts")
_CONVERGENCE = ("allowed_penetration", "tolerance", "max_newton_steps")
_CONTACTS = ("max_separation_speed", "restitution_threshold", "contact_distance")

#: The options that a solver does not use, of those whose other values it does not refuse.
_UNUSED: dict[str, tuple[str, ...]] = {
    "implicit": (*_ITERATIONS, "contact_distance"),
    "pgs": (*_CONTACT_BUDGETS, *_CONVERGENCE),
    "tgs": (*_CONTACT_BUDGETS, *_CONVERGENCE),
    "rk4": (*_ITERATIONS, *_CONTACT_BUDGETS, *_CONVERGENCE, *_CONTACTS, "drive_limits_are_forces"),
}


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True, kw_only=True)
class SolverOptions:
    """Options of the solver of a step. They are static.

    Attributes:
      solver: ``"implicit"`` solves all springs and dampers in one linear system, and the laws of
        contacts, limits, drives, dry friction, mimic and loop joints together by Newton's method,
        until they hold; it is textbook mechanics without PhysX's particularities. Grasps and stacks
        stay, whatever their masses, and equal contacts carry equal loads. ``"pgs"`` (projected
        Gauss-Seidel) and ``"tgs"`` (temporal Gauss-Seidel, with one substep per position iteration)
        follow PhysX, as ``PxSolverType`` does. ``"rk4"`` is the classical fourth-order Runge-Kutta
        method on :func:`artix.vector_field`, for smooth forces only: it ignores limits, dry
        friction and envelopes, and refuses mimic and loop joints.
      tendon_law: with ``"implicit"`` and ``"rk4"``, whether tendons pull by PhysX's law or by
        virtual work, which conserves energy and therefore suits optimisation. PhysX's fixed tendons
        put the reaction on a root link instead of the parent links, and its spatial tendons pull
        only at the ends of their paths, whatever the coefficients in between.
      position_iterations: with ``"pgs"`` and ``"tgs"``, number of sweeps over all rows before
        positions move (PhysX's default is 4).
      velocity_iterations: with ``"pgs"`` and ``"tgs"``, number of sweeps after that, which change
        only velocities (PhysX's default is 1).
      external_forces_every_iteration: with ``"tgs"``, whether to apply gravity, external and joint
        forces in every substep, as PhysX's scene flag
        ``eENABLE_EXTERNAL_FORCES_EVERY_ITERATION_TGS`` does.
      substeps: number of equal parts into which a step is divided, all with the same control. A
        report describes the last part.
      smooth_friction: with ``"implicit"``, the speed [rad/s or m/s] below which dry friction fades
        instead of sticking: ``-dynamic v / sqrt(v^2 + smooth_friction^2)``, implicit in time, with
        useful derivatives at rest; static friction is ignored. 0 for stick and slip.
      contact_iterations: ignored; it leaves with the next release.
      max_contacts_per_geometry: with a ground and ``"implicit"``, the largest number of contacts
        between one shape and one surface; the nearest are kept. ``None`` for all, which are 8 for a
        box, and 3 for a sphere on a height field, whose other sides are not sought, nor counted as
        omitted, with a budget of 1. That of a :class:`artix.Scene` comes first.
      max_ground_contacts: with a ground and ``"implicit"``, the largest number of contacts of an
        articulation with the ground; the nearest of all candidates are kept. ``None`` for all, of
        which a step with more than 32 on more than eight links tries the nearest eight first, for
        up to about 75 DOFs. With 4, contacts of one foot no longer share the motions of their link.
        That of a :class:`artix.Scene` comes first. Reports count the touching candidates that are
        left out.
      max_link_contacts: with ``"implicit"``, the largest number of contacts between links of one
        articulation, or of a scene; the nearest are kept. ``None`` for all candidates: one for a
        pair with a sphere, two with a capsule, four for boxes. Each contact adds three rows;
        candidates that are left out cost little. For a humanoid standing on both feet, 4 double the
        operations of the step. Reports count the touching candidates that are left out.
      allowed_penetration: with a ground and ``"implicit"``, the depth [m] to which rigid contacts
        may penetrate without being pushed out. Gaps smaller than this close slowly. If it is below
        the rounding error of gaps, a box rests only on those of its corners that happen to be
        lowest.
      contact_smoothing: with a ground and ``"implicit"``, the energy E [J] of contacts that push
        before they touch: at rest, a contact with gap d pushes with the force E/d, so a weight W
        hovers at E/W. Optimisers then see a slope towards the ground. With 0, contacts push only
        when they touch.
      derivative_smoothing: with a ground and ``"implicit"``, the energy E [J] of contacts in
        derivatives alone. The step is that of ``contact_smoothing=0`` to the last digit, and its
        derivative is that of the step with ``contact_smoothing=E`` from the same state: hard
        contacts, with a slope before they touch. As E becomes 0, it becomes the derivative of the
        step. With 0, derivatives are exact.
      max_separation_speed: the largest speed [m/s] at which penetrating rigid contacts separate;
        PhysX's maximal depenetration velocity. Contacts keep this speed, so a large one adds
        energy. ``None`` for 0.1 m/s with ``"implicit"``, where a shallow penetration is undone more
        slowly, with a time constant of 25 ms, and 1 m/s with ``"pgs"`` and ``"tgs"``.
      contact_distance: with a ground and ``"pgs"`` or ``"tgs"``, the gap [m] below which contacts
        count; the sum of PhysX's contact offsets of the two shapes.
      restitution_threshold: with a ground, the approach speed [m/s] above which contacts bounce.
      drive_limits_are_forces: whether a drive's ``max_force`` is a force instead of an impulse per
        step, as with PhysX's articulation flag ``eDRIVE_LIMITS_ARE_FORCES``.
      tolerance: with ``"implicit"``, the residual of all laws [rad/s or m/s] below which a step is
        solved; ``None`` for 2e-6 in float32, and in float64 for 1e-12 where Newton's method on
        active sets converges, 1e-9 elsewhere. Rounding of large velocities and impulses is added to
        it.
      max_newton_steps: with ``"implicit"``, the largest number of Newton steps. One suffices at
        rest and mostly where legs move, and few steps need more than 60. What is not solved after
        as many keeps its best impulses, which add no energy, and reports tell.

    An option that the solver does not use is warned of unless it has its default.

    Raises:
      ValueError: a name is unknown, a count is out of range, or the options contradict each other.
      TypeError: a count is not a whole number.

    Examples:
      >>> pole = artix.robots.load("cart_pole")
      >>> state = artix.neutral_state(pole).replace(joint_velocity=jnp.array([0.0, 1.0]))
      >>> converged = artix.step(pole, state, None, 0.01)
      >>> physx = artix.step(
      ...     pole, state, None, 0.01, artix.SolverOptions(solver="tgs", position_iterations=8)
      ... )
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
    contact_iterations: int | None = None
    max_contacts_per_geometry: int | None = None
    max_ground_contacts: int | None = None
    max_link_contacts: int | None = None
    allowed_penetration: float = 1e-5
    contact_smoothing: float = 0.0
    derivative_smoothing: float = 0.0
    max_separation_speed: float | None = None
    contact_distance: float = 0.04
    restitution_threshold: float = 0.2
    drive_limits_are_forces: bool = True
    tolerance: float | None = None
    max_newton_steps: int = 120

    def __post_init__(self) -> None:
        if self.solver == "newton":
            _warn("solver='newton' is now solver='implicit', the default")
            object.__setattr__(self, "solver", "implicit")
        if self.contact_iterations is not None:
            _warn(
                "contact_iterations has no effect: the implicit step is solved to a tolerance, so "
                "leave it out"
            )
            object.__setattr__(self, "contact_iterations", None)
        if self.solver not in ("implicit", "pgs", "tgs", "rk4"):
            raise ValueError(
                f"solver must be 'implicit', 'pgs', 'tgs' or 'rk4'; found {self.solver!r}"
            )
        check_tendon_law(self.tendon_law)
        if self.tendon_law != "physx" and self.solver in ("pgs", "tgs"):
            raise ValueError(
                "tendon_law='virtual_work' needs solver='implicit' or 'rk4'; the other solvers "
                "follow PhysX"
            )
        counts = {
            "position_iterations": 1,
            "velocity_iterations": 0,
            "substeps": 1,
            "max_newton_steps": 1,
        }
        budgets = ("max_contacts_per_geometry", "max_ground_contacts", "max_link_contacts")
        optional = dict.fromkeys(budgets, 1)
        counts |= {
            name: least for name, least in optional.items() if getattr(self, name) is not None
        }
        for name, least in counts.items():
            check_count(name, getattr(self, name), least)
        speeds = ("smooth_friction", "max_separation_speed", "restitution_threshold")
        smoothings = ("contact_smoothing", "derivative_smoothing")
        for name in (*speeds, "allowed_penetration", "contact_distance", *smoothings):
            value = getattr(self, name)
            if name == "max_separation_speed" and value is None:
                continue
            if not (isinstance(value, int | float) and 0 <= value < float("inf")):
                raise ValueError(f"{name} must be finite and at least 0; found {value!r}")
        if self.tolerance is not None and not (
            isinstance(self.tolerance, int | float) and self.tolerance > 0
        ):
            raise ValueError(f"tolerance must be positive; found {self.tolerance!r}")
        if self.smooth_friction and not self.is_implicit:
            raise ValueError(
                f"smooth_friction needs solver='implicit'; found solver={self.solver!r}"
            )
        for name in smoothings:
            if getattr(self, name) and not self.is_implicit:
                raise ValueError(f"{name} needs solver='implicit'; found solver={self.solver!r}")
        if self.contact_smoothing and self.derivative_smoothing:
            raise ValueError(
                "contact_smoothing changes the step and its derivatives, derivative_smoothing "
                "derivatives alone: choose one of them"
            )
        if self.external_forces_every_iteration and self.solver != "tgs":
            raise ValueError(
                "external_forces_every_iteration needs solver='tgs', which has substeps"
            )
        self._warn_of_unused()

    def _warn_of_unused(self) -> None:
        """Warns of numbers that the solver does not use, which say nothing of the result."""
        defaults = {one.name: one.default for one in dataclasses.fields(self)}
        unused = [name for name in _UNUSED[self.solver] if getattr(self, name) != defaults[name]]
        if unused:
            verb = "has" if len(unused) == 1 else "have"
            warnings.warn(
                f"{', '.join(unused)} {verb} no effect with solver={self.solver!r}", stacklevel=4
            )

    @property
    def separation_speed(self) -> float:
        """``max_separation_speed``, or the solver's own."""
        if self.max_separation_speed is not None:
            return self.max_separation_speed
        return 0.1 if self.is_implicit else 1.0

    @property
    def is_implicit(self) -> bool:
        """Whether the step is artix's own: implicit, with contacts between links and in scenes."""
        return self.solver == "implicit"


def _warn(what: str) -> None:
    """Warns the caller of the options' constructor."""
    warnings.warn(
        f"{what}; the old option leaves with the next release", DeprecationWarning, stacklevel=4
    )


def check_tendon_law(law: object) -> None:
    """Raises ``ValueError`` unless this is the name of a law of tendons."""
    if law not in ("physx", "virtual_work"):
        raise ValueError(f"tendon_law must be 'physx' or 'virtual_work'; found {law!r}")


class Memory(Protocol):
    """The class of what a solver remembers of its contacts from step to step."""

    @classmethod
    def none(cls, articulation: Articulation, ground: Ground) -> Any:
        """The memory for a first step."""
        ...


class Solver(Protocol):
    """A solver for one articulation."""

    @property
    def memory(self) -> type[Memory]:
        """The class of its memory of contacts."""
        ...

    def check(self, articulation: Articulation, ground: Ground, options: SolverOptions) -> None:
        """Raises ``ValueError`` for contacts that it does not support, before the step is
        traced.
        """
        ...

    def step(
        self,
        articulation: Articulation,
        state: State,
        memory: Any,
        control: Control,
        dt: Array,
        options: SolverOptions,
        ground: Ground | None,
    ) -> tuple[State, Any, StepReport]:
        """One substep with checked arguments: the state after it, the memory if there was one, and
        the report.
        """
        ...


_solvers: dict[str, Solver] = {}


def register_solver(name: str, solver: Solver) -> None:
    """Makes a solver available to :func:`artix.step` under a name of :data:`HOMES`."""
    _solvers[name] = solver


def solver_of(name: str) -> Solver:
    """The solver with a name of :data:`HOMES`."""
    if name not in _solvers:
        importlib.import_module(HOMES[name])
    return _solvers[name]
