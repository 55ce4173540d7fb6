"""The solution of a step by :mod:`artix.simulation.implicit.solver`, and its derivative.

The derivative comes from the momentum equation and the laws at the solution, so it needs the
derivatives of inverse dynamics, but neither those of the mass matrix nor those of the solver's
iterations.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.compiler.kept_values import kept
from artix.dynamics.factorization import MassProduct, factorize_product, solve
from artix.dynamics.inverse import rigid_body_forces
from artix.kinematics.configuration import generalized_velocity
from artix.math.arrays import joined, matmul
from artix.math.gaussian_elimination import MOST_WRITTEN_OUT, lu_solver
from artix.math.tangents import value_and_change, without_derivatives
from artix.model.articulation import Articulation, State
from artix.model.topology import Topology
from artix.simulation.common.contact_memory import ContactMemory
from artix.simulation.common.drives import Sweep
from artix.simulation.common.options import SolverOptions
from artix.simulation.implicit.contact_motions import Touches, contact_reaches
from artix.simulation.implicit.contact_rows import Touching, contact_impulse, contact_rows
from artix.simulation.implicit.joint_rows import (
    all_bound_rows,
    distance_rows,
    has_dry_friction,
)
from artix.simulation.implicit.nearest_first import Solution, solve_nearest_first
from artix.simulation.implicit.resolvents import BoundImpulses, VelocityBounds
from artix.simulation.implicit.row_equations import Changes, law_residuals, row_equations
from artix.simulation.implicit.rows import Impulses, RowImpulses, StepRows
from artix.simulation.implicit.solver import StepSystem, friction_budget, solve_system
from artix.simulation.implicit.system import (
    Acting,
    Prepared,
    Response,
    dof_places,
    elimination_order,
    elimination_products,
    has_limited_drives,
    in_columns,
    loose_groups,
    missing_impulse,
    parted,
    side_by_side,
    spring_impulse,
)

Array = jax.Array


#: A direction is locked if hard relations leave less than this of its mobility, in units of the
#: rounding error.
_LOCKED = 100

#: Systems that need more products are eliminated by loops, and so their steps are XLA's. The bound
#: is twelve free bodies that all touch: with thirteen boxes a step is too much for one kernel.
_MAX_PRODUCTS = MOST_WRITTEN_OUT**3 // 3


class Bounded(NamedTuple):
    """Velocities of one articulation that satisfy all bounds."""

    moving_velocity: Array
    """Velocity that moves the positions, [nv]; it also corrects position errors of hard mimic
    joints."""
    velocity: Array
    """Velocity at the end of the step, [nv]."""
    loop_impulse: Array
    """Impulses on all rows of the loop joints' anchors."""
    added_momentum: Array
    """What contacts, loop joints and tendons add to the momentum of a floating articulation, about
    the centre of mass of its root at the start, [base]."""


class AllBounded(NamedTuple):
    """The velocities and impulses of all articulations."""

    each: list[Bounded]
    velocity: Array
    """Velocity of all articulations at the end of the step, [nv]."""
    moving_corrections: Array
    """How far the laws are from being satisfied by the velocity that moves positions, as
    velocities, [R]."""
    corrections: Array
    """The same for the velocity at the end."""
    impulses: Impulses
    """Impulses of all bounds at the end of the step; those of DOFs in their order."""
    newton_steps: Array
    """Number of Newton steps, as a floating-point number."""
    is_solved: Array
    """Whether they were enough, [], bool."""


class Relations(NamedTuple):
    """Bounds of velocities along directions of one articulation: hard relations, then distances."""

    direction: Array
    """[E, its nv]."""
    lower: Array
    upper: Array


class StepInputs(NamedTuple):
    """What the equations of a step depend on."""

    articulations: tuple[Articulation, ...]
    states: tuple[State, ...]
    acting: tuple[Acting, ...]
    relations: tuple[Relations | None, ...]
    touches: Touches | None


class StepVelocity(NamedTuple):
    """The solution of a step."""

    velocity: Array
    """Generalised velocity of all articulations, [nv]."""
    impulses: Impulses
    friction: Array | None
    """The largest friction impulse of each DOF, [n]; ``None`` where there is no dry friction."""
    added_momenta: tuple[Array, ...]
    """As in :class:`Bounded`, of each articulation."""


class Outcome(NamedTuple):
    """How good a solution is."""

    residual: Array
    """How far each law is from being satisfied, as a velocity, [R]."""
    steps: Array
    """Number of Newton steps, as a floating-point number."""
    is_solved: Array
    """Whether they were enough, [], bool."""


def solved_bounds(
    parts: Sequence[Prepared], touching: Touching | None, options: SolverOptions
) -> AllBounded:
    """The velocities of all articulations that satisfy the laws of all rows."""
    inputs = StepInputs(
        tuple(part.articulation for part in parts),
        tuple(part.state for part in parts),
        tuple(part.acting for part in parts),
        tuple(_relations(part, "target") for part in parts),
        None if touching is None else touching.touches,
    )
    sizes = [len(part.system.velocity) for part in parts]
    matrix = side_by_side([part.system.matrix for part in parts], sizes)
    responses = tuple(part.system.response for part in parts)
    products = tuple(part.system.product for part in parts)
    root_rows = tuple(
        part.at_start.mass_matrix[: part.at_start.topology.num_base_dofs] for part in parts
    )
    start = None if touching is None else touching.remembered
    nearest = None if touching is None else touching.nearest
    constants = without_derivatives((matrix, root_rows, responses, products, start, nearest))

    def solve(inputs: StepInputs) -> tuple[StepVelocity, Outcome]:
        solution, outcome = _solve(options, *constants, without_derivatives(inputs))
        # Their derivatives follow from the solution, whatever found it.
        of = matrix, root_rows, responses, inputs
        return _with_derivatives(options, kept(solution), *of), outcome

    end, outcome = solve(inputs)
    moving, moving_outcome, steps, is_solved = end, outcome, outcome.steps, outcome.is_solved
    if any(len(part.at_start.topology.mimic_dofs) for part in parts):
        # Errors of mimic joints are corrected by moving positions, not by velocities.
        relations = tuple(_relations(part, "position_target") for part in parts)
        moving, moving_outcome = solve(inputs._replace(relations=relations))
        steps, is_solved = moving_outcome.steps + steps, moving_outcome.is_solved & is_solved
    loops = _loop_impulses(parts, end.impulses.distances)
    velocities = parted(moving.velocity, sizes), parted(end.velocity, sizes)
    each = [Bounded(*one) for one in zip(*velocities, loops, end.added_momenta, strict=True)]
    residuals = moving_outcome.residual, outcome.residual
    return AllBounded(each, end.velocity, *residuals, end.impulses, steps, is_solved)


def _solve(
    options: SolverOptions,
    matrix: Array,
    root_rows: tuple[Array, ...],
    responses: tuple[Response, ...],
    products: tuple[MassProduct | None, ...],
    remembered: ContactMemory | None,
    nearest: Touches | None,
    inputs: StepInputs,
) -> tuple[StepVelocity, Outcome]:
    """Solves a step, with the ``matrix`` of its linear system, the rows of the mass matrices that
    belong to floating roots, the same as ``products``, and its inverse.
    """
    members = list(zip(inputs.articulations, inputs.states, strict=True))
    trees = [articulation.topology for articulation, _ in members]
    system = _step_system(options, matrix, responses, products, inputs)
    rows = system.rows
    start = rows.driven(rows.rates(system.velocity))
    if remembered is not None:
        dofs = start.dofs._replace(friction=remembered.joint_friction)
        start = start._replace(dofs=dofs, contacts=remembered.impulse)

    def solved(system: StepSystem, start: Impulses) -> Solution:
        limits = options.tolerance, options.max_newton_steps
        point, *others = solve_system(system, start, *limits)
        return Solution(point.change, point.rates, point.impulses, *others)

    if nearest is None:
        solution = solved(system, start)
    else:
        few = inputs._replace(touches=nearest)
        first = _step_system(options, matrix, responses, products, few)
        solution = solve_nearest_first(
            rows,
            nearest,
            start,
            lambda start: solved(first, start),
            lambda begin: solved(system._replace(push=begin[0], velocity=begin[1]), start),
            (system.push, system.velocity),
        )
    velocity = system.velocity + solution.change
    law = rows.linear(solution.impulses, solution.rates, solution.friction, 1)
    # From the velocity, not from the impulses: otherwise rounding errors would make standing feet
    # drift.
    added = []
    each = zip(inputs.acting, root_rows, parted(velocity, [tree.nv for tree in trees]), strict=True)
    for member, (acting, rows_of_root, end) in zip(members, each, strict=True):
        base = len(rows_of_root)
        acceleration = (end - generalized_velocity(*member)) / acting.dt
        needed = rigid_body_forces(*member, None, acting.wrench, gravity=True)[:base]
        total = acting.dt * (needed + matmul(rows_of_root, acceleration))
        added.append(total + acting.fast_impulse[:base])
    outcome = Outcome(law.residual, solution.steps.astype(velocity.dtype), solution.is_solved)
    friction = friction_budget(system, solution.friction)
    return StepVelocity(velocity, solution.impulses, friction, tuple(added)), outcome


def _step_system(
    options: SolverOptions,
    matrix: Array,
    responses: tuple[Response, ...],
    products: tuple[MassProduct | None, ...],
    inputs: StepInputs,
) -> StepSystem:
    """The equations of a step."""
    members = list(zip(inputs.articulations, inputs.states, strict=True))
    robots = inputs.articulations
    trees = [articulation.topology for articulation in robots]
    rows = _step_rows(options, responses, inputs)
    missing = [
        missing_impulse(*member, acting, None)
        for member, acting in zip(members, inputs.acting, strict=True)
    ]
    is_spread = rows.bounds is None and (inputs.touches is None or inputs.touches.is_spread)
    is_apart = inputs.touches is None or inputs.touches.between is None
    is_tree = rows.bounds is None and is_apart and None not in products
    num_products = elimination_products(trees) if is_tree else len(matrix) ** 3 // 3
    return StepSystem(
        matrix=matrix,
        push=-joined(missing),
        velocity=_start_velocity(inputs),
        rows=rows,
        response=Response.joined(responses),
        along_trees=_along_trees(trees, products),
        order=elimination_order(trees),
        groups=loose_groups(trees) if is_spread else None,
        moved=inputs.touches.moved(trees) if is_spread and inputs.touches is not None else None,
        factorize=None if num_products <= _MAX_PRODUCTS else lambda matrix, _: lu_solver(matrix),
        has_friction=not options.smooth_friction and any(map(has_dry_friction, robots)),
        limits_drives=any(map(has_limited_drives, robots)),
    )


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _with_derivatives(
    options: SolverOptions,
    solution: StepVelocity,
    matrix: Array,
    root_rows: tuple[Array, ...],
    responses: tuple[Response, ...],
    inputs: StepInputs,
) -> StepVelocity:
    """A solution, which is constant, with its derivatives by the inputs."""
    return solution


@functools.partial(_with_derivatives.defjvp, symbolic_zeros=True)
def _with_derivatives_jvp(options: SolverOptions, primals, tangents):
    """Tangents of matrices and responses are not used: the equations account for them."""
    (_, matrix, root_rows, responses, inputs), d_inputs = primals, tangents[4]
    solution = _with_derivatives(options, *primals)
    velocity, impulses = solution.velocity, solution.impulses
    trees = [one.topology for one in inputs.articulations]
    sizes = [tree.nv for tree in trees]
    velocities = parted(velocity, sizes)
    counts = [0 if one is None else len(one.lower) for one in inputs.relations]
    ends = np.cumsum([0, *counts])

    def imbalance(inputs: StepInputs) -> tuple[Array, list[Array], Changes]:
        """The impulse that is missing, what is added to the momenta of the wholes, and the
        residuals of the laws, at the solution.
        """
        missing, added = [], []
        for k, (articulation, state) in enumerate(
            zip(inputs.articulations, inputs.states, strict=True)
        ):
            change = velocities[k] - generalized_velocity(articulation, state)
            part = missing_impulse(articulation, state, inputs.acting[k], change)
            springs = spring_impulse(inputs.acting[k], velocities[k])
            whole = part if springs is None else part - springs
            added.append(whole[: len(root_rows[k])])
            relations = inputs.relations[k]
            if relations is not None:
                part_impulses = impulses.distances[ends[k] : ends[k + 1]]
                part = part - matmul(part_impulses, relations.direction)
            missing.append(part)
        total = joined(missing)
        if inputs.touches is not None:
            members = inputs.articulations, inputs.states
            total = total - contact_impulse(*members, inputs.touches, impulses.contacts)
        laws = law_residuals(
            _step_rows(options, responses, inputs), impulses, solution.friction, velocity
        )
        return total, added, laws

    _, (d_missing, d_added, d_laws) = value_and_change(imbalance, inputs, d_inputs)
    rows = _step_rows(options, responses, inputs)
    equations = row_equations(matrix, rows, impulses, solution.friction, velocity)
    change = equations.solve(elimination_order(trees), d_laws._replace(velocity=-d_missing))
    zero = jnp.zeros_like(change.dofs)
    # The equations determine only the total of a DOF's impulses, and nothing else is used.
    d_impulses = Impulses(BoundImpulses(change.dofs, zero, zero), change.bounds, change.contacts)
    d_velocities = parted(change.velocity, sizes)
    d_solution = StepVelocity(
        change.velocity,
        d_impulses,
        None if solution.friction is None else jnp.zeros_like(solution.friction),
        tuple(
            part + matmul(rows_of_root, d_velocity)
            for part, rows_of_root, d_velocity in zip(d_added, root_rows, d_velocities, strict=True)
        ),
    )
    return solution, d_solution


def _along_trees(
    trees: Sequence[Topology], products: Sequence[MassProduct | None]
) -> Callable[[Array], Callable[[Array], Array]] | None:
    """The solution of the linear system with an added diagonal; ``None`` if it does not have the
    trees' pattern.
    """
    plain = [product for product in products if product is not None]
    if len(plain) < len(products):
        return None
    sizes = [tree.nv for tree in trees]

    def factorize(diagonal: Array) -> Callable[[Array], Array]:
        parts = zip(trees, plain, parted(diagonal, sizes), strict=True)
        factors = [
            factorize_product(tree, one._replace(added=one.added + part))
            for tree, one, part in parts
        ]
        return lambda right: joined(
            [solve(one, part) for one, part in zip(factors, parted(right, sizes), strict=True)]
        )

    return factorize


def _start_velocity(inputs: StepInputs) -> Array:
    members = zip(inputs.articulations, inputs.states, strict=True)
    return joined([generalized_velocity(*member) for member in members])


def _step_rows(
    options: SolverOptions, responses: Sequence[Response], inputs: StepInputs
) -> StepRows:
    """The rows of all articulations."""
    articulations, states, acting, relations, touches = inputs
    trees, dt = [one.topology for one in articulations], acting[0].dt
    dofs = all_bound_rows(articulations, states, acting, responses)
    contacts = None
    if touches is not None:
        response = Response.joined(responses)
        contacts = contact_rows(articulations, states, touches, response, acting, options)
    sweep = Sweep(dt, options.drive_limits_are_forces)
    bounds = _velocity_bounds(relations, responses, [tree.nv for tree in trees])
    still = jnp.zeros_like(dt, shape=sum(tree.nv for tree in trees))
    return StepRows(still, dof_places(trees), dofs, bounds, contacts, sweep)


def _velocity_bounds(
    relations: Sequence[Relations | None], responses: Sequence[Response], sizes: Sequence[int]
) -> VelocityBounds | None:
    parts = []
    for k, (one, free) in enumerate(zip(relations, responses, strict=True)):
        if one is None:
            continue
        mobility = jnp.sum(one.direction * matmul(one.direction, free.matrix.T), axis=1)
        # What no impulse can move, such as rates out of a planar linkage's plane, needs no impulse.
        least = _LOCKED * jnp.finfo(mobility.dtype).eps * jnp.max(mobility)
        moves = mobility > least
        direction = jnp.where(moves[:, None], one.direction, 0)
        response = jnp.where(moves, mobility, 1)
        lower, upper = jnp.where(moves, one.lower, 0), jnp.where(moves, one.upper, 0)
        parts.append(VelocityBounds(in_columns(direction, sizes, k), lower, upper, response))
    return joined(parts) if parts else None


def _relations(part: Prepared, target: str) -> Relations | None:
    """The hard relations of an articulation, whose bounds are equal, then the distances of its loop
    joints.
    """
    hard, loops, parts = part.system.hard, part.loops, []
    if hard is not None:
        wanted = getattr(hard, target)
        parts.append(Relations(hard.direction, wanted, wanted))
    if loops is not None and len(loops.distances):
        rows = distance_rows(part.articulation, loops, part.acting.dt)
        parts.append(Relations(rows.direction, rows.lower_velocity, rows.upper_velocity))
    return joined(parts) if parts else None


def row_impulses(
    parts: Sequence[Prepared], touching: Touching | None, impulses: Impulses
) -> list[RowImpulses]:
    """The impulses of all rows on each articulation, without derivatives."""
    sizes = [len(part.system.velocity) for part in parts]
    relations = [_relations(part, "target") for part in parts]
    bounds = parted(impulses.distances, [0 if one is None else len(one.lower) for one in relations])
    dofs = parted(impulses.dofs.total, [len(part.state.joint_velocity) for part in parts])
    contacts: list[tuple[Array, Array, Array] | None] = [None] * len(parts)
    if touching is not None:
        members = [part.articulation for part in parts], [part.state for part in parts]
        motions, reach, _ = contact_reaches(*without_derivatives((*members, touching.touches)))
        flat = impulses.contacts.reshape(-1)
        reach = reach.reshape(len(flat), -1)
        contacts = [(flat, reach, columns.T) for columns in parted(motions.T, sizes)]
    each = [
        RowImpulses(dofs[k], None if one is None else (bounds[k], one.direction), contacts[k])
        for k, one in enumerate(relations)
    ]
    return without_derivatives(each)


def _loop_impulses(parts: Sequence[Prepared], impulses: Array) -> list[Array]:
    """Impulses on all rows of each articulation's loop anchors."""
    first, every = 0, []
    for part in parts:
        hard, loops = part.system.hard, part.loops
        num_hard = 0 if hard is None else len(hard.target)
        if loops is None:
            every.append(impulses[:0])
            first += num_hard
            continue
        end = first + num_hard + len(loops.distances)
        held = impulses[first + num_hard - len(loops.held) : first + num_hard]
        total = jnp.zeros_like(loops.rows.error).at[loops.held].set(held)
        every.append(total.at[loops.distances].set(impulses[first + num_hard : end]))
        first = end
    return every
