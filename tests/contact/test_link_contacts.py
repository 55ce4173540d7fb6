"""Contacts between links: against MuJoCo and finite differences."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from scipy.optimize import lsq_linear
from scipy.spatial.transform import Rotation

import artix
from artix import Geometry
from tests.contact.test_pairs import SHAPES, two_shapes
from tests.support.marks import slow_besides

KINDS = [
    ("sphere", "sphere"),
    ("capsule", "sphere"),
    ("capsule", "capsule"),
    ("sphere", "box"),
    ("box", "capsule"),
    ("sphere", "cylinder"),
    ("capsule", "cylinder"),
    ("cylinder", "cylinder"),
    ("cylinder", "box"),
    ("box", "box"),
]
OFTEN = slow_besides(
    [("capsule", "sphere"), ("sphere", "box"), ("cylinder", "box"), ("box", "box")], KINDS
)
#: Of the others, MuJoCo finds the distance by iteration: ``test_cylinders.py``.
EXACT = [kinds for kinds in OFTEN if "cylinder" not in str(kinds)]


def paired(a: Geometry, b: Geometry) -> artix.Articulation:
    return artix.select_geometry_pairs(two_shapes(a, b), [("a", "b")])


def assert_finite_derivatives(robot: artix.Articulation, places: list, unused: float) -> None:
    """First and second derivatives of all points by six joints are finite at these places; points
    with gaps from ``unused`` on are far away.
    """
    dtype, rest = robot.dtype, artix.neutral_state(robot)
    count = len(artix.link_contacts(robot, rest).gap)
    weights, direction = (
        jnp.asarray(np.random.default_rng(k).normal(size=size), dtype)
        for k, size in enumerate([(count, 7), 6])
    )

    def value(place: jax.Array) -> jax.Array:
        points = artix.link_contacts(robot, rest.replace(joint_position=place))
        touching = jnp.where(points.gap < unused, points.gap, 0)
        parts = jnp.concatenate([touching[:, None], points.point, points.normal], axis=1)
        return jnp.sum(weights * parts)

    first = jax.grad(value)
    both = jax.jit(jax.vmap(lambda place: jax.jvp(first, (place,), (direction,))))
    for derivatives in both(jnp.array(places, dtype)):
        assert np.all(np.isfinite(derivatives))


def placed(robot: artix.Articulation, count: int) -> artix.State:
    """Random states, with the second link not far from the first."""
    states = jax.vmap(lambda key: artix.random_state(robot, key))(
        jax.random.split(jax.random.key(1), count)
    )
    reach = 0.5 * jax.random.uniform(jax.random.key(2), (count, 3), minval=-1)
    return states.replace(joint_position=states.joint_position.at[:, :3].set(reach))


@pytest.mark.parametrize("kinds", EXACT, ids="-".join)
def test_contacts_are_those_of_mujoco(kinds: tuple[str, str]) -> None:
    """The nearest point of both: distance, normal and place. Of boxes, those that are at most 5 cm
    apart or inside."""
    robot = paired(*(SHAPES[kind][0] for kind in kinds))
    bodies = "".join(
        f'<body><freejoint/><geom {SHAPES[k][1]} margin="0.3" gap="0.3"/></body>' for k in kinds
    )
    model = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{bodies}</worldbody></mujoco>")
    data, states = mujoco.MjData(model), placed(robot, 300)
    found = jax.jit(jax.vmap(lambda s: artix.link_contacts(robot, s)))(states)
    poses = np.asarray(jax.vmap(lambda s: artix.frame_pose(robot, s))(states))
    errors = []
    for k in range(300):
        data.qpos[:7], data.qpos[7:] = (
            poses[k, 0, [0, 1, 2, 6, 3, 4, 5]],
            poses[k, -1, [0, 1, 2, 6, 3, 4, 5]],
        )
        mujoco.mj_forward(model, data)
        nearest = int(jnp.argmin(found.gap[k]))
        gap, normal, point = (
            np.asarray(x[k, nearest]) for x in (found.gap, found.normal, found.point)
        )
        inside = {"sphere": 0.2, "capsule": 0.1}.get(
            kinds[0] if kinds[1] == "box" else kinds[1], 0.05
        )
        if (
            not data.ncon
            or ("box" in kinds and gap < 1e-3 - inside)
            or (kinds == ("box", "box") and gap > 0.05)
        ):
            continue
        other = data.contact[int(np.argmin(data.contact.dist))]
        side = 1.0 if other.geom[0] else -1.0  # MuJoCo orders geoms by their types.
        errors.append(
            [
                abs(gap - other.dist),
                *np.abs(side * other.frame[:3] - normal),
                *np.abs(other.pos - point),
            ]
        )
    assert len(errors) > (20 if kinds == ("box", "box") else 150)
    # Boxes prefer faces of the first to those of the second, and those to edges, by a thousandth of
    # 0.1 m each.
    worst = np.max(errors, axis=0) if kinds != ("box", "box") else np.quantile(errors, 0.8, axis=0)
    np.testing.assert_allclose(worst, 0, atol=1e-12)
    assert kinds == ("box", "box") or np.max(np.array(errors)[:, 0]) < 1e-12


@pytest.mark.slow
def test_gaps_of_boxes_are_their_distances() -> None:
    """The largest separation along 15 directions inside, and the least squares of SciPy between
    boxes that are apart.

    Rarely (2 % of them) a corner that crosses the edge of a face is missed, or an edge taken for a
    face. Boxes in touch are never deeper than they are but by the preference of faces, twice a
    thousandth of 0.1 m.
    """
    robot = paired(SHAPES["box"][0], SHAPES["box"][0])
    states = placed(robot, 2000)
    gaps = np.asarray(jax.jit(jax.vmap(lambda s: artix.link_contacts(robot, s).gap))(states)).min(
        axis=1
    )
    poses = np.asarray(jax.vmap(lambda s: artix.frame_pose(robot, s))(states))[:, [0, -1]]
    half = np.asarray(robot.geometry.size)
    near = np.flatnonzero((gaps > -0.05) & (gaps < 0.02))
    distances = np.array([distance_of_boxes(poses[k], half) for k in near])
    errors = gaps[near] - distances
    assert len(errors) > 300
    assert np.quantile(np.abs(errors), 0.95) < 1e-9
    assert np.min(errors[distances < 2e-3]) > -2e-4
    assert np.max(np.abs(errors)) < 3e-3


def distance_of_boxes(poses: np.ndarray, half: np.ndarray) -> float:
    """The distance of two boxes from their poses [2, 7] and half edges [2, 3]; negative inside: how
    far to move one."""
    turns = Rotation.from_quat(poses[:, 3:]).as_matrix()
    offset = poses[1, :3] - poses[0, :3]
    crosses = np.cross(turns[0].T[:, None], turns[1].T[None]).reshape(9, 3)
    axes = np.concatenate([turns[0].T, turns[1].T, crosses])
    axes = axes[np.linalg.norm(axes, axis=1) > 1e-6]
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    reach = sum(np.abs(axes @ turn) @ size for turn, size in zip(turns, half, strict=True))
    separation = np.max(np.abs(axes @ offset) - reach)
    if separation <= 0:
        return separation
    fit = lsq_linear(
        np.hstack([turns[0], -turns[1]]), offset, (-half.ravel(), half.ravel()), tol=1e-14
    )
    return np.sqrt(2 * fit.cost)


def lying(
    a: Geometry, b: Geometry, position, turn=(0.0, 0.0, 0.0)
) -> tuple[artix.Articulation, artix.State]:
    """Two shapes, the second at a position and turned by a rotation vector."""
    robot = paired(a, b)
    state = artix.neutral_state(robot)
    return robot, state.replace(joint_position=jnp.array([*position, *turn]))


@pytest.mark.parametrize("kinds", KINDS[:-1], ids="-".join)
def test_the_smallest_gap_is_the_distance(kinds: tuple[str, str]) -> None:
    robot = paired(*(SHAPES[kind][0] for kind in kinds))
    states = placed(robot, 200)
    gaps = jax.vmap(lambda s: artix.link_contacts(robot, s).gap)(states)
    distances = jax.vmap(lambda s: artix.geometry_pair_distances(robot, s, (("a", "b"),)).distance)(
        states
    )
    # The axis stays outside
    compared = distances[:, 0] > (-0.1 + 1e-9 if kinds == ("box", "capsule") else -1)
    assert np.sum(compared) > 150
    np.testing.assert_allclose(np.min(gaps, axis=1)[compared], distances[compared, 0], atol=1e-13)


def test_parallel_capsules_touch_at_both_ends_of_what_they_share() -> None:
    robot, state = lying(Geometry.capsule(0.1, 0.4), Geometry.capsule(0.1, 0.4), (0.2, 0.0, 0.3))
    found = artix.link_contacts(robot, state)
    np.testing.assert_allclose(found.gap, 0.0, atol=1e-15)
    np.testing.assert_allclose(found.normal, [[-1.0, 0.0, 0.0]] * 2, atol=1e-15)
    center = state.root_pose[:3]
    np.testing.assert_allclose(
        found.point - center, [[0.1, 0.0, -0.1], [0.1, 0.0, 0.4]], atol=1e-15
    )


def test_a_capsule_lies_on_a_box_where_both_are() -> None:
    """It reaches over the edge: the second point is at the edge."""
    along_x = (0.0, 0.0, 0.0, 0.0, np.sqrt(0.5), 0.0, np.sqrt(0.5))
    robot, state = lying(
        Geometry.box((0.3, 0.2, 0.1)), Geometry.capsule(0.1, 0.4, pose=along_x), (0.1, 0.0, 0.2)
    )
    found = artix.link_contacts(robot, state)
    np.testing.assert_allclose(found.gap, 0.0, atol=1e-15)
    np.testing.assert_allclose(found.point, [[-0.3, 0.0, 0.1], [0.3, 0.0, 0.1]], atol=1e-15)


@pytest.mark.parametrize(
    ("turn", "corners"),
    [
        (
            (0.0, 0.0, 0.0),
            [(-0.2, -0.2), (-0.2, 0.2), (0.3, -0.2), (0.3, 0.2)],
        ),  # what both faces share
        ((0.0, 0.0, np.pi / 2), [(-0.1, -0.2), (-0.1, 0.2), (0.3, -0.2), (0.3, 0.2)]),
    ],
)
def test_a_box_stands_on_a_box(turn, corners) -> None:
    robot, state = lying(
        Geometry.box((0.3, 0.2, 0.1)), Geometry.box((0.3, 0.2, 0.1)), (0.1, 0.0, 0.2), turn
    )
    found = artix.link_contacts(robot, state)
    np.testing.assert_allclose(found.gap, 0.0, atol=1e-15)
    np.testing.assert_allclose(found.normal, [[0.0, 0.0, -1.0]] * 4, atol=1e-15)
    wanted = np.array([(*corner, 0.1) for corner in corners])
    places = np.asarray(found.point)
    np.testing.assert_allclose(places[np.lexsort(places.round(9).T[::-1])], wanted, atol=1e-12)


def test_boxes_cross_at_their_edges() -> None:
    """Two edges at a right angle, 0.01 m apart, above the middle."""
    on_edge = np.sin(np.pi / 8), np.cos(np.pi / 8)
    a = Geometry.box((1.0, 0.1, 0.1), pose=(0.0, 0.0, 0.0, on_edge[0], 0.0, 0.0, on_edge[1]))
    b = Geometry.box((0.1, 1.0, 0.1), pose=(0.0, 0.0, 0.0, 0.0, on_edge[0], 0.0, on_edge[1]))
    robot, state = lying(a, b, (0.0, 0.0, 0.2 * np.sqrt(2.0) + 0.01))
    found = artix.link_contacts(robot, state)
    np.testing.assert_allclose(found.gap[0], 0.01, atol=1e-12)
    np.testing.assert_allclose(found.normal[0], [0.0, 0.0, -1.0], atol=1e-12)
    np.testing.assert_allclose(found.point[0], [0.0, 0.0, 0.1 * np.sqrt(2.0) + 0.005], atol=1e-12)
    assert (found.gap[1:] > 1.0).all()


@pytest.mark.parametrize("kinds", OFTEN, ids="-".join)
def test_derivatives(kinds: tuple[str, str]) -> None:
    """Of gaps, normals and points: against differences; finite for parallel shapes at the same
    place."""
    robot = paired(*(SHAPES[kind][0] for kind in kinds))

    def everything(q, state):
        found = artix.link_contacts(robot, state.replace(joint_position=q))
        return jnp.concatenate([found.gap, found.normal.ravel(), found.point.ravel()])

    slopes = jax.jit(jax.jacfwd(everything))
    states = placed(robot, 6)
    step = 1e-6 * jnp.eye(6)
    for k in range(6):
        state = jax.tree.map(lambda x, k=k: x[k], states)
        q = state.joint_position
        near = jax.vmap(lambda d, q=q, s=state: everything(q + d, s))(
            jnp.concatenate([step, -step])
        )
        np.testing.assert_allclose(slopes(q, state), (near[:6] - near[6:]).T / 2e-6, atol=1e-8)
    same = artix.neutral_state(robot)
    assert np.all(np.isfinite(slopes(same.joint_position, same)))


def test_the_nearest_are_taken() -> None:
    robot = artix.robots.load("quadruped").astype("float64")
    robot = artix.select_geometry_pairs(robot, artix.editing.possible_geometry_pairs(robot))
    state = artix.random_state(robot, jax.random.key(0))
    every, some = (
        artix.link_contacts(robot, state),
        artix.link_contacts(robot, state, max_contacts=3),
    )
    order = np.argsort(every.gap)[:3]
    for name in ("gap", "pair", "point", "normal", "friction"):
        # Two programs, which may round differently.
        np.testing.assert_allclose(
            getattr(some, name), np.asarray(getattr(every, name))[order], rtol=0, atol=1e-15
        )
    assert int(every.omitted) == 0 == int(some.omitted)
    big = robot.replace(geometry=robot.geometry.replace(size=robot.geometry.size + 1.0))
    assert int(artix.link_contacts(big, state, max_contacts=2).omitted) == 4


def test_structure() -> None:
    """Pairs survive what is done to an articulation, and what cannot touch is refused."""
    line = np.array([(0.0, 0.0, 0.0), (0.1, 0.0, 0.0)])
    robot = two_shapes(Geometry.sphere(0.1), Geometry.hull(line))
    for pairs, message in [
        ([("a", "c")], "no geometry called 'c'"),
        ([("a", "a")], "do not move against each other"),
        ([("a", "b")], "'b' is a hull whose points are on a line"),
        (["ab", ("a",)], "a pair has two names"),
    ]:
        with pytest.raises(ValueError, match=message):
            artix.select_geometry_pairs(robot, pairs)
    robot = paired(Geometry.sphere(0.1), Geometry.sphere(0.1))
    with pytest.raises(ValueError, match="given twice"):
        artix.select_geometry_pairs(robot, [("a", "b"), ("b", "a")])
    assert artix.builder_from_articulation(robot).build(robot.dtype).topology == robot.topology
    both = artix.attach_articulation(robot, "second", robot, prefix="other_")
    assert both.topology.geometry_pairs == (("a", "b"), ("other_a", "other_b"))
    assert artix.select_geometry(robot, ["a"]).topology.geometry_pairs == ()
    assert artix.select_geometry(robot, ["a"], sensors=["b"]).topology.geometry_pairs == (
        ("a", "b"),
    )
    locked = artix.lock_joints(robot, artix.neutral_state(robot), robot.topology.joint_names)
    assert locked.topology.geometry_pairs == ()
    none = artix.select_geometry_pairs(robot, ())
    with pytest.raises(ValueError, match="has no pairs"):
        artix.link_contacts(none, artix.neutral_state(none))
    with pytest.raises(ValueError, match="max_contacts must be at least 1"):
        artix.link_contacts(robot, artix.neutral_state(robot), max_contacts=0)
    for solver in ("pgs", "tgs", "rk4"):
        with pytest.raises(ValueError, match="has no contacts between links"):
            artix.step(
                robot, artix.neutral_state(robot), None, 0.01, artix.SolverOptions(solver=solver)
            )


@pytest.mark.parametrize(
    ("kinds", "most"),
    [
        (("sphere", "sphere"), 110),
        (("sphere", "capsule"), 260),
        (("capsule", "capsule"), 470),
        (("sphere", "cylinder"), 300),
        (("sphere", "box"), 350),
        (("capsule", "box"), 1000),
        (("capsule", "cylinder"), 2450),
        (("cylinder", "cylinder"), 3690),
        (("cylinder", "box"), 4400),
        (("box", "box"), 2500),
    ],
    ids=str,
)
def test_operations(kinds: tuple[str, str], most: int) -> None:
    """All in one kernel; link poses are among them."""
    robot = paired(*(SHAPES[kind][0] for kind in kinds)).astype("float32")
    (cost,) = artix.explain(artix.link_contacts, robot, artix.neutral_state(robot)).operations
    assert not cost.refusal
    assert sum(cost.operations) <= most


_SCENE = """
<mujoco>
  <default><geom margin="1" density="500"/></default>
  <worldbody>
    <geom name="table" type="box" size=".3 .3 .1"/>
    <body name="arm" pos="0 0 .3">
      <joint name="shoulder" axis="0 1 0"/>
      <geom name="upper" type="capsule" size=".03" fromto="0 0 .1 .2 0 .1"/>
      <body name="forearm" pos=".2 0 .1">
        <joint name="elbow" axis="0 1 0"/>
        <geom name="lower" type="capsule" size=".02" fromto=".06 0 0 .2 0 0"/>
      </body>
    </body>
    <body name="ball" pos=".3 .03 .2"><freejoint/><geom name="ball" size=".05"/></body>
  </worldbody>
</mujoco>
"""


@pytest.mark.parametrize("joints", [(0.3, 0.9), (0.9, -0.4), (-0.4, 1.2)])
def test_those_of_a_scene_are_those_of_mujoco(joints: tuple[float, float]) -> None:
    """Of all shapes that MuJoCo lets touch: the least distance of each pair, with its normal."""
    with jax.enable_x64(True):
        scene, state = artix.load_world(_SCENE)
        assert scene.names == ("world", "ball")
        state["world"] = state["world"].replace(joint_position=jnp.array(joints))
        contacts = artix.link_contacts(scene, state)
        pairs = [tuple(name.split("/")[1] for name in pair) for pair in scene.geometry_pairs]
        distances = artix.geometry_pair_distances(scene, state, scene.geometry_pairs)
        least = artix.link_contacts(scene, state, max_contacts=1)
    model = mujoco.MjModel.from_xml_string(_SCENE)
    data = mujoco.MjData(model)
    data.qpos[:2] = joints
    mujoco.mj_forward(model, data)
    nearest = {}
    for contact in data.contact:
        pair = tuple(model.geom(int(geom)).name for geom in contact.geom)
        if pair not in nearest or contact.dist < nearest[pair].dist:
            nearest[pair] = contact
    assert {frozenset(pair) for pair in nearest} == {frozenset(pair) for pair in pairs}
    assert len(pairs) >= 4
    for number, pair in enumerate(pairs):
        wanted = nearest.get(pair) or nearest[pair[::-1]]
        sign = 1 if pair not in nearest else -1  # MuJoCo's normal is from the first to the second.
        (rows,) = np.nonzero(contacts.pair == number)
        row = rows[np.argmin(contacts.gap[rows])]
        np.testing.assert_allclose(contacts.gap[row], wanted.dist, atol=1e-12)
        np.testing.assert_allclose(contacts.normal[row], sign * wanted.frame[:3], atol=1e-12)
        np.testing.assert_allclose(distances.distance[number], wanted.dist, atol=1e-12)
        np.testing.assert_allclose(distances.normal[number], sign * wanted.frame[:3], atol=1e-12)
    assert least.gap[0] == contacts.gap.min()
    with pytest.raises(KeyError, match=r"no geometry called 'ball'; choose from: .*ball/ball"):
        artix.geometry_pair_distances(scene, state, [("ball", "world/lower")])
    with pytest.raises(ValueError, match=r"'ball' has no pairs of shapes; .*, or pairs= of artix"):
        artix.link_contacts(artix.Scene({"ball": scene["ball"]}), {"ball": state["ball"]})
