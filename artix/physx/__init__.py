"""The PhysX-shaped face of artix: PhysX's names, layouts and buffers over the same functions."""

from artix.physx.direct_gpu import ArticulationGPUAPIMaxCounts as ArticulationGPUAPIMaxCounts
from artix.physx.direct_gpu import LinkKinematics as LinkKinematics
from artix.physx.direct_gpu import compute_articulation_data as compute_articulation_data
from artix.physx.direct_gpu import get_articulation_gpu_api_max_counts as get_articulation_gpu_api_max_counts
from artix.physx.direct_gpu import unpack_articulation_data as unpack_articulation_data
from artix.physx.enums import ArticulationGPUAPIComputeType as ArticulationGPUAPIComputeType
