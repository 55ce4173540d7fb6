"""The tasks, a module for each kind of them."""

from artix.math.deprecated import old_modules as _old_modules

_old_modules(__name__)
