"""PhysX's enumerations, with its names and the values of PhysX 5.6.1."""

from __future__ import annotations

import enum


class ArticulationGPUAPIComputeType(enum.IntEnum):
    """``PxArticulationGPUAPIComputeType``: what :func:`~artix.physx.compute_articulation_data` computes.

    PhysX 5.7 removed the three ``GENERALIZED`` and ``CORIOLIS_AND_CENTRIFUGAL_FORCES`` entries and renumbered the rest.
    """

    UPDATE_KINEMATIC = 0
    DENSE_JACOBIANS = 1
    GENERALIZED_MASS_MATRICES = 2
    """Deprecated in PhysX 5.5; for a floating base the joints' inertia with the root left free."""
    GENERALIZED_GRAVITY_FORCES = 3
    """Deprecated in PhysX 5.5."""
    CORIOLIS_AND_CENTRIFUGAL_FORCES = 4
    """Deprecated in PhysX 5.5."""
    MASS_MATRICES = 5
    CORIOLIS_AND_CENTRIFUGAL_COMPENSATION = 6
    GRAVITY_COMPENSATION = 7
    ARTICULATION_COMS_WORLD_FRAME = 8
    ARTICULATION_COMS_ROOT_FRAME = 9
    CENTROIDAL_MOMENTUM_MATRICES = 10
