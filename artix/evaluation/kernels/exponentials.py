"""Exponentials, logarithms, hyperbolic functions, powers and cube roots on vectors of any width."""

from __future__ import annotations

import math

from artix.evaluation.kernels import coefficients
from artix.evaluation.kernels.code import Value
from artix.evaluation.kernels.floats import FORMATS, bits, clamp, floats, magnitude, polynomial


def _reduce_exponent(x: Value) -> tuple[Value, Value]:
    """The whole number of powers of two in exp(x), and exp(r) - 1 of the rest."""
    form = FORMATS[x.scalar]
    count = (x * (1 / math.log(2))).intrinsic("rint")
    turns = -count
    r = turns.times_plus(form.log_2[1], turns.times_plus(form.log_2[0], x))
    return count, (r * r).times_plus(polynomial(r, coefficients.EXPONENTIAL), r)


def _power_of_two(count: Value, scalar: str) -> Value:
    form = FORMATS[scalar]
    return floats((count + form.bias) << form.mantissa)


def _scaled(x: Value, count: Value) -> Value:
    """``x`` times a power of two that need not be a normal number."""
    whole = to_integer(count)
    first = whole >> 1
    return x * _power_of_two(first, x.scalar) * _power_of_two(whole - first, x.scalar)


def to_integer(x: Value) -> Value:
    """A small whole number as the integer of as many bits; any if it is not a number."""
    form = FORMATS[x.scalar]
    magic = 1.5 * 2.0**form.mantissa
    return bits(x + magic) - bits(x.like(magic))


def _exponential_of(x: Value, halvings: int = 0) -> Value:
    count, rest = _reduce_exponent(x)
    return _scaled(rest + 1.0, count - float(halvings) if halvings else count)


def exponential(x: Value) -> Value:
    """The exponential."""
    form = FORMATS[x.scalar]
    return _exponential_of(clamp(x, form.least_exponent, form.largest_exponent))


def exponential_less_one(x: Value) -> Value:
    """exp(x) - 1."""
    form = FORMATS[x.scalar]
    within = clamp(x, -40.0, form.largest_exponent)
    count, rest = _reduce_exponent(within)
    # Half of it, as the power of two of the largest arguments is infinite.
    power = _power_of_two(to_integer(count - 1.0), x.scalar)
    result = power.times_plus(rest, power - 0.5) * 2.0
    return x.equals(0.0).where(x, result)


def _half_exponentials(x: Value) -> tuple[Value, Value]:
    """exp(x) / 2 and exp(-x) / 2 of x not below zero."""
    grown = _exponential_of(clamp(x, -1.0, FORMATS[x.scalar].largest_exponent + 1.0), halvings=1)
    return grown, 0.25 / grown


def hyperbolic_sine(x: Value) -> Value:
    """The hyperbolic sine."""
    size = magnitude(x)
    grown, shrunk = _half_exponentials(size)
    z = x * x
    near = (x * z).times_plus(polynomial(z, coefficients.HYPERBOLIC_SINE), x)
    return (size < 1.0).where(near, (grown - shrunk).intrinsic("copysign", x))


def hyperbolic_cosine(x: Value) -> Value:
    """The hyperbolic cosine."""
    grown, shrunk = _half_exponentials(magnitude(x))
    return grown + shrunk


def hyperbolic_tangent(x: Value) -> Value:
    """The hyperbolic tangent."""
    size = clamp(magnitude(x), 0.0, 30.0)
    grown = exponential_less_one(size + size)
    return (grown / (grown + 2.0)).intrinsic("copysign", x)


def _split_logarithm(x: Value) -> tuple[Value, Value]:
    """The k and f of x = 2^k (1 + f), where 1 + f is between the roots of 1/2 and 2."""
    form = FORMATS[x.scalar]
    tiny = x < 2.0 ** (1 - form.bias)
    scaled = tiny.where(x * 2.0 ** (form.mantissa + 2), x)
    root = bits(x.like(math.sqrt(0.5)))
    whole = (bits(scaled) - root) >> form.mantissa
    fraction = floats(bits(scaled) - (whole << form.mantissa)) - 1.0
    if x.scalar == "float":
        count = whole.cast("sitofp", "float")
    else:
        magic = x.like(1.5 * 2.0**52)
        count = floats(whole + bits(magic)) - magic
    return tiny.where(count - float(form.mantissa + 2), count), fraction


def _logarithm_of(x: Value) -> Value:
    """The logarithm of what is above zero and finite."""
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
    return _at_ends_of_logarithm(x, _logarithm_of(x))


def _at_ends_of_logarithm(x: Value, result: Value) -> Value:
    result = (x < math.inf).where(result, x)  # infinite, or not a number
    result = (x < 0.0).where(x.like(math.nan), result)
    return x.equals(0.0).where(x.like(-math.inf), result)


def logarithm_of_one_plus(x: Value) -> Value:
    """log(1 + x)."""
    u = x + 1.0
    lost = x - (u - 1.0)
    result = _logarithm_of(u) + lost / u
    result = _at_ends_of_logarithm(u, result)
    return x.equals(0.0).where(x, result)


def cube_root(x: Value) -> Value:
    """The cube root."""
    form = FORMATS[x.scalar]
    size = magnitude(x)
    tiny = size < 2.0 ** (27 - form.bias)  # differences of the cubes of larger ones are normal numbers
    scaled = tiny.where(size * 2.0**54, size)
    # A third of the exponent, by a float: the mantissa, taken along, makes a good first guess.
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
    root = tiny.where(root * 2.0**-18, root)
    odd = (size < math.inf) & size.differs(0.0)
    return odd.where(root.intrinsic("copysign", x), x)


def _logarithm_in_two(x: Value) -> tuple[Value, Value]:
    """The logarithm of what is above zero and finite, with twice as many digits, in two parts.

    It is k log(2) + 2 atanh(s), s = f / (2 + f). All but the small terms of the series are computed with the errors of
    each operation, as T. J. Dekker, "A floating-point technique for extending the available precision" (1971), does.
    """
    form = FORMATS[x.scalar]
    count, f = _split_logarithm(x)
    below = f + 2.0
    below_low = f - (below - 2.0)
    s = f / below
    s_low = ((-s).times_plus(below, f) - s * below_low) / below
    z = s * s
    z_low = s.times_plus(s, -z) + (s + s) * s_low
    tail = z.times_plus(polynomial(z, coefficients.AREA_TANGENT_TAIL), 2 / 3 / 2.0**54)  # 2 / 3 - fl(2 / 3)
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
    """``x`` to the power of ``y``; negative numbers have powers of whole numbers only."""
    size = magnitude(x)
    if x.scalar == "float":  # doubles have digits to spare
        wide = size.cast("fpext", "double")
        exponent = _at_ends_of_logarithm(wide, _logarithm_of(wide)) * y.cast("fpext", "double")
        result = exponential(exponent).cast("fptrunc", "float")
    else:
        high, low = _logarithm_in_two(size)
        high = _at_ends_of_logarithm(size, high)
        exponent = y * high
        rest = y.times_plus(high, -exponent) + y * low
        rest = (magnitude(exponent) < 1e4).where(rest, 0.0)
        result = exponential(exponent)
        # Where the result is infinite, so is its product with what is negative.
        result = (result < math.inf).where(result.times_plus(rest, result), result)
    result = size.equals(1.0).where(x.like(1.0), result)
    half = y * 0.5
    whole = y.intrinsic("rint").equals(y)
    odd = whole & half.intrinsic("rint").differs(half)
    result = (odd & (bits(x) < 0)).where(-result, result)
    result = ((x < 0.0) & (x > -math.inf) & (whole ^ 1)).where(x.like(math.nan), result)
    return (y.equals(0.0) | x.equals(1.0)).where(x.like(1.0), result)
