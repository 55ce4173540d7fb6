"""PhysX's articulation API, with its names, layouts and buffers, over the functions of artix; see
``docs/physx.md``.
"""

from typing import TYPE_CHECKING

from artix.math.deprecated import old_names as _old_names
from artix.physx.accessors import get_drive_type as get_drive_type
from artix.physx.accessors import get_link_acceleration as get_link_acceleration
from artix.physx.accessors import get_links as get_links
from artix.physx.accessors import get_motion as get_motion
from artix.physx.accessors import get_world_bounds as get_world_bounds
from artix.physx.accessors import put_to_sleep as put_to_sleep
from artix.physx.accessors import set_articulation_flag as set_articulation_flag
from artix.physx.accessors import set_articulation_flags as set_articulation_flags
from artix.physx.accessors import set_max_com_angular_velocity as set_max_com_angular_velocity
from artix.physx.accessors import set_max_com_linear_velocity as set_max_com_linear_velocity
from artix.physx.accessors import set_root_angular_velocity as set_root_angular_velocity
from artix.physx.accessors import set_root_global_pose as set_root_global_pose
from artix.physx.accessors import set_root_linear_velocity as set_root_linear_velocity
from artix.physx.accessors import set_sleep_threshold as set_sleep_threshold
from artix.physx.accessors import set_solver_iteration_counts as set_solver_iteration_counts
from artix.physx.accessors import set_wake_counter as set_wake_counter
from artix.physx.accessors import update_kinematic as update_kinematic
from artix.physx.accessors import wake_up as wake_up
from artix.physx.cache import ArticulationCache as ArticulationCache
from artix.physx.cache import RootLinkData as RootLinkData
from artix.physx.cache import apply_cache as apply_cache
from artix.physx.cache import copy_internal_state_to_cache as copy_internal_state_to_cache
from artix.physx.cache import create_cache as create_cache
from artix.physx.cache import get_cache_data_size as get_cache_data_size
from artix.physx.cache import pack_joint_data as pack_joint_data
from artix.physx.cache import unpack_joint_data as unpack_joint_data
from artix.physx.cache import zero_cache as zero_cache
from artix.physx.direct_gpu import ArticulationGPUAPIMaxCounts as ArticulationGPUAPIMaxCounts
from artix.physx.direct_gpu import FleetSimulation as FleetSimulation
from artix.physx.direct_gpu import LinkKinematics as LinkKinematics
from artix.physx.direct_gpu import compute_articulation_data as compute_articulation_data
from artix.physx.direct_gpu import (
    get_articulation_gpu_api_max_counts as get_articulation_gpu_api_max_counts,
)
from artix.physx.direct_gpu import unpack_articulation_data as unpack_articulation_data
from artix.physx.enums import ArticulationAxis as ArticulationAxis
from artix.physx.enums import ArticulationCacheFlag as ArticulationCacheFlag
from artix.physx.enums import ArticulationDriveType as ArticulationDriveType
from artix.physx.enums import ArticulationFlag as ArticulationFlag
from artix.physx.enums import ArticulationGPUAPIComputeType as ArticulationGPUAPIComputeType
from artix.physx.enums import ArticulationGPUAPIReadType as ArticulationGPUAPIReadType
from artix.physx.enums import ArticulationGPUAPIWriteType as ArticulationGPUAPIWriteType
from artix.physx.enums import ArticulationJointType as ArticulationJointType
from artix.physx.enums import ArticulationKinematicFlag as ArticulationKinematicFlag
from artix.physx.enums import ArticulationMotion as ArticulationMotion
from artix.physx.generalized import dense_jacobian as dense_jacobian
from artix.physx.gpu_state import create_fleet_simulation as create_fleet_simulation
from artix.physx.gpu_state import get_articulation_data as get_articulation_data
from artix.physx.gpu_state import set_articulation_data as set_articulation_data
from artix.physx.gpu_state import update_articulation_kinematics as update_articulation_kinematics
from artix.physx.gpu_tendons import GPU_FIXED_TENDON_DTYPE as GPU_FIXED_TENDON_DTYPE
from artix.physx.gpu_tendons import GPU_SPATIAL_TENDON_DTYPE as GPU_SPATIAL_TENDON_DTYPE
from artix.physx.gpu_tendons import GPU_TENDON_ATTACHMENT_DTYPE as GPU_TENDON_ATTACHMENT_DTYPE
from artix.physx.gpu_tendons import GPU_TENDON_JOINT_DTYPE as GPU_TENDON_JOINT_DTYPE
from artix.physx.gpu_tendons import GpuFixedTendonData as GpuFixedTendonData
from artix.physx.gpu_tendons import GpuSpatialTendonData as GpuSpatialTendonData
from artix.physx.gpu_tendons import GpuTendonAttachmentData as GpuTendonAttachmentData
from artix.physx.gpu_tendons import GpuTendonJointCoefficientData as GpuTendonJointCoefficientData
from artix.physx.gpu_tendons import from_physx as from_physx
from artix.physx.gpu_tendons import to_physx as to_physx
from artix.physx.inverse_dynamics import compute_articulation_com as compute_articulation_com
from artix.physx.inverse_dynamics import (
    compute_centroidal_momentum_matrix as compute_centroidal_momentum_matrix,
)
from artix.physx.inverse_dynamics import compute_coefficient_matrix as compute_coefficient_matrix
from artix.physx.inverse_dynamics import (
    compute_coriolis_and_centrifugal_force as compute_coriolis_and_centrifugal_force,
)
from artix.physx.inverse_dynamics import (
    compute_coriolis_compensation as compute_coriolis_compensation,
)
from artix.physx.inverse_dynamics import compute_dense_jacobian as compute_dense_jacobian
from artix.physx.inverse_dynamics import (
    compute_generalized_external_force as compute_generalized_external_force,
)
from artix.physx.inverse_dynamics import (
    compute_generalized_gravity_force as compute_generalized_gravity_force,
)
from artix.physx.inverse_dynamics import (
    compute_generalized_mass_matrix as compute_generalized_mass_matrix,
)
from artix.physx.inverse_dynamics import (
    compute_gravity_compensation as compute_gravity_compensation,
)
from artix.physx.inverse_dynamics import compute_joint_acceleration as compute_joint_acceleration
from artix.physx.inverse_dynamics import compute_joint_force as compute_joint_force
from artix.physx.inverse_dynamics import compute_lambda as compute_lambda
from artix.physx.inverse_dynamics import compute_mass_matrix as compute_mass_matrix
from artix.physx.inverse_dynamics import get_coefficient_matrix_size as get_coefficient_matrix_size
from artix.physx.simulation import ArticulationSimulation as ArticulationSimulation
from artix.physx.simulation import create_simulation as create_simulation
from artix.physx.stepping import simulate as simulate

if not TYPE_CHECKING:
    __getattr__ = _old_names(__name__)
