"""Worked examples, written to be read and copied: trajectory optimisation by gradients and by iLQR,
identification.

They use only public functions of artix. ``artix demo --trajectory-optimization`` runs and draws the
former, ``python -m artix.examples.identification`` the latter.
"""
