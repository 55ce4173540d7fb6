"""Many articulations in one program."""

from artix.fleet.batches import vmap_in_blocks
from artix.fleet.fleet import Fleet

__all__ = [
    "Fleet",
    "vmap_in_blocks",
]
