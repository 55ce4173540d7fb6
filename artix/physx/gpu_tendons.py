"""Reads and writes the tendon structures of the direct-GPU buffers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from artix.fleet.fleet import Fleet
from artix.math import spatial
from artix.math.spatial import Transforms
from artix.model.articulation import Articulation
from artix.model.tendons import FixedTendonStructure, SpatialTendonStructure
from artix.model.topology import Topology
from artix.physx.fleet_simulation import Part, in_order
from artix.physx.gpu_layout import ArticulationGPUAPIMaxCounts, get_articulation_gpu_api_max_counts
from artix.physx.gpu_structures import (
    GpuFixedTendonData,
    GpuSpatialTendonData,
    GpuTendonAttachmentData,
    GpuTendonJointCoefficientData,
    TendonData,
)

Array = jax.Array

_STRUCTURES: dict[str, Any] = {
    "FIXED_TENDON": GpuFixedTendonData,
    "FIXED_TENDON_JOINT": GpuTendonJointCoefficientData,
    "SPATIAL_TENDON": GpuSpatialTendonData,
    "SPATIAL_TENDON_ATTACHMENT": GpuTendonAttachmentData,
}
#: The articulation's names of fields that PhysX names differently.
_ARRAYS = {"low_limit": "lower_limit", "high_limit": "upper_limit", "relative_offset": "position"}


def read_tendons(fleet: Fleet, articulations: Sequence[Articulation], parts: Sequence[Part], kind: str) -> TendonData:
    """The listed blocks, padded with zeros, from the articulations of each kind of the fleet's members."""
    maxima = get_articulation_gpu_api_max_counts(fleet)
    return in_order(
        parts, lambda k: _read(kind, articulations[k], parts[k].rows, _slots(parts[k].topology, maxima, kind))
    )


def write_tendons(
    fleet: Fleet, articulations: Sequence[Articulation], data: Any, parts: Sequence[Part], kind: str
) -> list[Articulation]:
    """The articulations with the listed blocks written, padding ignored; see ``set_articulation_data``."""
    maxima, structure = get_articulation_gpu_api_max_counts(fleet), _STRUCTURES[kind]
    if not isinstance(data, structure):
        raise TypeError(
            f"data for {kind}: expected artix.physx.{structure.__name__}, found {type(data).__name__}; "
            "artix.physx.from_physx converts PhysX's structures"
        )
    shape_of_slots = (sum(len(part.blocks) for part in parts), *_slots_shape(maxima, kind))
    for name, field in data._asdict().items():
        shape = (*shape_of_slots, 3) if name == "relative_offset" else shape_of_slots
        dtype = jnp.dtype(jnp.uint32 if name == "axis" else fleet.dtype)
        if getattr(field, "shape", None) != shape:
            found = getattr(field, "shape", type(field).__name__)
            raise ValueError(f"data for {kind}: {name} must have shape {shape}; found {found}")
        if field.dtype != dtype:
            raise TypeError(f"data for {kind}: {name} must have dtype {dtype}; found {field.dtype}")
    written = []
    for articulation, part in zip(articulations, parts, strict=True):
        slots = _slots(part.topology, maxima, kind)
        own = jax.tree.map(lambda leaf, blocks=part.blocks: leaf[blocks], data)
        if kind == "FIXED_TENDON_JOINT":
            _check_axes(own.axis, part, slots)
        written.append(_write(kind, articulation, own, part.rows, slots))
    return written


def _slots_shape(maxima: ArticulationGPUAPIMaxCounts, kind: str) -> tuple[int, ...]:
    """The slots of a block: of tendons [T], of their joints or attachments [T, J]."""
    return {
        "FIXED_TENDON": (maxima.max_fixed_tendons,),
        "FIXED_TENDON_JOINT": (maxima.max_fixed_tendons, maxima.max_fixed_tendon_joints),
        "SPATIAL_TENDON": (maxima.max_spatial_tendons,),
        "SPATIAL_TENDON_ATTACHMENT": (maxima.max_spatial_tendons, maxima.max_spatial_tendon_attachments),
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
            f"data for FIXED_TENDON_JOINT: block {part.blocks[block]}, tendon {tendon}, joint {joint} has another axis "
            "than the topology, which is static; build another articulation to move a tendon joint to another axis"
        )


def _mass_frames(articulation: Articulation, rows: np.ndarray, slots: np.ndarray) -> Transforms:
    """The mass frame of each attachment's link in the link's frame, one per slot of the blocks."""
    links = [link for tendon in articulation.topology.spatial_tendons for link in tendon.links]
    link = np.zeros(slots.shape, np.int32)
    link[slots >= 0] = np.array(links, np.int32)[slots[slots >= 0]]
    return Transforms.from_poses(articulation.link_com_pose[rows[:, None, None], link].reshape(-1, 7))


def _into(frames: Transforms, points: Array) -> Array:
    """Points [..., 3] in the given frames."""
    return spatial.rotate_inverse(frames.rotation, points.reshape(-1, 3).T - frames.position).T.reshape(points.shape)


def _out_of(frames: Transforms, points: Array) -> Array:
    """The inverse of :func:`_into`."""
    return (frames.position + spatial.rotate(frames.rotation, points.reshape(-1, 3).T)).T.reshape(points.shape)


def _group(kind: str) -> str:
    return "fixed_tendons" if kind.startswith("FIXED") else "spatial_tendons"


def _read(kind: str, articulation: Articulation, rows: np.ndarray, slots: np.ndarray) -> Any:
    """The blocks of some members of a kind."""
    data = _read_slots(kind, articulation, rows, slots)
    if kind == "FIXED_TENDON_JOINT":
        axes = jnp.asarray(_axes(articulation.topology, slots))
        return data._replace(axis=jnp.broadcast_to(axes, (len(rows), *axes.shape)))
    if kind == "SPATIAL_TENDON_ATTACHMENT":
        offset = _into(_mass_frames(articulation, rows, slots), data.relative_offset)
        return data._replace(relative_offset=jnp.where(slots[..., None] >= 0, offset, jnp.zeros_like(offset)))
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
        with_none = jnp.pad(array, ((0, 0), (0, 1), *((0, 0) for _ in array.shape[2:])))  # at the index -1
        fields[name] = with_none[rows, slots]
    return _STRUCTURES[kind](**fields)


def _write(kind: str, articulation: Articulation, data: Any, rows: np.ndarray, slots: np.ndarray) -> Articulation:
    """The articulations of a kind with the blocks of some members written."""
    if kind == "SPATIAL_TENDON_ATTACHMENT":
        frames = _mass_frames(articulation, rows, slots)
        old = _read_slots(kind, articulation, rows, slots)
        # Unchanged points keep their bits; converting them there and back would let them drift.
        same = jnp.all(data.relative_offset == _into(frames, old.relative_offset), axis=-1, keepdims=True)
        position = jnp.where(same, old.relative_offset, _out_of(frames, data.relative_offset))
        data = data._replace(relative_offset=position)
    return _write_slots(kind, articulation, data, rows, slots)


@partial(jax.jit, static_argnums=0)
def _write_slots(kind: str, articulation: Articulation, data: Any, rows: np.ndarray, slots: np.ndarray) -> Articulation:
    group = getattr(articulation, _group(kind))
    rows = rows.reshape(-1, *(1,) * slots.ndim)
    arrays = {}
    for name in _STRUCTURES[kind]._fields:
        if name == "axis":
            continue
        array = getattr(group, _ARRAYS.get(name, name))
        # Padding gets an index beyond the end, where nothing is written.
        entry = jnp.where(slots >= 0, slots, array.shape[1])
        arrays[_ARRAYS.get(name, name)] = array.at[rows, entry].set(getattr(data, name), mode="drop")
    return articulation.replace(**{_group(kind): group.replace(**arrays)})
