"""The reports of a step of many bodies; see :mod:`artix.simulation.implicit.report`."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from artix.compiler.quantity import subprogram
from artix.contact.ground_contacts import GroundContacts
from artix.kinematics.forward import kinematics, link_centers
from artix.math import spatial
from artix.math.arrays import matmul
from artix.model.articulation import Articulation, State
from artix.simulation.common.report import (
    ContactReport,
    LinkContactReport,
    Residual,
    StepReport,
    residual_of,
)
from artix.simulation.implicit.many_bodies import SolvedStacks
from artix.simulation.implicit.many_rows import BlockRows, ManyTouches
from artix.simulation.implicit.report import (
    ContactResults,
    contact_results,
    ground_report,
    member_report,
)
from artix.simulation.implicit.solution import Bounded
from artix.simulation.implicit.system import Prepared

Array = jax.Array


def stack_reports(
    solved: SolvedStacks, touches: ManyTouches, links: Sequence[np.ndarray], dt: Array
) -> tuple[list[StepReport], LinkContactReport]:
    """The reports of each stack, with a leading axis [n], and one on the contacts between shapes.

    Args:
      solved: the step.
      touches: its contacts.
      links: the numbers of the links of each stack in the scene, [n, L] each.
      dt: length of the step [s].
    """
    contacts, solution = solved.rows.contacts, solved.solution
    assert isinstance(contacts, BlockRows)
    impulse, each = solution.impulses.contacts, contacts.each
    rates = contacts.rates(solution.velocity)
    rates = rates.at[:, 2].add(each.approach + each.softness * impulse[:, 2])
    done = contact_results(touches, each, impulse, rates, dt)
    between, on_links = _link_report(touches, done.part(slice(touches.num_ground, None)), links)
    residual = residual_of(solution.residual)
    reports, first = [], 0
    for k, part in enumerate(solved.parts):
        ground, report = touches.grounds[k], None
        wrench = jax.vmap(_about_centers, in_axes=(0, 0, 0, None))(
            part.articulation, part.state, on_links[links[k]], touches.origin
        )
        if ground is not None:
            count, many = ground.contacts.gap.shape
            mine = done.part(slice(first, first + count * many))
            stack = ContactResults(*(x.reshape(count, many, *x.shape[1:]) for x in mine))
            one = part.articulation, part.state, ground, stack
            report, pushed = jax.vmap(_ground_report)(*one)
            wrench = wrench + pushed
            first += count * many
        ends = solved.bounded[k], part.wrench + wrench, solved.ends[k]
        correction = solved.energy_corrections[k]
        of_member = jax.vmap(_member_report, in_axes=(0, 0, 0, 0, 0, None, None))
        whole = of_member(part, *ends, correction, residual, solution.solved > 0)
        reports.append(whole.replace(contacts=report))
    return reports, between


def _link_report(
    touches: ManyTouches, done: ContactResults, links: Sequence[np.ndarray]
) -> tuple[LinkContactReport, Array]:
    """The report, and the wrenches [L, 6] on all links about the origin of the contacts."""
    contacts, pairs = touches.between, touches.pairs
    shapes, on = (
        jnp.asarray(table, jnp.int32)[contacts.pair] for table in (pairs.numbers, pairs.links)
    )
    numbers = jnp.arange(sum(one.size for one in links), dtype=jnp.int32)[:, None]
    onto = (numbers == on[:, 0]).astype(done.force.dtype)
    onto = onto - (numbers == on[:, 1]).astype(done.force.dtype)
    moment = spatial.cross(contacts.point.T, done.force.T).T
    wrench = matmul(onto, jnp.concatenate([done.force, moment], axis=1))
    report = LinkContactReport(
        geometries=shapes,
        links=on,
        point=contacts.point + touches.origin,
        normal=contacts.normal,
        gap=contacts.gap,
        **done.reported(),
        link_force=wrench[:, :3],
        omitted=contacts.omitted,
    )
    return report, wrench


@subprogram
def _about_centers(articulation: Articulation, state: State, wrench: Array, origin: Array) -> Array:
    """Wrenches [L, 6] about a point as those at the links' centres of mass."""
    kin = kinematics(articulation, state)
    centers = link_centers(articulation, kin) + (kin.reference - origin)[:, None]
    turning = wrench[:, 3:] - spatial.cross(centers, wrench[:, :3].T).T
    return jnp.concatenate([wrench[:, :3], turning], axis=1)


@subprogram
def _ground_report(
    articulation: Articulation, state: State, ground: GroundContacts, done: ContactResults
) -> tuple[ContactReport, Array]:
    return ground_report(articulation, kinematics(articulation, state), ground, done)


@subprogram
def _member_report(
    part: Prepared,
    solution: Bounded,
    wrench: Array,
    end: State,
    correction: Array,
    residual: Residual,
    is_solved: Array,
) -> StepReport:
    residuals = residual, residual
    return member_report(part, solution, wrench, end, correction, residuals, is_solved)
