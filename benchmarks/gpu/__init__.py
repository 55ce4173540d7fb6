"""What GPUs make of artix and its peers: read off compiled programs without a GPU, or measured on one.

``h100_sxm.txtpb`` describes the device: it is XLA's own ``xla/backends/gpu/target_config/specs/h100_sxm.txtpb``
(Apache-2.0), unchanged.
"""
