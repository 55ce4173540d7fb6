"""Closed-form Jacobians of the dynamics in the tangent space of the generalised velocity, and
second derivatives.

"By the configuration" means along :func:`artix.integrate`: column k is the derivative as the
configuration moves with the k-th unit velocity while the components of the generalised velocity
``nu`` stay constant. For a floating base ``nu`` is in world axes; Pinocchio's free-flyer moves
along the base's own axes, and its components stay constant there. With ``nu = T nu_pin`` and
``b = dT/dt nu_pin`` (see the page on conventions), Pinocchio's derivatives follow from these by the
product rule.

The second derivatives of inverse dynamics are four tensors. Take displacements j and k, where k
moves j, and a DOF i. The material derivatives along k of the terms in the first derivative with
respect to j are again products of the motions of j and k: ``D_k first_j = first_k x S_j`` and
``D_k second_j = second_k x S_j + 2 first_k x first_j``. The rest depends on i only through its
composite body, or not at all if i lies above j. So every tensor is a product of a few rows per DOF
and a few vectors per pair, under the ancestor masks. Pairs in the opposite order follow by
symmetry, since displacements of different joints commute. The tensors follow Singh, Russell and
Wensing, *On second-order derivatives of rigid-body dynamics*, 2023.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.compiler import quantity
from artix.dynamics.forward import factorize, inverse_matrix, linear_solve, solve_acceleration
from artix.dynamics.inertia import Inertias, moments_of_momentum, momentum_of_motion
from artix.dynamics.mass_matrix import generalized_armature, generalized_momenta, inertia_matrix
from artix.dynamics.newton_euler import (
    Composites,
    Rates,
    WorldForces,
    displacement_rates,
    force_cross,
    force_derivatives,
    forces_by_configuration,
    forces_by_velocity,
    newton_euler,
    twice_coriolis,
    twice_coriolis_transposed,
    world_force_changes,
    world_force_changes_transposed,
)
from artix.kinematics.columns import (
    NUM_ROOT,
    changes_by_velocity,
    displacements,
    generalized_columns,
)
from artix.kinematics.configuration import generalized_velocity
from artix.kinematics.configuration_derivatives import integrate_derivatives
from artix.kinematics.forward import Kinematics, generalized_motions, kinematics, motion_cross
from artix.math import spatial
from artix.math.arrays import matmul
from artix.math.spatial import Motion
from artix.model.articulation import Articulation, State
from artix.model.checks import as_time, check_state, check_vector
from artix.model.states import at_rest
from artix.model.topology import Topology

Array = jax.Array


class InverseDynamicsDerivatives(NamedTuple):
    """Derivatives of the generalised forces [N or N m] of inverse dynamics, [nv, nv] each.

    Attributes:
      configuration: with respect to the configuration along :func:`artix.integrate`, per m or rad.
      velocity: with respect to the generalised velocity, per m/s or rad/s.
      acceleration: the mass matrix, with armature [kg, kg m or kg m^2].

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> derivatives = artix.inverse_dynamics_derivatives(
      ...     pendulum, artix.neutral_state(pendulum), jnp.zeros(2)
      ... )
      >>> # the stiffness with which gravity holds it down [N m/rad]
      >>> print(derivatives.configuration)
      [[19.62   4.905]
       [ 4.905  4.905]]
    """

    configuration: Array
    velocity: Array
    acceleration: Array


class ForwardDynamicsDerivatives(NamedTuple):
    """Derivatives of the generalised acceleration [m/s^2 or rad/s^2] of forward dynamics, [nv, nv]
    each.

    Attributes:
      configuration: with respect to the configuration along :func:`artix.integrate`, per m or rad.
      velocity: with respect to the generalised velocity, per m/s or rad/s.
      force: the inverse of the mass matrix with armature [1/kg, 1/(kg m) or 1/(kg m^2)].

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> derivatives = artix.forward_dynamics_derivatives(
      ...     pendulum, artix.neutral_state(pendulum), jnp.zeros(2)
      ... )
      >>> frequencies = jnp.sqrt(jnp.linalg.eigvals(-derivatives.configuration).real)
      >>> print(jnp.sort(frequencies))  # of small swings [rad/s]
      [2.68  7.182]
    """

    configuration: Array
    velocity: Array
    force: Array


@quantity
def inverse_dynamics_derivatives(
    articulation: Articulation,
    state: State,
    acceleration: Array,
    external_force: Array | None = None,
) -> InverseDynamicsDerivatives:
    """Derivatives of :func:`artix.inverse_dynamics`, Pinocchio's ``computeRNEADerivatives``.

    Carpentier and Mansard, *Analytical derivatives of rigid body dynamics algorithms*, RSS 2018;
    Singh, Russell and Wensing, *Efficient analytical derivatives of rigid-body dynamics using
    spatial vector algebra*, RA-L 2022.

    Args:
      acceleration: generalised acceleration, shape [nv] [m/s^2 or rad/s^2].
      external_force: wrench on each link at its centre of mass, force [N] then torque [N m] in
        world axes, shape [L, 6]; held in world axes while the configuration moves.

    Returns:
      The derivatives with respect to the configuration, the velocity and the acceleration, shape
      [nv, nv] each. Columns of the root's position and linear velocity are zero: dynamics do not
      depend on them.

    Identity: ``.acceleration == mass_matrix(a, s, armature=True)``.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.random_state(arm, jax.random.key(0))
      >>> derivatives = artix.inverse_dynamics_derivatives(arm, state, jnp.zeros(7))
      >>> print(derivatives.velocity.shape)
      (7, 7)
      >>> print(
      ...     jnp.allclose(
      ...         derivatives.acceleration, artix.mass_matrix(arm, state, armature=True), atol=1e-4
      ...     )
      ... )
      True
    """
    kin, by_configuration, by_velocity = _force_derivatives(
        articulation, state, acceleration, external_force
    )
    matrix = inertia_matrix(articulation, kin) + jnp.diag(generalized_armature(articulation))
    return InverseDynamicsDerivatives(by_configuration, by_velocity, matrix)


@quantity
def forward_dynamics_derivatives(
    articulation: Articulation, state: State, force: Array, external_force: Array | None = None
) -> ForwardDynamicsDerivatives:
    """Derivatives of :func:`artix.forward_dynamics`, Pinocchio's ``computeABADerivatives``.

    They are ``-M^-1`` times the derivatives of inverse dynamics at the acceleration that the forces
    cause.

    Args:
      force: generalised forces, shape [nv] [N or N m].
      external_force: wrenches on the links, as in :func:`inverse_dynamics_derivatives`, shape
        [L, 6].

    Returns:
      The derivatives with respect to the configuration, the velocity and the forces, shape [nv, nv]
      each.

    Identity: ``.force == mass_matrix_inverse(a, s)``.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.random_state(arm, jax.random.key(0))
      >>> derivatives = artix.forward_dynamics_derivatives(arm, state, jnp.zeros(7))
      >>> print(derivatives.configuration.shape)
      (7, 7)
      >>> print(
      ...     jnp.allclose(
      ...         derivatives.force, artix.mass_matrix_inverse(arm, state), rtol=1e-2, atol=1e-2
      ...     )
      ... )
      True
    """
    acceleration = solve_acceleration(articulation, state, force, external_force, many=True)
    kin, by_configuration, by_velocity = _force_derivatives(
        articulation, state, acceleration, external_force
    )
    factors = factorize(articulation, kin, many=True)

    def columns(rights: Array) -> Array:
        return jax.vmap(lambda right: linear_solve(articulation, kin, factors, right), 1, 1)(rights)

    return ForwardDynamicsDerivatives(
        -columns(by_configuration), -columns(by_velocity), inverse_matrix(articulation, kin)
    )


@quantity
def gravity_derivatives(articulation: Articulation, state: State) -> Array:
    """Derivative of :func:`artix.gravity_compensation` with respect to the configuration.

    Pinocchio's ``computeGeneralizedGravityDerivatives``.

    Returns:
      Shape [nv, nv] [N m/rad, N/m]; for revolute and prismatic joints the Hessian of the potential
      energy.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> hanging = artix.neutral_state(pendulum)
      >>> print(artix.dynamics.gravity_derivatives(pendulum, hanging))
      [[19.62   4.905]
       [ 4.905  4.905]]
    """
    kin = kinematics(articulation, state)
    rnea = newton_euler(articulation, kin, at_rest(state), None, gravity=True)
    columns = force_derivatives(articulation, kin, rnea, gravity=True).configuration
    return generalized_columns(articulation.topology, columns)


def _force_derivatives(
    articulation: Articulation, state: State, acceleration: Array, external_force: Array | None
) -> tuple[Kinematics, Array, Array]:
    """Solved kinematics, and the derivatives of inverse dynamics, [nv, nv] each."""
    check_state(articulation, state)
    check_vector(
        "acceleration", acceleration, (articulation.topology.nv,), articulation.dtype, "nv"
    )
    kin = kinematics(articulation, state)
    rnea = newton_euler(articulation, kin, state, acceleration, external_force, gravity=True)
    by = force_derivatives(articulation, kin, rnea, external_force, gravity=True)
    tree = articulation.topology
    return kin, generalized_columns(tree, by.configuration), generalized_columns(tree, by.velocity)


class Linearization(NamedTuple):
    """``x' = A x + B u`` for deviations x of configuration and velocity, [2 nv], and u of the
    forces, [nv].

    Attributes:
      state_matrix: A, [2 nv, 2 nv].
      input_matrix: B, [2 nv, nv].

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> model = artix.linearize(pendulum, artix.neutral_state(pendulum), jnp.zeros(2), 0.01)
      >>> print(model.state_matrix.shape, model.input_matrix.shape)
      (4, 4) (4, 2)
    """

    state_matrix: Array
    input_matrix: Array


@quantity
def linearize(
    articulation: Articulation,
    state: State,
    force: Array,
    dt: float | Array,
    external_force: Array | None = None,
) -> Linearization:
    """Discrete-time linear dynamics about a state, for LQR and iLQR.

    This is one step of semi-implicit Euler, ``nu' = nu + dt forward_dynamics(force)``, then
    ``integrate(dt nu')``. The deviation of a configuration is its :func:`artix.difference` from the
    nominal one.

    Args:
      state: the nominal state.
      force: the nominal generalised forces, shape [nv] [N or N m].
      dt: length of the step [s].
      external_force: wrenches on the links, as in :func:`inverse_dynamics_derivatives`, shape
        [L, 6].

    Returns:
      A, shape [2 nv, 2 nv], and B, shape [2 nv, nv]; deviations in m and rad, then in m/s and
      rad/s.

    Raises:
      ValueError: ``dt`` is not finite.
      TypeError: ``dt`` is not a number.

    Identity: the lower halves are ``[dt configuration, 1 + dt velocity]`` and ``dt force`` with the
    matrices of :func:`forward_dynamics_derivatives`.

    Examples:
      >>> pole = artix.robots.load("cart_pole")
      >>> upright = artix.neutral_state(pole)
      >>> model = artix.linearize(pole, upright, jnp.zeros(2), 0.01)
      >>> growth = jnp.abs(jnp.linalg.eigvals(model.state_matrix)).max()
      >>> print(growth > 1)  # upright, the pole falls
      True
    """
    dt = as_time(articulation, dt, backward=True)
    nv = articulation.topology.nv
    acceleration = solve_acceleration(articulation, state, force, external_force, many=True)
    velocity = generalized_velocity(articulation, state) + dt * acceleration
    by_start, by_displacement = integrate_derivatives(articulation, state, dt * velocity)
    by = forward_dynamics_derivatives(articulation, state, force, external_force)
    lower = jnp.concatenate(
        [dt * by.configuration, jnp.eye(nv, dtype=articulation.dtype) + dt * by.velocity], axis=1
    )
    upper = dt * matmul(by_displacement, lower) + jnp.pad(by_start, ((0, 0), (0, nv)))
    by_force = dt * by.force
    return Linearization(
        jnp.concatenate([upper, lower]),
        jnp.concatenate([dt * matmul(by_displacement, by_force), by_force]),
    )


# --- second derivatives -------------------------------------------------------------------------


class InverseDynamicsSecondDerivatives(NamedTuple):
    """Second derivatives of the generalised forces [N or N m]; entry [i, j, k] belongs to force i,
    [nv, nv, nv] each.

    Attributes:
      configuration_configuration: with respect to the configuration along j, then along k; not
        symmetric within a floating root and spherical joints.
      velocity_velocity: with respect to the velocities j and k.
      configuration_velocity: with respect to the configuration along j and velocity k.
      acceleration_configuration: by acceleration j and the configuration along k: the derivative of
        the mass matrix.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> state = artix.neutral_state(pendulum)
      >>> second = artix.dynamics.inverse_dynamics_second_derivatives(pendulum, state, jnp.zeros(2))
      >>> print(second.configuration_configuration.shape)
      (2, 2, 2)
    """

    configuration_configuration: Array
    velocity_velocity: Array
    configuration_velocity: Array
    acceleration_configuration: Array


class _Masks(NamedTuple):
    """Relations as numbers, 0 or 1; c = 3 + n displacements."""

    carried: Array
    """``[i, j]``: displacement j moves the joint of entry i, [nv, c]."""
    above: Array
    """``[i, j]``: entry i lies strictly above displacement j, [nv, c]."""
    strictly: Array
    """``[j, k]``: k lies on a body strictly above the body of j, [c, c]."""
    at_or_above: Array
    """``[j, k]``: k lies on the body of j or one above it, [c, c]."""
    roots: Array
    """``[j, k]``: both rotate the root, [c, c]."""


class _Pairs(NamedTuple):
    """The factors of the tensors: quantities of displacements j as ``lower`` [., c, 1] and k as
    ``upper`` [., 1, c].
    """

    masks: _Masks
    rows: Array
    """Motions of the generalised velocity, [6, nv]."""
    dofs: Composites
    """Composites of the DOFs, [., n]."""
    dof_motions: Motion
    lower: Rates
    upper: Rates
    upper_change: Motion
    """Changes of the accelerations with unit velocities k."""


@quantity
def inverse_dynamics_second_derivatives(
    articulation: Articulation,
    state: State,
    acceleration: Array,
    external_force: Array | None = None,
) -> InverseDynamicsSecondDerivatives:
    """Second derivatives of :func:`artix.inverse_dynamics`, Pinocchio's
    ``ComputeRNEASecondOrderDerivatives``.

    Args:
      acceleration: generalised acceleration, shape [nv] [m/s^2 or rad/s^2].
      external_force: wrench on each link at its centre of mass, force [N] then torque [N m],
        constant in world axes, shape [L, 6].

    Returns:
      The four tensors, shape [nv, nv, nv] each; all others are zero. Configurations move along
      :func:`artix.integrate`; a joint with two free axes is taken to rotate about exactly these.

    Identity: ``.velocity_velocity @ nu @ nu / 2`` is ``coriolis_compensation``, which does not
    depend on the root's linear velocity.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> bent = artix.neutral_state(pendulum).replace(joint_position=jnp.array([0.0, jnp.pi / 2]))
      >>> second = artix.dynamics.inverse_dynamics_second_derivatives(pendulum, bent, jnp.zeros(2))
      >>> nu = jnp.array([2.0, 0.0])
      >>> print(second.velocity_velocity @ nu @ nu / 2)  # the Coriolis forces of this velocity
      [0. 2.]
    """
    tree = articulation.topology
    check_state(articulation, state)
    check_vector("acceleration", acceleration, (tree.nv,), articulation.dtype, "nv")
    kin = kinematics(articulation, state)
    rnea = newton_euler(articulation, kin, state, acceleration, external_force, gravity=True)
    count = NUM_ROOT + tree.num_dofs
    rates = displacement_rates(articulation, kin, rnea, external_force, gravity=True)
    rates = jax.tree.map(lambda x: x[..., :count], rates)
    change = changes_by_velocity(tree, rnea.motions, rnea.velocity, rates.first)
    pairs = _Pairs(
        _masks(tree, articulation.dtype),
        generalized_motions(articulation, kin),
        jax.tree.map(lambda x: x[..., NUM_ROOT:], rates.sums),
        rnea.motions,
        *(
            jax.tree.map(lambda x: x[..., None], rates),
            jax.tree.map(lambda x: x[..., None, :], rates),
        ),
        jax.tree.map(lambda x: x[..., None, :], change),
    )
    first = force_derivatives(articulation, kin, rnea, external_force, gravity=True).configuration[
        :, :NUM_ROOT
    ]
    forces = forces_by_configuration(rates)
    tensors = (
        _by_configurations(pairs, forces, first),
        _by_velocities(pairs),
        _by_configuration_and_velocity(pairs, forces_by_velocity(rates, change)),
        _of_mass_matrix(pairs, generalized_momenta(articulation, kin)),
    )
    last = [generalized_columns(tree, tensor) for tensor in tensors]
    middle = [
        generalized_columns(tree, tensor.swapaxes(1, 2)).swapaxes(1, 2) for tensor in last[:3]
    ]
    return InverseDynamicsSecondDerivatives(middle[0], middle[1], middle[2], last[3])


def _by_configurations(pairs: _Pairs, forces: Array, first: Array) -> Array:
    """By j, then k, [nv, c, c]; ``forces`` and ``first`` are the first derivatives."""
    lower = pairs.lower
    upper = pairs.upper
    sums = pairs.lower.sums
    d_first = motion_cross(upper.first, lower.motions)
    d_second = _sum_with_twice(
        motion_cross(upper.second, lower.motions), motion_cross(upper.first, lower.first)
    )
    below = jnp.concatenate(momentum_of_motion(sums.inertias, upper.second))
    below = below + twice_coriolis(sums, upper.first.angular)
    total = jnp.concatenate(momentum_of_motion(sums.inertias, d_second)) + twice_coriolis(
        sums, d_first.angular
    )
    total = total + twice_coriolis(_moving(sums, upper.first), lower.first.angular)
    rows = [_momenta(pairs), _coriolis(pairs), _coriolis_by_motions(pairs)]
    products = _products(lower.first.angular, jnp.concatenate(upper.first))
    columns = [jnp.concatenate(d_second), d_first.angular, products]
    if sums.world is not None:
        below = below + world_force_changes(sums.world, upper.motions.angular)
        total = total + world_force_changes(
            _rotate(sums.world, upper.motions.angular), lower.motions.angular
        )
        rows.append(_world_force_changes_twice(pairs))
        columns.append(_products(lower.motions.angular, upper.motions.angular))
    total = total + force_cross(lower.motions, below)
    d_forces = force_cross(upper.motions, forces[:, :, None])
    masks = pairs.masks
    ordered = masks.carried[:, :, None] * _contract(
        jnp.concatenate(rows), jnp.concatenate(columns), pairs
    )
    along_rows = _contract_all(pairs.rows, total) + masks.above[:, None] * _contract_all(
        pairs.rows, d_forces
    )
    ordered = ordered + masks.above[:, :, None] * along_rows
    both = _symmetric(masks, ordered)
    # The root rotates about the world's axes, which do not move with it: the order of two rotations
    # matters by their bracket.
    bracket = np.zeros((NUM_ROOT,) * 3)
    for j, k, m in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        bracket[j, k, m] = 1.0
        bracket[k, j, m] = -1.0
    extra = _contract_all(first.T, jnp.asarray(np.moveaxis(bracket, 2, 0), first.dtype))
    return both.at[:, :NUM_ROOT, :NUM_ROOT].add(extra)


def _by_velocities(pairs: _Pairs) -> Array:
    """With respect to velocities j and k, [nv, c, c]."""
    lower, upper, masks = pairs.lower, pairs.upper, pairs.masks
    rates = Motion(
        *(part * (1 + masks.strictly)[None] for part in motion_cross(upper.motions, lower.motions))
    )
    total = jnp.concatenate(momentum_of_motion(lower.sums.inertias, rates))
    total = total + twice_coriolis(_moving(lower.sums, upper.motions), lower.motions.angular)
    rows = jnp.concatenate([_momenta(pairs), _coriolis_by_motions(pairs)])
    products = _products(lower.motions.angular, jnp.concatenate(upper.motions))
    ordered = masks.carried[:, :, None] * _contract(
        rows, jnp.concatenate([*rates, products]), pairs
    )
    return _symmetric(masks, ordered + masks.above[:, :, None] * _contract_all(pairs.rows, total))


def _by_configuration_and_velocity(pairs: _Pairs, forces: Array) -> Array:
    """With respect to configuration j and velocity k, [nv, c, c].

    ``forces`` are the derivatives with respect to velocity k alone.
    """
    lower, upper, masks = pairs.lower, pairs.upper, pairs.masks
    carried, above = masks.carried, masks.above
    # For the root's own rotations, velocities count as lying above displacements: no displacement
    # rotates them.
    k_above = masks.strictly + masks.roots
    k_below = (masks.at_or_above.T * (1 - k_above))[None]
    k_above = k_above[None]
    d_velocity = motion_cross(upper.motions, lower.motions)
    d_rate = _sum_with_twice(
        motion_cross(pairs.upper_change, lower.motions), motion_cross(upper.motions, lower.first)
    )
    sums = lower.sums
    below = jnp.concatenate(momentum_of_motion(sums.inertias, pairs.upper_change))
    below = below + twice_coriolis(sums, upper.motions.angular)
    total = jnp.concatenate(momentum_of_motion(sums.inertias, d_rate)) + twice_coriolis(
        sums, d_velocity.angular
    )
    total = total + twice_coriolis(_moving(sums, upper.motions), lower.first.angular)
    total = total + force_cross(lower.motions, below)
    rows = jnp.concatenate([_momenta(pairs), _coriolis(pairs)])
    direct = _contract(rows, jnp.concatenate([*d_rate, d_velocity.angular]), pairs)
    products = _products(lower.first.angular, jnp.concatenate(upper.motions))
    shared = _contract(_coriolis_by_motions(pairs), products, pairs)
    of_upper = twice_coriolis(_moving(upper.sums, upper.motions), lower.first.angular)
    tensor = k_above * (
        carried[:, :, None] * (direct + shared)
        + above[:, :, None] * _contract_all(pairs.rows, total)
    )
    tensor = tensor + k_below * carried[:, None] * shared
    tensor = tensor + k_below * above[:, None] * _contract_all(pairs.rows, of_upper)
    d_forces = force_cross(lower.motions, forces[:, None])
    return tensor + k_below * above[:, :, None] * _contract_all(pairs.rows, d_forces)


def _of_mass_matrix(pairs: _Pairs, momenta: tuple[Array, Array]) -> Array:
    """Derivative of entry [i, j] of the mass matrix with respect to displacement k, [nv, nv, c]."""
    motions, forces = momenta
    masks = pairs.masks
    upper = pairs.upper
    columns = Motion.from_rows(motions[:, :, None])
    rates = motion_cross(columns, upper.motions)
    total = jnp.concatenate(momentum_of_motion(upper.sums.inertias, rates))
    total = total + force_cross(
        upper.motions, jnp.concatenate(momentum_of_motion(upper.sums.inertias, columns))
    )
    d_forces = force_cross(upper.motions, forces[:, :, None])
    above, carried = masks.above, masks.carried
    below = (
        carried[:, None] * above[None] * _contract(_momenta(pairs), jnp.concatenate(rates), pairs)
    )
    among = above[None] * _contract_all(pairs.rows, total) + carried[None] * _contract_all(
        pairs.rows, d_forces
    )
    return below + above[:, None] * among


def _sum_with_twice(a: Motion, b: Motion) -> Motion:
    """``a + 2 b``."""
    return Motion(a.linear + 2 * b.linear, a.angular + 2 * b.angular)


def _masks(tree: Topology, dtype) -> _Masks:
    relations = displacements(tree)
    count = NUM_ROOT + tree.num_dofs
    base = tree.num_base_dofs
    carried, above = (
        jnp.asarray(mask)[:, :count] for mask in (relations.carries_dof, relations.dof_is_above)
    )
    root = jnp.zeros((NUM_ROOT, count), bool).at[:, NUM_ROOT:].set(True)
    roots = jnp.pad(jnp.ones((NUM_ROOT, NUM_ROOT), bool), ((0, tree.num_dofs), (0, tree.num_dofs)))
    strictly = jnp.concatenate([root, above])
    joints = jnp.pad(carried[:, NUM_ROOT:].T, ((0, 0), (NUM_ROOT, 0)))
    at_or_above = jnp.concatenate([jnp.ones((NUM_ROOT, count), bool), joints])
    above = jnp.concatenate([jnp.ones((base, count), bool), above])
    carried = jnp.concatenate([jnp.zeros((base, count), bool), carried])
    masks = (carried, above, strictly.T, at_or_above.T, roots)
    return _Masks(*(mask.astype(dtype) for mask in masks))


def _symmetric(masks: _Masks, ordered: Array) -> Array:
    """Fills in all pairs from those in which k is at or above j."""
    return masks.at_or_above[None] * ordered + (masks.strictly.T[None] * ordered.swapaxes(1, 2))


def _moving(sums: Composites, motion: Motion) -> Composites:
    """The composites with the moments of momentum that this motion alone would give them."""
    linear, moments = moments_of_momentum(sums.inertias, motion)
    return sums._replace(momentum=linear, momentum_moments=moments)


def _rotate(world: WorldForces, angular: Array) -> WorldForces:
    """Rates of change of world forces as seen from rotating composites."""
    moments = jnp.stack([spatial.cross(world.moments[:, k], angular) for k in range(3)], axis=1)
    return WorldForces(
        spatial.cross(world.force, angular), moments, spatial.cross(world.torque, angular)
    )


def _momenta(pairs: _Pairs) -> Array:
    """Momenta of the DOFs' composites, [6, n]."""
    return jnp.concatenate(momentum_of_motion(pairs.dofs.inertias, pairs.dof_motions))


def _coriolis(pairs: _Pairs) -> Array:
    """Powers of the Coriolis forces on the DOFs' composites, [3, n]."""
    return twice_coriolis_transposed(pairs.dofs, pairs.dof_motions)


def _coriolis_by_motions(pairs: _Pairs) -> Array:
    """The same for composites that move with each of six unit motions, [18, n]: by angular part,
    then by motion.
    """
    dofs = pairs.dofs
    unit = jnp.eye(6, dtype=pairs.rows.dtype)[..., None]
    inertias = jax.tree.map(lambda x: x[..., None, :], dofs.inertias)
    moving = _moving(dofs._replace(inertias=Inertias(*inertias)), Motion.from_rows(unit))
    motions = Motion(*(part[:, None] for part in pairs.dof_motions))
    return twice_coriolis_transposed(moving, motions).reshape(18, -1)


def _world_force_changes_twice(pairs: _Pairs) -> Array:
    """Powers of the changes of world forces under two rotations, [9, n]: by the second rotation,
    then by the first.
    """
    unit = jnp.eye(3, dtype=pairs.rows.dtype)[..., None]
    world = jax.tree.map(lambda x: x[..., None, :], pairs.dofs.world)
    motions = Motion(*(part[:, None] for part in pairs.dof_motions))
    return world_force_changes_transposed(_rotate(world, unit), motions).reshape(9, -1)


def _products(a: Array, b: Array) -> Array:
    """All products of components, [p, c, 1], [q, 1, c] -> [p q, c, c]."""
    return (a[:, None] * b[None]).reshape(-1, a.shape[1], b.shape[2])


def _contract_all(rows: Array, columns: Array) -> Array:
    """Sum over r of rows [r, i] and columns [r, j, k], in full precision, [i, j, k]."""
    return jnp.einsum("ri,rjk->ijk", rows, columns, precision=jax.lax.Precision.HIGHEST)


def _contract(rows: Array, columns: Array, pairs: _Pairs) -> Array:
    """The same for rows of the DOFs only; the root's entries, which no displacement moves, are
    zero.
    """
    base = pairs.rows.shape[1] - rows.shape[1]
    return jnp.pad(_contract_all(rows, columns), ((base, 0), (0, 0), (0, 0)))
