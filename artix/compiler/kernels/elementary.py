"""Elementary functions on vectors of any width, without a math library.

Each is a function in LLVM IR for one width and one kind of float, of arithmetic and bit operations. Range reduction
follows W. J. Cody and W. Waite, *Software Manual for the Elementary Functions* (1980), with constants in three parts
and fused multiply-adds; polynomials are those of :mod:`artix.compiler.kernels.coefficients`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from artix.compiler.kernels import coefficients, exponentials
from artix.compiler.kernels.code import Code, Value, suffix_of, type_of
from artix.compiler.kernels.floats import FORMATS, bits, clamp, floats, magnitude, polynomial


def _reduce_angle(x: Value) -> tuple[Value, Value]:
    """The angle minus a multiple of pi / 2, and an integer with the last bits of that multiple."""
    form = FORMATS[x.scalar]
    count = (x * (2 / math.pi)).intrinsic("rint")
    remainder, negative_count = x, -count
    for part in form.half_pi:
        remainder = negative_count.times_plus(part, remainder)
    # Huge angles have lost all significant digits; this keeps their sines bounded.
    remainder = clamp(remainder, -1.7, 1.7)
    if x.scalar == "float":
        integer = count.cast("fptosi", "i32")
        quadrant = x.code.emit(f"freeze {integer.type} {integer.name}", "i32", x.width)
    else:  # few processors convert to i64; after this addition the float's last bits are those of the integer
        quadrant = bits(count + 1.5 * 2.0**52)
    return remainder, quadrant


def _sine_and_cosine(x: Value) -> tuple[Value, Value]:
    form = FORMATS[x.scalar]
    r, quadrant = _reduce_angle(x)
    z = r * r
    sine = (r * z).times_plus(polynomial(z, coefficients.SINE), r)
    cosine = (z * z).times_plus(polynomial(z, coefficients.COSINE), z.times_plus(-0.5, 1.0))
    is_odd = (quadrant & 1).differs(0)
    sign_bit = form.mantissa + (8 if x.scalar == "float" else 11)
    sign_of_sine = ((quadrant >> 1) & 1) << sign_bit
    sign_of_cosine = (((quadrant + 1) >> 1) & 1) << sign_bit
    return (
        floats(bits(is_odd.where(cosine, sine)) ^ sign_of_sine),
        floats(bits(is_odd.where(sine, cosine)) ^ sign_of_cosine),
    )


def sine(x: Value) -> Value:
    """The sine."""
    return _sine_and_cosine(x)[0]


def cosine(x: Value) -> Value:
    """The cosine."""
    return _sine_and_cosine(x)[1]


def tangent(x: Value) -> Value:
    """The tangent."""
    numerator, denominator = _sine_and_cosine(x)
    return numerator / denominator


def _arc_tangent_of_ratio(t: Value) -> Value:
    """The arc tangent for t from 0 to 1."""
    z = t * t
    return (t * z).times_plus(polynomial(z, coefficients.ARC_TANGENT), t)


def arc_tangent(x: Value) -> Value:
    """The arc tangent."""
    high, low, _ = FORMATS[x.scalar].half_pi
    absolute = magnitude(x)
    is_large = absolute > 1.0
    angle = _arc_tangent_of_ratio(is_large.where(1.0 / absolute, absolute))
    return is_large.where((high - angle) + low, angle).intrinsic("copysign", x)


def arc_tangent_2(y: Value, x: Value) -> Value:
    """The angle of the point (x, y), also for signed zeros."""
    high, low, _ = FORMATS[x.scalar].half_pi
    absolute_y, absolute_x = magnitude(y), magnitude(x)
    is_steep, is_left = absolute_y > absolute_x, (bits(x) < 0)
    small, large = is_steep.where(absolute_x, absolute_y), is_steep.where(absolute_y, absolute_x)
    ratio = small.equals(large).where(small.like(1.0), small / large)  # both may be infinite
    ratio = large.equals(0.0).where(small, ratio)
    angle = _arc_tangent_of_ratio(ratio)
    zero = x.like(0.0)
    base = is_steep.where(x.like(high), is_left.where(x.like(2 * high), zero))
    rest = is_steep.where(x.like(low), is_left.where(x.like(2 * low), zero))
    angle = (is_steep ^ is_left).where(-angle, angle)
    return ((base + angle) + rest).intrinsic("copysign", y)


def _arc_sine_parts(x: Value) -> tuple[Value, Value, Value]:
    """Whether |x| > 1/2, y, and asin(y) - y, where y = sqrt((1 - |x|) / 2) if so, else y = x."""
    absolute = magnitude(x)
    is_large = absolute > 0.5
    half = (1.0 - absolute) * 0.5
    z = is_large.where(half, x * x)
    y = is_large.where(half.intrinsic("sqrt"), x)
    return is_large, y, y * z * polynomial(z, coefficients.ARC_SINE)


def arc_sine(x: Value) -> Value:
    """The arc sine."""
    high, low, _ = FORMATS[x.scalar].half_pi
    is_large, y, rest = _arc_sine_parts(x)
    far = y.times_plus(-2.0, high) - rest.times_plus(2.0, -low)
    return is_large.where(far, magnitude(y + rest)).intrinsic("copysign", x)


def arc_cosine(x: Value) -> Value:
    """The arc cosine."""
    high, low, _ = FORMATS[x.scalar].half_pi
    is_large, y, rest = _arc_sine_parts(x)
    angle = y + rest
    double = angle + angle
    far = (x < 0.0).where((2 * high - double) + 2 * low, double)
    return is_large.where(far, (high - angle) + low)


#: The implementation of each function, and its number of operands.
FUNCTIONS: dict[str, tuple[Callable[..., Value], int]] = {
    "sin": (sine, 1),
    "cos": (cosine, 1),
    "tan": (tangent, 1),
    "asin": (arc_sine, 1),
    "acos": (arc_cosine, 1),
    "atan": (arc_tangent, 1),
    "atan2": (arc_tangent_2, 2),
    "pow": (exponentials.power, 2),
    "exp": (exponentials.exponential, 1),
    "expm1": (exponentials.exponential_less_one, 1),
    "log": (exponentials.logarithm, 1),
    "log1p": (exponentials.logarithm_of_one_plus, 1),
    "sinh": (exponentials.hyperbolic_sine, 1),
    "cosh": (exponentials.hyperbolic_cosine, 1),
    "tanh": (exponentials.hyperbolic_tangent, 1),
    "cbrt": (exponentials.cube_root, 1),
}


def name_of(function: str, scalar: str, width: int) -> str:
    """The name of the function in a module."""
    return f"artix_{function}_{suffix_of(scalar, width)}"


def definition(function: str, scalar: str, width: int, declarations: dict[str, str]) -> str:
    """The text of an elementary function; ``sincos`` returns sine and cosine."""
    kind = type_of(scalar, width)
    name = name_of(function, scalar, width)
    if function == "sincos":
        code = Code(f"internal {{ {kind}, {kind} }} @{name}({kind} %x)", declarations)
        pair = _sine_and_cosine(code.value("%x", scalar, width))
        return code.text(_pair(code, pair, kind))
    implementation, num_operands = FUNCTIONS[function]
    names = ["%x", "%y"][:num_operands]
    code = Code(f"internal {kind} @{name}({', '.join(f'{kind} {x}' for x in names)})", declarations)
    result = implementation(*(code.value(x, scalar, width) for x in names))
    return code.text(f"{kind} {result.name}")


def _pair(code: Code, values: Sequence[Value], kind: str) -> str:
    pair = f"{{ {kind}, {kind} }}"
    name = "poison"
    for k, value in enumerate(values):
        name = code.emit(f"insertvalue {pair} {name}, {kind} {value.name}, {k}", "").name
    return f"{pair} {name}"
