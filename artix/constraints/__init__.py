"""Loops and contacts: their rows, the linear algebra, and dynamics under them."""
