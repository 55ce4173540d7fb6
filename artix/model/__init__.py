"""Articulations and states: what they are made of, and how to build them."""

from typing import TYPE_CHECKING

from artix.math.deprecated import old_names
from artix.model.articulation import Articulation, State
from artix.model.builder import ArticulationBuilder
from artix.model.couplings import Attachment, FixedTendon, LoopJoint, LoopJointType, SpatialTendon, TendonJoint
from artix.model.geometry import Geometry, GeometryType
from artix.model.inertial_parameters import (
    inertia_from_log_cholesky,
    log_cholesky_from_articulation,
    log_cholesky_from_inertia,
    with_log_cholesky,
)
from artix.model.joints import Axis, CompositeJoint, Drive, DriveEnvelope, Joint, JointFriction, JointType
from artix.model.states import neutral_state, random_state
from artix.model.topology import Topology
from artix.model.zeros import keep_zeros

__all__ = [
    "Articulation",
    "ArticulationBuilder",
    "Attachment",
    "Axis",
    "CompositeJoint",
    "Drive",
    "DriveEnvelope",
    "FixedTendon",
    "Geometry",
    "GeometryType",
    "Joint",
    "JointFriction",
    "JointType",
    "LoopJoint",
    "LoopJointType",
    "SpatialTendon",
    "State",
    "TendonJoint",
    "Topology",
    "inertia_from_log_cholesky",
    "keep_zeros",
    "log_cholesky_from_articulation",
    "log_cholesky_from_inertia",
    "neutral_state",
    "random_state",
    "with_log_cholesky",
]

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)
