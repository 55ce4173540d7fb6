"""Mimic joints as a linear map from the independent coordinates to all of them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from artix.math import struct
from artix.math.arrays import compiled, matmul
from artix.model.articulation import Articulation, State
from artix.model.topology import Topology

Array = jax.Array


class MimicMap(struct.PyTreeNode):
    """``nu = G nu_r`` and ``q = G_j q_r + offset``, with G_j the rows and columns of G that belong to joints.

    It reduces quantities of the full articulation to those of the articulation without its followers: the mass matrix
    is ``G^T M G``, generalised forces are ``G^T tau``, Jacobians ``J G``. G is constant, so accelerations map like
    velocities, and Coriolis forces like other forces.

    Attributes:
      matrix: G, shape [nv, nr].
      offset: constant part of the positions, shape [n] [rad or m]; zero except for followers.
      independent: indices of the DOFs that follow no other, ascending: the entries of ``q_r``; static.

    Examples:
      >>> builder = artix.builder_from_articulation(artix.robots.load("double_pendulum"))
      >>> builder.add_mimic("elbow", "shoulder", gear_ratio=1.0)  # the elbow turns back what the shoulder turns
      >>> pendulum = builder.build()
      >>> following = artix.mimic_map(pendulum)
      >>> whole = artix.mass_matrix(pendulum, artix.neutral_state(pendulum))
      >>> print(following.matrix.T @ whole @ following.matrix)  # the lower rod keeps its direction
      [[1.334]]
    """

    matrix: Array
    offset: Array
    independent: tuple[int, ...] = struct.field(pytree_node=False)

    def expand(self, state: State) -> State:
        """The full state of a reduced state, whose joint arrays have only the independent DOFs, shape [nr - base]."""
        base = self.matrix.shape[0] - self.offset.shape[0]
        joints = self.matrix[base:, base:]
        return state.replace(
            joint_position=matmul(joints, state.joint_position) + self.offset,
            joint_velocity=matmul(joints, state.joint_velocity),
        )

    def reduce(self, state: State) -> State:
        """The reduced state of a full state; the positions and velocities of followers are ignored."""
        index = np.array(self.independent, int)
        return state.replace(joint_position=state.joint_position[index], joint_velocity=state.joint_velocity[index])


def mimic_map(articulation: Articulation) -> MimicMap:
    """The linear map that an articulation's mimic joints define, Pinocchio's ``JointModelMimic``.

    Every relation ``q_follower + gear_ratio q_reference + offset = 0`` holds exactly, even one that is compliant in
    stepping. A follower may be followed in turn.

    Args:
      articulation: the articulation; without mimic joints the map is the identity.

    Returns:
      The map ``q = G q_r + offset`` from the independent DOFs to all.

    Raises:
      ValueError: joints follow each other in a circle, or one of them has several DOFs, as spherical joints do.

    Identity: ``inverse_dynamics`` of an expanded state, for the acceleration ``G a``, times ``G^T`` is
    ``G^T M G a + G^T bias_force``.

    Examples:
      >>> builder = artix.builder_from_articulation(artix.robots.load("double_pendulum"))
      >>> builder.add_mimic("elbow", "shoulder", gear_ratio=-0.5)
      >>> following = artix.mimic_map(builder.build())
      >>> print(following.matrix, following.independent)
      [[1. ]
       [0.5]] (0,)
    """
    topology = articulation.topology
    return MimicMap(*_map(articulation), _independent(topology))


@compiled
def _map(articulation: Articulation) -> tuple[Array, Array]:
    """G and the constant part of the positions. Raises as :func:`mimic_map`."""
    topology, mimic, dtype = articulation.topology, articulation.mimic, articulation.dtype
    n = topology.num_dofs
    base = topology.num_base_dofs
    above = dict(topology.mimic_dofs)
    followers, references = (np.array([pair[side] for pair in topology.mimic_dofs], int) for side in (0, 1))
    follow = jnp.zeros((n, n), dtype).at[followers, references].set(-mimic.gear_ratio)
    shift = jnp.zeros(n, dtype).at[followers].set(-mimic.offset)
    identity = jnp.eye(n, dtype=dtype)[:, np.array(_independent(topology), int)]
    joints, offset = identity, shift
    for _ in range(max((_depth(topology, above, follower) for follower in above), default=0)):
        joints, offset = identity + matmul(follow, joints), shift + matmul(follow, offset)
    root = jnp.pad(jnp.eye(base, dtype=dtype), ((0, 0), (0, joints.shape[1])))
    return jnp.concatenate([root, jnp.pad(joints, ((0, 0), (base, 0)))]), offset


def _independent(topology: Topology) -> tuple[int, ...]:
    """The DOFs that follow no other."""
    followers = {follower for follower, _ in topology.mimic_dofs}
    return tuple(dof for dof in range(topology.num_dofs) if dof not in followers)


def _depth(topology: Topology, above: dict[int, int], follower: int) -> int:
    """The number of relations between a follower and the independent DOF that it ultimately follows."""
    path = [follower]
    while path[-1] in above:
        path.append(above[path[-1]])
        names = [topology.dof_names[dof] for dof in path]
        if topology.dof_is_one_of_several[path[-2:]].any():
            raise ValueError(f"mimic joint {names[-2]!r}: a joint of several DOFs has no linear map; see {names[-1]!r}")
        if path[-1] in path[:-1]:
            raise ValueError(f"mimic joints follow each other in a circle: {' -> '.join(names)}; drop one relation")
    return len(path) - 1
