"""The old name of :mod:`artix.compiler`, which works for one more release."""

from artix.math.deprecated import old_names

__getattr__ = old_names(__name__)
