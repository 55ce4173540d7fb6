"""Forces of frictional contacts between an articulation and the world during one step."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.compiler import quantity
from artix.constraints.contact_solver import ContactMethod, solve_contact
from artix.dynamics.forward import factorize, forward_dynamics, linear_solve
from artix.kinematics.contact_points import Contacts, contact_frames, contact_jacobian
from artix.kinematics.forward import kinematics
from artix.kinematics.velocities import generalized_velocity
from artix.math.arrays import matmul
from artix.model.articulation import Articulation, State
from artix.model.checks import as_time, check_state, check_type, check_vector
from artix.model.validation import is_index

Array = jax.Array


class ContactProblem(NamedTuple):
    """The input of :func:`artix.solve_contact`. Each contact has two tangential rows, then the normal one.

    Attributes:
      delassus: ``J M^-1 J^T``, [3 K, 3 K].
      free_velocity: velocities of the contacts after the step without contact, including the closing of gaps, [3 K].
      jacobian: J, [3 K, nv].
      frames: the two tangents and the normal of each contact in world axes, as rows, [K, 3, 3].

    Examples:
      >>> builder = artix.ArticulationBuilder()
      >>> _ = builder.add_link(mass=1.0, inertia=(0.004, 0.004, 0.004), name="ball")
      >>> ball = builder.build()
      >>> down = jnp.array([[0.0, 0.0, -0.1]])  # the point, in the ball's frame
      >>> touch = artix.Contacts((0,), down, jnp.array([[0.0, 0.0, 1.0]]), jnp.array([0.5]), jnp.zeros(1))
      >>> problem = artix.constraints.contact_problem(ball, artix.neutral_state(ball), jnp.zeros(6), touch, 0.01)
      >>> print(problem.delassus.diagonal())  # [1/kg]: along the ground 1 + 0.1^2 / 0.004, across it 1
      [3.5 3.5 1. ]
    """

    delassus: Array
    free_velocity: Array
    jacobian: Array
    frames: Array


class ContactForces(NamedTuple):
    """Contact forces during a step, and their effect.

    Attributes:
      force: forces on the links at the points, in world axes, [K, 3] [N].
      velocity: generalised velocity after the step, [nv] [m/s or rad/s].
      residual: see :class:`artix.ContactSolution`.

    Examples:
      >>> builder = artix.ArticulationBuilder()
      >>> _ = builder.add_link(mass=1.0, inertia=(0.004, 0.004, 0.004), name="ball")
      >>> ball = builder.build()
      >>> down = jnp.array([[0.0, 0.0, -0.1]])  # the point, in the ball's frame
      >>> touch = artix.Contacts((0,), down, jnp.array([[0.0, 0.0, 1.0]]), jnp.array([0.5]), jnp.zeros(1))
      >>> contact = artix.contact_forces(ball, artix.neutral_state(ball), jnp.zeros(6), touch, 0.01)
      >>> print(contact.force, contact.residual < 1e-6)
      [[0.   0.   9.81]] True
    """

    force: Array
    velocity: Array
    residual: Array


@quantity
def contact_problem(
    articulation: Articulation,
    state: State,
    force: Array,
    contacts: Contacts,
    dt: float | Array,
    external_force: Array | None = None,
) -> ContactProblem:
    """The contact problem of one semi-implicit step, whose velocity without contact is ``nu + dt forward_dynamics``.

    Args:
      force: generalised forces, shape [nv] [N or N m].
      contacts: the points that may touch.
      dt: length of the step [s].
      external_force: wrenches on the links as in :func:`artix.forward_dynamics`, shape [L, 6].

    Returns:
      The Delassus matrix, velocities without contact, Jacobian and frames.

    Raises:
      ValueError: there is no contact, or ``dt`` is negative or not finite.
      TypeError: ``dt`` is no number.
      IndexError: a contact is on no link.

    Identity: with impulses ``x`` [N s], the velocities are ``free_velocity + delassus @ x``.

    Examples:
      >>> builder = artix.ArticulationBuilder()
      >>> _ = builder.add_link(mass=1.0, inertia=(0.004, 0.004, 0.004), name="ball")
      >>> ball = builder.build()
      >>> down = jnp.array([[0.0, 0.0, -0.1]])  # the point, in the ball's frame
      >>> touch = artix.Contacts((0,), down, jnp.array([[0.0, 0.0, 1.0]]), jnp.array([0.5]), jnp.zeros(1))
      >>> problem = artix.constraints.contact_problem(ball, artix.neutral_state(ball), jnp.zeros(6), touch, 0.01)
      >>> print(problem.free_velocity)  # 9.81 m/s^2 for 0.01 s
      [ 0.     0.    -0.098]
      >>> print(artix.constraints.solve_contact(problem.delassus, problem.free_velocity, touch.friction).impulse)
      [0.    0.    0.098]
    """
    dt = as_time(articulation, dt)
    problem, _, _ = _problem(articulation, state, force, contacts, dt, external_force)
    return problem


@quantity
def contact_forces(
    articulation: Articulation,
    state: State,
    force: Array,
    contacts: Contacts,
    dt: float | Array,
    external_force: Array | None = None,
    *,
    method: ContactMethod = "admm",
    iterations: int = 100,
) -> ContactForces:
    """Contact forces of one semi-implicit step, and the velocity after it.

    The laws and the methods are those of :func:`artix.solve_contact`: Acary and Brogliato, *Numerical Methods for
    Nonsmooth Dynamical Systems*, 2008; Carpentier, Le Lidec and Montaut, RSS 2024.

    Args:
      force: generalised forces, shape [nv] [N or N m].
      contacts: the K points that may touch.
      dt: length of the step [s].
      external_force: wrenches on the links as in :func:`artix.forward_dynamics`, shape [L, 6].
      method: see :func:`artix.solve_contact`.
      iterations: see :func:`artix.solve_contact`.

    Returns:
      Forces [N] in world axes, the generalised velocity after the step, and the residual [N s].

    Raises:
      ValueError: there is no contact, ``dt`` is negative or not finite, the method is unknown, or ``iterations`` is
        less than 1.
      TypeError: ``dt`` is no number.
      IndexError: a contact is on no link.

    Identity: ``velocity == nu + dt forward_dynamics(a, s, force + sum_k J_k^T force_k)`` with J_k the Jacobian of the
    velocity of point k.

    Examples:
      >>> builder = artix.ArticulationBuilder()
      >>> _ = builder.add_link(mass=1.0, inertia=(0.004, 0.004, 0.004), name="ball")
      >>> ball = builder.build()
      >>> down = jnp.array([[0.0, 0.0, -0.1]])  # the point, in the ball's frame
      >>> touch = artix.Contacts((0,), down, jnp.array([[0.0, 0.0, 1.0]]), jnp.array([0.5]), jnp.zeros(1))
      >>> push = jnp.zeros(6).at[0].set(7.0)  # along x at the centre [N]
      >>> contact = artix.contact_forces(ball, artix.neutral_state(ball), push, touch, 0.01)
      >>> print(contact.force)  # it rolls: friction holds the point with 2/7 of the push
      [[-2.    0.    9.81]]
    """
    dt = as_time(articulation, dt)
    problem, velocity, responses = _problem(articulation, state, force, contacts, dt, external_force)
    solution = solve_contact(
        problem.delassus, problem.free_velocity, contacts.friction, method=method, iterations=iterations
    )
    impulses = solution.impulse.reshape(-1, 3)
    forces = jnp.sum(impulses[:, :, None] * problem.frames, axis=1) / dt
    return ContactForces(forces, velocity + matmul(solution.impulse, responses), solution.residual)


def _problem(articulation, state, force, contacts, dt, external_force) -> tuple[ContactProblem, Array, Array]:
    """The problem, the generalised velocity without contact [nv], and ``M^-1 J^T`` transposed, [3 K, nv]."""
    check_state(articulation, state)
    _check_contacts(articulation, contacts)
    count = len(contacts.links)
    acceleration = forward_dynamics(articulation, state, force, external_force)
    velocity = generalized_velocity(articulation, state) + dt * acceleration
    kin = kinematics(articulation, state)
    frames = contact_frames(contacts.normal)
    links = np.array(contacts.links, int)
    jacobian = contact_jacobian(articulation, kin, links, contacts.point, frames).reshape(3 * count, -1)
    factors = factorize(articulation, kin, many=True)
    responses = jax.vmap(lambda row: linear_solve(articulation, kin, factors, row))(jacobian)
    delassus = jnp.triu(matmul(responses, jacobian.T))  # The other half is equal, and a kernel does not compute it.
    approach = jnp.maximum(contacts.gap, jnp.zeros_like(contacts.gap)) / dt
    free = matmul(jacobian, velocity).reshape(count, 3).at[:, 2].add(approach).reshape(-1)
    return ContactProblem(delassus + jnp.triu(delassus, 1).T, free, jacobian, frames), velocity, responses


def _check_contacts(articulation: Articulation, contacts: Contacts) -> None:
    check_type("contacts", contacts, Contacts)
    count = len(contacts.links)
    num_links = articulation.topology.num_links
    if not count:
        raise ValueError("contacts.links: no contacts were given; without them, use artix.forward_dynamics")
    for link in contacts.links:
        if not (is_index(link) and 0 <= link < num_links):
            raise IndexError(f"contacts.links: there is no link {link!r}; links are numbered from 0 to {num_links - 1}")
    for name, shape in (("point", (count, 3)), ("normal", (count, 3)), ("friction", (count,)), ("gap", (count,))):
        value = getattr(contacts, name)
        check_vector(f"contacts.{name}", value, shape, articulation.dtype, "one per link in contacts.links")
