"""Exponential, logarithm and their Jacobians on SO(3) and SE(3), for one element; use ``jax.vmap`` over batches.

Rotations are unit quaternions xyzw, poses ``[7]`` position then quaternion, twists ``[6]`` linear then angular part.
The *right* Jacobian gives the velocity in the moving frame of ``exp(v)`` for a rate of v, the *left* one that in the
fixed frame; the right one at v is the left one at -v. Everything is smooth at zero. Chirikjian, *Stochastic Models,
Information Theory, and Lie Groups* (2011), section 10.7; Sola, Deray and Atchuthan, *A micro Lie theory* (2018).
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from artix.math import spatial
from artix.math.arrays import matmul

Array = jax.Array


def so3_exp(vector: Array) -> Array:
    """Unit quaternion [4] (xyzw) of a rotation vector [3] [rad]; Pinocchio's ``exp3_quat``."""
    return _of_one(spatial.quaternion_exp, vector)


def so3_log(quaternion: Array) -> Array:
    """Shortest rotation vector [3] [rad] of a quaternion [4] (xyzw) of either sign; Pinocchio's ``log3``.

    At a half turn the vector is discontinuous; its derivatives are finite there too.
    """
    return _of_one(lambda q: spatial.quaternion_log(spatial.normalize(q)), quaternion)


def so3_right_jacobian(vector: Array) -> Array:
    """J_r [3, 3]: angular velocity in the moving frame = J_r(v) dv/dt for ``so3_exp(v)``; Pinocchio's ``Jexp3``."""
    return _of_one(spatial.right_jacobian, vector)


def so3_left_jacobian(vector: Array) -> Array:
    """J_l [3, 3], the transpose of J_r: angular velocity in the fixed frame = J_l(v) dv/dt for ``so3_exp(v)``."""
    return so3_right_jacobian(vector).T


def so3_right_jacobian_inverse(vector: Array) -> Array:
    """The inverse [3, 3] of :func:`so3_right_jacobian`, Pinocchio's ``Jlog3``; singular at a whole turn."""
    return _of_one(lambda v: spatial.inverse(spatial.right_jacobian(v)), vector)


def so3_left_jacobian_inverse(vector: Array) -> Array:
    """The inverse [3, 3] of :func:`so3_left_jacobian`; singular at a whole turn."""
    return so3_right_jacobian_inverse(vector).T


def se3_exp(twist: Array) -> Array:
    """Pose [7] that a constant twist [6] (linear, then angular, in the moving frame) reaches; Pinocchio's ``exp6``."""
    position = matmul(so3_left_jacobian(twist[3:]), twist[:3])
    return jnp.concatenate([position, so3_exp(twist[3:])])


def se3_log(pose: Array) -> Array:
    """Twist [6] (linear, then angular part) whose :func:`se3_exp` is a pose [7]; Pinocchio's ``log6``.

    The shortest one; at a half turn it is discontinuous.
    """
    angular = so3_log(pose[3:])
    return jnp.concatenate([matmul(so3_left_jacobian_inverse(angular), pose[:3]), angular])


def se3_right_jacobian(twist: Array) -> Array:
    """J_r [6, 6]: twist in the moving frame = J_r(v) dv/dt for ``se3_exp(v)``; Pinocchio's ``Jexp6``."""
    jacobian, coupling = _blocks(twist)
    return jnp.block([[jacobian, coupling], [jnp.zeros_like(jacobian), jacobian]])


def se3_left_jacobian(twist: Array) -> Array:
    """J_l [6, 6]: twist in the fixed frame = J_l(v) dv/dt for ``se3_exp(v)``."""
    return se3_right_jacobian(-twist)


def se3_right_jacobian_inverse(twist: Array) -> Array:
    """The inverse [6, 6] of :func:`se3_right_jacobian`, Pinocchio's ``Jlog6``; singular at a whole turn."""
    _, coupling = _blocks(twist)
    inverse = so3_right_jacobian_inverse(twist[3:])
    return jnp.block([[inverse, -matmul(inverse, matmul(coupling, inverse))], [jnp.zeros_like(inverse), inverse]])


def se3_left_jacobian_inverse(twist: Array) -> Array:
    """The inverse [6, 6] of :func:`se3_left_jacobian`; singular at a whole turn."""
    return se3_right_jacobian_inverse(-twist)


def _blocks(twist: Array) -> tuple[Array, Array]:
    """The diagonal block of J_r and the block that couples rotation to translation, [3, 3] each."""
    linear, angular = twist[:3], twist[3:]

    def position(vector: Array) -> Array:
        return matmul(so3_left_jacobian(vector), linear)

    rotation = _of_one(lambda v: spatial.rotation_matrix(spatial.quaternion_exp(v)), angular)
    return so3_right_jacobian(angular), matmul(rotation.T, jax.jacfwd(position)(angular))


def _of_one(function: Callable[[Array], Array], value: Array) -> Array:
    """Applies a function of arrays with a trailing item axis to a single item."""
    return function(value[..., None])[..., 0]
