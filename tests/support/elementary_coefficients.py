"""Prints the polynomials of ``artix/compiler/kernels/coefficients.py``; needs nothing but Python.

Each function is a power series in z; its polynomial takes its values at the Chebyshev nodes of the
interval (in 60 decimal digits), which is within a factor of two of the best one.
"""

from __future__ import annotations

from decimal import Decimal, getcontext
from math import cos, pi

getcontext().prec = 60


def series(coefficient, z: Decimal, terms: int) -> Decimal:
    total, power = Decimal(0), Decimal(1)
    for n in range(terms):
        total += coefficient(n) * power
        power *= z
    return total


def factorial(n: int) -> Decimal:
    result = Decimal(1)
    for k in range(2, n + 1):
        result *= k
    return result


def sine(z: Decimal) -> Decimal:
    """(sin(r) / r - 1) / z, z = r^2."""
    return series(lambda n: (-1) ** (n + 1) / factorial(2 * n + 3), z, 25)


def cosine(z: Decimal) -> Decimal:
    """(cos(r) - 1 + z / 2) / z^2."""
    return series(lambda n: (-1) ** n / factorial(2 * n + 4), z, 25)


def exponential(r: Decimal) -> Decimal:
    """(exp(r) - 1 - r) / r^2."""
    return series(lambda n: 1 / factorial(n + 2), r, 45)


def hyperbolic_sine(z: Decimal) -> Decimal:
    """(sinh(r) / r - 1) / z."""
    return series(lambda n: 1 / factorial(2 * n + 3), z, 30)


def arc_tangent(z: Decimal) -> Decimal:
    """(atan(t) / t - 1) / z, z = t^2, by Euler's series."""
    if z < Decimal("1e-3"):
        return series(lambda n: Decimal((-1) ** (n + 1)) / (2 * n + 3), z, 30)
    ratio, term, total = z / (1 + z), 1 / (1 + z), Decimal(0)
    for n in range(260):
        total += term
        term *= ratio * Decimal(2 * n + 2) / Decimal(2 * n + 3)
    return (total - 1) / z


def arc_sine(z: Decimal) -> Decimal:
    """(asin(x) / x - 1) / z, z = x^2."""

    def coefficient(n: int) -> Decimal:
        n += 1
        return factorial(2 * n) / (Decimal(4) ** n * factorial(n) ** 2 * (2 * n + 1))

    return series(coefficient, z, 110)


def logarithm(f: Decimal) -> Decimal:
    """(log(1 + f) - f + f^2 / 2) / f^3."""
    if abs(f) < Decimal("1e-2"):
        return series(lambda n: Decimal((-1) ** n) / (n + 3), f, 40)
    return ((1 + f).ln() - f + f * f / 2) / f**3


def area_tangent(z: Decimal) -> Decimal:
    """(2 atanh(s) / s - 2) / z, z = s^2."""
    return series(lambda n: Decimal(2) / (2 * n + 3), z, 60)


def area_tangent_tail(z: Decimal) -> Decimal:
    """(2 atanh(s) / s - 2 - 2 z / 3) / z^2."""
    return series(lambda n: Decimal(2) / (2 * n + 5), z, 60)


def polynomial(function, low: float, high: float, count: int) -> list[Decimal]:
    """Coefficients, that of the lowest power first, by Newton's divided differences."""
    middle, half = (low + high) / 2, (high - low) / 2
    nodes = [Decimal(middle + half * cos(pi * (k + 0.5) / count)) for k in range(count)]
    differences = [function(node) for node in nodes]
    for order in range(1, count):
        for k in range(count - 1, order - 1, -1):
            differences[k] = (differences[k] - differences[k - 1]) / (nodes[k] - nodes[k - order])
    result = [differences[-1]]
    for k in range(count - 2, -1, -1):
        shifted = [Decimal(0), *result]
        result = [a - nodes[k] * b for a, b in zip(shifted, [*result, Decimal(0)], strict=True)]
        result[0] += differences[k]
    return result


QUARTER = 0.84**2  # more than (pi / 4)^2, as multiples of pi / 2 are counted with rounded numbers
TABLE = {
    "SINE": (sine, 0, QUARTER, 4, 6),
    "COSINE": (cosine, 0, QUARTER, 3, 6),
    "EXPONENTIAL": (exponential, -0.3475, 0.3475, 5, 11),
    "HYPERBOLIC_SINE": (hyperbolic_sine, 0, 1, 4, 8),
    "ARC_TANGENT": (arc_tangent, 0, 1, 9, 21),
    "ARC_SINE": (arc_sine, 0, 0.25, 5, 13),
    "LOGARITHM": (logarithm, -0.2929, 0.4143, 9, 0),
    "AREA_TANGENT": (area_tangent, 0, 0.0295, 0, 8),
    "AREA_TANGENT_TAIL": (area_tangent_tail, 0, 0.0295, 0, 8),
}

if __name__ == "__main__":
    for name, (function, low, high, *counts) in TABLE.items():
        print(f"{name} = {{")
        for scalar, count in zip(("float", "double"), counts, strict=True):
            if count:
                found = polynomial(function, low, high, count)
                grid = [Decimal(low + (high - low) * k / 100) for k in range(101)]
                error = max(abs(series(lambda n: found[n], z, count) - function(z)) for z in grid)  # noqa: B023
                print(f'    "{scalar}": (  # error {float(error):.0e}')
                for number in found:
                    print(f"        {float(number)!r},")
                print("    ),")
        print("}")
