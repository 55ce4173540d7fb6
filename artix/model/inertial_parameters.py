"""Log-Cholesky parameters of inertias: any ten numbers describe a physical body, so optimisers need
no constraints.

Rucker and Wensing, *Smooth parameterization of rigid-body inertia*, RA-L 2022. With
``theta = (alpha, d1, d2, d3, s12, s23, s13, t1, t2, t3)``, Pinocchio's ``LogCholeskyParameters`` in
the same order, the pseudo-inertia of the link is::

                            | exp(d1)  s12      s13      t1 |
    J = U U^T,  U = e^alpha | 0        exp(d2)  s23      t2 |  =  e^alpha | V  t |
                            | 0        0        exp(d3)  t3 |             | 0  1 |
                            | 0        0        0        1  |

so the mass is ``e^(2 alpha)``, the centre of mass is ``t``, and the second moments about it are
``mass V V^T``. These are positive definite for every theta, which makes the inertia physically
consistent: positive mass and moments, and no principal inertia above the sum of the others.

The parameters describe the inertia in the axes of the link: the orientation of ``com_pose`` is
absorbed into the off-diagonal entries, and converting back yields an identity orientation.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from artix.math import spatial
from artix.math.traces import compiled
from artix.model.articulation import Articulation
from artix.model.checks import check_one, check_vector
from artix.model.topology import Topology

Array = jax.Array
NUM_PARAMETERS = 10


def log_cholesky_from_inertia(mass: Array, com_pose: Array, inertia: Array) -> Array:
    """Log-Cholesky parameters of one link.

    Rucker and Wensing, *Smooth parameterization of rigid-body inertia*, RA-L 2022; Pinocchio's
    ``LogCholeskyParameters``.

    Args:
      mass: mass, positive [kg], shape [].
      com_pose: mass frame in the link's frame, position [m] and quaternion xyzw, shape [7].
      inertia: rotational inertia about the centre of mass in the axes of ``com_pose`` [kg m^2],
        shape [3, 3].

    Returns:
      ``(alpha, d1, d2, d3, s12, s23, s13, t1, t2, t3)``, shape [10]; 2 alpha is the logarithm of a
      mass [kg], d are the logarithms of lengths [m], s and t are lengths [m].

    Raises:
      ValueError: ; or the link has no mass, no extent in some direction (a point, a rod or a plate
        without thickness), or physically impossible principal inertias, and thus no such
        parameters. Traced values cannot be checked: under a transformation such a link gives NaN,
        so check its values first.

    Identity: ``inertia_from_log_cholesky`` of the result is the same link.

    Examples:
      >>> com_pose = jnp.array([0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 1.0])
      >>> inertia = jnp.diag(jnp.array([0.02, 0.02, 0.01]))
      >>> theta = artix.model.log_cholesky_from_inertia(jnp.array(2.0), com_pose, inertia)
      >>> mass, _, inertia = artix.model.inertia_from_log_cholesky(theta)
      >>> print(mass, jnp.diagonal(inertia))
      2.0 [0.02 0.02 0.01]
    """
    dtype = jnp.asarray(mass).dtype
    check_vector("mass", mass, (), dtype, "of one link")
    check_vector("com_pose", com_pose, (7,), dtype, "position, quaternion xyzw")
    check_vector("inertia", inertia, (3, 3), dtype, "about the centre of mass")
    if not any(isinstance(value, jax.core.Tracer) for value in (mass, com_pose, inertia)):
        _check_extent(np.asarray(mass), np.asarray(inertia), "the link")
    return _parameters(mass, com_pose, inertia)


@compiled
def inertia_from_log_cholesky(theta: Array) -> tuple[Array, Array, Array]:
    """The link that log-Cholesky parameters describe; smooth, and physically consistent for every
    theta.

    Rucker and Wensing (2022); Pinocchio's ``LogCholeskyParameters::toInertia``.

    Args:
      theta: ``(alpha, d1, d2, d3, s12, s23, s13, t1, t2, t3)``, shape [10], see
        :func:`log_cholesky_from_inertia`.

    Returns:
      Mass [kg], shape []; mass frame in the link's frame, position [m] and quaternion xyzw (the
      identity), shape [7]; rotational inertia about the centre of mass in the link's axes [kg m^2],
      shape [3, 3].

    Identity: ``log_cholesky_from_inertia(*inertia_from_log_cholesky(theta)) == theta``.

    Examples:
      >>> theta = jnp.zeros(10).at[0].set(jnp.log(2.0)).at[7].set(0.1)
      >>> mass, com_pose, inertia = artix.model.inertia_from_log_cholesky(theta)
      >>> print(mass, com_pose[:3])
      4.0 [0.1 0.  0. ]
      >>> print(jnp.linalg.eigvalsh(inertia).min() > 0)  # whatever theta is
      True
    """
    check_vector(
        "theta", theta, (NUM_PARAMETERS,), jnp.asarray(theta).dtype, "log-Cholesky parameters"
    )
    mass = jnp.exp(2 * theta[0])
    a, b, c = jnp.exp(theta[1:4])
    s12, s23, s13 = theta[4:7]
    xx = a * a + s12 * s12 + s13 * s13
    yy = b * b + s23 * s23
    zz = c * c
    xy = s12 * b + s13 * s23
    xz = s13 * c
    yz = s23 * c
    inertia = jnp.stack([yy + zz, -xy, -xz, -xy, xx + zz, -yz, -xz, -yz, xx + yy]).reshape(3, 3)
    identity = jnp.zeros(4, theta.dtype).at[3].set(1)
    return mass, jnp.concatenate([theta[7:], identity]), mass * inertia


def log_cholesky_from_articulation(
    articulation: Articulation, links: Sequence[str] | None = None
) -> Array:
    """Log-Cholesky parameters of the links of an articulation.

    Rucker and Wensing, *Smooth parameterization of rigid-body inertia*, RA-L 2022; Pinocchio's
    ``LogCholeskyParameters``.

    Args:
      links: names of the links, in the order wanted; all, in link order, when ``None``.

    Returns:
      One row per link, shape [L, 10] or [len(links), 10]; order and units as of
      :func:`log_cholesky_from_inertia`.

    Raises:
      KeyError: no link has one of the names.
      ValueError: a link has no mass or no extent in some direction, see
        :func:`log_cholesky_from_inertia`; the message names it. Or the articulation is a batch.
      TypeError: ``links`` is one string.

    Identity: ``with_log_cholesky(a, log_cholesky_from_articulation(a))`` has the dynamics of ``a``.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> theta = artix.log_cholesky_from_articulation(arm, ["forearm", "hand"])
      >>> mass, _, _ = artix.model.inertia_from_log_cholesky(theta[1])
      >>> print(theta.shape, mass)  # the hand has 0.6 kg
      (2, 10) 0.6
    """
    topology, index = _topology_and_indices(articulation, links)
    mass, com_pose, inertia = (
        leaf[index]
        for leaf in (articulation.link_mass, articulation.link_com_pose, articulation.link_inertia)
    )
    if not any(isinstance(value, jax.core.Tracer) for value in (mass, inertia)):
        for row, link in enumerate(index):
            _check_extent(
                np.asarray(mass[row]),
                np.asarray(inertia[row]),
                f"link {topology.link_names[link]!r}",
            )
    return jax.vmap(_parameters)(mass, com_pose, inertia)


def with_log_cholesky(
    articulation: Articulation, theta: Array, links: Sequence[str] | None = None
) -> Articulation:
    """The articulation with its links' inertias given by log-Cholesky parameters; differentiable in
    theta.

    Args:
      theta: parameters, one row per link, shape [L, 10] or [len(links), 10].
      links: names of the links that the rows belong to; all, in link order, when ``None``.

    Returns:
      The articulation with ``link_mass``, ``link_com_pose`` (in the links' axes) and
      ``link_inertia`` replaced.

    Raises:
      KeyError: no link has one of the names.
      ValueError: the articulation is a batch.
      TypeError: theta has another dtype than the articulation, ``links`` is one string, or the
        articulation belongs to a mixed fleet.

    Identity: ``with_log_cholesky(a, log_cholesky_from_articulation(a))`` has the dynamics of ``a``.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> theta = artix.log_cholesky_from_articulation(arm, ["hand"])
      >>> heavier = artix.with_log_cholesky(arm, theta.at[:, 0].add(jnp.log(1.1)), ["hand"])
      >>> hand = arm.topology.link_index("hand")
      >>> print(
      ...     heavier.link_mass[hand] > arm.link_mass[hand],
      ...     (heavier.link_mass != arm.link_mass).sum(),
      ... )
      True 1
    """
    _, index = _topology_and_indices(articulation, links)
    check_vector(
        "theta", theta, (len(index), NUM_PARAMETERS), articulation.dtype, "one row per link"
    )
    mass, com_pose, inertia = jax.vmap(inertia_from_log_cholesky)(theta)
    return articulation.replace(
        link_mass=articulation.link_mass.at[index].set(mass),
        link_com_pose=articulation.link_com_pose.at[index].set(com_pose),
        link_inertia=articulation.link_inertia.at[index].set(inertia),
    )


@compiled
def _parameters(mass: Array, com_pose: Array, inertia: Array) -> Array:
    """Factorises the second moments per mass as ``V V^T``, V upper triangular, from the last column
    to the first.
    """
    quaternion = spatial.normalize(com_pose[3:, None])
    symmetric = 0.5 * (inertia + inertia.T)
    moments = 0.5 * jnp.trace(symmetric) * jnp.eye(3, dtype=inertia.dtype) - symmetric
    rotation = spatial.rotation_matrix(quaternion)
    second = (
        spatial.multiply_transposed(spatial.multiply(rotation, moments[..., None]), rotation)[
            ..., 0
        ]
        / mass
    )
    c = jnp.sqrt(second[2, 2])
    s13, s23 = second[0, 2] / c, second[1, 2] / c
    b = jnp.sqrt(second[1, 1] - s23 * s23)
    s12 = (second[0, 1] - s13 * s23) / b
    a = jnp.sqrt(second[0, 0] - s12 * s12 - s13 * s13)
    logarithms = jnp.log(jnp.stack([a, b, c]))
    return jnp.concatenate(
        [0.5 * jnp.log(mass)[None], logarithms, jnp.stack([s12, s23, s13]), com_pose[:3]]
    )


def _check_extent(mass: np.ndarray, inertia: np.ndarray, where: str) -> None:
    """Raises unless the link has mass and its second moments about the centre of mass are positive
    definite.
    """
    if not mass > 0:
        raise ValueError(
            f"{where}: a link of mass {mass} kg has no log-Cholesky parameters; leave it out of "
            "`links`, or give it mass"
        )
    moments = np.linalg.eigvalsh(0.5 * (inertia + inertia.T).astype(float))
    second = 0.5 * moments.sum() - moments
    # A smallest second moment below this is rounding error.
    if not second.min() > 8 * np.finfo(inertia.dtype).eps * np.abs(moments).max():
        raise ValueError(
            f"{where}: log-Cholesky parameters need extent in every direction, but the principal "
            f"inertias are ({moments[0]:.6g}, {moments[1]:.6g}, {moments[2]:.6g}) kg m^2: each "
            "must be below the sum of the others; leave the link out of `links`, or give it "
            "thickness"
        )


def _topology_and_indices(
    articulation: Articulation, links: Sequence[str] | None
) -> tuple[Topology, np.ndarray]:
    check_one(articulation)
    topology = articulation.topology
    if links is None:
        return topology, np.arange(topology.num_links)
    if isinstance(links, str):
        raise TypeError(
            f"links: expected a sequence of names; found the string {links!r}: write [{links!r}]"
        )
    return topology, np.array([topology.link_index(name) for name in links], int)
