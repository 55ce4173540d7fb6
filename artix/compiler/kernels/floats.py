"""The formats of floats, and operations on their bits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from artix.compiler.kernels.code import Value


class Format(NamedTuple):
    """The format of a type of float, and constants in it."""

    integer: str
    """The integer type with as many bits."""
    mantissa: int
    bias: int
    half_pi: tuple[float, float, float]
    """pi / 2 as a sum of three floats."""
    log_2: tuple[float, float]
    largest_exponent: float
    """Slightly above the largest argument whose exponential is finite."""
    least_exponent: float
    """Slightly below the smallest argument whose exponential is not zero."""


FORMATS = {
    "float": Format(
        "i32", 23, 127, (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
        (0.6931471824645996, -1.9046542121259336e-09), 89.0, -104.5,
    ),
    "double": Format(
        "i64", 52, 1023, (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
        (0.6931471805599453, 2.3190468138462996e-17), 710.0, -746.0,
    ),
}  # fmt: skip


def polynomial(z: Value, table: Mapping[str, tuple[float, ...]]) -> Value:
    """The polynomial at ``z``, by Horner's rule."""
    *others, last = table[z.scalar]
    result = z.like(last)
    for number in reversed(others):
        result = result.times_plus(z, number)
    return result


def bits(x: Value) -> Value:
    """The bits of a float as an integer."""
    return x.cast("bitcast", FORMATS[x.scalar].integer)


def floats(x: Value) -> Value:
    """The float with these bits."""
    return x.cast("bitcast", "float" if x.scalar == "i32" else "double")


def magnitude(x: Value) -> Value:
    """The absolute value."""
    return x.intrinsic("fabs")


def clamp(x: Value, smallest: float, largest: float) -> Value:
    """``x`` clamped to the limits; NaN stays NaN."""
    x = (x < smallest).where(x.like(smallest), x)
    return (x > largest).where(x.like(largest), x)
