"""Tendons in blocks, as PhysX's direct-GPU API has them.

A ``PxGpuFixedTendonData*`` buffer becomes a NumPy array of :data:`GPU_FIXED_TENDON_DTYPE` and so
on; :func:`to_physx` and :func:`from_physx` convert. Padding bytes are zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from artix.fleet.fleet import Fleet
from artix.math import spatial
from artix.math.arrays import check_finite, known_values
from artix.math.spatial import Transforms
from artix.model.articulation import Articulation
from artix.model.couplings import FixedTendonStructure, SpatialTendonStructure
from artix.model.topology import Topology
from artix.physx.direct_gpu import (
    ArticulationGPUAPIMaxCounts,
    Part,
    get_articulation_gpu_api_max_counts,
    in_order,
)

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
      >>> # with PhysX's padding [B]
      >>> print(physx.to_physx(physx.GpuFixedTendonData(*scalars)).itemsize)
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

    As in PhysX, tendon joints are in breadth-first order, and the first is the tendon's root, whose
    numbers are meaningless and zero when read.

    Attributes:
      coefficient: change of the tendon's length per joint position [m/rad, or 1 for a translation].
      recip_coefficient: joint effort per tendon force [N m/N, or 1 for a translation].
      axis: the joint's axis, an :class:`artix.Axis` as an unsigned 32-bit integer. It belongs to
        the topology: writing a different one is refused.

    Examples:
      >>> from artix import physx
      >>> joint = physx.GpuTendonJointCoefficientData(
      ...     jnp.array([0.5]), jnp.array([2.0]), jnp.array([0])
      ... )
      >>> print(physx.to_physx(joint).itemsize)
      16
    """

    coefficient: Array
    recip_coefficient: Array
    axis: Array


class GpuSpatialTendonData(NamedTuple):
    """``PxGpuSpatialTendonData``, each array [nb, maxSpatialTendons]; see
    :class:`artix.SpatialTendon`.

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
    """``PxGpuTendonAttachmentData``, each array [nb, maxSpatialTendons,
    maxSpatialTendonAttachments].

    Attachments are in breadth-first order. Rest length and limits are meaningful for leaves only.

    Attributes:
      relative_offset: the point in the **mass frame** of the link [m], with a last axis of 3,
        whereas ``articulation.spatial_tendons.position`` is in the link's frame. A point that is
        written back unchanged keeps its exact bits; a new point is rounded by the conversion.
      rest_length: length of the path from the root at which it exerts no force [m].
      coefficient: factor on the length of the segment to the parent; for the root, on the tendon's
        offset.
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
    GpuFixedTendonData
    | GpuTendonJointCoefficientData
    | GpuSpatialTendonData
    | GpuTendonAttachmentData
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
      A structured NumPy array, with fields of 32 bits, in the shape that
      :func:`get_articulation_data` gives the numbers; its ``tobytes()`` is PhysX's buffer.

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
      dtype: the dtype of the floating-point arrays, which must be the fleet's.

    Returns:
      One array per field.

    Raises:
      TypeError: the array has none of the four structured dtypes; view raw bytes as one of them
        first.

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
            return kind(
                *(
                    jnp.asarray(field, dtype if field.dtype.kind == "f" else jnp.uint32)
                    for field in fields
                )
            )
    raise TypeError(
        f"expected one of the structures artix.physx.GPU_..._DTYPE, found dtype {buffer.dtype}; "
        "np.frombuffer(data, artix.physx.GPU_FIXED_TENDON_DTYPE).reshape(...) reads bytes"
    )


_STRUCTURES: dict[str, Any] = {
    "FIXED_TENDON": GpuFixedTendonData,
    "FIXED_TENDON_JOINT": GpuTendonJointCoefficientData,
    "SPATIAL_TENDON": GpuSpatialTendonData,
    "SPATIAL_TENDON_ATTACHMENT": GpuTendonAttachmentData,
}
#: The articulation's names of fields that PhysX names differently.
_ARRAYS = {"low_limit": "lower_limit", "high_limit": "upper_limit", "relative_offset": "position"}


def read_tendons(
    fleet: Fleet, articulations: Sequence[Articulation], parts: Sequence[Part], kind: str
) -> TendonData:
    """The listed blocks, padded with zeros, from the articulations of each kind of the fleet's
    members.
    """
    maxima = get_articulation_gpu_api_max_counts(fleet)
    return in_order(
        parts,
        lambda k: _read_tendons(
            kind, articulations[k], parts[k].rows, _slots(parts[k].topology, maxima, kind)
        ),
    )


def write_tendons(
    fleet: Fleet, articulations: Sequence[Articulation], data: Any, parts: Sequence[Part], kind: str
) -> list[Articulation]:
    """The articulations with the listed blocks written, padding ignored; see
    ``set_articulation_data``.
    """
    maxima = get_articulation_gpu_api_max_counts(fleet)
    structure = _STRUCTURES[kind]
    if not isinstance(data, structure):
        raise TypeError(
            f"data for {kind}: expected artix.physx.{structure.__name__}, found "
            f"{type(data).__name__}; artix.physx.from_physx converts PhysX's structures"
        )
    shape_of_slots = (sum(len(part.blocks) for part in parts), *_slots_shape(maxima, kind))
    for name, field in data._asdict().items():
        shape = (*shape_of_slots, 3) if name == "relative_offset" else shape_of_slots
        dtype = jnp.dtype(jnp.uint32 if name == "axis" else fleet.dtype)
        if getattr(field, "shape", None) != shape:
            actual = getattr(field, "shape", type(field).__name__)
            raise ValueError(f"data for {kind}: {name} must have shape {shape}; found {actual}")
        if field.dtype != dtype:
            raise TypeError(f"data for {kind}: {name} must have dtype {dtype}; found {field.dtype}")
    written = []
    for articulation, part in zip(articulations, parts, strict=True):
        slots = _slots(part.topology, maxima, kind)
        rows = jax.tree.map(lambda leaf, blocks=part.blocks: leaf[blocks], data)
        _check_numbers(kind, rows, slots)
        if kind == "FIXED_TENDON_JOINT":
            _check_axes(rows.axis, part, slots)
        written.append(_write_tendons(kind, articulation, rows, part.rows, slots))
    return written


def _slots_shape(maxima: ArticulationGPUAPIMaxCounts, kind: str) -> tuple[int, ...]:
    """The slots of a block: of tendons [T], of their joints or attachments [T, J]."""
    return {
        "FIXED_TENDON": (maxima.max_fixed_tendons,),
        "FIXED_TENDON_JOINT": (maxima.max_fixed_tendons, maxima.max_fixed_tendon_joints),
        "SPATIAL_TENDON": (maxima.max_spatial_tendons,),
        "SPATIAL_TENDON_ATTACHMENT": (
            maxima.max_spatial_tendons,
            maxima.max_spatial_tendon_attachments,
        ),
    }[kind]


def _slots(topology: Topology, maxima: ArticulationGPUAPIMaxCounts, kind: str) -> np.ndarray:
    """Index into the articulation's arrays for each slot of a block, -1 for none: [T] or [T, J]."""
    slots = np.full(_slots_shape(maxima, kind), -1, np.int32)
    for slot, entry in _member_slots(topology, kind).items():
        slots[slot] = entry
    return slots


def _member_slots(topology: Topology, kind: str) -> dict[tuple[int, ...], int]:
    """Maps the slots of one articulation's block to entries of its arrays."""
    fixed = kind.startswith("FIXED")
    tendons: tuple[FixedTendonStructure | SpatialTendonStructure, ...] = (
        topology.fixed_tendons if fixed else topology.spatial_tendons
    )
    if kind in ("FIXED_TENDON", "SPATIAL_TENDON"):
        return {(number,): number for number in range(len(tendons))}
    slots: dict[tuple[int, ...], int] = {}
    first = 0
    for number, tendon in enumerate(tendons):
        # In PhysX the root of a fixed tendon comes first; artix's arrays have no entry for it.
        for slot, entry in enumerate(_breadth_first(tendon.parents), start=int(fixed)):
            slots[number, slot] = first + entry
        first += len(tendon.parents)
    return slots


def _breadth_first(parents: tuple[int, ...]) -> list[int]:
    """The nodes of a forest breadth-first, siblings in their own order."""
    order = [node for node, parent in enumerate(parents) if parent < 0]
    for node in order:
        order += [child for child, parent in enumerate(parents) if parent == node]
    return order


#: Fields that are not negative.
_GAINS = ("stiffness", "damping", "limit_stiffness")


def _check_numbers(kind: str, rows: TendonData, slots: np.ndarray) -> None:
    """Refuses known numbers that are NaN, and gains that are negative, but for those of padding."""
    for name, field in rows._asdict().items():
        values = known_values(field)
        if values is None:
            continue
        values = values[:, slots >= 0]
        check_finite(f"data for {kind}: {name}", values, infinite=True)
        if name in _GAINS and np.any(values < 0):
            raise ValueError(
                f"data for {kind}: {name} must not be negative; found {values[values < 0][0]}"
            )


def _axes(topology: Topology, slots: np.ndarray) -> np.ndarray:
    """The axis of each tendon joint, padded with zeros."""
    dofs = [dof for tendon in topology.fixed_tendons for dof in tendon.dofs]
    axes = np.zeros(slots.shape, np.uint32)
    axes[slots >= 0] = topology.dof_axis[np.array(dofs, int)][slots[slots >= 0]]
    return axes


def _check_axes(axes: Array, part: Part, slots: np.ndarray) -> None:
    """Refuses axes other than the topology's, unless they are traced."""
    if isinstance(axes, jax.core.Tracer):
        return
    differ = np.argwhere((np.asarray(axes) != _axes(part.topology, slots)) & (slots >= 0))
    if len(differ):
        block, tendon, joint = differ[0].tolist()
        raise ValueError(
            f"data for FIXED_TENDON_JOINT: block {part.blocks[block]}, tendon {tendon}, joint "
            f"{joint} has another axis than the topology, which is static; build another "
            "articulation to move a tendon joint to another axis"
        )


def _mass_frames(articulation: Articulation, rows: np.ndarray, slots: np.ndarray) -> Transforms:
    """The mass frame of each attachment's link in the link's frame, one per slot of the blocks."""
    links = [link for tendon in articulation.topology.spatial_tendons for link in tendon.links]
    link = np.zeros(slots.shape, np.int32)
    link[slots >= 0] = np.array(links, np.int32)[slots[slots >= 0]]
    return Transforms.from_poses(
        articulation.link_com_pose[rows[:, None, None], link].reshape(-1, 7)
    )


def _into(frames: Transforms, points: Array) -> Array:
    """Points [..., 3] in the given frames."""
    return spatial.rotate_inverse(
        frames.rotation, points.reshape(-1, 3).T - frames.position
    ).T.reshape(points.shape)


def _out_of(frames: Transforms, points: Array) -> Array:
    """The inverse of :func:`_into`."""
    return (frames.position + spatial.rotate(frames.rotation, points.reshape(-1, 3).T)).T.reshape(
        points.shape
    )


def _group(kind: str) -> str:
    return "fixed_tendons" if kind.startswith("FIXED") else "spatial_tendons"


def _read_tendons(
    kind: str, articulation: Articulation, rows: np.ndarray, slots: np.ndarray
) -> Any:
    """The blocks of some members of a kind."""
    data = _read_slots(kind, articulation, rows, slots)
    if kind == "FIXED_TENDON_JOINT":
        axes = jnp.asarray(_axes(articulation.topology, slots))
        return data._replace(axis=jnp.broadcast_to(axes, (len(rows), *axes.shape)))
    if kind == "SPATIAL_TENDON_ATTACHMENT":
        offset = _into(_mass_frames(articulation, rows, slots), data.relative_offset)
        return data._replace(
            relative_offset=jnp.where(slots[..., None] >= 0, offset, jnp.zeros_like(offset))
        )
    return data


@partial(jax.jit, static_argnums=0)
def _read_slots(kind: str, articulation: Articulation, rows: np.ndarray, slots: np.ndarray) -> Any:
    rows = rows.reshape(-1, *(1,) * slots.ndim)
    fields = {}
    for name in _STRUCTURES[kind]._fields:
        if name == "axis":
            fields[name] = jnp.zeros((len(rows), *slots.shape), jnp.uint32)
            continue
        array = getattr(getattr(articulation, _group(kind)), _ARRAYS.get(name, name))
        # At the index -1
        with_none = jnp.pad(array, ((0, 0), (0, 1), *((0, 0) for _ in array.shape[2:])))
        fields[name] = with_none[rows, slots]
    return _STRUCTURES[kind](**fields)


def _write_tendons(
    kind: str, articulation: Articulation, data: Any, rows: np.ndarray, slots: np.ndarray
) -> Articulation:
    """The articulations of a kind with the blocks of some members written."""
    if kind == "SPATIAL_TENDON_ATTACHMENT":
        frames = _mass_frames(articulation, rows, slots)
        old = _read_slots(kind, articulation, rows, slots)
        # Unchanged points keep their bits; converting them there and back would let them drift.
        same = jnp.all(
            data.relative_offset == _into(frames, old.relative_offset), axis=-1, keepdims=True
        )
        position = jnp.where(same, old.relative_offset, _out_of(frames, data.relative_offset))
        data = data._replace(relative_offset=position)
    return _write_slots(kind, articulation, data, rows, slots)


@partial(jax.jit, static_argnums=0)
def _write_slots(
    kind: str, articulation: Articulation, data: Any, rows: np.ndarray, slots: np.ndarray
) -> Articulation:
    group = getattr(articulation, _group(kind))
    rows = rows.reshape(-1, *(1,) * slots.ndim)
    arrays = {}
    for name in _STRUCTURES[kind]._fields:
        if name == "axis":
            continue
        array = getattr(group, _ARRAYS.get(name, name))
        # Padding gets an index beyond the end, where nothing is written.
        entry = jnp.where(slots >= 0, slots, array.shape[1])
        arrays[_ARRAYS.get(name, name)] = array.at[rows, entry].set(
            getattr(data, name), mode="drop"
        )
    return articulation.replace(**{_group(kind): group.replace(**arrays)})
