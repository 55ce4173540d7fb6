"""Worked examples, written to be read and copied: trajectory optimisation by gradients and by iLQR,
identification.

They use only public functions of artix. ``artix demo --trajectory-optimization`` runs and draws the
former, ``python -m artix.examples.identification`` the latter.
"""

from artix.math.deprecated import old_modules as _old_modules

_old_modules(__name__)
