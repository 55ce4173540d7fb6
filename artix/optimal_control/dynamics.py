"""Steps of an articulation as functions of flat vectors, and their derivatives in the tangent
space.

Optimisers want vectors. A state ``x`` is one vector of configuration and generalised velocity. A
deviation ``dx`` of configuration and velocity has one entry for each direction of motion, so no
quaternion enters a Riccati equation. ``dynamics.integrate`` applies a deviation to a state,
``dynamics.difference`` finds the one between two states.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import artix
from artix.contact.scene import accepts_ground, scene_of
from artix.math import struct
from artix.math.arrays import known_values, matmul
from artix.model.checks import as_array, check_names, check_positive, known
from artix.optimal_control import knots
from artix.optimal_control.actuators import Actuator
from artix.optimal_control.schedule import ContactSchedule
from artix.simulation.step import with_budgets

Array = jax.Array
#: How far from the origin a fixed base may be said to stand [m, rad].
PLACE_TOLERANCE = 1e-6
#: A longer step is most likely one in milliseconds [s].
LONGEST = 1.0


class TangentLinearization(NamedTuple):
    """A step about a nominal one: ``dx' = A dx + B du``; see
    :meth:`DiscreteDynamics.linearize_tangent`.

    Attributes:
      next_state: the nominal state after the step, flat, [nx].
      state_matrix: A, [ndx, ndx].
      control_matrix: B, [ndx, nu].
      contact_force: forces on the rows of the contact schedule, [R] [N or N m]; empty without.
      contact_force_matrix: their derivatives with respect to dx and du, [R, ndx + nu].

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

    This is a pytree: all numbers of the articulation, the schedule and the ground can be replaced,
    batched and differentiated.

    Attributes:
      articulation: the articulation.
      dt: length of a step [s]; ``None`` if it is the last control of each knot.
      contact_schedule: which frames stand when; ``None`` for none.
      ground: what the articulation's shapes touch in the step's own contact; ``None`` for nothing.
      options: those of :func:`artix.step` if it takes the step; ``None`` for smooth and scheduled
        dynamics.
      actuated: the DOFs that controls drive, counted from the first joint.
      actuator: what turns controls into forces, with states of its own; ``None`` where controls are
        forces.

    Examples:
      >>> robot = artix.robots.load("quadruped")
      >>> dynamics = optimal_control.discrete_dynamics(robot, 0.01)
      >>> dynamics.num_states, dynamics.num_deviations, dynamics.num_controls
      (37, 36, 12)

    Subclass it, with a method ``step`` of the same arguments and results, for dynamics of your own,
    such as drag, thrust or a learned residual. Further fields are arrays by which solutions can be
    differentiated; a property ``num_controls`` replaces the number of controls. Derivatives are
    then tangents through ``step``. To solvers, angles of wheels that differ by 4 pi are the same,
    as to :func:`artix.integrate`: for a step that counts their turns, give their joints limits,
    however wide.

      >>> class Drag(optimal_control.DiscreteDynamics):
      ...     drag: jax.Array | float = 0.5  # [N m s]
      ...
      ...     def step(self, x, control, time=0):
      ...         return super().step(x, control - self.drag * self.unpack(x).joint_velocity, time)
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> plain = optimal_control.discrete_dynamics(pendulum, 0.01)
      >>> slowed, moving = Drag(**vars(plain)), jnp.array([0.0, 0.0, 2.0, 0.0])
      >>> print(slowed(moving, jnp.zeros(2))[2] < plain(moving, jnp.zeros(2))[2])
      True
    """

    articulation: artix.Articulation
    dt: Array | None
    contact_schedule: ContactSchedule | None
    ground: artix.Ground | None
    options: artix.SolverOptions | None = struct.field(pytree_node=False)
    actuated: tuple[int, ...] = struct.field(pytree_node=False)
    actuator: Actuator | None = None

    @property
    def num_states(self) -> int:
        """Length nx of a flat state."""
        tree = self.articulation.topology
        return (7 if tree.num_base_dofs else 0) + tree.num_dofs + tree.nv + self.num_actuator_states

    @property
    def num_actuator_states(self) -> int:
        """Number of states of the motors, the last ones of a flat state."""
        return 0 if self.actuator is None else self.actuator.states_per_motor * len(self.actuated)

    @property
    def num_deviations(self) -> int:
        """Length ndx of a deviation, twice nv and the motors' states."""
        return 2 * self.articulation.topology.nv + self.num_actuator_states

    @property
    def num_controls(self) -> int:
        """Length nu of a control: a force for each actuated DOF, and the step's length where that
        is free.
        """
        return len(self.actuated) + (self.dt is None)

    def pack(self, state: artix.State, actuator_state: Array | None = None) -> Array:
        """A state as a flat vector: root pose [7] of a floating base, joint positions [n],
        generalised velocity [nv].

        The states of motors follow, if there are some. A fixed base stands at the world's origin.

        Args:
          state: the state.
          actuator_state: the state of the motors; without force if ``None``.

        Returns:
          Shape [nx].

        Raises:
          ValueError: the base is fixed, and known to stand elsewhere.

        Examples:
          >>> robot = artix.robots.load("quadruped")
          >>> dynamics = optimal_control.discrete_dynamics(robot, 0.01)
          >>> dynamics.pack(artix.neutral_state(robot)).shape
          (37,)
        """
        _check_place(self.articulation, state)
        body = knots.pack(self.articulation, state)
        if self.actuator is None:
            return body
        if actuator_state is None:
            places = np.asarray(self.actuated)
            actuator_state = self.actuator.rest(
                state.joint_position[places], state.joint_velocity[places]
            )
        shape, dtype = (self.num_actuator_states,), self.articulation.dtype
        return jnp.concatenate(
            [body, as_array("actuator_state", actuator_state, shape, dtype, "of all motors")]
        )

    def unpack(self, x: Array) -> artix.State:
        """The state of a flat vector, the inverse of :meth:`pack`; motors' states are its last
        entries.

        Args:
          x: shape [nx].
        """
        return knots.unpack(self.articulation, self._split(x)[0])

    def integrate(self, x: Array, deviation: Array) -> Array:
        """Moves a flat state [nx] by a deviation [ndx]: the configuration along
        :func:`artix.integrate`.
        """
        return knots.deviate(self.articulation, self._checked(x), deviation)

    def difference(self, nominal: Array, x: Array) -> Array:
        """The deviation [ndx] that takes one flat state [nx] to another."""
        return knots.deviation_between(self.articulation, self._checked(nominal), self._checked(x))

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
        """The state after a step, [nx], and the forces on the rows of the contact schedule during
        it, [R].
        """
        (body, _), (force, motors) = self._split(x), self._driven(self._seen(x, control))
        if self.options is not None and self.dt is not None:
            moved = knots.simulated(
                self.articulation, body, force, self.dt, self.actuated, self.options, self.ground
            )
            contact_force = jnp.zeros(0, x.dtype)
        else:
            moved, contact_force = knots.advance(
                *self._smooth(time), body, force, self.dt, self.actuated
            )
        return moved if self.actuator is None else jnp.concatenate([moved, motors]), contact_force

    def deviated_step(
        self,
        x: Array,
        control: Array,
        deviation: Array,
        control_change: Array,
        time: int | Array = 0,
    ) -> Array:
        """The step in tangent space: how the next state deviates, [ndx], if state [ndx] and control
        [nu] do.

        Its Jacobian at zero is what :meth:`linearize_tangent` returns in closed form.
        """
        moved = self(self.integrate(x, deviation), control + control_change, time)
        return self.difference(jax.lax.stop_gradient(self(x, control, time)), moved)

    def linearize_tangent(
        self, x: Array, control: Array, time: int | Array = 0
    ) -> TangentLinearization:
        """The step and its matrices in deviations of configuration and velocity.

        Smooth and scheduled dynamics have closed-form derivatives, in one kernel. Where
        :func:`artix.step` or a subclass takes the step, or its length is free, they are tangents
        through it.

        Args:
          x: the nominal state, flat, shape [nx].
          control: the nominal control, shape [nu].
          time: number of the knot.

        Returns:
          The nominal step and the matrices.

        Examples:
          >>> dynamics = optimal_control.discrete_dynamics(
          ...     artix.robots.load("double_pendulum"), 0.01
          ... )
          >>> dynamics.linearize_tangent(jnp.zeros(4), jnp.zeros(2)).state_matrix.shape
          (4, 4)
        """
        is_closed = type(self).step is DiscreteDynamics.step
        if is_closed and self.options is None and self.dt is not None:
            return self._linearized(x, control, self.dt, time)
        ndx, (end, contact_force) = self.num_deviations, self.step(x, control, time)

        def twin(change: Array) -> tuple[Array, Array]:
            moved, force = self.step(self.integrate(x, change[:ndx]), control + change[ndx:], time)
            return self.difference(end, moved), force

        matrix, by_force = jax.jacfwd(twin)(jnp.zeros(ndx + self.num_controls, x.dtype))
        return TangentLinearization(end, matrix[:, :ndx], matrix[:, ndx:], contact_force, by_force)

    def _linearized(
        self, x: Array, control: Array, dt: Array, time: int | Array
    ) -> TangentLinearization:
        """Closed-form derivatives of the robot's step, and of the motors'."""
        seen, (body, _) = self._seen(x, control), self._split(x)
        force, motors = self._driven(seen)
        linear = TangentLinearization(
            *knots.linearized(*self._smooth(time), body, force, dt, self.actuated)
        )
        if self.actuator is None:
            return linear
        ndx, tree, places = (
            self.num_deviations,
            self.articulation.topology,
            np.asarray(self.actuated),
        )
        joints = places + tree.num_base_dofs
        columns = np.concatenate(
            [joints, tree.nv + joints, np.arange(2 * tree.nv, ndx + self.num_controls)]
        )
        by_seen = jax.jacfwd(self._driven)(seen)
        zero = jnp.zeros((len(places) + len(motors), ndx + self.num_controls), x.dtype)
        by_force, by_motors = jnp.split(
            zero.at[:, columns].set(jnp.concatenate(by_seen)), [len(places)]
        )

        def chained(of_body: Array, of_force: Array) -> Array:
            return matmul(of_force, by_force).at[:, : 2 * tree.nv].add(of_body)

        of_body, of_force = jnp.split(linear.contact_force_matrix, [2 * tree.nv], axis=1)
        matrix = jnp.concatenate([chained(linear.state_matrix, linear.control_matrix), by_motors])
        return TangentLinearization(
            jnp.concatenate([linear.next_state, motors]),
            matrix[:, :ndx],
            matrix[:, ndx:],
            linear.contact_force,
            chained(of_body, of_force),
        )

    def _checked(self, x: Array) -> Array:
        return as_array("x", x, (self.num_states,), self.articulation.dtype, "a flat state")

    def _split(self, x: Array) -> tuple[Array, Array]:
        """The robot's part of a flat state, and the motors'."""
        return knots.split(self.articulation, self._checked(x))

    def _seen(self, x: Array, control: Array) -> Array:
        """What motors see: positions and velocities of their joints, their states, and the
        control.
        """
        if self.actuator is None:
            return control
        places, tree, dtype = (
            np.asarray(self.actuated),
            self.articulation.topology,
            self.articulation.dtype,
        )
        control = as_array(
            "control", control, (self.num_controls,), dtype, "a command for each motor"
        )
        velocity = (7 if tree.num_base_dofs else 0) + tree.num_dofs + tree.num_base_dofs
        return jnp.concatenate(
            [x[velocity - tree.nv + places], x[velocity + places], self._split(x)[1], control]
        )

    def _driven(self, seen: Array) -> tuple[Array, Array]:
        """Forces of the actuated DOFs, with the step's length where that is free, and the next
        states of the motors.
        """
        if self.actuator is None:
            return seen, seen[:0]
        count, dt = len(self.actuated), seen[-1] if self.dt is None else self.dt
        position, velocity, state, control, length = jnp.split(
            seen, np.cumsum([count, count, self.num_actuator_states, count])
        )
        force, state = self.actuator.step(position, velocity, state, control, dt)
        return jnp.concatenate([force, length]), state

    def _smooth(
        self, time: int | Array
    ) -> tuple[artix.Articulation, artix.Constraints | None, Array | None]:
        """Arguments of smooth dynamics: the articulation, the constraints of all feet, the damping
        that frees some.
        """
        schedule = self.contact_schedule
        if schedule is None:
            return self.articulation, None, None
        knot, count = known(time), len(schedule.active)
        if knot is not None and not -count <= knot < count:
            raise IndexError(
                f"time: the contact schedule has {count} knots; there is no knot {knot}"
            )
        return self.articulation, schedule.constraints, schedule.damping(schedule.active[time])


@accepts_ground
def discrete_dynamics(
    scene: artix.Articulation | artix.Scene,
    dt: float | Array | None,
    *,
    contact_schedule: ContactSchedule | None = None,
    options: artix.SolverOptions | None = None,
    actuated: Sequence[str] | None = None,
    actuator: Actuator | None = None,
) -> DiscreteDynamics:
    """Steps of an articulation under joint forces, on flat vectors.

    There are three kinds. *Smooth*, the default, is one step of semi-implicit Euler on
    :func:`artix.forward_dynamics`. *Scheduled* is the same on
    :func:`artix.constrained_forward_dynamics`, which holds the frames that stand. Both have
    closed-form derivatives and ignore joint drives, limits and friction; use costs and bounds
    instead. They also ignore mimic joints, tendons and loop joints, and say so. *Simulated*, of a
    scene with a ground or with ``options``, is :func:`artix.step` with everything in it, contact
    included, and differentiates through its laws.

    With ``dt=None`` the time is free: the last control of each knot is the length of its step [s],
    to be bounded by the problem. The step is then the midpoint method, of second order, since an
    optimiser chooses lengths by the error of the integrator: semi-implicit Euler would swing up a
    pendulum in a tenth less than the least time.

    Args:
      scene: the articulation, or a scene of one.
      dt: length of a step [s], or ``None``.
      contact_schedule: which frames stand when.
      options: those of :func:`artix.step`; with a ground, the default ones if ``None``.
      actuated: names of the joints that controls drive, in this order; ``None`` for all.
      actuator: what turns controls into forces, such as :class:`MotorLag` or
        :class:`SeriesElasticity`; ``None`` where controls are forces.

    Returns:
      The dynamics: ``f(x, u, t)`` with ``pack``, ``unpack``, ``integrate``, ``difference`` and
      ``linearize_tangent``.

    Raises:
      KeyError: no joint has this name.
      TypeError: ``actuated`` is a single string, ``actuator`` is not an actuator, or the schedule
        has another dtype than the articulation.
      ValueError: ``dt`` is not one positive number, or ``None`` where :func:`artix.step` takes the
        step; ``actuated`` is empty, a joint is fixed or named twice, motors drive a spherical joint
        or have a number that is not positive, there is a schedule as well as a ground or options,
        or the schedule was made for another articulation.

    Warns:
      UserWarning: smooth or scheduled dynamics of a robot with couplings of joints, which they
        ignore.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> dynamics = optimal_control.discrete_dynamics(arm, 0.01)
      >>> hold = artix.gravity_compensation(arm, artix.neutral_state(arm))
      >>> bool(jnp.allclose(dynamics(jnp.zeros(14), hold), 0, atol=1e-5))
      True
    """
    scene = scene_of(scene)
    if scene.names:
        raise ValueError(
            "dynamics on flat vectors are of one articulation: artix.Scene(robot, ground=ground)"
        )
    (articulation,), ground = scene.articulations, scene.ground
    if contact_schedule is not None and (ground is not None or options is not None):
        raise ValueError(
            "a contact schedule keeps feet on the ground by constraints; ground and options are "
            "for simulated contact: give one or the other"
        )
    if dt is not None:
        if np.shape(dt):
            raise ValueError(
                f"dt: expected one number [s]; found shape {np.shape(dt)}. For lengths that "
                "differ, use dt=None"
            )
        check_positive("dt", dt, "s")
        if (length := known(dt)) is not None and length > LONGEST:
            warnings.warn(
                f"dt: {length:g} s is long for a step of a robot; it is in seconds", stacklevel=3
            )
    elif ground is not None or options is not None:
        raise ValueError(
            "dt: steps through contact have a given length; free ones are smooth or scheduled"
        )
    if contact_schedule is not None:
        contact_schedule.check_articulation(articulation)
    if options is None and ground is not None:
        options = artix.SolverOptions()
    if options is not None:
        options = with_budgets(scene, options)
    else:
        _warn_of_couplings(articulation)
    dofs = _actuated(articulation, actuated)
    return DiscreteDynamics(
        articulation,
        None if dt is None else jnp.asarray(dt, articulation.dtype),
        contact_schedule,
        ground,
        options,
        dofs,
        None if actuator is None else _checked_actuator(articulation, actuator, dofs),
    )


def _check_place(articulation: artix.Articulation, state: artix.State) -> None:
    """Raises ``ValueError`` if a fixed base is known to stand where no flat state says."""
    pose = known_values(state.root_pose) if articulation.topology.fixed_base else None
    if pose is None or pose.shape != (7,):
        return
    if np.abs(pose[:6]).max() > PLACE_TOLERANCE:
        raise ValueError(
            "state.root_pose: flat states have no pose of a fixed base, which stands at the "
            f"world's origin, upright; found {pose}. Put gravity and targets into axes of the "
            "base, or attach the robot to a link that stands there (artix.attach_articulation)"
        )


def _warn_of_couplings(articulation: artix.Articulation) -> None:
    """Says which couplings of joints are ignored."""
    tree = articulation.topology
    kinds = {
        "mimic joints": [tree.dof_names[follower] for follower, _ in tree.mimic_dofs],
        "tendons": [
            *(one.name for one in tree.fixed_tendons),
            *(one.name for one in tree.spatial_tendons),
        ],
        "loop joints": [one.name for one in tree.loop_joints],
    }
    ignored = [f"{kind} {', '.join(map(repr, names))}" for kind, names in kinds.items() if names]
    if ignored:
        warnings.warn(
            f"{tree.name}: smooth and scheduled dynamics ignore its {' and its '.join(ignored)}; "
            "options=artix.SolverOptions() simulates them, artix.lock_joints holds joints still",
            stacklevel=3,
        )


def _checked_actuator(
    articulation: artix.Articulation, actuator: Actuator, dofs: tuple[int, ...]
) -> Actuator:
    """The actuator with arrays of the articulation's dtype.

    Raises:
      TypeError: it is not an actuator.
      ValueError: it drives a spherical joint, or returns arrays of other shapes than one for each
        motor.
    """
    if not isinstance(actuator, Actuator):
        raise TypeError(
            f"actuator: expected one, such as MotorLag(0.02); found {type(actuator).__name__}"
        )
    tree = articulation.topology
    for name in tree.joint_names:
        driven = set(dofs) & set(range(tree.num_dofs)[tree.dofs(name)])
        if len(driven) > 1:
            raise ValueError(
                f"actuator: joint {name!r} has {len(driven)} DOFs; motors drive joints of one"
            )
    actuator._check()
    actuator = jax.tree.map(lambda leaf: jnp.asarray(leaf, articulation.dtype), actuator)
    motors, states = (jax.ShapeDtypeStruct((count,), articulation.dtype) for count in
                      (len(dofs), actuator.states_per_motor * len(dofs)))  # fmt: skip
    dt = jax.ShapeDtypeStruct((), articulation.dtype)
    shapes = [
        each.shape for each in jax.eval_shape(actuator.step, motors, motors, states, motors, dt)
    ]
    if shapes != [motors.shape, states.shape]:
        raise ValueError(
            f"actuator: {type(actuator).__name__}.step of {len(dofs)} motors should return shapes "
            f"{motors.shape} and {states.shape}; found {' and '.join(map(str, shapes))}"
        )
    return actuator


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
