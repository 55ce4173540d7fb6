"""Random articulations and states for the tests: every joint kind, random frames and inertias,
branching trees."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from artix import Articulation, ArticulationBuilder, Axis, Joint, State
from artix.math.arrays import device_array, entries

X, Y, Z = Axis.X, Axis.Y, Axis.Z
TWIST, SWING1, SWING2 = Axis.TWIST, Axis.SWING1, Axis.SWING2

#: Every kind of joint the library knows, by name: (constructor, options).
JOINT_KINDS = {
    "fixed": (Joint.fixed, {}),
    **{
        f"revolute_{a.name.lower()}": (Joint.revolute, {"axis": a}) for a in (TWIST, SWING1, SWING2)
    },
    **{
        f"unwrapped_{a.name.lower()}": (Joint.revolute, {"axis": a, "wrapped": False})
        for a in (TWIST, SWING1, SWING2)
    },
    **{f"prismatic_{a.name.lower()}": (Joint.prismatic, {"axis": a}) for a in (X, Y, Z)},
    "spherical_0": (Joint.spherical, {"axes": (TWIST,)}),
    "spherical_1": (Joint.spherical, {"axes": (SWING1,)}),
    "spherical_2": (Joint.spherical, {"axes": (SWING2,)}),
    "spherical_01": (Joint.spherical, {"axes": (TWIST, SWING1)}),
    "spherical_02": (Joint.spherical, {"axes": (TWIST, SWING2)}),
    "spherical_12": (Joint.spherical, {"axes": (SWING1, SWING2)}),
    "spherical_012": (Joint.spherical, {}),
}


def random_quaternion(rng: np.random.Generator) -> np.ndarray:
    """A uniformly distributed unit quaternion, xyzw."""
    q = rng.normal(size=4)
    return q / np.linalg.norm(q)


def random_pose(rng: np.random.Generator, scale: float = 0.4) -> np.ndarray:
    """A random position and orientation."""
    return np.concatenate([rng.normal(size=3) * scale, random_quaternion(rng)])


def random_inertia(rng: np.random.Generator, mass: float, size: float = 0.2) -> np.ndarray:
    """The inertia of a cloud of points of a given mass: always physically possible, never
    diagonal."""
    points = rng.normal(size=(6, 3)) * size
    points -= points.mean(axis=0)
    second = points.T @ points * (mass / 6)
    return np.trace(second) * np.eye(3) - second


def random_link(rng: np.random.Generator) -> dict:
    """Random arguments of ``ArticulationBuilder.add_link``."""
    mass = float(rng.uniform(0.3, 3.0))
    return {"mass": mass, "com_pose": random_pose(rng, 0.1), "inertia": random_inertia(rng, mass)}


def tree_of(
    kinds: list[str],
    parents: list[int],
    *,
    fixed_base: bool,
    seed: int = 0,
    dtype=None,
    gravity=(1.7, -0.8, -9.2),
    armature: float = 0.0,
    gravity_scale: list[float] | None = None,
    order: list[int] | None = None,
) -> Articulation:
    """A tree with one link per entry of ``kinds`` besides the root, ``parents`` counting the root
    as 0.

    ``order`` lists the links 1 .. L-1 in the order in which they are added to the builder. It does
    not change the parameters of a link.
    """
    rng = np.random.default_rng(seed)
    root = random_link(rng)
    links = [
        (kind, parent, random_link(rng), random_pose(rng), random_pose(rng, 0.2))
        for kind, parent in zip(kinds, parents, strict=True)
    ]
    scales = [1.0] * (len(kinds) + 1) if gravity_scale is None else gravity_scale
    builder = ArticulationBuilder(fixed_base=fixed_base, gravity=gravity, name="tree")
    number = {0: builder.add_link(name="link_0", gravity_scale=scales[0], **root)}
    for index in range(1, len(links) + 1) if order is None else order:
        kind, parent, link, parent_pose, child_pose = links[index - 1]
        make, options = JOINT_KINDS[kind]
        if kind != "fixed":
            options = {**options, "armature": armature}
        joint = make(
            parent_pose=parent_pose, child_pose=child_pose, name=f"joint_{index}", **options
        )
        number[index] = builder.add_link(
            number[parent], joint, name=f"link_{index}", gravity_scale=scales[index], **link
        )
    builder.add_frame("tool", number[len(links)], random_pose(rng, 0.3))
    builder.add_frame("middle", number[(len(links) + 1) // 2], random_pose(rng, 0.3))
    return builder.build(dtype)


def random_tree(
    seed: int, links: int = 8, *, fixed_base: bool, dtype=None, **options
) -> Articulation:
    """A random tree of random joints; different seeds differ in the tree, the joints and all
    parameters."""
    rng = np.random.default_rng(seed)
    kinds = list(rng.choice(list(JOINT_KINDS), size=links))
    parents = [int(rng.integers(max(0, k - 3), k + 1)) for k in range(links)]
    return tree_of(kinds, parents, fixed_base=fixed_base, seed=seed + 1, dtype=dtype, **options)


#: Spherical joints with two free axes: PhysX and artix drop the third component of their motion
#: when they move, so a finite difference along ``integrate`` is not the velocity of their links.
TWO_AXES = ("spherical_01", "spherical_02", "spherical_12")


def zoo(*, fixed_base: bool, dtype=None, two_axes: bool = True, **options) -> Articulation:
    """One branching tree with every kind of joint, optionally without :data:`TWO_AXES`."""
    kinds = [kind for kind in JOINT_KINDS if two_axes or kind not in TWO_AXES]
    parents = [0, 1, 2, 0, 3, 4, 5, 6, 7, 4, 8, 9, 10, 11, 12, 2, 13][: len(kinds)]
    return tree_of(kinds, parents, fixed_base=fixed_base, dtype=dtype, **options)


def random_states(
    articulation: Articulation,
    count: int,
    seed: int = 0,
    *,
    distance: float = 0.0,
    speed: float = 1.0,
):
    """``count`` random states in one batch: joint positions within a turn, the root anywhere near
    ``distance``."""
    rng = np.random.default_rng(seed)
    n, dtype = articulation.topology.num_dofs, articulation.dtype
    far = np.array([0.6, -0.64, 0.48]) * distance
    pose = np.array([random_pose(rng, 0.7) for _ in range(count)])
    pose[:, :3] += far
    arrays = [
        pose,
        rng.normal(size=(count, 6)) * speed,
        rng.uniform(-1.2, 1.2, (count, n)),
        rng.normal(size=(count, n)) * speed,
    ]
    return State(*(device_array(array, dtype) for array in arrays))


def state_at(states: State, index: int) -> State:
    """One state of a batch."""
    return jax.tree.map(lambda leaf: entries(leaf, index), states)


def nu_of(articulation: Articulation, state: State):
    """The generalised velocity of a state."""
    if articulation.topology.num_base_dofs == 0:
        return state.joint_velocity
    return jnp.concatenate([state.root_velocity, state.joint_velocity])


def with_nu(articulation: Articulation, state: State, nu) -> State:
    """The same configuration with another generalised velocity."""
    base = articulation.topology.num_base_dofs
    root = nu[:6] if base else state.root_velocity
    return state.replace(root_velocity=root, joint_velocity=nu[base:])
