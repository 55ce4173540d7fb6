"""What a step remembers of its contacts, so that the next one starts near its solution."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np

from artix.contact.ground import Ground
from artix.contact.ground_contacts import ground_contacts
from artix.contact.scene import Scene, scene_of
from artix.math import struct
from artix.math.arrays import device_array, joined, take
from artix.model.articulation import Articulation

Array = jax.Array


class ContactMemory(struct.PyTreeNode):
    """The impulses of the previous step, in the ``contact_memory`` of a state; see
    :func:`artix.remember_contacts`.

    Attributes:
      impulse: impulse of each contact candidate, two tangential components and then the normal one,
        [C, 3] [N s]; zero for candidates that are not in contact. Candidates with the ground come
        first, surface by surface and shape by shape, then those of pairs of shapes whose first
        shape is the robot's.
      joint_friction: impulse of the joints' dry friction, which shares loads with sticking
        contacts, [n] [N s or N m s].
    """

    impulse: Array
    joint_friction: Array

    @classmethod
    def none(
        cls,
        articulation: Articulation | Scene,
        ground: Ground | None = None,
        max_per_geometry: int | None = None,
    ) -> ContactMemory:
        """An empty memory of a whole scene, as former releases made it."""
        scene = scene_of(articulation)
        scene = scene if ground is None else scene.replace(ground=ground)
        return join_memories(scene, empty_memories(scene))


def empty_memories(scene: Scene) -> list[ContactMemory]:
    """An empty memory for each robot of a scene."""
    owners, memories = _pair_owners(scene), []
    grounded = scene.grounded
    for k, member in enumerate(scene.articulations):
        count = int(np.sum(owners == k))
        if scene.ground is not None and k in grounded:
            count += _num_ground_candidates(Scene(member, ground=scene.ground))
        shapes = (count, 3), (member.topology.num_dofs,)
        memories.append(
            ContactMemory(*(device_array(np.zeros(shape), scene.dtype) for shape in shapes))
        )
    return memories


def _num_ground_candidates(scene: Scene) -> int:
    return jax.eval_shape(
        lambda: ground_contacts(scene, scene.neutral_state()).choice
    ).num_candidates


def join_memories(scene: Scene, memories: Sequence[ContactMemory]) -> ContactMemory:
    """The memory of a whole scene: contacts with the ground, robot by robot, then those of all
    pairs of shapes.
    """
    if len(memories) == 1:
        return memories[0]
    impulse = joined([memory.impulse for memory in memories])
    order = _order(scene, [len(memory.impulse) for memory in memories])
    return ContactMemory(
        take(impulse, order, 0), joined([memory.joint_friction for memory in memories])
    )


def part_memory(
    scene: Scene, whole: ContactMemory, like: Sequence[ContactMemory]
) -> list[ContactMemory]:
    """The memory of each robot, of the sizes of ``like``: the inverse of :func:`join_memories`."""
    if len(like) == 1:
        return [whole]
    sizes, dofs = (
        [len(getattr(memory, name)) for memory in like] for name in ("impulse", "joint_friction")
    )
    impulse = take(whole.impulse, np.argsort(_order(scene, sizes)), 0)
    contacts, joints = np.cumsum([0, *sizes]), np.cumsum([0, *dofs])
    return [
        ContactMemory(
            impulse[contacts[k] : contacts[k + 1]],
            whole.joint_friction[joints[k] : joints[k + 1]],
        )
        for k in range(len(like))
    ]


def _pair_owners(scene: Scene) -> np.ndarray:
    """The robot of the first shape of each candidate of the pairs of shapes, [C]."""
    pairs = scene.shape_pairs
    shape_owners = np.repeat(
        np.arange(len(scene.topologies)), [len(tree.geometries) for tree in scene.topologies]
    )
    return shape_owners[pairs.numbers[pairs.candidate_pairs, 0]]


def _order(scene: Scene, sizes: Sequence[int]) -> np.ndarray:
    """Where each candidate of the scene lies among the concatenated candidates of its robots'
    memories, [C].
    """
    owners, firsts = _pair_owners(scene), np.cumsum([0, *sizes[:-1]])
    grounds, pairs = [], np.zeros(len(owners), int)
    for k, size in enumerate(sizes):
        mine = np.flatnonzero(owners == k)
        num_ground = size - len(mine)
        if num_ground < 0:
            raise ValueError(
                f"the contact memory of robot {k} is of another scene; see artix.remember_contacts"
            )
        grounds.append(firsts[k] + np.arange(num_ground))
        pairs[mine] = firsts[k] + num_ground + np.arange(len(mine))
    return np.concatenate([*grounds, pairs])
