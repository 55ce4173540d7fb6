"""Small convex quadratic programs with bounds and soft rows, by an interior point, within a robot's
own program.

The minimum over x of ``1/2 x H x + g x + penalty sum(max(0, A x - b))`` with ``lower <= x <=
upper``. Rows are soft, so that there always is a solution; with a penalty above their multipliers
they hold exactly wherever they can. With slack variables t and s, multipliers z of bounds and rows,
and y = penalty - z, it satisfies::

    H x + g - z_l + z_u + A^T z_r = 0
    t_l = x - lower,  t_u = upper - x,  t_r = b + s - A x
    t z = mu,  s y = mu,  all of them positive, and mu -> 0

Mehrotra's predictor and corrector share the factors of ``M = H + z_l/t_l + z_u/t_u`` and of ``A
M^-1 A^T + D``, with ``D = t_r/z_r + s/y``: rows that hold are stiff without spoiling either.
Mehrotra, *On the implementation of a primal-dual interior point method*, SIAM 1992; Nocedal and
Wright, *Numerical Optimization*, 2006, section 16.6.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.math.arrays import chosen, matmul, square_root
from artix.math.gaussian_elimination import lu_factorize
from artix.math.traces import while_loop

Array = jax.Array

#: Iterations at most; ten are usual.
_MAX_ITERATIONS = 40

#: The share of mu at the start that may remain, and that of residuals.
_TOLERANCES = {"float64": 1e-13, "float32": 1e-7}

#: How much of the way to the next bound a step may go.
_FRACTION = 0.995

#: The penalty of rows, in units of the largest slope of the cost.
_PENALTY = 1e2

#: Bounds that meet are taken apart by this share of the widest ones.
_NARROW = 1e-6

#: How much of what the bounds allow a row may ask for.
_REACH = 0.99


class QuadraticProgram(NamedTuple):
    """The data; bounds may be infinite."""

    H: Array
    """[n, n], positive definite."""
    g: Array
    """[n]."""
    lower: Array
    """[n]."""
    upper: Array
    """[n]."""
    A: Array
    """[m, n]; m may be 0."""
    b: Array
    """[m]."""


class Minimum(NamedTuple):
    """The solution."""

    x: Array
    """[n], within the bounds."""
    excess: Array
    """By how much rows are violated, ``max(0, A x - b)``, [m]."""
    is_solved: Array


class _Point(NamedTuple):
    """The iterate."""

    x: Array
    tl: Array
    tu: Array
    tr: Array
    s: Array
    zl: Array
    zu: Array
    zr: Array
    y: Array


def minimum(program: QuadraticProgram) -> Minimum:
    """Solves the program. Derivatives, in both modes, are those of the equations above at the
    solution.
    """
    point, is_solved = _solved(_scaled(program))
    x = jnp.clip(point.x, program.lower, program.upper)
    excess = jnp.maximum(matmul(program.A, x) - program.b, 0)
    return Minimum(x, excess, is_solved)


def _scaled(program: QuadraticProgram) -> QuadraticProgram:
    """The same with an inside and rows of unit length, none of which asks for what bounds
    forbid.
    """
    A = program.A
    is_bounded = jnp.isfinite(program.lower) & jnp.isfinite(program.upper)
    middle, half = (
        jnp.where(is_bounded, 0.5 * (program.upper + k * program.lower), 0) for k in (1, -1)
    )
    newton = jnp.max(jnp.abs(program.g) / jnp.diagonal(program.H))
    size = jnp.maximum(jnp.max(half), jnp.where(jnp.all(is_bounded), 0, newton))
    half = jnp.maximum(half, _NARROW * jnp.where(size > 0, size, 1))
    lower = jnp.where(is_bounded, middle - half, program.lower)
    upper = jnp.where(is_bounded, middle + half, program.upper)
    length = square_root(jnp.sum(A**2, axis=1))
    length = jnp.where(length > 0, length, 1)
    A, b = A / length[:, None], program.b / length
    least = matmul(A, middle) - _REACH * matmul(jnp.abs(A), half)
    is_free = jnp.any((A != 0) & ~is_bounded, axis=1)
    b = jnp.where(is_free, b, jnp.maximum(b, least))
    return program._replace(lower=lower, upper=upper, A=A, b=b)


class _Scale(NamedTuple):
    """Sizes of the numbers at the start."""

    hasl: Array
    """Which lower bounds are finite, [n]."""
    hasu: Array
    mu: Array
    """The first mu."""
    lost: Array
    """The residual of the first equation that counts as zero."""


def _start(program: QuadraticProgram) -> tuple[_Point, _Scale]:
    H, g, lower, upper, A, b = program
    one = jnp.ones_like(g)
    hasl, hasu = jnp.isfinite(lower), jnp.isfinite(upper)
    both = hasl & hasu
    low, high = jnp.where(hasl, lower, 0), jnp.where(hasu, upper, 0)
    # A bound far away is as good as none.
    newton = jnp.max(jnp.abs(g) / jnp.diagonal(H))
    width = jnp.where(both, high - low, 2 * newton)
    size = jnp.maximum(jnp.max(jnp.where(both, width, 0)), newton)
    size = jnp.where(size > 0, size, 1)
    far = 10 * newton + 4 * jnp.max(jnp.append(-b, 0))
    half = 0.5 * jnp.minimum(jnp.where(width > 0, width, size), far + 1e-3 * size)
    x = jnp.where(hasl, low + half, jnp.where(hasu, high - half, 0))
    x = jnp.where(
        both, jnp.clip(jnp.zeros_like(x), low + half, jnp.maximum(high - half, low + half)), x
    )
    tl = jnp.where(hasl, jnp.maximum(x - low, half), one)
    tu = jnp.where(hasu, jnp.maximum(high - x, half), one)
    steep = jnp.max(jnp.abs(g) + matmul(jnp.abs(H), half))
    steep = jnp.where(steep > 0, steep, 1)
    mu = 0.1 * steep * jnp.max(half)
    penalty = jnp.full_like(b, _PENALTY) * steep
    room = jnp.maximum(b - matmul(A, x), 0.1 * matmul(jnp.abs(A), half) + 1e-3 * size)
    zr = jnp.minimum(mu / room, 0.5 * penalty)
    y = penalty - zr
    lost = jnp.finfo(g.dtype).eps * 100 * steep
    none = jnp.zeros_like(x)
    point = _Point(
        x=x,
        tl=tl,
        tu=tu,
        tr=room,
        s=mu / y,
        zl=jnp.where(hasl, mu / tl, none),
        zu=jnp.where(hasu, mu / tu, none),
        zr=zr,
        y=y,
    )
    return point, _Scale(hasl, hasu, mu, lost)


def _residual(program: QuadraticProgram, point: _Point) -> Array:
    """The first equation, [n]."""
    H, g, A = program.H, program.g, program.A
    return matmul(H, point.x) + g - point.zl + point.zu + matmul(A.T, point.zr)


def _factorized(
    program: QuadraticProgram, point: _Point
) -> Callable[[Array, Array], tuple[Array, Array]]:
    """The function that gives the solution x, z of ``M x + A^T z = r``, ``A x - D z = q``, [n] and
    [m].
    """
    A = program.A
    matrix = program.H + jnp.diag(point.zl / point.tl + point.zu / point.tu)
    # Bounds that hold are far stiffer than costs: a unit diagonal keeps rounding errors small.
    scale = jax.lax.rsqrt(jnp.diagonal(matrix))
    solve = lu_factorize(matrix * scale[:, None] * scale[None]).solve
    if not len(A):
        return lambda r, q: (scale * solve(scale * r), q)
    B = A * scale
    C = jnp.stack([solve(row) for row in B])
    D = point.tr / point.zr + point.s / point.y
    solve_rows = lu_factorize(matmul(B, C.T) + jnp.diag(D)).solve

    def solution(r: Array, q: Array) -> tuple[Array, Array]:
        x = solve(scale * r)
        z = solve_rows(matmul(B, x) - q)
        return scale * (x - matmul(C.T, z)), z

    return solution


def _step(
    program: QuadraticProgram,
    point: _Point,
    scale: _Scale,
    solve: Callable[[Array, Array], tuple[Array, Array]],
    complement: tuple[Array, Array, Array, Array],
) -> _Point:
    """The Newton step towards products ``t z`` and ``s y`` that differ from the present ones by
    ``complement``.
    """
    A = program.A
    cl, cu, cr, cs = complement
    low, high = jnp.where(scale.hasl, program.lower, 0), jnp.where(scale.hasu, program.upper, 0)
    rl = jnp.where(scale.hasl, point.x - low - point.tl, 0)
    ru = jnp.where(scale.hasu, high - point.x - point.tu, 0)
    rr = program.b + point.s - matmul(A, point.x) - point.tr
    fl, fu = (cl - point.zl * rl) / point.tl, (cu - point.zu * ru) / point.tu
    x, zr = solve(-_residual(program, point) + fl - fu, rr - cr / point.zr + cs / point.y)
    s = (cs + point.s * zr) / point.y
    return _Point(
        x=x,
        tl=jnp.where(scale.hasl, x + rl, 0),
        tu=jnp.where(scale.hasu, ru - x, 0),
        tr=s - matmul(A, x) + rr,
        s=s,
        zl=fl - point.zl / point.tl * x,
        zu=fu + point.zu / point.tu * x,
        zr=zr,
        y=-zr,
    )


def _length(point: _Point, step: _Point) -> Array:
    """The longest step, at most 1, that keeps everything positive."""
    values, changes = (jnp.concatenate(list(each[1:])) for each in (point, step))
    falls = changes < 0
    return jnp.minimum(
        jnp.min(jnp.where(falls, values / jnp.where(falls, -changes, 1), 1 / _FRACTION)),
        1 / _FRACTION,
    )


def _gap(point: _Point, count: Array) -> Array:
    """The mean of all products, mu."""
    pairs = ((point.tl, point.zl), (point.tu, point.zu), (point.tr, point.zr), (point.s, point.y))
    return sum(jnp.sum(t * z) for t, z in pairs) / count


def _moved(point: _Point, step: _Point, length: Array) -> _Point:
    return jax.tree.map(lambda value, change: value + length * change, point, step)


@jax.custom_jvp
def _solved(program: QuadraticProgram) -> tuple[_Point, Array]:
    """The solution with its multipliers, and whether it is one."""
    start, scale = _start(program)
    dtype = program.g.dtype
    tolerance = _TOLERANCES.get(dtype.name, 1e-7)
    num_rows = 2 * len(program.b)
    count = jnp.maximum(
        jnp.sum(scale.hasl, dtype=dtype) + jnp.sum(scale.hasu, dtype=dtype) + num_rows, 1
    )

    def body(loop: tuple[_Point, Array, Array]) -> tuple[_Point, Array, Array]:
        point, iterations, _ = loop
        solve = _factorized(program, point)
        mu = _gap(point, count)
        nothing = (
            -point.tl * point.zl,
            -point.tu * point.zu,
            -point.tr * point.zr,
            -point.s * point.y,
        )
        affine = _step(program, point, scale, solve, nothing)
        ahead = _moved(point, affine, jnp.minimum(_length(point, affine), 1))
        center = jnp.clip(_gap(ahead, count) / jnp.where(mu > 0, mu, 1), 0, 1) ** 3 * mu
        center = jnp.maximum(center, 0.1 * tolerance * scale.mu)
        hasl, hasu = scale.hasl.astype(dtype), scale.hasu.astype(dtype)
        corrected = (
            nothing[0] + hasl * (center - affine.tl * affine.zl),
            nothing[1] + hasu * (center - affine.tu * affine.zu),
            nothing[2] + center - affine.tr * affine.zr,
            nothing[3] + center - affine.s * affine.y,
        )
        step = _step(program, point, scale, solve, corrected)
        length = jnp.minimum(_FRACTION * _length(point, step), 1)
        end = _moved(point, step, length)
        lost = jnp.max(jnp.abs(_residual(program, end)))
        done = (_gap(end, count) <= tolerance * scale.mu) & (lost <= scale.lost)
        # Where rounding has spoilt an iterate, the last one counts.
        is_finite = jnp.isfinite(jnp.sum(end.x) + _gap(end, count))
        return chosen(is_finite, end, point), iterations + 1, done | ~is_finite

    def goes_on(loop: tuple[_Point, Array, Array]) -> Array:
        return ~loop[2] & (loop[1] < _MAX_ITERATIONS)

    none = jnp.zeros((), bool)
    point, _, _ = while_loop(goes_on, body, (start, jnp.zeros((), jnp.int32), none))
    lost = jnp.max(jnp.abs(_residual(program, point)))
    return point, (_gap(point, count) <= 1e3 * tolerance * scale.mu) & (lost <= 1e3 * scale.lost)


@_solved.defjvp
def _(primals, tangents):
    """The implicit function theorem on the equations, with mu held."""
    (program,), (change,) = primals, tangents
    point, is_solved = _solved(program)
    solve = _factorized(program, point)
    hasl, hasu = jnp.isfinite(program.lower), jnp.isfinite(program.upper)
    by_data = matmul(change.H, point.x) + change.g + matmul(change.A.T, point.zr)
    low = jnp.where(hasl, change.lower, 0) * point.zl / point.tl
    high = jnp.where(hasu, change.upper, 0) * point.zu / point.tu
    x, _ = solve(low + high - by_data, change.b - matmul(change.A, point.x))
    still = jax.tree.map(jnp.zeros_like, point)
    return (point, is_solved), (still._replace(x=x), jnp.zeros((), jax.dtypes.float0))
