"""Reads and writes the tendon structures of the direct-GPU buffers."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from artix.fleet.fleet import Fleet
from artix.kinematics.bodies import Placement
from artix.math import spatial
from artix.model.articulation import Articulation
from artix.model.tendons import FixedTendonStructure, SpatialTendonStructure
from artix.model.topology import Topology
from artix.physx.gpu_layout import get_articulation_gpu_api_max_counts
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


def read_tendons(fleet: Fleet, articulation: Articulation, indices: np.ndarray, kind: str) -> TendonData:
    """The blocks of the listed articulations, padded with zeros."""
    slots = _slots(fleet, indices, kind)
    data = _read(kind, articulation, indices, slots)
    if kind == "FIXED_TENDON_JOINT":
        return data._replace(axis=jnp.asarray(_axes(fleet, indices, slots)))
    if kind == "SPATIAL_TENDON_ATTACHMENT":
        offset = _into(_mass_frames(fleet, articulation, indices, slots), data.relative_offset)
        return data._replace(relative_offset=jnp.where(slots[..., None] >= 0, offset, jnp.zeros_like(offset)))
    return data


def write_tendons(fleet: Fleet, articulation: Articulation, data: Any, indices: np.ndarray, kind: str) -> Articulation:
    """The articulations with the listed blocks written, padding ignored; see ``set_articulation_data``."""
    slots = _slots(fleet, indices, kind)
    structure = _STRUCTURES[kind]
    if not isinstance(data, structure):
        raise TypeError(
            f"data for {kind}: expected artix.physx.{structure.__name__}, found {type(data).__name__}; "
            "artix.physx.from_physx converts PhysX's structures"
        )
    for name, field in data._asdict().items():
        shape = (*slots.shape, 3) if name == "relative_offset" else slots.shape
        dtype = jnp.dtype(jnp.uint32 if name == "axis" else articulation.dtype)
        if getattr(field, "shape", None) != shape:
            found = getattr(field, "shape", type(field).__name__)
            raise ValueError(f"data for {kind}: {name} must have shape {shape}; found {found}")
        if field.dtype != dtype:
            raise TypeError(f"data for {kind}: {name} must have dtype {dtype}; found {field.dtype}")
    if kind == "FIXED_TENDON_JOINT":
        _check_axes(data.axis, _axes(fleet, indices, slots), slots)
    if kind == "SPATIAL_TENDON_ATTACHMENT":
        frames = _mass_frames(fleet, articulation, indices, slots)
        old = _read(kind, articulation, indices, slots)
        # Unchanged points keep their bits; converting them there and back would let them drift.
        same = jnp.all(data.relative_offset == _into(frames, old.relative_offset), axis=-1, keepdims=True)
        position = jnp.where(same, old.relative_offset, _out_of(frames, data.relative_offset))
        data = data._replace(relative_offset=position)
    return _write(kind, articulation, data, indices, slots)


def _slots(fleet: Fleet, indices: np.ndarray, kind: str) -> np.ndarray:
    """Index into the articulation's arrays for each slot of the blocks, -1 for none: [nb, T] or [nb, T, J]."""
    maxima = get_articulation_gpu_api_max_counts(fleet)
    tables = {topology: _member_slots(topology, kind) for topology in set(fleet.topologies)}
    shape = {
        "FIXED_TENDON": (maxima.max_fixed_tendons,),
        "FIXED_TENDON_JOINT": (maxima.max_fixed_tendons, maxima.max_fixed_tendon_joints),
        "SPATIAL_TENDON": (maxima.max_spatial_tendons,),
        "SPATIAL_TENDON_ATTACHMENT": (maxima.max_spatial_tendons, maxima.max_spatial_tendon_attachments),
    }[kind]
    slots = np.full((len(indices), *shape), -1, np.int32)
    for block, index in enumerate(indices):
        for slot, entry in tables[fleet.topologies[index]].items():
            slots[(block, *slot)] = entry
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


def _axes(fleet: Fleet, indices: np.ndarray, slots: np.ndarray) -> np.ndarray:
    """The axis of each tendon joint, padded with zeros."""
    axes = np.zeros(slots.shape, np.uint32)
    for block, index in enumerate(indices):
        topology = fleet.topologies[index]
        dofs = [dof for tendon in topology.fixed_tendons for dof in tendon.dofs]
        live = slots[block] >= 0
        axes[block][live] = topology.dof_axis[np.array(dofs, int)][slots[block][live]]
    return axes


def _check_axes(axes: Array, known: np.ndarray, slots: np.ndarray) -> None:
    """Refuses axes other than the topology's, unless they are traced."""
    if isinstance(axes, jax.core.Tracer):
        return
    differ = np.argwhere((np.asarray(axes) != known) & (slots >= 0))
    if len(differ):
        block, tendon, joint = differ[0].tolist()
        raise ValueError(
            f"data for FIXED_TENDON_JOINT: block {block}, tendon {tendon}, joint {joint} has another axis than the "
            "topology, which is static; build another articulation to move a tendon joint to another axis"
        )


def _mass_frames(fleet: Fleet, articulation: Articulation, indices: np.ndarray, slots: np.ndarray) -> Placement:
    """The mass frame of each attachment's link in the link's frame, one per slot of the blocks."""
    link = np.zeros(slots.shape, np.int32)
    for block, index in enumerate(indices):
        links = [link for tendon in fleet.topologies[index].spatial_tendons for link in tendon.links]
        live = slots[block] >= 0
        link[block][live] = np.array(links, np.int32)[slots[block][live]]
    return Placement.from_poses(articulation.link_com_pose[indices[:, None, None], link].reshape(-1, 7))


def _into(frames: Placement, points: Array) -> Array:
    """Points [..., 3] in the given frames."""
    return spatial.rotate_inverse(frames.rotation, points.reshape(-1, 3).T - frames.position).T.reshape(points.shape)


def _out_of(frames: Placement, points: Array) -> Array:
    """The inverse of :func:`_into`."""
    return (frames.position + spatial.rotate(frames.rotation, points.reshape(-1, 3).T)).T.reshape(points.shape)


def _group(kind: str) -> str:
    return "fixed_tendons" if kind.startswith("FIXED") else "spatial_tendons"


@partial(jax.jit, static_argnums=0)
def _read(kind: str, articulation: Articulation, indices: np.ndarray, slots: np.ndarray) -> Any:
    rows = indices.reshape(-1, *(1,) * (slots.ndim - 1))
    fields = {}
    for name in _STRUCTURES[kind]._fields:
        if name == "axis":
            fields[name] = jnp.zeros(slots.shape, jnp.uint32)
            continue
        array = getattr(getattr(articulation, _group(kind)), _ARRAYS.get(name, name))
        live = (slots >= 0).reshape(*slots.shape, *(1,) * (array.ndim - 2))
        values = array.at[rows, slots].get(mode="fill", fill_value=0)
        fields[name] = jnp.where(live, values, jnp.zeros_like(values))
    return _STRUCTURES[kind](**fields)


@partial(jax.jit, static_argnums=0)
def _write(kind: str, articulation: Articulation, data: Any, indices: np.ndarray, slots: np.ndarray) -> Articulation:
    group = getattr(articulation, _group(kind))
    rows = indices.reshape(-1, *(1,) * (slots.ndim - 1))
    arrays = {}
    for name in _STRUCTURES[kind]._fields:
        if name == "axis":
            continue
        array = getattr(group, _ARRAYS.get(name, name))
        # Padding gets an index beyond the end, where nothing is written.
        entry = jnp.where(slots >= 0, slots, array.shape[1])
        arrays[_ARRAYS.get(name, name)] = array.at[rows, entry].set(getattr(data, name), mode="drop")
    return articulation.replace(**{_group(kind): group.replace(**arrays)})
