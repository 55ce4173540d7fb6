"""Three-dimensional algebra on structures of arrays: component axes first, the item (link, body,
DOF) axis last.

A vector is ``[3, n]``, a quaternion ``[4, n]`` (xyzw), a matrix ``[3, 3, n]``. :class:`Transforms`
and :class:`Motion` are n rigid transforms and n spatial vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.math.arrays import identity, take
from artix.math.traces import shared

Array = jax.Array


@shared
def cross(a: Array, b: Array) -> Array:
    """Cross product of two vectors [3, n]."""
    ax, ay, az = jnp.unstack(a)
    bx, by, bz = jnp.unstack(b)
    return jnp.stack([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx])


def dot(a: Array, b: Array) -> Array:
    """Scalar product over the component axis: [k, n], [k, n] -> [n]."""
    return jax.lax.reduce_sum(a * b, (0,))


@shared
def apply(matrix: Array, vector: Array) -> Array:
    """Matrix times vector: [i, k, n], [k, n] -> [i, n]."""
    return jax.lax.reduce_sum(matrix * vector[None], (1,))


@shared
def apply_transposed(matrix: Array, vector: Array) -> Array:
    """Transposed matrix times vector: [k, i, n], [k, n] -> [i, n]."""
    return jax.lax.reduce_sum(matrix * vector[:, None], (0,))


@shared
def multiply(a: Array, b: Array) -> Array:
    """Matrix product: [i, k, n], [k, j, n] -> [i, j, n]."""
    return jax.lax.reduce_sum(a[:, :, None] * b[None], (1,))


@shared
def multiply_transposed(a: Array, b: Array) -> Array:
    """Matrix times transposed matrix: [i, k, n], [j, k, n] -> [i, j, n]."""
    return multiply(a, b.swapaxes(0, 1))


@shared
def rotate_symmetric(rotation: Array, matrix: Array) -> Array:
    """Symmetric matrices S as ``R S R^T``: [3, 3, n], [3, 3, n] -> [3, 3, n].

    A rotation keeps the trace, which gives the last entry: 59 operations instead of 75.
    """
    rows = multiply_transposed(multiply(rotation[:2], matrix), rotation)
    last = trace(matrix) - rows[0, 0] - rows[1, 1]
    return symmetric_from_upper(jnp.concatenate([rows, jnp.broadcast_to(last, rows[:1].shape)]))


@shared
def symmetric_from_upper(matrix: Array) -> Array:
    """Symmetric matrices [k, k, ...] from their upper triangles."""
    ones = np.ones((*matrix.shape[:2], *(1,) * (matrix.ndim - 2)), matrix.dtype)
    upper, strict = (
        np.moveaxis(np.triu(np.moveaxis(ones, (0, 1), (-2, -1)), k), (-2, -1), (0, 1))
        for k in (0, 1)
    )
    return upper * matrix + (strict * matrix).swapaxes(0, 1)


@shared
def inverse(matrix: Array) -> Array:
    """Inverse of matrices [3, 3, n] by cofactors."""
    a, b, c = jnp.unstack(matrix)
    rows = [cross(b, c), cross(c, a), cross(a, b)]
    return jnp.stack(rows, axis=1) / dot(a, rows[0])[None, None]


@shared
def inverse_of_inertia(inertia: Array) -> Array:
    """Inverse of inertias [3, 3, n]. In single precision, the determinant of that of a milligram is
    too small a number.
    """
    size = trace(inertia)[None, None]
    return inverse(inertia / size) / size


@shared
def aside(vector: Array) -> Array:
    """Of the first and the third axis [3], the one along which a vector is shorter: at least 45
    degrees from it.
    """
    is_first = jnp.abs(vector[0]) <= jnp.abs(vector[2])
    return jnp.stack([is_first, jnp.zeros_like(is_first), ~is_first]).astype(vector.dtype)


def skew(a: Array) -> Array:
    """The matrix [3, 3, n] whose product with b is ``cross(a, b)``."""
    x, y, z = jnp.unstack(a)
    zero = jnp.zeros_like(x)
    return jnp.stack([zero, -z, y, z, zero, -x, -y, x, zero]).reshape(3, 3, *a.shape[1:])


def trace(matrix: Array) -> Array:
    """Trace [n] of matrices [3, 3, n]."""
    (xx, _, _), (_, yy, _), (_, _, zz) = map(jnp.unstack, jnp.unstack(matrix))
    return xx + yy + zz


@shared
def axial(matrix: Array) -> Array:
    """The vector [3, n] of moments ``sum r x f`` from the matrix [3, 3, n] of products
    ``sum f r^T``.
    """
    (_, xy, xz), (yx, _, yz), (zx, zy, _) = map(jnp.unstack, jnp.unstack(matrix))
    return jnp.stack([zy - yz, xz - zx, yx - xy])


def identity_like(x: Array) -> Array:
    """Identity matrices [3, 3, 1] that broadcast against [3, 3, n], in the dtype of ``x``."""
    return identity(3, x.dtype)[:, :, None]


# a (x) b = RIGHT(b) a for quaternions xyzw: entry [i, j] is SIGN[i, j] * b[PLACE[i, j]].
_RIGHT_PLACE = np.array([[3, 2, 1, 0], [2, 3, 0, 1], [1, 0, 3, 2], [0, 1, 2, 3]])
_RIGHT_SIGN = np.array([[1, 1, -1, 1], [-1, 1, 1, 1], [1, -1, 1, 1], [-1, -1, -1, 1]])
_RIGHT = _RIGHT_SIGN[:, :, None] * (_RIGHT_PLACE[:, :, None] == np.arange(4))


@shared
def right_product_matrix(b: Array) -> Array:
    """The matrix [4, 4, n] whose product with a is the quaternion product of a and b."""
    return jax.lax.reduce_sum(jnp.asarray(_RIGHT[..., None], b.dtype) * b[None, None], (2,))


# The right-product matrix of b (x) e_k is a signed row permutation of b's: row i is SIGN[k][i] *
# row PLACE[k][i].
_UNIT_PLACE = ((3, 2, 1, 0), (2, 3, 0, 1), (1, 0, 3, 2))
_UNIT_SIGN = ((1, 1, -1, -1), (-1, 1, 1, -1), (1, -1, 1, -1))


def times_unit(matrix: Array, k: int) -> Array:
    """The right-product matrix [4, 4, n] of the quaternion product of b and the unit e_k, from
    b's.
    """
    sign = jnp.array(_UNIT_SIGN[k], matrix.dtype)[:, None, None]
    rows = jnp.unstack(matrix)
    return jnp.stack([rows[place] for place in _UNIT_PLACE[k]]) * sign


@shared
def quaternion_product(a: Array, b: Array) -> Array:
    """Hamilton product of quaternions xyzw [4, n]: first rotate by b, then by a."""
    (u, s), (v, t) = (a[:3], a[3:]), (b[:3], b[3:])
    return jnp.concatenate([s * v + t * u + cross(u, v), s * t - dot(u, v)[None]])


def conjugate(q: Array) -> Array:
    """Conjugate quaternion [4, n]."""
    return q * jnp.asarray([[-1], [-1], [-1], [1]], q.dtype)


@shared
def normalize(q: Array) -> Array:
    """Unit quaternion [4, n] in the direction of a non-zero one."""
    square = dot(q, q)[None]
    return q * jax.lax.rsqrt(square)


@shared
def rotation_matrix(q: Array) -> Array:
    """Rotation matrix [3, 3, n] of a unit quaternion [4, n]."""
    x, y, z, w = jnp.unstack(q)
    x2, y2, z2, _ = jnp.unstack(2 * q)
    xx, yy, zz = x2 * x, y2 * y, z2 * z
    xy, xz, yz = x2 * y, x2 * z, y2 * z
    xw, yw, zw = x2 * w, y2 * w, z2 * w
    rows = [
        (1 - yy - zz, xy - zw, xz + yw),
        (xy + zw, 1 - xx - zz, yz - xw),
        (xz - yw, yz + xw, 1 - xx - yy),
    ]
    return jnp.stack([jnp.stack(row) for row in rows])


def rotate(q: Array, v: Array) -> Array:
    """Rotates vectors [3, n] by unit quaternions [4, n]."""
    return v + displacement(q, v)


@shared
def displacement(q: Array, v: Array) -> Array:
    """How far unit quaternions [4, n] move the tips of vectors [3, n]; exact for small rotations,
    zero for none.
    """
    axis = q[:3]
    twice = 2 * cross(axis, v)
    return q[3:] * twice + cross(axis, twice)


def rotate_inverse(q: Array, v: Array) -> Array:
    """Rotates vectors [3, n] by the inverses of unit quaternions [4, n]."""
    return rotate(conjugate(q), v)


# --- exponential and logarithm, smooth to every order at zero -----------------------------------

#: Square of an angle below which nine terms of the series are exact to rounding, in float64 too.
_SERIES_BELOW = 0.25


def _by_series(square: Array, series: list[float], closed) -> Array:
    """Evaluates ``closed`` away from zero and a power series near it; the gradient is finite in
    both branches.
    """
    near = square < _SERIES_BELOW
    small = jnp.where(near, square, jnp.zeros_like(square))
    total = jnp.full_like(square, series[-1])
    for coefficient in reversed(series[:-1]):
        total = total * small + coefficient
    return jnp.where(near, total, closed(jnp.where(near, jnp.ones_like(square), square)))


def _factorials(first: int) -> list[float]:
    """Coefficients (-1)^k / (first + 2 k)!."""
    values = []
    value = 1.0 / float(np.prod(np.arange(1, first + 1), dtype=float))
    for k in range(9):
        values.append(value)
        value /= -float((first + 2 * k + 1) * (first + 2 * k + 2))
    return values


def sinc_of_square(square: Array) -> Array:
    """sin(x) / x as a function of x squared."""
    return _by_series(square, _factorials(1), lambda s: jnp.sin(jnp.sqrt(s)) / jnp.sqrt(s))


def cosc_of_square(square: Array) -> Array:
    """(1 - cos(x)) / x^2 as a function of x squared."""
    return _by_series(square, _factorials(2), lambda s: (1 - jnp.cos(jnp.sqrt(s))) / s)


def sinc_remainder_of_square(square: Array) -> Array:
    """(x - sin(x)) / x^3 as a function of x squared."""
    return _by_series(
        square, _factorials(3), lambda s: (1 - jnp.sin(jnp.sqrt(s)) / jnp.sqrt(s)) / s
    )


def cos_of_square(square: Array) -> Array:
    """cos(x) as a function of x squared."""
    return _by_series(square, _factorials(0), lambda s: jnp.cos(jnp.sqrt(s)))


def quaternion_exp(v: Array) -> Array:
    """Unit quaternion [4, n] of a rotation vector [3, n]; smooth everywhere."""
    quarter = 0.25 * dot(v, v)
    return jnp.concatenate([0.5 * sinc_of_square(quarter)[None] * v, cos_of_square(quarter)[None]])


# Coefficients of 2 atan(t) / t in powers of t^2, far enough for t^2 < 0.05 in float64.
_ATAN_SERIES = [2.0 * (-1.0) ** k / (2 * k + 1) for k in range(13)]
_ATAN_SERIES_BELOW = 0.05


def quaternion_log(q: Array) -> Array:
    """Shortest rotation vector [3, n] of a unit quaternion [4, n]; its derivatives are finite
    everywhere.

    At a half turn the vector is discontinuous (it may point either way); its derivatives are those
    of the branch taken.
    """
    q = jnp.where(q[3] < 0, -q, q)
    square = dot(q[:3], q[:3])
    w = q[3]
    near = square < _ATAN_SERIES_BELOW * w * w
    one = jnp.ones_like(w)
    tangent = jnp.where(near, square, 0 * one) / jnp.where(near, w * w, one)
    series = jnp.full_like(w, _ATAN_SERIES[-1])
    for coefficient in reversed(_ATAN_SERIES[:-1]):
        series = series * tangent + coefficient
    length = jnp.sqrt(jnp.where(near, one, square))
    factor = jnp.where(near, series / jnp.where(near, w, one), 2 * jnp.arctan2(length, w) / length)
    return factor[None] * q[:3]


def right_jacobian(v: Array) -> Array:
    """Right Jacobian [3, 3, n] of SO(3): child-frame angular velocity = J_r(v) dv/dt for the
    rotation vector v.

    Chirikjian, *Stochastic Models, Information Theory, and Lie Groups* (2011), eq. 10.86.
    """
    square = dot(v, v)
    cross_matrix = skew(v)
    return (
        identity_like(v)
        - cosc_of_square(square)[None, None] * cross_matrix
        + sinc_remainder_of_square(square)[None, None] * multiply(cross_matrix, cross_matrix)
    )


# --- rigid motions ------------------------------------------------------------------------------


class Transforms(NamedTuple):
    """Rigid transforms as unit quaternions [4, n] and positions [3, n]."""

    rotation: Array
    position: Array

    def __matmul__(self, other: Transforms) -> Transforms:
        rotation = quaternion_product(self.rotation, other.rotation)
        return Transforms(rotation, self.position + apply(self.matrix, other.position))

    @property
    def matrix(self) -> Array:
        """The rotations as matrices, [3, 3, n]."""
        return rotation_matrix(self.rotation)

    def inverse_times(self, other: Transforms) -> Transforms:
        """The products of the inverse transforms, ``self^-1 @ other``."""
        inverse = conjugate(self.rotation)
        position = apply(rotation_matrix(inverse), other.position - self.position)
        return Transforms(quaternion_product(inverse, other.rotation), position)

    def times_inverse(self, other: Transforms) -> Transforms:
        """The products with inverse transforms, ``self @ other^-1``."""
        rotation = quaternion_product(self.rotation, conjugate(other.rotation))
        return Transforms(
            rotation, self.position - apply(rotation_matrix(rotation), other.position)
        )

    def take(self, index) -> Transforms:
        """The transforms at ``index``."""
        return Transforms(take(self.rotation, index), take(self.position, index))

    @classmethod
    def join(cls, parts: Sequence[Transforms]) -> Transforms:
        """All transforms of the parts, one after another."""
        return cls(*(jnp.concatenate(arrays, axis=-1) for arrays in zip(*parts, strict=True)))

    @classmethod
    def from_poses(cls, poses: Array) -> Transforms:
        """From poses [n, 7]: positions, then quaternions xyzw of any non-zero length."""
        return cls(normalize(poses[:, 3:].T), poses[:, :3].T)

    def poses(self) -> Array:
        """As poses [n, 7]."""
        return jnp.concatenate([self.position, self.rotation]).T


class Motion(NamedTuple):
    """Spatial vectors about one point, the linear part at that point; each part [3, n]."""

    linear: Array
    angular: Array

    def take(self, index) -> Motion:
        """The vectors at ``index``."""
        return Motion(take(self.linear, index), take(self.angular, index))

    @classmethod
    def from_rows(cls, rows: Array) -> Motion:
        """From both parts stacked, [6, n]."""
        return cls(rows[:3], rows[3:])
