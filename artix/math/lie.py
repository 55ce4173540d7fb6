"""Exponential, logarithm and their Jacobians on SO(3) and SE(3), for one element; use ``jax.vmap``
over batches.

Rotations are unit quaternions xyzw, poses ``[7]`` position then quaternion, twists ``[6]`` linear
then angular part. Rotation vectors are in rad; positions and linear parts have a common unit, such
as m. The *right* Jacobian maps the rate of v to the velocity of ``exp(v)`` in the moving frame, the
*left* Jacobian to the velocity in the fixed frame; the right one at v is the left one at -v.
Everything is smooth at zero. Chirikjian, *Stochastic Models, Information Theory, and Lie Groups*
(2011), section 10.7; Sola, Deray and Atchuthan, *A micro Lie theory* (2018). An array of another
shape raises ``ValueError``. Outside ``jax.jit`` each function is compiled as a whole.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from artix.math import spatial
from artix.math.arrays import matmul
from artix.math.traces import compiled

Array = jax.Array


@compiled
def so3_exp(vector: Array) -> Array:
    """Unit quaternion [4] (xyzw) of a rotation vector [3] [rad]; Pinocchio's ``exp3_quat``.

    Identity: ``so3_log(so3_exp(v)) == v`` for rotations of less than a half turn.

    Examples:
      >>> # a quarter turn about z, xyzw
      >>> print(artix.lie.so3_exp(jnp.array([0.0, 0.0, jnp.pi / 2])))
      [0.    0.    0.707 0.707]
    """
    _check("vector", vector, 3)
    return _single(spatial.quaternion_exp, vector)


@compiled
def so3_log(quaternion: Array) -> Array:
    """Shortest rotation vector [3] [rad] of a quaternion [4] (xyzw) of either sign; Pinocchio's
    ``log3``.

    The vector is discontinuous at a half turn; its derivatives are finite even there.

    Examples:
      >>> # a quarter turn about z
      >>> print(artix.lie.so3_log(jnp.array([0.0, 0.0, 1.0, 1.0]) / jnp.sqrt(2.0)))
      [0.    0.    1.571]
    """
    _check("quaternion", quaternion, 4)
    return _single(lambda q: spatial.quaternion_log(spatial.normalize(q)), quaternion)


@compiled
def so3_right_jacobian(vector: Array) -> Array:
    """J_r [3, 3]: angular velocity in the moving frame = J_r(v) dv/dt for ``so3_exp(v)``;
    Pinocchio's ``Jexp3``.

    Examples:
      >>> vector = jnp.array([0.3, -0.2, 0.5])
      >>> right, left = artix.lie.so3_right_jacobian(vector), artix.lie.so3_left_jacobian(vector)
      >>> print(jnp.allclose(right, left.T, atol=1e-6))
      True
    """
    _check("vector", vector, 3)
    return _single(spatial.right_jacobian, vector)


@compiled
def so3_left_jacobian(vector: Array) -> Array:
    """J_l [3, 3]: angular velocity in the fixed frame = J_l(v) dv/dt for ``so3_exp(v)``; Chirikjian
    (2011).

    Identity: ``so3_left_jacobian(v) == so3_right_jacobian(v).T == so3_right_jacobian(-v)``.

    Examples:
      >>> vector = jnp.array([0.0, 0.0, jnp.pi / 2])
      >>> print(artix.lie.so3_left_jacobian(vector))
      [[ 0.637 -0.637  0.   ]
       [ 0.637  0.637  0.   ]
       [ 0.     0.     1.   ]]
    """
    _check("vector", vector, 3)
    return so3_right_jacobian(vector).T


@compiled
def so3_right_jacobian_inverse(vector: Array) -> Array:
    """The inverse [3, 3] of :func:`so3_right_jacobian`, Pinocchio's ``Jlog3``; singular at a full
    turn.

    Examples:
      >>> vector = jnp.array([0.3, -0.2, 0.5])
      >>> inverse = artix.lie.so3_right_jacobian_inverse(vector)
      >>> print(jnp.allclose(inverse @ artix.lie.so3_right_jacobian(vector), jnp.eye(3), atol=1e-5))
      True
    """
    _check("vector", vector, 3)
    return _single(lambda v: spatial.inverse(spatial.right_jacobian(v)), vector)


@compiled
def so3_left_jacobian_inverse(vector: Array) -> Array:
    """The inverse [3, 3] of :func:`so3_left_jacobian`; singular at a full turn.

    Identity: ``so3_left_jacobian_inverse(v) == so3_right_jacobian_inverse(-v)``.

    Examples:
      >>> vector = jnp.array([0.3, -0.2, 0.5])
      >>> inverse = artix.lie.so3_left_jacobian_inverse(vector)
      >>> print(jnp.allclose(inverse @ artix.lie.so3_left_jacobian(vector), jnp.eye(3), atol=1e-5))
      True
    """
    _check("vector", vector, 3)
    return so3_right_jacobian_inverse(vector).T


@compiled
def se3_exp(twist: Array) -> Array:
    """Pose [7] that a constant twist [6] (linear, then angular, in the moving frame) reaches;
    Pinocchio's ``exp6``.

    The twist acts for a unit of time: its linear part is in the unit of the position, its angular
    part in rad.

    Identity: ``se3_log(se3_exp(v)) == v`` for rotations of less than a half turn.

    Examples:
      >>> # forwards, turning left by a quarter
      >>> twist = jnp.array([1.0, 0.0, 0.0, 0.0, 0.0, jnp.pi / 2])
      >>> print(artix.lie.se3_exp(twist))  # on a quarter of a circle of radius 2 / pi
      [0.637 0.637 0.    0.    0.    0.707 0.707]
    """
    _check("twist", twist, 6)
    position = matmul(so3_left_jacobian(twist[3:]), twist[:3])
    return jnp.concatenate([position, so3_exp(twist[3:])])


@compiled
def se3_log(pose: Array) -> Array:
    """Twist [6] (linear, then angular part) whose :func:`se3_exp` is a pose [7]; Pinocchio's
    ``log6``.

    The linear part is in the unit of the position, the angular part in rad. The rotation is the
    shortest one, and discontinuous at a half turn.

    Identity: ``se3_log(se3_exp(v)) == v`` for rotations of less than a half turn.

    Examples:
      >>> pose = jnp.array([0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0])  # a metre along z
      >>> print(artix.lie.se3_log(pose))
      [0. 0. 1. 0. 0. 0.]
    """
    _check("pose", pose, 7)
    angular = so3_log(pose[3:])
    return jnp.concatenate([matmul(so3_left_jacobian_inverse(angular), pose[:3]), angular])


@compiled
def se3_right_jacobian(twist: Array) -> Array:
    """J_r [6, 6]: twist in the moving frame = J_r(v) dv/dt for ``se3_exp(v)``; Pinocchio's
    ``Jexp6``.

    Examples:
      >>> twist = jnp.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
      >>> # half of the translation's cross product
      >>> print(artix.lie.se3_right_jacobian(twist)[:3, 3:])
      [[ 0.   0.   0. ]
       [ 0.   0.   0.5]
       [ 0.  -0.5  0. ]]
    """
    _check("twist", twist, 6)
    jacobian, coupling = _blocks(twist)
    return jnp.block([[jacobian, coupling], [jnp.zeros_like(jacobian), jacobian]])


@compiled
def se3_left_jacobian(twist: Array) -> Array:
    """J_l [6, 6]: twist in the fixed frame = J_l(v) dv/dt for ``se3_exp(v)``; Chirikjian (2011).

    Identity: ``se3_left_jacobian(v) == se3_right_jacobian(-v)``.

    Examples:
      >>> twist = jnp.array([0.1, 0.2, 0.3, 0.0, 0.0, 0.5])
      >>> adjoint = artix.lie.se3_left_jacobian(twist) @ artix.lie.se3_right_jacobian_inverse(twist)
      >>> print(adjoint[:3, :3])  # the rotation by 0.5 rad about z
      [[ 0.878 -0.479  0.   ]
       [ 0.479  0.878  0.   ]
       [ 0.     0.     1.   ]]
    """
    _check("twist", twist, 6)
    return se3_right_jacobian(-twist)


@compiled
def se3_right_jacobian_inverse(twist: Array) -> Array:
    """The inverse [6, 6] of :func:`se3_right_jacobian`, Pinocchio's ``Jlog6``; singular at a full
    turn.

    Examples:
      >>> twist = jnp.array([0.1, 0.2, 0.3, 0.4, 0.0, 0.5])
      >>> inverse = artix.lie.se3_right_jacobian_inverse(twist)
      >>> print(jnp.allclose(inverse @ artix.lie.se3_right_jacobian(twist), jnp.eye(6), atol=1e-5))
      True
    """
    _check("twist", twist, 6)
    _, coupling = _blocks(twist)
    inverse = so3_right_jacobian_inverse(twist[3:])
    return jnp.block(
        [[inverse, -matmul(inverse, matmul(coupling, inverse))], [jnp.zeros_like(inverse), inverse]]
    )


@compiled
def se3_left_jacobian_inverse(twist: Array) -> Array:
    """The inverse [6, 6] of :func:`se3_left_jacobian`; singular at a full turn.

    Identity: ``se3_left_jacobian_inverse(v) == se3_right_jacobian_inverse(-v)``.

    Examples:
      >>> twist = jnp.array([0.1, 0.2, 0.3, 0.0, 0.0, 0.5])
      >>> inverse = artix.lie.se3_left_jacobian_inverse(twist)
      >>> print(jnp.allclose(inverse @ artix.lie.se3_left_jacobian(twist), jnp.eye(6), atol=1e-5))
      True
    """
    _check("twist", twist, 6)
    return se3_right_jacobian_inverse(-twist)


def _blocks(twist: Array) -> tuple[Array, Array]:
    """The diagonal block of J_r and the block that couples rotation to translation, [3, 3] each."""
    linear, angular = twist[:3], twist[3:]

    def position(vector: Array) -> Array:
        return matmul(so3_left_jacobian(vector), linear)

    rotation = _single(lambda v: spatial.rotation_matrix(spatial.quaternion_exp(v)), angular)
    return so3_right_jacobian(angular), matmul(rotation.T, jax.jacfwd(position)(angular))


def _check(name: str, value: Array, length: int) -> None:
    shape = getattr(value, "shape", None)
    if shape is None:
        raise TypeError(
            f"{name}: expected an array, found {type(value).__name__}; make it one with "
            "jnp.asarray(...)"
        )
    if shape != (length,):
        raise ValueError(
            f"{name} has shape {shape}, expected ({length},): one element; use jax.vmap over "
            "batches"
        )


def _single(function: Callable[[Array], Array], value: Array) -> Array:
    """Applies a function of arrays with a trailing item axis to a single item."""
    return function(value[..., None])[..., 0]
