"""An optimal control problem: dynamics, a start, and costs that are half the sum of squared
residuals.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import artix
from artix.math import struct
from artix.math.arrays import check_finite
from artix.model.checks import as_array, check_quaternion, known, warn_of_positions
from artix.optimal_control import knots
from artix.optimal_control.dynamics import DiscreteDynamics

Array = jax.Array
#: What to do about a reference that is no number.
MASK = "; where nothing is wanted, put any number and multiply its residual by zero"


class Knot(NamedTuple):
    """What a residual sees: one knot of a trajectory.

    Attributes:
      articulation: the articulation of the dynamics.
      state: the state at the beginning of the knot.
      control: the control during the knot, [nu] [N m or N]; its last entry is the knot's length [s]
        where that is free; ``None`` at the end of the horizon.
      contact_force: forces on the rows of the contact schedule during the knot, [R] [N or N m],
        empty without a schedule; ``None`` at the end of the horizon.
      reference: this knot's entry of the problem's ``references``.
      parameters: the problem's ``parameters``.
      actuator_state: the state of the motors at the beginning of the knot, as :class:`Actuator`
        says; ``None`` without.

    Examples:
      >>> def residual(knot):
      ...     return jnp.concatenate(
      ...         [knot.state.joint_position - knot.reference, 0.1 * knot.control]
      ...     )
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> state = artix.neutral_state(pendulum)
      >>> print(
      ...     residual(
      ...         optimal_control.Knot(
      ...             pendulum, state, jnp.array([1.0, 2.0]), None, jnp.array(0.5), None
      ...         )
      ...     )
      ... )
      [-0.5 -0.5  0.1  0.2]
    """

    articulation: artix.Articulation
    state: artix.State
    control: Any
    contact_force: Any
    reference: Any
    parameters: Any
    actuator_state: Any = None


Residual = Callable[[Knot], Array]


class Problem(struct.PyTreeNode):
    """Minimise ``1/2 |final|^2 + sum_t 1/2 |running_t|^2`` over the trajectories from a given
    state.

    Residuals are plain functions of a :class:`Knot`. Pass them numbers through ``references`` and
    ``parameters``, whose arrays can be batched, and by which solutions can be differentiated.
    Numbers that they read elsewhere, such as globals and attributes of ``self``, are compiled at
    the first call and stay, as under ``jax.jit``. The problem is a pytree whose functions are
    static: define them once, at the top level of a module, so that their compiled programs are
    reused.

    Attributes:
      dynamics: the dynamics.
      start: the state at the beginning, flat, [nx].
      running: the residual of a knot, shape [r]; ``None`` for none.
      final: the residual of the state after the last knot, shape [f]; ``None`` for none.
      references: a pytree of arrays with a leading axis [T + 1]; each knot sees its own entry,
        ``final`` the last.
      parameters: a pytree of arrays that all knots see.
      control_lower: lower bounds of the controls, [nu]; ``None`` for no bounds. Give both or
        neither.
      control_upper: upper bounds, [nu].
      equality: numbers that must vanish at each knot, for :func:`solve_constrained`, as are the
        following.
      inequality: numbers that must not be positive at each knot.
      final_equality: numbers that must vanish at the end.
      final_inequality: numbers that must not be positive at the end.
      closure: numbers of the first and the last :class:`Knot` together that must vanish, as those
        of a gait that repeats; both have ``None`` for controls and contact forces.
      free_start: which deviations of the start are free, [ndx] of bool; the start is then a guess.
        The rotation of a floating base should be free or given as a whole. ``None`` for none.

    Examples:
      >>> dynamics = optimal_control.discrete_dynamics(artix.robots.load("double_pendulum"), 0.02)
      >>> effort, arrive = (
      ...     lambda knot: 0.1 * knot.control,
      ...     lambda knot: knot.state.joint_position - knot.parameters,
      ... )
      >>> goal, limit = jnp.array([0.5, 0.2]), jnp.array([20.0, 10.0])
      >>> problem = optimal_control.Problem(
      ...     dynamics,
      ...     jnp.zeros(4),
      ...     effort,
      ...     arrive,
      ...     parameters=goal,
      ...     control_lower=-limit,
      ...     control_upper=limit,
      ... )
      >>> problem.has_bounds
      True
    """

    dynamics: DiscreteDynamics
    start: Array
    running: Residual | None = struct.field(pytree_node=False)
    final: Residual | None = struct.field(pytree_node=False, default=None)
    references: Any = None
    parameters: Any = None
    control_lower: Array | None = None
    control_upper: Array | None = None
    equality: Residual | None = struct.field(pytree_node=False, default=None)
    inequality: Residual | None = struct.field(pytree_node=False, default=None)
    final_equality: Residual | None = struct.field(pytree_node=False, default=None)
    final_inequality: Residual | None = struct.field(pytree_node=False, default=None)
    closure: Callable[[Knot, Knot], Array] | None = struct.field(pytree_node=False, default=None)
    free_start: Array | None = None

    @property
    def has_bounds(self) -> bool:
        """Whether controls are bounded."""
        return self.control_lower is not None

    @property
    def constraints(self) -> tuple[str, ...]:
        """Names of the constraint fields that are set."""
        kinds = ("equality", "inequality", "final_equality", "final_inequality", "closure")
        return tuple(kind for kind in kinds if getattr(self, kind) is not None)

    def reference(self, time: int | Array) -> Any:
        """The entry of ``references`` for a knot."""
        return jax.tree.map(lambda leaf: leaf[time], self.references)


def rollout(problem: Problem, controls: Array) -> Array:
    """Simulates the dynamics under controls.

    Args:
      problem: the problem; only its dynamics and start matter.
      controls: forces of the actuated joints [N m or N], shape [T, nu].

    Returns:
      Flat states from the start to the end, shape [T + 1, nx], with the units of
      :meth:`DiscreteDynamics.pack`.

    Raises:
      TypeError: an array has another dtype than the articulation.
      ValueError: an array does not fit the problem.

    Identity: ``states[t + 1] == problem.dynamics(states[t], controls[t], t)``.

    Examples:
      >>> dynamics = optimal_control.discrete_dynamics(artix.robots.load("double_pendulum"), 0.01)
      >>> running, final = lambda knot: knot.control, lambda knot: knot.state.joint_velocity
      >>> problem = optimal_control.Problem(dynamics, jnp.zeros(4), running, final)
      >>> optimal_control.rollout(problem, jnp.zeros((10, 2))).shape
      (11, 4)
    """
    problem, controls, _ = checked(problem, controls)

    def body(x: Array, inputs: tuple[Array, Array]) -> tuple[Array, Array]:
        end = problem.dynamics(x, *inputs)
        return end, end

    states = jax.lax.scan(body, problem.start, (controls, jnp.arange(len(controls))))[1]
    return jnp.concatenate([problem.start[None], states])


def total_cost(problem: Problem, states: Array, controls: Array) -> Array:
    """The cost ``1/2 |final|^2 + sum_t 1/2 |running_t|^2`` of a trajectory.

    The states need not follow from the controls.

    Args:
      problem: the problem.
      states: flat states, shape [T + 1, nx].
      controls: forces of the actuated joints [N m or N], shape [T, nu].

    Returns:
      The cost, [], in the units of the squared residuals; constraints do not contribute.

    Raises:
      TypeError: an array or a residual has another dtype than the articulation.
      ValueError: an array does not fit the problem, or a residual is not a vector.

    Examples:
      >>> dynamics = optimal_control.discrete_dynamics(artix.robots.load("double_pendulum"), 0.02)
      >>> effort, arrive = (
      ...     lambda knot: 0.1 * knot.control,
      ...     lambda knot: knot.state.joint_position - 0.5,
      ... )
      >>> problem = optimal_control.Problem(dynamics, jnp.zeros(4), effort, arrive)
      >>> # 0.1 and 0.25
      >>> print(optimal_control.total_cost(problem, jnp.zeros((11, 4)), jnp.ones((10, 2))))
      0.35
    """
    problem, controls, along = checked(problem, controls, states)
    assert along is not None
    return jnp.sum(running_costs(problem, along[:-1], controls)) + final_cost(problem, along[-1])


def running_costs(problem: Problem, states: Array, controls: Array) -> Array:
    """The cost of each knot, [T]."""

    def one(x: Array, control: Array, time: Array) -> Array:
        return running_cost(
            problem, x, control, problem.dynamics.step(x, control, time)[1], problem.reference(time)
        )

    return jax.vmap(one)(states, controls, jnp.arange(len(controls)))


def running_cost(
    problem: Problem, x: Array, control: Array, contact_force: Array, reference: Any
) -> Array:
    """The cost of a knot whose contact forces are known."""
    seen = (problem.running, x, control, contact_force, reference, problem.parameters)
    return residual_cost(problem.dynamics.articulation, *seen)


def final_cost(problem: Problem, x: Array) -> Array:
    """The cost of the last state."""
    articulation, reference = problem.dynamics.articulation, problem.reference(-1)
    return residual_cost(articulation, problem.final, x, None, None, reference, problem.parameters)


def ends_cost(problem: Problem, first: Array, last: Array) -> Array:
    """Half the sum of squares of the closure of an augmented problem; zero without one."""
    return 0.5 * jnp.sum(closure(problem, first, last) ** 2)


def closure(problem: Problem, first: Array, last: Array) -> Array:
    """What should vanish of the first and the last state, [c]."""
    if problem.closure is None:
        return first[:0]
    ends = (first, problem.reference(0)), (last, problem.reference(-1))
    return closure_rows(problem.dynamics.articulation, problem.closure, *ends, problem.parameters)


def residual_cost(
    articulation: artix.Articulation, function: Residual | None, x: Array, *seen: Any
) -> Array:
    """Half the sum of squares of a residual; zero without one."""
    if function is None:
        return jnp.zeros((), x.dtype)
    return 0.5 * jnp.sum(residual(articulation, function, x, *seen) ** 2)


@artix.quantity
def residual(
    articulation: artix.Articulation,
    function: Residual,
    x: Array,
    control: Array | None,
    contact_force: Array | None,
    reference: Any,
    parameters: Any,
) -> Array:
    """A residual, [r]."""
    return vector(function, _knot(articulation, x, control, contact_force, reference, parameters))


@artix.quantity
def closure_rows(
    articulation: artix.Articulation,
    function: Callable[[Knot, Knot], Array],
    first: tuple[Array, Any],
    last: tuple[Array, Any],
    parameters: Any,
) -> Array:
    """What should vanish of the first and the last flat state, each with its reference, [c]."""
    ends = [
        _knot(articulation, x, None, None, reference, parameters) for x, reference in (first, last)
    ]
    return vector(function, *ends)


def _knot(articulation: artix.Articulation, x: Array, *seen: Any) -> Knot:
    """A flat state with what else a residual sees."""
    body, motors = knots.split(articulation, x)
    knot = Knot(articulation, knots.unpack(articulation, body), *seen)
    return knot._replace(actuator_state=motors) if len(motors) else knot


def bounds_meet(problem: Problem) -> Array:
    """Whether no lower bound is above its upper one, which is refused only where both are known."""
    if problem.control_lower is None or problem.control_upper is None:
        return jnp.ones((), bool)
    return jnp.all(problem.control_lower <= problem.control_upper)


def vector(function: Callable[..., Array], *knots: Knot) -> Array:
    """The value of a user's function of knots.

    Raises:
      TypeError: it is not an array, or has another dtype than the articulation.
      ValueError: it is not a vector.
    """
    value, name, knot = (
        function(*knots),
        getattr(function, "__qualname__", repr(function)),
        knots[-1],
    )
    if not isinstance(value, jax.Array | np.ndarray):
        missing = "; at the end of the horizon knot.control and knot.contact_force are None"
        raise TypeError(
            f"residual {name}: expected a vector, as jnp.concatenate makes one of several; found "
            f"{type(value).__name__}{missing if knot.control is None else ''}"
        )
    if value.ndim != 1:
        raise ValueError(f"residual {name}: expected a vector; found shape {value.shape}")
    dtype = knot.articulation.dtype
    if value.dtype != dtype:
        raise TypeError(
            f"residual {name}: expected dtype {dtype}, that of the articulation; found "
            f"{value.dtype}. Weights, references and parameters need the articulation's dtype, too"
        )
    return jnp.asarray(value)


def checked(
    problem: Problem, controls: Any, states: Any = None
) -> tuple[Problem, Array, Array | None]:
    """The problem, controls and states as JAX arrays, once their shapes and dtypes are known to fit
    together.

    Raises:
      TypeError: an argument is not an array, or has another dtype than the articulation.
      ValueError: an array has the wrong shape, a known start or guess is not finite, or bounds are
        wrong.
    """
    if not isinstance(problem.dynamics, DiscreteDynamics):
        raise TypeError(
            "problem.dynamics: expected those of discrete_dynamics(robot, dt, ...); found "
            f"{type(problem.dynamics).__name__}; for dynamics of your own, subclass "
            "DiscreteDynamics"
        )
    dynamics, nu, dtype = (
        problem.dynamics,
        problem.dynamics.num_controls,
        problem.dynamics.articulation.dtype,
    )
    if isinstance(problem.start, artix.State):
        raise TypeError(
            "problem.start: expected a flat state; found a State: use dynamics.pack(state)"
        )
    tree = dynamics.articulation.topology
    meaning = "a flat state"
    if tree.num_base_dofs:
        meaning += (
            " with pose and velocity of the base, which floats; read robots that stand fixed with "
            "fixed_base=True"
        )
    start = as_array("problem.start", problem.start, (dynamics.num_states,), dtype, meaning)
    controls = as_array(
        "controls", controls, ("T", nu), dtype, "a force for each actuated DOF in each knot"
    )
    count = len(controls)
    if not count:
        raise ValueError(f"controls: expected at least one knot; found shape {controls.shape}")
    if states is not None:
        meaning = "flat states, one more than controls"
        states = as_array("states", states, (count + 1, dynamics.num_states), dtype, meaning)
    for name, x in (("problem.start", start), ("states", states)):
        check_finite(name, x)
        if x is not None and tree.num_base_dofs and (values := known(x)) is not None:
            check_quaternion(name, values[..., :7])
    if (values := known(start)) is not None:
        joints = values[7 if tree.num_base_dofs else 0 :][None, : tree.num_dofs]
        warn_of_positions("problem.start", dynamics.articulation, joints)
    check_finite("controls", controls)
    for name, tree_of_arrays in (
        ("references", problem.references),
        ("parameters", problem.parameters),
    ):
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree_of_arrays):
            check_finite(f"problem.{name}{jax.tree_util.keystr(path)}", leaf, MASK, infinite=True)
    lengths = {jnp.shape(leaf)[:1] for leaf in jax.tree.leaves(problem.references)}
    if lengths - {(count + 1,)}:
        raise ValueError(
            f"problem.references: expected a leading axis [{count + 1}], one more than controls, "
            f"on each array; found {sorted(lengths)}"
        )
    schedule = dynamics.contact_schedule
    if schedule is not None and (schedule.active.ndim != 2 or len(schedule.active) != count):
        raise ValueError(
            f"the contact schedule has shape {schedule.active.shape}, a row for each knot, but "
            f"controls have {count} knots"
        )
    _check_bounds(problem, nu, dtype)
    if problem.free_start is not None:
        meaning = "whether each deviation of the start is free"
        as_array(
            "problem.free_start", problem.free_start, (dynamics.num_deviations,), bool, meaning
        )
    return problem.replace(start=start), controls, states


def _check_bounds(problem: Problem, nu: int, dtype: Any) -> None:
    lower, upper = problem.control_lower, problem.control_upper
    if problem.dynamics.dt is None:
        shortest = None if lower is None else known(lower)
        if lower is None or (shortest is not None and not shortest[..., -1] > 0):
            raise ValueError(
                "control_lower: the last control is the length of a knot, which needs bounds "
                f"above zero; found {'none' if lower is None else lower[-1]}"
            )
    if (lower is None) != (upper is None):
        raise ValueError(
            "control_lower and control_upper: give both or neither; infinite entries are unbounded"
        )
    if lower is None or upper is None:
        return
    for name, bound in (("control_lower", lower), ("control_upper", upper)):
        as_array(f"problem.{name}", bound, (nu,), dtype, "a bound for each control")
    least, most = known(lower), known(upper)
    if least is not None and most is not None and not np.all(least <= most):
        raise ValueError(
            f"control_lower: expected no entry above control_upper; found {least} and {most}"
        )
