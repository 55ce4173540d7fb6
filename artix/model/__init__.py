"""Articulations and states: what they are made of, and how to build them."""

from typing import TYPE_CHECKING

from artix.math.deprecated import exports as _exports
from artix.model.articulation import Articulation as Articulation
from artix.model.articulation import State as State
from artix.model.builder import ArticulationBuilder as ArticulationBuilder
from artix.model.couplings import Attachment as Attachment
from artix.model.couplings import FixedTendon as FixedTendon
from artix.model.couplings import LoopJoint as LoopJoint
from artix.model.couplings import LoopJointType as LoopJointType
from artix.model.couplings import SpatialTendon as SpatialTendon
from artix.model.couplings import TendonJoint as TendonJoint
from artix.model.geometry import Geometry as Geometry
from artix.model.geometry import GeometryType as GeometryType
from artix.model.inertial_parameters import inertia_from_log_cholesky as inertia_from_log_cholesky
from artix.model.inertial_parameters import (
    log_cholesky_from_articulation as log_cholesky_from_articulation,
)
from artix.model.inertial_parameters import log_cholesky_from_inertia as log_cholesky_from_inertia
from artix.model.inertial_parameters import with_log_cholesky as with_log_cholesky
from artix.model.joints import Axis as Axis
from artix.model.joints import CompositeJoint as CompositeJoint
from artix.model.joints import Drive as Drive
from artix.model.joints import DriveEnvelope as DriveEnvelope
from artix.model.joints import Joint as Joint
from artix.model.joints import JointFriction as JointFriction
from artix.model.joints import JointType as JointType
from artix.model.states import neutral_state as neutral_state
from artix.model.states import random_state as random_state
from artix.model.topology import Topology as Topology
from artix.model.zeros import keep_zeros as keep_zeros

if not TYPE_CHECKING:
    __all__, __getattr__ = _exports(__name__)
