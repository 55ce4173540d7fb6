"""Forces of frictional contacts between an articulation and the world during one step.

They solve the nonlinear complementarity problem of Coulomb's and Signorini's laws on a Delassus
matrix G. Impulses lambda and velocities ``sigma = G lambda + g`` of K contacts satisfy, contact by
contact and with normals last, ``K_mu contains lambda, orthogonal to sigma + mu |sigma_t| n,
contained in the dual cone of K_mu``: Coulomb's cone with De Saxce's correction, which makes sliding
contacts slide within the tangent plane.

Acary and Brogliato, *Numerical Methods for Nonsmooth Dynamical Systems*, 2008; Carpentier, Le Lidec
and Montaut, *From Compliant to Rigid Contact Simulation: a Unified and Efficient Approach*, RSS
2024.
"""

from __future__ import annotations

import functools
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.compiler import quantity
from artix.compiler.jax_internals import match_varying_axes, scan
from artix.constraints.operators import factorize_damped, proximal_iterations
from artix.dynamics.factorization import factorize_dense, solve
from artix.dynamics.forward import factorize, forward_dynamics, linear_solve
from artix.kinematics.configuration import generalized_velocity
from artix.kinematics.contact_points import Contacts, contact_frames, contact_jacobian
from artix.kinematics.forward import kinematics
from artix.math.arrays import matmul, square_root
from artix.model.articulation import Articulation, State
from artix.model.checks import (
    as_number,
    as_time,
    check_count,
    check_state,
    check_type,
    check_vector,
)
from artix.model.validation import is_index

Array = jax.Array
ContactMethod = Literal["admm", "pgs"]
#: A row can move if its diagonal exceeds the square of this many units of precision times the mean.
#: Below, G consists of squared rounding errors of Jacobians, and division by them would make large
#: impulses of small errors.
_ROUNDING = 100


class ContactSolution(NamedTuple):
    """The solution of a contact problem.

    Attributes:
      impulse: lambda, [3 K]: two tangential components, then the normal one, for each contact
        [N s].
      velocity: ``G lambda + g``, [3 K], of the contacts after the impulses [m/s].
      residual: violation of the laws: the largest entry of
        ``lambda - P(lambda - r (sigma + correction))``, with P the projection onto the cones and r
        the inverse of G's mean diagonal, or 1 if G is zero [N s]. Its derivative is defined as
        zero.

    Examples:
      >>> solution = artix.constraints.solve_contact(
      ...     jnp.eye(3), jnp.array([0.0, 0.0, -1.0]), jnp.array([0.5])
      ... )
      >>> print(solution.impulse, solution.velocity)
      [0. 0. 1.] [0. 0. 0.]
    """

    impulse: Array
    velocity: Array
    residual: Array


@quantity
def solve_contact(
    delassus: Array,
    free_velocity: Array,
    friction: Array,
    *,
    method: ContactMethod = "admm",
    iterations: int = 100,
    penalty: float | Array | None = None,
) -> ContactSolution:
    """Solves for the impulses of frictional contacts; Pinocchio's ``ADMMConstraintSolver``,
    ``PGSConstraintSolver``.

    Args:
      delassus: G, symmetric and positive semidefinite, shape [3 K, 3 K] [1/kg]; two tangential
        rows, then the normal one, for each contact.
      free_velocity: g, velocities of the contacts without their impulses, shape [3 K] [m/s];
        positive normal velocities separate.
      friction: coefficients of friction, not negative, shape [K].
      method: ``"admm"``, the alternating direction method of multipliers, whose iterations are
        cheap once G is factorised; or ``"pgs"``, projected Gauss-Seidel, contact after contact.
      iterations: number of iterations. Convergence is not tested; see ``residual``.
      penalty: ADMM's penalty rho; by default the geometric mean of G's extreme eigenvalues,
        estimated.

    Returns:
      Impulses, velocities and the residual. If the impulses are not unique (four feet of a rigid
      table), one of the solutions. Where nothing can move, the laws leave the impulses open, and
      they are finite.

    Raises:
      ValueError: the method is unknown, ``iterations`` is less than 1, or ``penalty`` is not
        positive.
      TypeError: the arrays differ in dtype.

    Derivatives are implicit, in both modes: they come from the laws that hold at convergence, for
    contacts that keep sticking, sliding or separating. If the impulses are not unique, their change
    is the smallest that satisfies the laws. The iterations are not differentiated, and compile to
    one loop.

    Examples:
      >>> # one kilogram slides at 0.3 m/s and falls at 1 m/s
      >>> approach = jnp.array([0.3, 0.0, -1.0])
      >>> # it sticks
      >>> print(artix.constraints.solve_contact(jnp.eye(3), approach, jnp.array([0.5])).velocity)
      [ 0.  0.  0.]
      >>> # 0.2 m/s are left
      >>> print(artix.constraints.solve_contact(jnp.eye(3), approach, jnp.array([0.1])).velocity)
      [0.2 0.  0. ]
    """
    count = friction.shape[0] if getattr(friction, "ndim", 0) == 1 else 0
    dtype = delassus.dtype
    check_vector("friction", friction, (count,), dtype, "K contacts")
    check_vector("delassus", delassus, (3 * count, 3 * count), dtype, "three rows per contact")
    check_vector("free_velocity", free_velocity, (3 * count,), dtype, "three rows per contact")
    check_count("iterations", iterations)
    if count == 0:
        raise ValueError("friction: at least one contact is needed")
    if method not in ("admm", "pgs"):
        raise ValueError(f"method must be 'admm' or 'pgs'; found {method!r}")
    if penalty is not None:
        penalty = as_number("penalty", penalty, positive=True)
    impulse = _solve_with_jvp(method, iterations, delassus, free_velocity, friction, penalty)
    velocity = matmul(delassus, impulse) + free_velocity
    residual = jnp.max(jnp.abs(natural_map(impulse, delassus, free_velocity, friction)))
    return ContactSolution(impulse, velocity, jax.lax.stop_gradient(residual))


def project_onto_cones(x: Array, friction: Array) -> Array:
    """Projects vectors [K, 3] onto Coulomb's cones ``|x_t| <= mu x_n``."""
    tangential, normal = x[:, :2], x[:, 2]
    length = _length(tangential)
    onto = jnp.maximum(normal + friction * length, 0.0) / (1 + friction**2)
    direction = tangential / jnp.where(length > 0, length, jnp.ones_like(length))[:, None]
    boundary = jnp.concatenate([direction * (friction * onto)[:, None], onto[:, None]], axis=1)
    return jnp.where((length <= friction * normal)[:, None], x, boundary)


def natural_map(impulse: Array, delassus: Array, free_velocity: Array, friction: Array) -> Array:
    """The residual map [3 K], which vanishes exactly at solutions; see
    :attr:`ContactSolution.residual`.
    """
    velocity = (matmul(delassus, impulse) + free_velocity).reshape(-1, 3)
    corrected = velocity.at[:, 2].add(friction * _length(velocity[:, :2]))
    scale = 1 / jax.lax.stop_gradient(_mean_mobility(delassus))
    cones = impulse.reshape(-1, 3)
    return (cones - project_onto_cones(cones - scale * corrected, friction)).reshape(-1)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _solve_with_jvp(method, iterations, delassus, free_velocity, friction, penalty) -> Array:
    if method == "pgs":
        return _projected_gauss_seidel(delassus, free_velocity, friction, iterations)
    return _alternating_directions(delassus, free_velocity, friction, iterations, penalty)


@_solve_with_jvp.defjvp
def _solve_contact_jvp(method, iterations, primals, tangents):
    """Differentiates ``natural_map == 0``."""
    impulse = _solve_with_jvp(method, iterations, *primals)
    primals, tangents = primals[:3], tangents[:3]  # Whatever the penalty, the laws are the same.
    by_impulse = jax.jacfwd(natural_map)(impulse, *primals)
    change = jax.jvp(lambda *problem: natural_map(impulse, *problem), primals, tangents)[1]
    # Least squares, because impulses need not be unique.
    square = matmul(by_impulse.T, by_impulse)
    damped = jax.lax.stop_gradient(factorize_damped(square, np.zeros(len(square), bool), None))
    return impulse, proximal_iterations(square, damped, -matmul(by_impulse.T, change), 4)


def _alternating_directions(
    delassus: Array,
    free_velocity: Array,
    friction: Array,
    iterations: int,
    penalty: float | Array | None,
) -> Array:
    rho = (
        _geometric_mean_eigenvalue(delassus)
        if penalty is None
        else jnp.asarray(penalty, delassus.dtype)
    )
    factors = factorize_dense(delassus, jnp.broadcast_to(rho, (len(delassus),)))

    def iterate(carry, _):
        cones, dual = carry
        correction = jnp.zeros_like(cones).at[:, 2].set(friction * _length(dual[:, :2]))
        right = rho * cones - dual - correction
        free = solve(factors, right.reshape(-1) - free_velocity).reshape(-1, 3)
        cones = project_onto_cones(free + dual / rho, friction)
        return (cones, dual + rho * (free - cones)), None

    start = match_varying_axes(
        jnp.zeros((len(friction), 3), delassus.dtype), delassus, free_velocity, friction
    )
    (cones, _), _ = scan(iterate, (start, start), None, length=iterations)
    return cones.reshape(-1)


def _projected_gauss_seidel(
    delassus: Array, free_velocity: Array, friction: Array, iterations: int
) -> Array:
    count = len(friction)
    diagonal = jnp.diagonal(delassus).reshape(-1, 3)
    # The first bounds the largest eigenvalue of the tangential block.
    tangential = jnp.maximum(diagonal[:, 0], diagonal[:, 1]) + jnp.abs(
        jnp.diagonal(delassus, 1)[::3]
    )
    mean = _mean_mobility(delassus)
    least = (_ROUNDING * float(jnp.finfo(delassus.dtype).eps)) ** 2 * mean
    along, across = (jnp.where(x > least, x, mean) for x in (tangential, diagonal[:, 2]))

    def sweep(impulse, _):
        for k in range(count):
            rows = slice(3 * k, 3 * k + 3)
            block = delassus[rows, rows]
            velocity = matmul(delassus[rows], impulse) + free_velocity[rows]
            old = impulse[rows]
            normal = jnp.maximum(old[2] - velocity[2] / across[k], 0.0)
            slip = velocity[:2] + block[:2, 2] * (normal - old[2])
            stick = old[:2] - slip / along[k]
            length = _length(stick[None])[0]
            bound = friction[k] * normal
            scale = jnp.where(length > bound, bound / jnp.where(length > bound, length, 1.0), 1.0)
            impulse = impulse.at[rows].set(jnp.concatenate([stick * scale, normal[None]]))
        return impulse, None

    start = match_varying_axes(jnp.zeros_like(free_velocity), delassus, friction)
    return scan(sweep, start, length=iterations)[0]


def _mean_mobility(delassus: Array) -> Array:
    """The mean of G's diagonal; 1 if nothing can move, where every scale will do."""
    mean = jnp.mean(jnp.diagonal(delassus))
    return jnp.where(mean > 0, mean, jnp.ones_like(mean))


def _length(vectors: Array) -> Array:
    """Lengths of vectors [K, 2], with zero derivatives for zero vectors."""
    return square_root(jnp.sum(vectors**2, axis=1))


def _geometric_mean_eigenvalue(matrix: Array) -> Array:
    """Estimates the geometric mean of the extreme eigenvalues. The lower one counts as at least 1 %
    of the upper.
    """
    # Where nothing can move, the penalty is 1.
    spare = jnp.where(jnp.any(jnp.diagonal(matrix) > 0), 0.0, 1.0).astype(matrix.dtype)
    matrix = matrix + spare * jnp.eye(len(matrix), dtype=matrix.dtype)
    vector = jnp.cos(jnp.arange(1.0, len(matrix) + 1, dtype=matrix.dtype))
    unit = vector / jnp.sqrt(jnp.sum(vector**2))
    mean = jnp.mean(jnp.diagonal(matrix))
    factors = factorize_dense(matrix, jnp.broadcast_to(0.001 * mean, (len(matrix),)))

    def iterate(carry, _):
        largest = matmul(matrix, carry[0])
        inverse = solve(factors, carry[1])
        upper = jnp.sqrt(jnp.sum(largest**2))
        lower = 1 / jnp.sqrt(jnp.sum(inverse**2))
        return (largest / upper, inverse * lower, upper, lower), None

    start = match_varying_axes((unit, unit, mean, mean), matrix)
    _, _, upper, lower = scan(iterate, start, length=6)[0]
    return jnp.sqrt(upper * jnp.maximum(lower, 0.01 * upper))


# --- contacts of an articulation ----------------------------------------------------------------


class ContactProblem(NamedTuple):
    """The input of :func:`artix.solve_contact`. Each contact has two tangential rows, then the
    normal one.

    Attributes:
      delassus: ``J M^-1 J^T``, [3 K, 3 K].
      free_velocity: velocities of the contacts after the step without contact, including the
        closing of gaps, [3 K].
      jacobian: J, [3 K, nv].
      frames: the two tangents and the normal of each contact in world axes, as rows, [K, 3, 3].

    Examples:
      >>> builder = artix.ArticulationBuilder()
      >>> _ = builder.add_link(mass=1.0, inertia=(0.004, 0.004, 0.004), name="ball")
      >>> ball = builder.build()
      >>> down = jnp.array([[0.0, 0.0, -0.1]])  # the point, in the ball's frame
      >>> touch = artix.Contacts(
      ...     (0,), down, jnp.array([[0.0, 0.0, 1.0]]), jnp.array([0.5]), jnp.zeros(1)
      ... )
      >>> problem = artix.constraints.contact_problem(
      ...     ball, artix.neutral_state(ball), jnp.zeros(6), touch, 0.01
      ... )
      >>> # [1/kg]: along the ground 1 + 0.1^2 / 0.004, across it 1
      >>> print(problem.delassus.diagonal())
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
      >>> touch = artix.Contacts(
      ...     (0,), down, jnp.array([[0.0, 0.0, 1.0]]), jnp.array([0.5]), jnp.zeros(1)
      ... )
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
    """The contact problem of one semi-implicit step, whose velocity without contact is
    ``nu + dt forward_dynamics``.

    Args:
      force: generalised forces, shape [nv] [N or N m].
      contacts: the points that may touch.
      dt: length of the step [s].
      external_force: wrenches on the links as in :func:`artix.forward_dynamics`, shape [L, 6].

    Returns:
      The Delassus matrix, velocities without contact, Jacobian and frames.

    Raises:
      ValueError: there is no contact, or ``dt`` is negative or not finite.
      TypeError: ``dt`` is not a number.
      IndexError: a contact is on no link.

    Identity: with impulses ``x`` [N s], the velocities are ``free_velocity + delassus @ x``.

    Examples:
      >>> builder = artix.ArticulationBuilder()
      >>> _ = builder.add_link(mass=1.0, inertia=(0.004, 0.004, 0.004), name="ball")
      >>> ball = builder.build()
      >>> down = jnp.array([[0.0, 0.0, -0.1]])  # the point, in the ball's frame
      >>> touch = artix.Contacts(
      ...     (0,), down, jnp.array([[0.0, 0.0, 1.0]]), jnp.array([0.5]), jnp.zeros(1)
      ... )
      >>> problem = artix.constraints.contact_problem(
      ...     ball, artix.neutral_state(ball), jnp.zeros(6), touch, 0.01
      ... )
      >>> print(problem.free_velocity)  # 9.81 m/s^2 for 0.01 s
      [ 0.     0.    -0.098]
      >>> print(
      ...     artix.constraints.solve_contact(
      ...         problem.delassus, problem.free_velocity, touch.friction
      ...     ).impulse
      ... )
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

    The laws and the methods are those of :func:`artix.solve_contact`: Acary and Brogliato,
    *Numerical Methods for Nonsmooth Dynamical Systems*, 2008; Carpentier, Le Lidec and Montaut, RSS
    2024.

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
      ValueError: there is no contact, ``dt`` is negative or not finite, the method is unknown, or
        ``iterations`` is less than 1.
      TypeError: ``dt`` is not a number.
      IndexError: a contact is on no link.

    Identity: ``velocity == nu + dt forward_dynamics(a, s, force + sum_k J_k^T force_k)`` with J_k
    the Jacobian of the velocity of point k.

    Examples:
      >>> builder = artix.ArticulationBuilder()
      >>> _ = builder.add_link(mass=1.0, inertia=(0.004, 0.004, 0.004), name="ball")
      >>> ball = builder.build()
      >>> down = jnp.array([[0.0, 0.0, -0.1]])  # the point, in the ball's frame
      >>> touch = artix.Contacts(
      ...     (0,), down, jnp.array([[0.0, 0.0, 1.0]]), jnp.array([0.5]), jnp.zeros(1)
      ... )
      >>> push = jnp.zeros(6).at[0].set(7.0)  # along x at the centre [N]
      >>> contact = artix.contact_forces(ball, artix.neutral_state(ball), push, touch, 0.01)
      >>> print(contact.force)  # it rolls: friction holds the point with 2/7 of the push
      [[-2.    0.    9.81]]
    """
    dt = as_time(articulation, dt)
    problem, velocity, responses = _problem(
        articulation, state, force, contacts, dt, external_force
    )
    solution = solve_contact(
        problem.delassus,
        problem.free_velocity,
        contacts.friction,
        method=method,
        iterations=iterations,
    )
    impulses = solution.impulse.reshape(-1, 3)
    forces = jnp.sum(impulses[:, :, None] * problem.frames, axis=1) / dt
    return ContactForces(forces, velocity + matmul(solution.impulse, responses), solution.residual)


def _problem(
    articulation, state, force, contacts, dt, external_force
) -> tuple[ContactProblem, Array, Array]:
    """The problem, the generalised velocity without contact [nv], and ``M^-1 J^T`` transposed,
    [3 K, nv].
    """
    check_state(articulation, state)
    _check_contacts(articulation, contacts)
    count = len(contacts.links)
    acceleration = forward_dynamics(articulation, state, force, external_force)
    velocity = generalized_velocity(articulation, state) + dt * acceleration
    kin = kinematics(articulation, state)
    frames = contact_frames(contacts.normal)
    links = np.array(contacts.links, int)
    jacobian = contact_jacobian(articulation, kin, links, contacts.point, frames).reshape(
        3 * count, -1
    )
    factors = factorize(articulation, kin, many=True)
    responses = jax.vmap(lambda row: linear_solve(articulation, kin, factors, row))(jacobian)
    # The other half is equal, and a kernel does not compute it.
    delassus = jnp.triu(matmul(responses, jacobian.T))
    approach = jnp.maximum(contacts.gap, jnp.zeros_like(contacts.gap)) / dt
    free = matmul(jacobian, velocity).reshape(count, 3).at[:, 2].add(approach).reshape(-1)
    return (
        ContactProblem(delassus + jnp.triu(delassus, 1).T, free, jacobian, frames),
        velocity,
        responses,
    )


def _check_contacts(articulation: Articulation, contacts: Contacts) -> None:
    check_type("contacts", contacts, Contacts)
    count = len(contacts.links)
    num_links = articulation.topology.num_links
    if not count:
        raise ValueError(
            "contacts.links: no contacts were given; without them, use artix.forward_dynamics"
        )
    for link in contacts.links:
        if not (is_index(link) and 0 <= link < num_links):
            raise IndexError(
                f"contacts.links: there is no link {link!r}; links are numbered from 0 to "
                f"{num_links - 1}"
            )
    for name, shape in (
        ("point", (count, 3)),
        ("normal", (count, 3)),
        ("friction", (count,)),
        ("gap", (count,)),
    ):
        value = getattr(contacts, name)
        check_vector(
            f"contacts.{name}", value, shape, articulation.dtype, "one per link in contacts.links"
        )
