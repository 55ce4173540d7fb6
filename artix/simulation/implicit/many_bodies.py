"""A step of many bodies: the equations of :mod:`artix.simulation.implicit.solution`, by stacks.

Written out for each of fifty boxes, a step is a program of a million operations. Here bodies of one
kind are a stack, with a leading axis [n], and what is computed for each of them is a program of its
own, a kernel for all. The solver and its laws are those of every step; what couples the bodies are
contacts, in blocks (:mod:`artix.simulation.implicit.many_rows`). XLA compiles the whole; all of it
but the stacking depends on the number of kinds, not on that of bodies.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.compiler.kept_values import kept
from artix.compiler.quantity import subprogram
from artix.dynamics.inverse import rigid_body_forces
from artix.kinematics.configuration import generalized_velocity
from artix.math.arrays import identity, joined
from artix.math.gaussian_elimination import lu_by_library
from artix.math.tangents import value_and_change, without_derivatives
from artix.model.articulation import Articulation, State
from artix.simulation.common.contact_memory import ContactMemory
from artix.simulation.common.control import Control
from artix.simulation.common.drives import Sweep, has_envelopes
from artix.simulation.common.options import SolverOptions
from artix.simulation.implicit.joint_rows import bound_rows, has_dry_friction
from artix.simulation.implicit.many_rows import (
    Layout,
    ManyTouches,
    SolvedStacks,
    block_rows,
)
from artix.simulation.implicit.resolvents import BoundImpulses, BoundRow
from artix.simulation.implicit.row_equations import Changes, law_residuals, row_equations
from artix.simulation.implicit.rows import Impulses, RowImpulses, StepRows
from artix.simulation.implicit.solution import Bounded, Outcome, StepVelocity
from artix.simulation.implicit.solver import StepSystem, friction_budget, solve_system
from artix.simulation.implicit.step import bounded_end, prepared
from artix.simulation.implicit.system import (
    Acting,
    Prepared,
    Response,
    has_limited_drives,
    missing_impulse,
)

Array = jax.Array


#: In heaps many sets change in a step, which softer springs find in fewer Newton steps: dropped
#: boxes take 1.25 times as long with 1e-5, and boxes at rest 1.3 times with 1e-3 (float32).
_FIRST_SHARE = 1e-4

#: Twenty boxes that are dropped leave no step of 400 unsolved, and take 0.8 of the time that they
#: take with two steps, which leave 8 (float64; alike in float32).
_MEMORY = 4


class StackInputs(NamedTuple):
    """What the equations of a step depend on, stack by stack."""

    articulations: tuple[Articulation, ...]
    states: tuple[State, ...]
    acting: tuple[Acting, ...]
    touches: ManyTouches
    dt: Array


def solve_stacks(
    articulations: Sequence[Articulation],
    states: Sequence[State],
    controls: Sequence[Control],
    dt: Array,
    options: SolverOptions,
    touches: ManyTouches,
    remembered: ContactMemory | None,
) -> SolvedStacks:
    """Solves one step (see :func:`artix.step`) of stacks of articulations."""
    parts = []
    for member in zip(articulations, states, controls, strict=True):
        prepare = jax.vmap(lambda a, s, c: _prepared(a, s, c, dt, options))
        parts.append(prepare(*member))
    inputs = StackInputs(
        tuple(articulations),
        tuple(states),
        tuple(jax.vmap(lambda part: part.acting)(part) for part in parts),
        touches,
        dt,
    )
    matrices = tuple(part.system.matrix for part in parts)
    responses = tuple(jax.vmap(lambda one: one.matrix)(part.system.response) for part in parts)
    root_rows = tuple(
        part.at_start.mass_matrix[:, : articulation.topology.num_base_dofs]
        for part, articulation in zip(parts, articulations, strict=True)
    )
    linear = without_derivatives((matrices, root_rows, responses))
    fixed = without_derivatives(inputs)
    solved, outcome = _solve(options, *linear, without_derivatives(remembered), fixed)
    # Its derivatives follow from the solution, whatever found it.
    solution = _with_derivatives(options, kept(solved), *linear, inputs)
    layout = touches.layout
    rows = _step_rows(options, responses, inputs)
    push = jax.lax.stop_gradient(_contact_force(rows, solution.impulses))
    pushes = layout.parts(push)
    on_dofs = _dofs_of_stacks(layout, articulations, solution.impulses.dofs.total)
    velocities = layout.parts(solution.velocity)
    ends, corrections, bounded = [], [], []
    is_coupled = layout.num_bodies > 1
    for k, part in enumerate(parts):
        is_touched = touches.grounds[k] is not None or is_coupled
        none = jnp.zeros((layout.counts[k], 0), velocities[k].dtype)
        one = Bounded(velocities[k], velocities[k], none, solution.added_momenta[k])
        finish = jax.vmap(lambda a, b, c, d, is_touched=is_touched: _ended(a, b, c, d, is_touched))
        end, correction = finish(part, one, pushes[k], jax.lax.stop_gradient(on_dofs[k]))
        ends.append(end)
        corrections.append(correction)
        bounded.append(one)
    return SolvedStacks(parts, solution, outcome, bounded, ends, corrections, rows)


@subprogram
def _prepared(
    articulation: Articulation, state: State, control: Control, dt: Array, options: SolverOptions
) -> Prepared:
    return prepared(articulation, state, control, dt, options)


@subprogram
def _ended(
    part: Prepared, solution: Bounded, push: Array, on_dofs: Array, is_touched: bool
) -> tuple[State, Array]:
    """The state of one articulation after the step, and the energy that the bound on fast motion
    adds; ``push`` [nv] is the generalised impulse of its contacts.
    """
    unit = identity(len(push), push.dtype)
    rows = RowImpulses(on_dofs, None, (push, unit, unit))
    return bounded_end(part, solution, is_touched, rows)


def _contact_force(rows: StepRows, impulses: Impulses) -> Array:
    assert rows.contacts is not None
    return rows.contacts.force(impulses.contacts)


def _dofs_of_stacks(
    layout: Layout, articulations: Sequence[Articulation], values: Array
) -> list[Array]:
    """Values of all DOFs [n] by stacks, [bodies, their DOFs] each."""
    parts, first = [], 0
    for count, articulation in zip(layout.counts, articulations, strict=True):
        dofs = articulation.topology.num_dofs
        parts.append(values[first : first + count * dofs].reshape(count, dofs))
        first += count * dofs
    return parts


def _solve(
    options: SolverOptions,
    matrices: tuple[Array, ...],
    root_rows: tuple[Array, ...],
    responses: tuple[Array, ...],
    remembered: ContactMemory | None,
    inputs: StackInputs,
) -> tuple[StepVelocity, Outcome]:
    """Solves a step, with the matrices of the bodies' linear systems, the rows of the mass matrices
    that belong to floating roots, and the inverses of the former.
    """
    layout, robots = inputs.touches.layout, inputs.articulations
    rows = _step_rows(options, responses, inputs)
    velocity = _start_velocity(inputs)
    missing = _missing(inputs, None)
    system = StepSystem(
        matrix=layout.diagonal(matrices),
        push=-_flat(missing),
        velocity=velocity,
        rows=rows,
        response=Response(None, layout.diagonal(responses)),
        along_trees=None,
        order=np.arange(len(velocity)),
        groups=None,
        factorize=lambda matrix, is_symmetric: lu_by_library(matrix, is_symmetric).solve,
        first_share=_FIRST_SHARE,
        memory=_MEMORY,
        has_friction=not options.smooth_friction and any(map(has_dry_friction, robots)),
        limits_drives=any(map(has_limited_drives, robots)),
    )
    start = rows.driven(rows.rates(velocity))
    if remembered is not None:
        dofs = start.dofs._replace(friction=remembered.joint_friction)
        start = start._replace(dofs=dofs, contacts=remembered.impulse)
    point, friction, steps, is_solved = solve_system(
        system, start, options.tolerance, options.max_newton_steps
    )
    end = velocity + point.change
    law = rows.linear(point.impulses, point.rates, friction, 1)
    # From the velocity, not from the impulses: otherwise rounding errors would make boxes drift.
    added = []
    changes = zip(layout.parts(end), layout.parts(velocity), strict=True)
    for k, (after, before) in enumerate(changes):
        member = inputs.articulations[k], inputs.states[k], inputs.acting[k]
        needed = jax.vmap(_root_wrench)(*member)
        moved = jnp.sum(root_rows[k] * (after - before)[:, None], axis=2)
        fast = inputs.acting[k].fast_impulse[:, : root_rows[k].shape[1]]
        added.append(inputs.dt * needed + moved + fast)
    outcome = Outcome(law.residual, steps.astype(end.dtype), is_solved)
    most = friction_budget(system, friction)
    return StepVelocity(end, point.impulses, most, tuple(added)), outcome


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _with_derivatives(
    options: SolverOptions,
    solution: StepVelocity,
    matrices: tuple[Array, ...],
    root_rows: tuple[Array, ...],
    responses: tuple[Array, ...],
    inputs: StackInputs,
) -> StepVelocity:
    """A solution, which is constant, with its derivatives by the inputs."""
    return solution


@functools.partial(_with_derivatives.defjvp, symbolic_zeros=True)
def _with_derivatives_jvp(options: SolverOptions, primals, tangents):
    """Tangents of matrices and responses are not used: the equations account for them."""
    (_, matrices, root_rows, responses, inputs), d_inputs = primals, tangents[4]
    solution = _with_derivatives(options, *primals)
    velocity, impulses, layout = solution.velocity, solution.impulses, inputs.touches.layout

    def imbalance(inputs: StackInputs) -> tuple[Array, list[Array], Changes]:
        """The impulse that is missing, what is added to the momenta of the wholes, and the
        residuals of the laws, at the solution.
        """
        change = layout.parts(velocity - _start_velocity(inputs))
        missing = _missing(inputs, change)
        added = [part[:, : rows.shape[1]] for part, rows in zip(missing, root_rows, strict=True)]
        rows = _step_rows(options, responses, inputs)
        total = _flat(missing) - _contact_force(rows, impulses)
        return total, added, law_residuals(rows, impulses, solution.friction, velocity)

    _, (d_missing, d_added, d_laws) = value_and_change(imbalance, inputs, d_inputs)
    rows = _step_rows(options, responses, inputs)
    matrix = layout.diagonal(matrices)
    equations = row_equations(matrix, rows, impulses, solution.friction, velocity)
    change = equations.solve(None, d_laws._replace(velocity=-d_missing))
    zero = jnp.zeros_like(change.dofs)
    # The equations determine only the total of a DOF's impulses, and nothing else is used.
    d_impulses = Impulses(BoundImpulses(change.dofs, zero, zero), change.bounds, change.contacts)
    d_added = [
        part + jnp.sum(rows_of_root * moved[:, None], axis=2)
        for part, rows_of_root, moved in zip(
            d_added, root_rows, layout.parts(change.velocity), strict=True
        )
    ]
    d_friction = None if solution.friction is None else jnp.zeros_like(solution.friction)
    return solution, StepVelocity(change.velocity, d_impulses, d_friction, tuple(d_added))


@subprogram
def _root_wrench(articulation: Articulation, state: State, acting: Acting) -> Array:
    base = articulation.topology.num_base_dofs
    return rigid_body_forces(articulation, state, None, acting.wrench, gravity=True)[:base]


@subprogram
def _missing_impulse(
    articulation: Articulation, state: State, acting: Acting, change: Array | None
) -> Array:
    return missing_impulse(articulation, state, acting, change)


@subprogram
def _bound_rows(
    articulation: Articulation, state: State, acting: Acting, response: Array, enveloped: bool
) -> BoundRow:
    return bound_rows(articulation, state, acting, Response(None, response), enveloped)


def _missing(inputs: StackInputs, change: list[Array] | None) -> list[Array]:
    """The impulses that are missing for changes of the velocity, [n, its nv] of each stack."""
    members = [*zip(inputs.articulations, inputs.states, inputs.acting, strict=True)]
    if change is None:
        return [jax.vmap(lambda a, s, c: _missing_impulse(a, s, c, None))(*one) for one in members]
    pairs = zip(members, change, strict=True)
    return [jax.vmap(_missing_impulse)(*one, part) for one, part in pairs]


def _flat(parts: Sequence[Array]) -> Array:
    return joined([part.reshape(-1) for part in parts])


def _start_velocity(inputs: StackInputs) -> Array:
    members = zip(inputs.articulations, inputs.states, strict=True)
    return _flat([jax.vmap(generalized_velocity)(*member) for member in members])


def _step_rows(options: SolverOptions, responses: Sequence[Array], inputs: StackInputs) -> StepRows:
    """The rows of all bodies."""
    articulations, states, acting, touches, dt = inputs
    layout = touches.layout
    enveloped = any(map(has_envelopes, articulations))
    dofs, places, first = [], [], 0
    for k, articulation in enumerate(articulations):
        count, size, tree = layout.counts[k], layout.sizes[k], articulation.topology
        member = articulation, states[k], acting[k], responses[k]
        stack = jax.vmap(lambda a, s, c, r: _bound_rows(a, s, c, r, enveloped))(*member)
        dofs.append(jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), stack))
        begins = first + size * np.arange(count)[:, None]
        places.append((begins + np.arange(tree.num_base_dofs, size)).reshape(-1))
        first += count * size
    contacts = block_rows(articulations, states, touches, responses, dt, options)
    still = jnp.zeros_like(dt, shape=first)
    sweep = Sweep(dt, options.drive_limits_are_forces)
    return StepRows(still, np.concatenate(places), joined(dofs), None, contacts, sweep)
