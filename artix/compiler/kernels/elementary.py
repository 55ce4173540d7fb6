"""Elementary functions on vectors of any width, without a math library.

Each is a function in LLVM IR for one width and one kind of float, of arithmetic and bit operations.
Range reduction follows W. J. Cody and W. Waite, *Software Manual for the Elementary Functions*
(1980), with constants in three parts and fused multiply-adds; polynomials are those of
:mod:`artix.compiler.kernels.coefficients`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from artix.compiler.kernels import coefficients
from artix.compiler.kernels.code import Code, Value, suffix_of, type_of


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
    else:
        # Few processors convert to i64. After this addition, the float's last bits are
        # those of the integer.
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
    is_steep, is_negative = absolute_y > absolute_x, (bits(x) < 0)
    small, large = is_steep.where(absolute_x, absolute_y), is_steep.where(absolute_y, absolute_x)
    ratio = small.equals(large).where(small.like(1.0), small / large)  # both may be infinite
    ratio = large.equals(0.0).where(small, ratio)
    angle = _arc_tangent_of_ratio(ratio)
    zero = x.like(0.0)
    base = is_steep.where(x.like(high), is_negative.where(x.like(2 * high), zero))
    rest = is_steep.where(x.like(low), is_negative.where(x.like(2 * low), zero))
    angle = (is_steep ^ is_negative).where(-angle, angle)
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


def _reduce_exponent(x: Value) -> tuple[Value, Value]:
    """The integer n of exp(x) = 2^n exp(r), and exp(r) - 1."""
    form = FORMATS[x.scalar]
    count = (x * (1 / math.log(2))).intrinsic("rint")
    negative_count = -count
    r = negative_count.times_plus(form.log_2[1], negative_count.times_plus(form.log_2[0], x))
    return count, (r * r).times_plus(polynomial(r, coefficients.EXPONENTIAL), r)


def _power_of_two(count: Value, scalar: str) -> Value:
    form = FORMATS[scalar]
    return floats((count + form.bias) << form.mantissa)


def _scale_by_power_of_two(x: Value, count: Value) -> Value:
    """``x`` times a power of two, which may be outside the range of normal numbers."""
    exponent = to_integer(count)
    first = exponent >> 1
    return x * _power_of_two(first, x.scalar) * _power_of_two(exponent - first, x.scalar)


def to_integer(x: Value) -> Value:
    """A float that is a small whole number as an integer of as many bits; undefined for NaN."""
    form = FORMATS[x.scalar]
    magic = 1.5 * 2.0**form.mantissa
    return bits(x + magic) - bits(x.like(magic))


def _exponential_of(x: Value, halvings: int = 0) -> Value:
    count, rest = _reduce_exponent(x)
    return _scale_by_power_of_two(rest + 1.0, count - float(halvings) if halvings else count)


def exponential(x: Value) -> Value:
    """The exponential."""
    form = FORMATS[x.scalar]
    return _exponential_of(clamp(x, form.least_exponent, form.largest_exponent))


def exponential_less_one(x: Value) -> Value:
    """exp(x) - 1."""
    form = FORMATS[x.scalar]
    clamped = clamp(x, -40.0, form.largest_exponent)
    count, rest = _reduce_exponent(clamped)
    # Half the power of two, which is infinite for the largest arguments.
    half_power = _power_of_two(to_integer(count - 1.0), x.scalar)
    result = half_power.times_plus(rest, half_power - 0.5) * 2.0
    return x.equals(0.0).where(x, result)


def _half_exponentials(x: Value) -> tuple[Value, Value]:
    """exp(x) / 2 and exp(-x) / 2 for x >= 0."""
    half_exponential = _exponential_of(
        clamp(x, -1.0, FORMATS[x.scalar].largest_exponent + 1.0), halvings=1
    )
    return half_exponential, 0.25 / half_exponential


def hyperbolic_sine(x: Value) -> Value:
    """The hyperbolic sine."""
    absolute = magnitude(x)
    growing, decaying = _half_exponentials(absolute)
    z = x * x
    near = (x * z).times_plus(polynomial(z, coefficients.HYPERBOLIC_SINE), x)
    return (absolute < 1.0).where(near, (growing - decaying).intrinsic("copysign", x))


def hyperbolic_cosine(x: Value) -> Value:
    """The hyperbolic cosine."""
    growing, decaying = _half_exponentials(magnitude(x))
    return growing + decaying


def hyperbolic_tangent(x: Value) -> Value:
    """The hyperbolic tangent."""
    absolute = clamp(magnitude(x), 0.0, 30.0)
    expm1 = exponential_less_one(absolute + absolute)
    return (expm1 / (expm1 + 2.0)).intrinsic("copysign", x)


def _split_logarithm(x: Value) -> tuple[Value, Value]:
    """The k and f of x = 2^k (1 + f), where 1 + f is between the roots of 1/2 and 2."""
    form = FORMATS[x.scalar]
    is_tiny = x < 2.0 ** (1 - form.bias)
    scaled = is_tiny.where(x * 2.0 ** (form.mantissa + 2), x)
    root = bits(x.like(math.sqrt(0.5)))
    exponent = (bits(scaled) - root) >> form.mantissa
    fraction = floats(bits(scaled) - (exponent << form.mantissa)) - 1.0
    if x.scalar == "float":
        count = exponent.cast("sitofp", "float")
    else:
        magic = x.like(1.5 * 2.0**52)
        count = floats(exponent + bits(magic)) - magic
    return is_tiny.where(count - float(form.mantissa + 2), count), fraction


def _logarithm_of(x: Value) -> Value:
    """The logarithm of positive finite numbers."""
    form = FORMATS[x.scalar]
    count, f = _split_logarithm(x)
    half = f * 0.5 * f
    low = count * form.log_2[1]
    if x.scalar == "float":
        tail = (f * f * f).times_plus(polynomial(f, coefficients.LOGARITHM), low)
    else:
        s = f / (f + 2.0)
        z = s * s
        tail = s.times_plus(z.times_plus(polynomial(z, coefficients.AREA_TANGENT), half), low)
    return count.times_plus(form.log_2[0], f - (half - tail))


def logarithm(x: Value) -> Value:
    """The natural logarithm."""
    return _with_special_logarithms(x, _logarithm_of(x))


def _with_special_logarithms(x: Value, result: Value) -> Value:
    result = (x < math.inf).where(result, x)  # infinity and NaN
    result = (x < 0.0).where(x.like(math.nan), result)
    return x.equals(0.0).where(x.like(-math.inf), result)


def logarithm_of_one_plus(x: Value) -> Value:
    """log(1 + x)."""
    u = x + 1.0
    rounding_error = x - (u - 1.0)
    result = _logarithm_of(u) + rounding_error / u
    result = _with_special_logarithms(u, result)
    return x.equals(0.0).where(x, result)


def cube_root(x: Value) -> Value:
    """The cube root."""
    form = FORMATS[x.scalar]
    absolute = magnitude(x)
    # Differences of the cubes of others are normal numbers, and three times the cubes are finite.
    is_tiny = absolute < 2.0 ** (27 - form.bias)
    is_huge = absolute > 2.0 ** (form.bias - 2)
    scaled = is_tiny.where(absolute * 2.0**54, is_huge.where(absolute * 2.0**-54, absolute))
    # A third of the exponent, computed as a float; with the leading bits of the mantissa it is a
    # good initial guess.
    number = bits(scaled) >> (form.mantissa - 8)
    if x.scalar == "double":
        number = number.cast("trunc", "i32")
    third = number.cast("sitofp", "float").times_plus(1 / 3, (2 / 3 * form.bias - 0.035) * 256)
    guess = third.cast("fptosi", "i32")
    if x.scalar == "double":
        guess = guess.cast("sext", "i64")
    root = floats(guess << (form.mantissa - 8))
    for _ in range(2 if x.scalar == "float" else 3):  # Halley's rule
        cube = root * root * root
        root = root - root * ((cube - scaled) / (cube + cube + scaled))
    root = is_tiny.where(root * 2.0**-18, is_huge.where(root * 2.0**18, root))
    is_regular = (absolute < math.inf) & absolute.differs(0.0)
    return is_regular.where(root.intrinsic("copysign", x), x)


def _logarithm_in_two_parts(x: Value) -> tuple[Value, Value]:
    """The logarithm of positive finite numbers with twice the digits, as a sum of two floats.

    It is k log(2) + 2 atanh(s), s = f / (2 + f). All but the small terms of the series are computed
    with the rounding errors of each operation, after T. J. Dekker, "A floating-point technique for
    extending the available precision" (1971).
    """
    form = FORMATS[x.scalar]
    count, f = _split_logarithm(x)
    denominator = f + 2.0
    denominator_low = f - (denominator - 2.0)
    s = f / denominator
    s_low = ((-s).times_plus(denominator, f) - s * denominator_low) / denominator
    z = s * s
    z_low = s.times_plus(s, -z) + (s + s) * s_low
    # 2 / 3 - fl(2 / 3)
    tail = z.times_plus(polynomial(z, coefficients.AREA_TANGENT_TAIL), 2 / 3 / 2.0**54)
    factor = tail + 2 / 3
    factor_low = tail - (factor - 2 / 3)
    cube = s * z
    cube_low = s.times_plus(z, -cube) + s.times_plus(z_low, s_low * z)
    term = cube * factor
    term_low = cube.times_plus(factor, -term) + cube.times_plus(factor_low, cube_low * factor)
    double = s + s
    small = double + term
    small_low = (term - (small - double)) + (term_low + (s_low + s_low))
    large = count * form.log_2[0]
    large_low = count.times_plus(form.log_2[0], -large) + count * form.log_2[1]
    total = large + small
    return total, (small - (total - large)) + (small_low + large_low)


def power(x: Value, y: Value) -> Value:
    """``x`` to the power of ``y``; NaN for negative ``x`` unless ``y`` is whole."""
    absolute = magnitude(x)
    if x.scalar == "float":  # doubles have digits to spare
        wide = absolute.cast("fpext", "double")
        exponent = _with_special_logarithms(wide, _logarithm_of(wide)) * y.cast("fpext", "double")
        result = exponential(exponent).cast("fptrunc", "float")
    else:
        high, low = _logarithm_in_two_parts(absolute)
        high = _with_special_logarithms(absolute, high)
        exponent = y * high
        exponent_low = y.times_plus(high, -exponent) + y * low
        exponent_low = (magnitude(exponent) < 1e4).where(exponent_low, 0.0)
        result = exponential(exponent)
        # An infinite result stays so: its product with a negative correction would be minus
        # infinity.
        result = (result < math.inf).where(result.times_plus(exponent_low, result), result)
    result = absolute.equals(1.0).where(x.like(1.0), result)
    half = y * 0.5
    is_integer = y.intrinsic("rint").equals(y)
    is_odd = is_integer & half.intrinsic("rint").differs(half)
    result = (is_odd & (bits(x) < 0)).where(-result, result)
    result = ((x < 0.0) & (x > -math.inf) & (is_integer ^ 1)).where(x.like(math.nan), result)
    return (y.equals(0.0) | x.equals(1.0)).where(x.like(1.0), result)


#: The implementation of each function, and its number of operands.
FUNCTIONS: dict[str, tuple[Callable[..., Value], int]] = {
    "sin": (sine, 1),
    "cos": (cosine, 1),
    "tan": (tangent, 1),
    "asin": (arc_sine, 1),
    "acos": (arc_cosine, 1),
    "atan": (arc_tangent, 1),
    "atan2": (arc_tangent_2, 2),
    "pow": (power, 2),
    "exp": (exponential, 1),
    "expm1": (exponential_less_one, 1),
    "log": (logarithm, 1),
    "log1p": (logarithm_of_one_plus, 1),
    "sinh": (hyperbolic_sine, 1),
    "cosh": (hyperbolic_cosine, 1),
    "tanh": (hyperbolic_tangent, 1),
    "cbrt": (cube_root, 1),
}


def name_of(function: str, scalar: str, width: int) -> str:
    """The name of the function in a module."""
    return f"artix_{function}_{suffix_of(scalar, width)}"


def definition(
    function: str, scalar: str, width: int, declarations: dict[str, str], linkage: str
) -> str:
    """The text of an elementary function; ``sincos`` returns sine and cosine."""
    kind = type_of(scalar, width)
    name = name_of(function, scalar, width)
    if function == "sincos":
        code = Code(f"{linkage} {{ {kind}, {kind} }} @{name}({kind} %x)", declarations)
        pair = _sine_and_cosine(code.value("%x", scalar, width))
        return code.text(_pair(code, pair, kind))
    implementation, num_operands = FUNCTIONS[function]
    names = ["%x", "%y"][:num_operands]
    operands = ", ".join(f"{kind} {x}" for x in names)
    code = Code(f"{linkage} {kind} @{name}({operands})", declarations)
    result = implementation(*(code.value(x, scalar, width) for x in names))
    return code.text(f"{kind} {result.name}")


def _pair(code: Code, values: Sequence[Value], kind: str) -> str:
    pair = f"{{ {kind}, {kind} }}"
    name = "poison"
    for k, value in enumerate(values):
        name = code.emit(f"insertvalue {pair} {name}, {kind} {value.name}, {k}", "").name
    return f"{pair} {name}"
