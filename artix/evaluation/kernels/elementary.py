"""Sines, exponentials and their like on vectors of any width, without a library of mathematics.

Each is a function of LLVM's language for one width and one kind of float, made of multiplications, additions and moves
of bits. Ranges are reduced as Cody and Waite do, W. J. Cody and W. Waite, *Software Manual for the Elementary
Functions* (1980), with constants in three parts and fused multiply-adds; polynomials are those of
:mod:`artix.evaluation.kernels.coefficients`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from artix.evaluation.kernels import coefficients, exponentials
from artix.evaluation.kernels.code import Code, Value, suffix_of, type_of
from artix.evaluation.kernels.floats import FORMATS, bits, clamp, floats, magnitude, polynomial


def _reduce_angle(x: Value) -> tuple[Value, Value]:
    """The angle less a multiple of pi / 2, and the last bits of that multiple."""
    form = FORMATS[x.scalar]
    count = (x * (2 / math.pi)).intrinsic("rint")
    rest, turns = x, -count
    for part in form.half_pi:
        rest = turns.times_plus(part, rest)
    # Of huge angles nothing is left but that their sines are bounded.
    rest = clamp(rest, -1.7, 1.7)
    if x.scalar == "float":
        whole = count.cast("fptosi", "i32")
        quadrant = x.code.emit(f"freeze {whole.type} {whole.name}", "i32", x.width)
    else:  # few processors convert to i64; the last bits of a float of this size are those of the integer
        quadrant = bits(count + 1.5 * 2.0**52)
    return rest, quadrant


def _sine_and_cosine(x: Value) -> tuple[Value, Value]:
    form = FORMATS[x.scalar]
    r, quadrant = _reduce_angle(x)
    z = r * r
    sine = (r * z).times_plus(polynomial(z, coefficients.SINE), r)
    cosine = (z * z).times_plus(polynomial(z, coefficients.COSINE), z.times_plus(-0.5, 1.0))
    odd = (quadrant & 1).differs(0)
    top = form.mantissa + (8 if x.scalar == "float" else 11)
    sign_of_sine = ((quadrant >> 1) & 1) << top
    sign_of_cosine = (((quadrant + 1) >> 1) & 1) << top
    return (
        floats(bits(odd.where(cosine, sine)) ^ sign_of_sine),
        floats(bits(odd.where(sine, cosine)) ^ sign_of_cosine),
    )


def sine(x: Value) -> Value:
    """The sine."""
    return _sine_and_cosine(x)[0]


def cosine(x: Value) -> Value:
    """The cosine."""
    return _sine_and_cosine(x)[1]


def tangent(x: Value) -> Value:
    """The tangent."""
    above, below = _sine_and_cosine(x)
    return above / below


def _arc_tangent_of_ratio(t: Value) -> Value:
    """The arc tangent of 0 to 1."""
    z = t * t
    return (t * z).times_plus(polynomial(z, coefficients.ARC_TANGENT), t)


def arc_tangent(x: Value) -> Value:
    """The arc tangent."""
    high, low, _ = FORMATS[x.scalar].half_pi
    size = magnitude(x)
    steep = size > 1.0
    angle = _arc_tangent_of_ratio(steep.where(1.0 / size, size))
    return steep.where((high - angle) + low, angle).intrinsic("copysign", x)


def arc_tangent_2(y: Value, x: Value) -> Value:
    """The angle of the point (x, y), of signed zeros too."""
    high, low, _ = FORMATS[x.scalar].half_pi
    across, along = magnitude(y), magnitude(x)
    steep, back = across > along, (bits(x) < 0)
    small, large = steep.where(along, across), steep.where(across, along)
    ratio = small.equals(large).where(small.like(1.0), small / large)  # both may be infinite
    ratio = large.equals(0.0).where(small, ratio)
    angle = _arc_tangent_of_ratio(ratio)
    zero = x.like(0.0)
    base = steep.where(x.like(high), back.where(x.like(2 * high), zero))
    rest = steep.where(x.like(low), back.where(x.like(2 * low), zero))
    angle = (steep ^ back).where(-angle, angle)
    return ((base + angle) + rest).intrinsic("copysign", y)


def _arc_sine_parts(x: Value) -> tuple[Value, Value, Value]:
    """Whether |x| is above 1/2; then y = sqrt((1 - |x|) / 2), else y = x; asin(y) - y."""
    size = magnitude(x)
    large = size > 0.5
    half = (1.0 - size) * 0.5
    z = large.where(half, x * x)
    y = large.where(half.intrinsic("sqrt"), x)
    return large, y, y * z * polynomial(z, coefficients.ARC_SINE)


def arc_sine(x: Value) -> Value:
    """The arc sine."""
    high, low, _ = FORMATS[x.scalar].half_pi
    large, y, rest = _arc_sine_parts(x)
    far = y.times_plus(-2.0, high) - rest.times_plus(2.0, -low)
    return large.where(far, magnitude(y + rest)).intrinsic("copysign", x)


def arc_cosine(x: Value) -> Value:
    """The arc cosine."""
    high, low, _ = FORMATS[x.scalar].half_pi
    large, y, rest = _arc_sine_parts(x)
    angle = y + rest
    double = angle + angle
    far = (x < 0.0).where((2 * high - double) + 2 * low, double)
    return large.where(far, (high - angle) + low)


#: What makes each function from its operands, and how many it has.
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
    """What the function is called in a module."""
    return f"artix_{function}_{suffix_of(scalar, width)}"


def definition(function: str, scalar: str, width: int, declarations: dict[str, str]) -> str:
    """The text of an elementary function; ``sincos`` returns sine and cosine."""
    kind = type_of(scalar, width)
    name = name_of(function, scalar, width)
    if function == "sincos":
        code = Code(f"internal {{ {kind}, {kind} }} @{name}({kind} %x)", declarations)
        pair = _sine_and_cosine(code.value("%x", scalar, width))
        return code.text(_pair(code, pair, kind))
    make, count = FUNCTIONS[function]
    names = ["%x", "%y"][:count]
    code = Code(f"internal {kind} @{name}({', '.join(f'{kind} {x}' for x in names)})", declarations)
    result = make(*(code.value(x, scalar, width) for x in names))
    return code.text(f"{kind} {result.name}")


def _pair(code: Code, values: Sequence[Value], kind: str) -> str:
    pair = f"{{ {kind}, {kind} }}"
    name = "poison"
    for k, value in enumerate(values):
        name = code.emit(f"insertvalue {pair} {name}, {kind} {value.name}, {k}", "").name
    return f"{pair} {name}"
