"""Many articulations in one program."""

from artix.fleet.fleet import Fleet, vmap_in_blocks

__all__ = [
    "Fleet",
    "vmap_in_blocks",
]
