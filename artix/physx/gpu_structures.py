"""The tendon structures of PhysX's direct-GPU buffers, as arrays per field and as PhysX's bytes.

A ``PxGpuFixedTendonData*`` buffer becomes a NumPy array of :data:`GPU_FIXED_TENDON_DTYPE` and so on; :func:`to_physx`
and :func:`from_physx` convert. Padding bytes are zero.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

Array = jax.Array


class GpuFixedTendonData(NamedTuple):
    """``PxGpuFixedTendonData``, each array [nb, maxFixedTendons]; see :class:`artix.FixedTendon`.

    Attributes:
      stiffness: spring towards the rest length [N/m].
      damping: damper of the length [N s/m].
      limit_stiffness: spring that pulls the length back into the limits [N/m].
      offset: added to the length [m].
      low_limit: least length [m], ``-inf`` for none.
      high_limit: greatest length [m], ``inf`` for none.
      rest_length: length at which the spring exerts no force [m].

    Examples:
      >>> from artix import physx
      >>> scalars = [jnp.array([number]) for number in (100.0, 1.0, 0.0, 0.0, -1.0, 1.0, 0.5)]
      >>> print(physx.to_physx(physx.GpuFixedTendonData(*scalars)).itemsize)  # with PhysX's padding [B]
      32
    """

    stiffness: Array
    damping: Array
    limit_stiffness: Array
    offset: Array
    low_limit: Array
    high_limit: Array
    rest_length: Array


class GpuTendonJointCoefficientData(NamedTuple):
    """``PxGpuTendonJointCoefficientData``, each array [nb, maxFixedTendons, maxFixedTendonJoints].

    As in PhysX, tendon joints are in breadth-first order, and the first is the tendon's root, whose numbers are
    meaningless and zero when read.

    Attributes:
      coefficient: change of the tendon's length per joint position [m/rad, or 1 for a translation].
      recip_coefficient: joint effort per tendon force [N m/N, or 1 for a translation].
      axis: the joint's axis, an :class:`artix.Axis` as an unsigned 32-bit integer. It belongs to the topology: writing
        a different one is refused.

    Examples:
      >>> from artix import physx
      >>> joint = physx.GpuTendonJointCoefficientData(jnp.array([0.5]), jnp.array([2.0]), jnp.array([0]))
      >>> print(physx.to_physx(joint).itemsize)
      16
    """

    coefficient: Array
    recip_coefficient: Array
    axis: Array


class GpuSpatialTendonData(NamedTuple):
    """``PxGpuSpatialTendonData``, each array [nb, maxSpatialTendons]; see :class:`artix.SpatialTendon`.

    Attributes:
      stiffness: spring towards each leaf's rest length [N/m].
      damping: damper of the paths' lengths [N s/m].
      limit_stiffness: spring that pulls the lengths back into the leaves' limits [N/m].
      offset: added to the length of every path [m].

    Examples:
      >>> from artix import physx
      >>> scalars = [jnp.array([number]) for number in (100.0, 1.0, 0.0, 0.0)]
      >>> print(physx.to_physx(physx.GpuSpatialTendonData(*scalars)).itemsize)
      16
    """

    stiffness: Array
    damping: Array
    limit_stiffness: Array
    offset: Array


class GpuTendonAttachmentData(NamedTuple):
    """``PxGpuTendonAttachmentData``, each array [nb, maxSpatialTendons, maxSpatialTendonAttachments].

    Attachments are in breadth-first order. Rest length and limits are meaningful for leaves only.

    Attributes:
      relative_offset: the point in the **mass frame** of the link [m], with a last axis of 3, whereas
        ``articulation.spatial_tendons.position`` is in the link's frame. A point that is written back unchanged keeps
        its exact bits; a new point is rounded by the conversion.
      rest_length: length of the path from the root at which it exerts no force [m].
      coefficient: factor on the length of the segment to the parent; for the root, on the tendon's offset.
      low_limit: least length of the path [m], ``-inf`` for none.
      high_limit: greatest length of the path [m], ``inf`` for none.

    Examples:
      >>> from artix import physx
      >>> point = physx.GpuTendonAttachmentData(
      ...     jnp.zeros((1, 3)), *(jnp.array([number]) for number in (0.3, 1.0, -1.0, 1.0))
      ... )
      >>> print(physx.to_physx(point).itemsize)
      32
    """

    relative_offset: Array
    rest_length: Array
    coefficient: Array
    low_limit: Array
    high_limit: Array


TendonData: TypeAlias = (
    GpuFixedTendonData | GpuTendonJointCoefficientData | GpuSpatialTendonData | GpuTendonAttachmentData
)

#: Fields of the C structures in order; the rest of ``itemsize`` is padding to 16 bytes.
GPU_FIXED_TENDON_DTYPE = np.dtype(
    {
        "names": list(GpuFixedTendonData._fields),
        "formats": ["<f4"] * 7,
        "offsets": list(range(0, 28, 4)),
        "itemsize": 32,
    }
)
GPU_TENDON_JOINT_DTYPE = np.dtype(
    {
        "names": list(GpuTendonJointCoefficientData._fields),
        "formats": ["<f4", "<f4", "<u4"],
        "offsets": [0, 4, 8],
        "itemsize": 16,
    }
)
GPU_SPATIAL_TENDON_DTYPE = np.dtype([(name, "<f4") for name in GpuSpatialTendonData._fields])
GPU_TENDON_ATTACHMENT_DTYPE = np.dtype(
    {
        "names": list(GpuTendonAttachmentData._fields),
        "formats": [("<f4", (3,)), "<f4", "<f4", "<f4", "<f4"],
        "offsets": [0, 12, 16, 20, 24],
        "itemsize": 32,
    }
)
_DTYPES: dict[type, np.dtype] = {
    GpuFixedTendonData: GPU_FIXED_TENDON_DTYPE,
    GpuTendonJointCoefficientData: GPU_TENDON_JOINT_DTYPE,
    GpuSpatialTendonData: GPU_SPATIAL_TENDON_DTYPE,
    GpuTendonAttachmentData: GPU_TENDON_ATTACHMENT_DTYPE,
}


def to_physx(data: TendonData) -> np.ndarray:
    """The structures in PhysX's memory layout, ``PxGpuFixedTendonData`` and its like.

    Args:
      data: the arrays of the structures, not traced.

    Returns:
      A structured NumPy array, with fields of 32 bits, in the shape that :func:`get_articulation_data` gives the
      numbers; its ``tobytes()`` is PhysX's buffer.

    Identity: ``from_physx(to_physx(data)) == data`` for data in float32.

    Examples:
      >>> from artix import physx
      >>> scalars = [jnp.array([number]) for number in (100.0, 1.0, 0.0, 0.0)]
      >>> buffer = physx.to_physx(physx.GpuSpatialTendonData(*scalars))
      >>> print(buffer.dtype.names[:2], len(buffer.tobytes()))
      ('stiffness', 'damping') 16
    """
    dtype = _DTYPES[type(data)]
    buffer = np.zeros(data[-1].shape, dtype)
    for name in data._fields:
        buffer[name] = np.asarray(getattr(data, name))
    return buffer


def from_physx(buffer: np.ndarray, dtype: Any = jnp.float32) -> TendonData:
    """The inverse of :func:`to_physx`: reads structures in PhysX's memory layout.

    Args:
      buffer: an array of one of the dtypes ``GPU_..._DTYPE``.
      dtype: the dtype of the floating-point arrays, that of the fleet that they are for.

    Returns:
      One array per field.

    Raises:
      TypeError: the array has none of the four structured dtypes; view raw bytes as one of them first.

    Identity: ``from_physx(to_physx(data)) == data`` for data in float32.

    Examples:
      >>> from artix import physx
      >>> scalars = [jnp.array([number]) for number in (100.0, 1.0, 0.0, 0.0)]
      >>> buffer = physx.to_physx(physx.GpuSpatialTendonData(*scalars))
      >>> print(physx.from_physx(buffer).stiffness)
      [100.]
    """
    for kind, structure in _DTYPES.items():
        if buffer.dtype == structure:
            fields = [buffer[name] for name in structure.names or ()]
            return kind(*(jnp.asarray(field, dtype if field.dtype.kind == "f" else jnp.uint32) for field in fields))
    raise TypeError(
        f"expected one of the structures artix.physx.GPU_..._DTYPE, found dtype {buffer.dtype}; "
        "np.frombuffer(data, artix.physx.GPU_FIXED_TENDON_DTYPE).reshape(...) reads bytes"
    )
