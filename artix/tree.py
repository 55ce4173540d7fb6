"""The few operations on a tree from which every algorithm is made.

*Propagate*: compose transforms from the root outwards, the only recursion. *Path sum*: what a body gets from the DOFs
above it. *Subtree sum*: what a DOF gets from the bodies below it. Both sums are products with a constant 0/1 matrix, so
that no loop over links is left in a compiled program. All of them serve a static :class:`~artix.topology.Topology`,
whose arrays are constants, and a :class:`~artix.padding.PaddedTopology`, whose arrays are data.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from artix import spatial
from artix.topology import Topology

if TYPE_CHECKING:
    from artix.padding import PaddedTopology

Array = jax.Array
Tree: TypeAlias = "Topology | PaddedTopology"


def stage(*arrays: Array):
    """Ends a stage: asks XLA not to fuse producers into consumers, where they would be computed again and again.

    The XLA of jax 0.12 complies on a CPU (bias force of a humanoid: 2,108 instructions instead of 3,045); that of jax
    0.10 drops the barrier before it fuses.
    """
    return jax.lax.optimization_barrier(arrays if len(arrays) > 1 else arrays[0])


def take(x: Array, index) -> Array:
    """``x[..., index]``; a slice, or nothing at all, where a static index allows it.

    Other static indices select finite numbers by a product with a constant 0/1 matrix: as fast as a gather, whose
    transpose in reverse mode XLA:CPU writes as a loop.
    """
    if isinstance(index, np.ndarray) and index.size:
        first, last = int(index[0]), int(index[0]) + len(index)
        if np.array_equal(index, np.arange(first, last)):
            return x if (first, last) == (0, x.shape[-1]) else x[..., first:last]
        if isinstance(x, jax.Array) and x.dtype.kind == "f":
            return masked_sum(x, np.arange(x.shape[-1])[:, None] == index[None])
    return x.at[..., index].get(mode="promise_in_bounds")


def masked_sum(x: Array, mask) -> Array:
    """``x @ mask`` in full precision; a GPU's default (TF32) would be fatal for a sum over a tree."""
    return jnp.matmul(x, jnp.asarray(mask, x.dtype), precision=jax.lax.Precision.HIGHEST)


def path_sum(tree: Tree, x: Array) -> Array:
    """Sums x [k, n] over the DOFs that move each body: [k, B]."""
    return masked_sum(x, tree.dof_moves_body)


def subtree_sums(tree: Tree, x: Array) -> tuple[Array, Array]:
    """Sums x [k, B] over all bodies, [k, 1], and over the bodies that each DOF moves, [k, n]."""
    sums = masked_sum(x, tree.bodies_below)
    return sums[:, :1], sums[:, 1:]


def free_root(tree: Tree, rows: Array) -> Array:
    """Rows of the root's six entries, zero for the members of a padded fleet whose base is fixed."""
    return rows if tree.base_is_free is None else jnp.where(tree.base_is_free, rows, jnp.zeros_like(rows))


def by_body(tree: Tree, q: Array) -> Array:
    """The DOF values [n] of the joints of bodies 1 .. B-1 by place within the joint, zero where there is none.

    Shape [3, B-1], or [1, B-1] where no joint has several DOFs.
    """
    padded = jnp.concatenate([q, jnp.zeros_like(q, shape=(1,))])
    return jnp.stack([take(padded, row[1:]) for row in tree.body_dofs[: 3 if tree.has_spherical else 1]])


# --- propagation ----------------------------------------------------------------------------------------------------


# Deeper trees are composed in blocks of levels: a 64-link chain then takes 16 steps instead of 64. That halves the
# program (4,273 to 1,959 instructions) and the compile time of its poses, for 1.4 times their run time on a CPU.
# Pointer jumping would need 1,501 instructions, but 13 times the run time.
_DEEPEST_IN_ONE_PASS = 24


def _by_levels(tree: Topology, root: Array, local: Array) -> Array:
    """Quaternions [4, B] by tree depth; ``local`` [4, 4, B-1] are right-product matrices of bodies 1 .. B-1."""
    depth = len(tree.body_levels)
    if depth <= _DEEPEST_IN_ONE_PASS:
        return _compose(tree.body_levels, tree.body_parent, np.array([0]), root, local)
    size = math.isqrt(depth - 1) + 1
    blocks = [np.concatenate(tree.body_levels[k : k + size]) for k in range(0, depth, size)]
    # First every body against the body above its block, all blocks at once; then block by block.
    steps = [np.sort(np.concatenate(tree.body_levels[k::size])) for k in range(size)]
    tops = steps[0]
    relative = _compose(tuple(steps[1:]), tree.body_parent, tops, take(local[:, 3], tops - 1), local)
    above = tree.body_parent.copy()
    for step in steps[1:]:
        above[step] = above[tree.body_parent[step]]
    done, previous, place = [root], root, {0: 0}
    for block in blocks:
        start = take(previous, np.array([place[int(body)] for body in above[block]]))
        previous = stage(spatial.quaternion_product(start, take(relative, block - 1)))
        place = {int(body): k for k, body in enumerate(block)}
        done.append(previous)
    return take(jnp.concatenate(done, axis=-1), np.argsort(np.concatenate([[0], *blocks])))


def _compose(
    levels: tuple[np.ndarray, ...], parent: np.ndarray, first: np.ndarray, start: Array, local: Array
) -> Array:
    """Goes down level by level from bodies ``first`` with quaternions ``start``; the result is in body order."""
    done, previous, numbers = [start], start, [first]
    for level in levels:
        place = {int(body): k for k, body in enumerate(numbers[-1])}
        above = take(previous, np.array([place[int(body)] for body in parent[level]]))
        previous = stage(spatial.apply(take(local, level - 1), above))
        done.append(previous)
        numbers.append(level)
    return take(jnp.concatenate(done, axis=-1), np.argsort(np.concatenate(numbers)))


def _by_pointer_jumping(pointers: Array, root: Array, local: Array) -> Array:
    """The same in ceil(log2(depth)) rounds; ``pointers`` [rounds, B-1] with 0 for "the root is above"."""
    unit = jnp.zeros_like(local, shape=(4, 1)).at[3].set(1)
    # The product of local and the unit quaternion is the local quaternion: the last column of its right-product matrix.
    relative = local[:, 3]
    for pointer in pointers:
        above = take(jnp.concatenate([unit, relative], axis=-1), pointer)
        relative = stage(spatial.quaternion_product(above, relative))
    absolute = spatial.apply(spatial.right_product_matrix(relative), jnp.broadcast_to(root, relative.shape))
    return jnp.concatenate([root, absolute], axis=-1)


@jax.custom_jvp
def body_frames(tree: Tree, root_rotation: Array, root_position: Array, local: Array, offset: Array):
    """Composes the frames of all bodies from the root outwards.

    Only the quaternions recurse; with them known, each origin is the path sum of rotated offsets.

    Args:
      tree: the tree.
      root_rotation: unit quaternion of body 0, [4, 1].
      root_position: origin of body 0, [3, 1].
      local: right-product matrices of the unit quaternions of bodies 1 .. B-1 against their parents, [4, 4, B-1].
      offset: origins of bodies 1 .. B-1 in their parents' frames, [3, B-1].

    Returns:
      Quaternions [4, B], rotation matrices [3, 3, B] and origins [3, B].
    """
    if isinstance(tree, Topology):
        quaternion = _by_levels(tree, root_rotation, local)
    else:
        quaternion = _by_pointer_jumping(tree.body_pointers, root_rotation, local)
    quaternion = stage(quaternion)
    step = spatial.rotate(take(quaternion, tree.body_parent[1:]), offset)
    position = masked_sum(jnp.concatenate([root_position, step], axis=-1), tree.body_ancestors)
    return quaternion, spatial.rotation_matrix(quaternion), position


@body_frames.defjvp
def _body_frames_jvp(primals, tangents):
    """The derivative of the recursion is itself a path sum: of the twists that the local transforms contribute."""
    tree = primals[0]
    _, d_root_rotation, d_root_position, d_local, d_offset = tangents
    quaternion, rotation, position = body_frames(*primals)
    above = take(quaternion, tree.body_parent[1:])
    d_quaternion = jnp.concatenate([d_root_rotation, spatial.apply(d_local, above)], axis=-1)
    angular = 2 * spatial.quaternion_product(d_quaternion, spatial.conjugate(quaternion))[:3]
    linear = jnp.concatenate([d_root_position, spatial.rotate(above, d_offset)], axis=-1)
    twist = jnp.concatenate([linear + spatial.cross(position, angular), angular])
    twist = stage(masked_sum(twist, tree.body_ancestors))
    linear, angular = twist[:3], twist[3:]
    spin = jnp.concatenate([0.5 * angular, jnp.zeros_like(angular[:1])])
    d_rotation = jnp.stack([spatial.cross(angular, rotation[:, k]) for k in range(3)], axis=1)
    d_position = linear + spatial.cross(angular, position)
    return (quaternion, rotation, position), (spatial.quaternion_product(spin, quaternion), d_rotation, d_position)
