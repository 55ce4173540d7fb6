"""Makes articulations from others, and builders from articulations."""

from artix.editing.surgery import (
    MimicMap,
    attach_articulation,
    lock_joints,
    mimic_map,
    possible_geometry_pairs,
    select_geometry,
    select_geometry_pairs,
)
from artix.editing.to_builder import builder_from_articulation

__all__ = [
    "MimicMap",
    "attach_articulation",
    "builder_from_articulation",
    "lock_joints",
    "mimic_map",
    "possible_geometry_pairs",
    "select_geometry",
    "select_geometry_pairs",
]
