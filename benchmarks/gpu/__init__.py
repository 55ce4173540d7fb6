"""How artix and its peers run on GPUs: read from compiled programs without a GPU, or measured on
one.

``h100_sxm.txtpb`` describes the device. It is XLA's own
``xla/backends/gpu/target_config/specs/h100_sxm.txtpb`` (Apache-2.0), unchanged.
"""
