"""The contacts of a step: finds them, and refuses those that ``"pgs"`` and ``"tgs"`` do not support."""

from __future__ import annotations

import jax
import numpy as np

from artix.contact.ground import Ground
from artix.contact.ground_contacts import GroundContacts, contacts_with_ground
from artix.contact.plane import Plane
from artix.kinematics.solve import kinematics
from artix.model.articulation import Articulation, State
from artix.model.checks import check_vector
from artix.model.geometry import GeometryType
from artix.physx.solver.contact_rows import Touching
from artix.physx.solver.friction_anchors import FrictionAnchors, patches_of
from artix.simulation.common.options import SolverOptions

_SHAPES = (GeometryType.SPHERE, GeometryType.CAPSULE, GeometryType.BOX)


def check_rigid(articulation: Articulation, ground: Ground, options: SolverOptions) -> None:
    """Raises ``ValueError`` for compliant shapes or surfaces, if their numbers are not traced."""
    every = {f"ground.surfaces[{k}]": surface.stiffness for k, surface in enumerate(ground.surfaces)}
    every["articulation.geometry"] = articulation.geometry.stiffness
    for where, stiffness in every.items():
        if not isinstance(stiffness, jax.core.Tracer) and not np.all(np.isinf(stiffness)):
            raise ValueError(
                f"solver={options.solver!r} has only rigid contacts, but {where}.stiffness is finite: make it inf, or "
                "use solver='implicit'"
            )


def check_solvable(
    articulation: Articulation, ground: Ground, found: GroundContacts, anchors: FrictionAnchors | None
) -> None:
    """Raises ``ValueError`` for unsupported surfaces and shapes, and for a memory of another size."""
    topology = articulation.topology
    for k, surface in enumerate(ground.surfaces):
        if not isinstance(surface, Plane):
            raise ValueError(
                f"solver='pgs' and 'tgs' support only planes; ground.surfaces[{k}] is a {type(surface).__name__}: use "
                "solver='implicit'"
            )
    for k in sorted(set(found.geometries)):
        shape = topology.geometries[k]
        if shape.type not in _SHAPES:
            raise ValueError(
                f"solver='pgs' and 'tgs' support spheres, capsules and boxes; {shape.name!r} is a {shape.type.value}: "
                "use solver='implicit', or make it a sensor"
            )
    if anchors is not None:
        pairs = len(patches_of(topology, found.geometries, len(ground.surfaces)))
        check_vector(
            "memory.on_link", anchors.on_link, (pairs, 2, 3), articulation.dtype, "P pairs of shape and surface"
        )


def held_by(
    articulation: Articulation, state: State, ground: Ground | None, anchors: FrictionAnchors | None
) -> Touching | None:
    """The contacts with the ground at the start of a step."""
    if ground is None:
        return None
    kin = kinematics(articulation, state)
    found = contacts_with_ground(articulation, kin, ground)
    check_solvable(articulation, ground, found, anchors)
    return Touching(found, ground, kin.reference, anchors)
