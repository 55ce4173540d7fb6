"""Steps of an articulation as functions of flat vectors, and their derivatives in the tangent space.

Optimisers want vectors. A state ``x`` is one vector of configuration and generalised velocity. A deviation ``dx`` of
configuration and velocity has one entry for each direction of motion, so no quaternion enters a Riccati equation.
``dynamics.integrate`` applies a deviation to a state, ``dynamics.difference`` finds the one between two states.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

import artix
from artix.contact.scene import accepts_ground, scene_of
from artix.math import struct
from artix.optimal_control import knots
from artix.optimal_control.checks import check_names, check_positive, known
from artix.optimal_control.schedule import ContactSchedule
from artix.simulation.step import with_budgets

Array = jax.Array


class TangentLinearization(NamedTuple):
    """A step about a nominal one: ``dx' = A dx + B du``; see :meth:`DiscreteDynamics.linearize_tangent`.

    Attributes:
      next_state: the nominal state after the step, flat, [nx].
      state_matrix: A, [ndx, ndx].
      control_matrix: B, [ndx, nu].
      contact_force: forces on the rows of the contact schedule, [R] [N or N m]; empty without.
      contact_force_matrix: their derivatives by dx and du together, [R, ndx + nu].

    Examples:
      >>> dynamics = optimal_control.discrete_dynamics(artix.robots.load("double_pendulum"), 0.01)
      >>> linear = dynamics.linearize_tangent(jnp.zeros(4), jnp.zeros(2))
      >>> push = jnp.array([0.01, 0.0])
      >>> expected = linear.next_state + linear.control_matrix @ push
      >>> bool(jnp.allclose(dynamics(jnp.zeros(4), push), expected, atol=1e-5))
      True
    """

    next_state: Array
    state_matrix: Array
    control_matrix: Array
    contact_force: Array
    contact_force_matrix: Array


class DiscreteDynamics(struct.PyTreeNode):
    """Steps of an articulation as ``x' = f(x, u, t)``; make one by :func:`discrete_dynamics`.

    This is a pytree: all numbers of the articulation, the schedule and the ground can be replaced, batched and
    differentiated.

    Attributes:
      articulation: the articulation.
      dt: length of a step [s]; ``None`` if it is the last control of each knot.
      contact_schedule: which frames stand when; ``None`` for none.
      ground: what the articulation's shapes touch in the step's own contact; ``None`` for nothing.
      options: those of :func:`artix.step` if it takes the step; ``None`` for smooth and scheduled dynamics.
      actuated: the DOFs that controls drive, counted from the first joint.

    Examples:
      >>> robot = artix.robots.load("quadruped")
      >>> dynamics = optimal_control.discrete_dynamics(robot, 0.01)
      >>> dynamics.num_states, dynamics.num_deviations, dynamics.num_controls
      (37, 36, 12)
    """

    articulation: artix.Articulation
    dt: Array | None
    contact_schedule: ContactSchedule | None
    ground: artix.Ground | None
    options: artix.SolverOptions | None = struct.field(pytree_node=False)
    actuated: tuple[int, ...] = struct.field(pytree_node=False)

    @property
    def num_states(self) -> int:
        """Length nx of a flat state."""
        tree = self.articulation.topology
        return (7 if tree.num_base_dofs else 0) + tree.num_dofs + tree.nv

    @property
    def num_deviations(self) -> int:
        """Length ndx of a deviation, twice nv."""
        return 2 * self.articulation.topology.nv

    @property
    def num_controls(self) -> int:
        """Length nu of a control: a force for each actuated DOF, and the step's length where that is free."""
        return len(self.actuated) + (self.dt is None)

    @property
    def num_contact_rows(self) -> int:
        """Number R of rows of the contact schedule."""
        return 0 if self.contact_schedule is None else self.contact_schedule.constraints.num_rows

    def pack(self, state: artix.State) -> Array:
        """A state as a flat vector: root pose [7] of a floating base, joint positions [n], generalised velocity [nv].

        Args:
          state: the state.

        Returns:
          Shape [nx].

        Examples:
          >>> robot = artix.robots.load("quadruped")
          >>> dynamics = optimal_control.discrete_dynamics(robot, 0.01)
          >>> dynamics.pack(artix.neutral_state(robot)).shape
          (37,)
        """
        return knots.pack(self.articulation, state)

    def unpack(self, x: Array) -> artix.State:
        """The state of a flat vector, the inverse of :meth:`pack`.

        Args:
          x: shape [nx].
        """
        return knots.unpack(self.articulation, x)

    def integrate(self, x: Array, deviation: Array) -> Array:
        """Moves a flat state [nx] by a deviation [ndx]: the configuration along :func:`artix.integrate`."""
        return knots.deviate(self.articulation, x, deviation)

    def difference(self, nominal: Array, x: Array) -> Array:
        """The deviation [ndx] that takes one flat state [nx] to another."""
        return knots.deviation_between(self.articulation, nominal, x)

    def __call__(self, x: Array, control: Array, time: int | Array = 0) -> Array:
        """The state after a step.

        Args:
          x: the state, flat, shape [nx].
          control: forces of the actuated joints [N m or N], shape [nu].
          time: number of the knot, which decides what stands; ignored without a schedule.

        Returns:
          Shape [nx].
        """
        return self.step(x, control, time)[0]

    def step(self, x: Array, control: Array, time: int | Array = 0) -> tuple[Array, Array]:
        """The state after a step, [nx], and the forces on the rows of the contact schedule during it, [R]."""
        if self.options is not None and self.dt is not None:
            moved = knots.simulated(self.articulation, x, control, self.dt, self.actuated, self.options, self.ground)
            return moved, jnp.zeros(0, x.dtype)
        return knots.advance(*self._smooth(time), x, control, self.dt, self.actuated)

    def deviated_step(
        self, x: Array, control: Array, deviation: Array, control_change: Array, time: int | Array = 0
    ) -> Array:
        """The step in tangent space: how the next state deviates, [ndx], if state [ndx] and control [nu] do.

        Its Jacobian at zero is what :meth:`linearize_tangent` returns in closed form.
        """
        moved = self(self.integrate(x, deviation), control + control_change, time)
        return self.difference(jax.lax.stop_gradient(self(x, control, time)), moved)

    def linearize_tangent(self, x: Array, control: Array, time: int | Array = 0) -> TangentLinearization:
        """The step and its matrices in deviations of configuration and velocity.

        Smooth and scheduled dynamics have closed-form derivatives, in one kernel. Where :func:`artix.step` takes the
        step, or its length is free, they are tangents through it.

        Args:
          x: the nominal state, flat, shape [nx].
          control: the nominal control, shape [nu].
          time: number of the knot.

        Returns:
          The nominal step and the matrices.

        Examples:
          >>> dynamics = optimal_control.discrete_dynamics(artix.robots.load("double_pendulum"), 0.01)
          >>> dynamics.linearize_tangent(jnp.zeros(4), jnp.zeros(2)).state_matrix.shape
          (4, 4)
        """
        if self.options is None and self.dt is not None:
            return TangentLinearization(*knots.linearized(*self._smooth(time), x, control, self.dt, self.actuated))
        ndx, (end, contact_force) = self.num_deviations, self.step(x, control, time)

        def twin(change: Array) -> tuple[Array, Array]:
            moved, force = self.step(self.integrate(x, change[:ndx]), control + change[ndx:], time)
            return self.difference(end, moved), force

        matrix, by_force = jax.jacfwd(twin)(jnp.zeros(ndx + self.num_controls, x.dtype))
        return TangentLinearization(end, matrix[:, :ndx], matrix[:, ndx:], contact_force, by_force)

    def _smooth(self, time: int | Array) -> tuple[artix.Articulation, artix.Constraints | None, Array | None]:
        """Arguments of smooth dynamics: the articulation, the constraints of all feet, the damping that frees some."""
        schedule = self.contact_schedule
        if schedule is None:
            return self.articulation, None, None
        knot, count = known(time), len(schedule.active)
        if knot is not None and not -count <= knot < count:
            raise IndexError(f"time: the contact schedule has {count} knots; there is no knot {knot}")
        return self.articulation, schedule.constraints, schedule.damping(schedule.active[time])


@accepts_ground
def discrete_dynamics(
    scene: artix.Articulation | artix.Scene,
    dt: float | Array | None,
    *,
    contact_schedule: ContactSchedule | None = None,
    options: artix.SolverOptions | None = None,
    actuated: Sequence[str] | None = None,
) -> DiscreteDynamics:
    """Steps of an articulation under joint forces, on flat vectors.

    There are three kinds. *Smooth*, the default, is one step of semi-implicit Euler on :func:`artix.forward_dynamics`.
    *Scheduled* is the same on :func:`artix.constrained_forward_dynamics`, which holds the frames that stand. Both have
    closed-form derivatives and ignore joint drives, limits and friction; use costs and bounds instead. *Simulated*, of
    a scene with a ground or with ``options``, is :func:`artix.step` with everything in it, contact included, and
    differentiates through its laws.

    With ``dt=None`` the time is free: the last control of each knot is the length of its step [s], to be bounded by
    the problem. The step is then the midpoint method, of second order, since an optimiser chooses lengths by the
    error of the integrator: semi-implicit Euler would swing up a pendulum in a tenth less than the least time.

    Args:
      scene: the articulation, or a scene of one.
      dt: length of a step [s], or ``None``.
      contact_schedule: which frames stand when.
      options: those of :func:`artix.step`; with a ground, the default ones if ``None``.
      actuated: names of the joints that controls drive, in this order; ``None`` for all.

    Returns:
      The dynamics: ``f(x, u, t)`` with ``pack``, ``unpack``, ``integrate``, ``difference`` and ``linearize_tangent``.

    Raises:
      KeyError: no joint has this name.
      TypeError: ``actuated`` is a single string, or the schedule has another dtype than the articulation.
      ValueError: ``dt`` is not positive, or ``None`` where :func:`artix.step` takes the step; ``actuated`` is empty, a
        joint is fixed or named twice, there is a schedule as well as a ground or options, or the schedule was made for
        another articulation.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> dynamics = optimal_control.discrete_dynamics(arm, 0.01)
      >>> hold = artix.gravity_compensation(arm, artix.neutral_state(arm))
      >>> bool(jnp.allclose(dynamics(jnp.zeros(14), hold), 0, atol=1e-5))
      True
    """
    scene = scene_of(scene)
    if scene.names:
        raise ValueError("dynamics on flat vectors are of one articulation: artix.Scene(robot, ground=ground)")
    (articulation,), ground = scene.articulations, scene.ground
    if contact_schedule is not None and (ground is not None or options is not None):
        raise ValueError(
            "a contact schedule keeps feet on the ground by constraints; ground and options are for simulated contact: "
            "give one or the other"
        )
    if dt is not None:
        check_positive("dt", dt, "s")
    elif ground is not None or options is not None:
        raise ValueError("dt: steps through contact have a given length; free ones are smooth or scheduled")
    if contact_schedule is not None:
        contact_schedule.check_articulation(articulation)
    if options is None and ground is not None:
        options = artix.SolverOptions()
    if options is not None:
        options = with_budgets(scene, options)
    return DiscreteDynamics(
        articulation,
        None if dt is None else jnp.asarray(dt, articulation.dtype),
        contact_schedule,
        ground,
        options,
        _actuated(articulation, actuated),
    )


def _actuated(articulation: artix.Articulation, names: Sequence[str] | None) -> tuple[int, ...]:
    """The DOFs of joints, counted from the first joint."""
    tree = articulation.topology
    if names is None:
        return tuple(range(tree.num_dofs))
    check_names("actuated", names)
    if not len(names):
        raise ValueError("actuated: give the name of at least one joint, or None for all")
    numbers: list[int] = []
    for name in names:
        dofs = tree.dofs(name)
        if not len(range(tree.num_dofs)[dofs]):
            raise ValueError(f"joint {name!r} is fixed and cannot be actuated")
        numbers += range(tree.num_dofs)[dofs]
    return tuple(numbers)
