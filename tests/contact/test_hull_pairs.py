"""Points between hulls and other shapes: against MuJoCo, boxes, finite differences and closed
forms."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

import artix
from artix import Geometry
from artix.model.hull_faces import BOX_FACES, hull_faces
from tests.contact.test_link_contacts import assert_finite_derivatives, lying, paired, placed
from tests.contact.test_pairs import SHAPES
from tests.support.marks import slow_besides

HALF = np.array((0.3, 0.2, 0.1))
CORNERS = np.array(list(itertools.product((-1.0, 1.0), repeat=3))) * HALF


def ball(count: int) -> np.ndarray:
    points = np.random.default_rng(0).normal(size=(count, 3))
    return 0.2 * points / np.linalg.norm(points, axis=1)[:, None]


def prism(sides: int, radius: float, half: float) -> np.ndarray:
    angles = 2 * np.pi * (np.arange(sides) + 0.5) / sides
    around = radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return np.array([(x, y, z) for x, y in around for z in (-half, half)])


#: MuJoCo keeps vertices in single precision.
HULLS = {
    name: np.asarray(points, np.float32).astype(float)
    for name, points in {
        "hull": CORNERS,
        "tetrahedron": [(0, 0, 0.15), (0.2, 0, -0.1), (-0.1, 0.17, -0.1), (-0.1, -0.17, -0.1)],
        "prism": prism(8, 0.1, 0.1),
        "ball": ball(64),
    }.items()
}
GEOMETRIES = {name: Geometry.hull(points) for name, points in HULLS.items()} | {
    name: shape for name, (shape, _) in SHAPES.items()
}
PAIRS = [
    ("sphere", "hull"),
    ("sphere", "ball"),
    ("capsule", "tetrahedron"),
    ("capsule", "prism"),
    ("capsule", "ball"),
    ("box", "tetrahedron"),
    ("box", "prism"),
    ("box", "ball"),
    ("hull", "hull"),
    ("prism", "prism"),
    ("tetrahedron", "ball"),
    ("ball", "ball"),
    ("cylinder", "hull"),
    ("cylinder", "tetrahedron"),
    ("cylinder", "prism"),
    ("cylinder", "ball"),
]


def test_faces() -> None:
    """Coplanar triangles are one face; Euler's formula holds, and no point is outside."""
    assert sorted(hull_faces(CORNERS).loops) == sorted(BOX_FACES.loops)
    grid = np.array(list(itertools.product(np.linspace(-1, 1, 4), repeat=3))).astype(np.float32)
    for points, sides in (
        (CORNERS, [4] * 6),
        (grid, [4] * 6),
        (HULLS["prism"], [4] * 8 + [8] * 2),
        (HULLS["prism"][::2], [8] * 2),
        (HULLS["tetrahedron"], [3] * 4),
        (HULLS["ball"], [3] * 124),
    ):
        faces = hull_faces(points)
        assert sorted(map(len, faces.loops)) == sides
        edges = {
            frozenset((a, b))
            for loop in faces.loops
            for a, b in zip(loop, loop[1:] + loop[:1], strict=True)
        }
        corners = {number for loop in faces.loops for number in loop}
        assert len(corners) - len(edges) + len(faces.loops) == 2
        for loop, four in zip(faces.loops, faces.corners, strict=True):
            a, b, c, d = points[list(four)]
            normal = np.cross(c - a, d - b) / np.linalg.norm(np.cross(c - a, d - b))
            assert np.all((points - a) @ normal < 1e-6)
            edge = np.roll(points[list(loop)], -1, axis=0) - points[list(loop)]
            beside = np.cross(edge, normal)
            assert np.all((points[list(loop)][:, None] - points[list(loop)]) @ normal < 1e-6)
            apart = points[list(loop)][None] - points[list(loop)][:, None]
            assert np.all(np.sum(apart * beside[:, None], axis=2) < 1e-6)
    assert hull_faces(CORNERS[:2]).loops == hull_faces(np.zeros((5, 3))).loops == ()


def mesh_distances(kinds: tuple[str, str], poses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distances of N pairs and the nearest points [N, 6] by MuJoCo."""
    assets, bodies = "", ""
    for kind in kinds:
        geom = SHAPES[kind][1] if kind in SHAPES else f'type="mesh" mesh="{kind}"'
        if kind in HULLS and kind not in assets:
            vertices = " ".join(f"{x:.17g}" for x in HULLS[kind].ravel())
            assets += f'<mesh name="{kind}" vertex="{vertices}" inertia="convex"/>'
        bodies += f'<body mocap="true"><geom {geom}/></body>'
    model = mujoco.MjModel.from_xml_string(
        '<mujoco><option ccd_tolerance="1e-12" ccd_iterations="500"/>'
        f"<asset>{assets}</asset><worldbody>{bodies}</worldbody></mujoco>"
    )
    data = mujoco.MjData(model)
    distances, ends = np.zeros(len(poses)), np.zeros((len(poses), 6))
    for k, pose in enumerate(poses):
        data.mocap_pos[:], data.mocap_quat[:] = pose[:, :3], pose[:, [6, 3, 4, 5]]
        mujoco.mj_forward(model, data)
        distances[k] = mujoco.mj_geomDistance(model, data, 0, 1, 10.0, ends[k])
    return distances, ends


@pytest.mark.parametrize(
    "kinds",
    slow_besides(
        [("sphere", "hull"), ("capsule", "prism"), ("box", "ball"), ("cylinder", "prism")], PAIRS
    ),
    ids="-".join,
)
def test_distances_are_those_of_mujoco(kinds: tuple[str, str]) -> None:
    """Of 1,000 pairs. Of two shapes with faces, none is farther than MuJoCo says, nor nearer but by
    the preference of faces; where they overlap by up to 1 cm, too."""
    robot, count = paired(*(GEOMETRIES[kind] for kind in kinds)), 1000
    states = placed(robot, count)
    found = jax.jit(jax.vmap(lambda s: artix.geometry_pair_distances(robot, s, (("a", "b"),))))(
        states
    )
    poses = np.asarray(jax.vmap(lambda s: artix.frame_pose(robot, s))(states))[:, [0, -1]]
    distances, ends = mesh_distances(kinds, poses)
    errors = np.asarray(found.distance[:, 0]) - distances
    assert np.sum(distances > 1e-6) > 300
    compared = distances > (-1e-2 if "capsule" not in kinds else 0)
    if kinds[0] in ("sphere", "capsule", "cylinder"):
        # A wall beside a face with a gap that is larger by a thousandth of a length is on the face.
        # Of one prism that overlaps, the way out is 0.8 mm longer than the shortest.
        is_exact = kinds[0] != "cylinder"
        assert np.max(np.abs(errors[distances > 0])) < (1e-7 if is_exact else 1e-5)
        assert np.max(errors[compared]) < (1e-7 if is_exact else 1e-5)
        assert np.min(errors[compared]) > (-1e-7 if is_exact else -1e-3)
        assert np.quantile(np.abs(errors[compared]), 0.98) < 1e-7
        far = distances > 1e-2
        normals = (ends[far, :3] - ends[far, 3:]) / distances[far, None]
        np.testing.assert_allclose(found.normal[far, 0], normals, atol=1e-5 if is_exact else 1e-2)
        return
    assert np.quantile(np.abs(errors[compared]), 0.8) < 1e-8
    # What MuJoCo finds where balls overlap may not be the least.
    assert np.max(errors[compared]) < (1e-4 if kinds[1] == "ball" else 1e-7)
    assert np.min(errors[distances > 0]) > -2e-4
    # Of balls, the way out is that of MPR's direction, which need not be the shortest.
    assert np.min(errors[compared]) > (-1e-3 if kinds[1] == "ball" else -2e-4)


@pytest.mark.slow
@pytest.mark.parametrize("other", slow_besides(["box", "sphere"], ["sphere", "capsule", "box"]))
def test_a_box_of_points_is_a_box(other: str) -> None:
    """Gaps and normals."""
    boxes, hulls = (
        paired(GEOMETRIES[other], shape) for shape in (SHAPES["box"][0], Geometry.hull(CORNERS))
    )
    states = placed(boxes, 1000)
    ours, wanted = (
        jax.jit(jax.vmap(lambda s, robot=robot: artix.link_contacts(robot, s)))(states)
        for robot in (hulls, boxes)
    )
    rows, count = np.arange(1000), 0
    at, at_box = (np.argmin(one.gap, axis=1) for one in (ours, wanted))
    gap, box_gap = ours.gap[rows, at], wanted.gap[rows, at_box]
    near = np.asarray((box_gap > (-0.05 if other != "capsule" else -0.09)) & (box_gap < 0.01))
    same = np.abs(gap - box_gap) < 1e-12
    # Boxes that are apart beside a face have their separation along its normal.
    assert np.mean(same[near]) > (0.96 if other == "box" else 0.9999)
    count = np.sum(near & same)
    assert count > 100
    np.testing.assert_allclose(
        ours.normal[rows, at][near & same], wanted.normal[rows, at_box][near & same], atol=1e-12
    )


@pytest.mark.slow
@pytest.mark.parametrize("order", [False, True])
@pytest.mark.parametrize("turn", [0.0, 0.3])
def test_flush_faces_have_the_points_of_boxes(order: bool, turn: float) -> None:
    small = np.array((0.05, 0.08, 0.1))
    points = np.array(list(itertools.product((-1.0, 1.0), repeat=3))) * small
    place, boxes, wanted = (0.28, 0.1, 0.2), artix.GeometryType.BOX, None
    for lower, upper in itertools.product(
        (Geometry.box(HALF), Geometry.hull(CORNERS)), (Geometry.box(small), Geometry.hull(points))
    ):
        robot, state = lying(lower, upper, place, (0.0, 0.0, turn))
        if order:
            robot = artix.select_geometry_pairs(robot, [("b", "a")])
        contacts = artix.link_contacts(robot, state)
        np.testing.assert_allclose(contacts.gap, 0, atol=1e-12)
        np.testing.assert_allclose(contacts.normal, [[0, 0, 1 if order else -1]] * 4, atol=1e-12)
        places = np.asarray(contacts.point)
        places = places[np.lexsort(places.round(9).T[::-1])]
        if turn and order and (lower.type, upper.type) == (boxes, boxes):
            continue  # These are moved into the face of the first, not of the larger one.
        wanted = places if wanted is None else wanted
        np.testing.assert_allclose(places, wanted, atol=1e-12)


SHAPES_UNDER = {
    "sphere": Geometry.sphere(0.1),
    "capsule": Geometry.capsule(0.1, 0.1),
    "box": Geometry.box((0.3, 0.2, 0.1)),
    "hull": Geometry.hull(CORNERS),
    "prism": Geometry.hull(prism(8, 0.2, 0.1)),
    "cylinder": Geometry.cylinder(0.2, 0.1),
}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("under", slow_besides(["box"], list(SHAPES_UNDER)))
def test_first_and_second_derivatives_are_finite_where_shapes_are_aligned(
    under: str, dtype: str
) -> None:
    """A hull that stands on another shape, beside it, over its rim or in its middle."""
    points = np.array(list(itertools.product((-1.0, 1.0), repeat=3))) * (0.05, 0.05, 0.1)
    robot = paired(SHAPES_UNDER[under], Geometry.hull(points)).astype(dtype)
    quarter = np.pi / 2
    places = [
        (0, 0, 0.2, 0, 0, 0),
        (0, 0, 0.15, quarter, 0, 0),
        (0, 0.1, 0.15, quarter, 0, 0),
        (0, 0, 0.1 + 0.05 * 2**0.5, 0, quarter, quarter / 2),
        (0.35, 0, 0, 0, 0, 0),
        (0.05, 0.05, 0.2, 0, 0, 0.3),
        (0.35, 0.25, 0.2, 0, 0, 0),
        (0, 0, 0, 0, 0, 0),
    ]
    assert_finite_derivatives(robot, places, unused=0.3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kinds",
    slow_besides(
        [("box", "tetrahedron")],
        [
            ("sphere", "hull"),
            ("capsule", "prism"),
            ("box", "tetrahedron"),
            ("prism", "hull"),
            ("cylinder", "tetrahedron"),
            ("cylinder", "prism"),
        ],
    ),
    ids="-".join,
)
def test_derivatives(kinds: tuple[str, str]) -> None:
    """First ones of all points, against differences, and second ones of the nearest gap."""
    robot = paired(*(GEOMETRIES[kind] for kind in kinds))

    def values(q, state):
        found = artix.link_contacts(robot, state.replace(joint_position=q))
        used = found.gap < 0.5
        parts = [found.gap, *found.normal.T, *found.point.T]
        return jnp.concatenate([jnp.where(used, part, 0) for part in parts])

    def least(q, state):
        return jnp.min(artix.link_contacts(robot, state.replace(joint_position=q)).gap)

    slopes, bend = jax.jit(jax.jacrev(values)), jax.jit(jax.hessian(least))
    slope = jax.jit(jax.grad(least))
    states, step = placed(robot, 8), 1e-6 * jnp.eye(6)
    for k in range(8):
        state = jax.tree.map(lambda x, k=k: x[k], states)
        q = state.joint_position
        near = jax.vmap(lambda d, q=q, s=state: values(q + d, s))(jnp.concatenate([step, -step]))
        np.testing.assert_allclose(slopes(q, state), (near[:6] - near[6:]).T / 2e-6, atol=1e-7)
        near = jax.vmap(lambda d, q=q, s=state: slope(q + d, s))(jnp.concatenate([step, -step]))
        np.testing.assert_allclose(bend(q, state), (near[:6] - near[6:]).T / 2e-6, atol=1e-5)


def test_a_sphere_rolls_over_an_edge() -> None:
    """Along a face, around an edge, around a corner: the gap is what geometry says, the normal
    never jumps."""
    robot = paired(Geometry.hull(CORNERS), Geometry.sphere(0.05))
    angles = np.linspace(0, np.pi / 2, 31)
    x = np.concatenate([np.linspace(0.2, 0.3, 31), 0.3 + 0.05 * np.sin(angles)])
    z = np.concatenate([np.full(31, 0.15), 0.1 + 0.05 * np.cos(angles)])
    start = artix.neutral_state(robot)
    for y in (0.0, 0.2):
        q = jnp.asarray(np.stack([x, np.full_like(x, y), z, 0 * x, 0 * x, 0 * x], axis=1))
        found = jax.vmap(lambda q: artix.link_contacts(robot, start.replace(joint_position=q)))(q)
        np.testing.assert_allclose(found.gap, 0, atol=1e-15)
        tilt = np.concatenate([np.zeros(31), angles])
        wanted = -np.stack([np.sin(tilt), 0 * tilt, np.cos(tilt)], axis=1)
        np.testing.assert_allclose(found.normal[:, 0], wanted, atol=1e-12)


def test_a_capsule_on_a_prism() -> None:
    """Along a side of an octagonal prism, both ends of what they share; across it one place."""
    along_z = Geometry.capsule(0.05, 0.3)
    apothem = 0.1 * np.cos(np.pi / 8)
    robot, state = lying(Geometry.hull(prism(8, 0.1, 0.1)), along_z, (apothem + 0.05, 0.0, 0.25))
    found = artix.link_contacts(robot, state)
    np.testing.assert_allclose(found.gap, 0, atol=1e-12)
    np.testing.assert_allclose(found.normal, [[-1.0, 0.0, 0.0]] * 2, atol=1e-12)
    places = found.point - state.root_pose[:3]
    np.testing.assert_allclose(
        sorted(places.tolist()), [[apothem, 0, -0.05], [apothem, 0, 0.1]], atol=1e-12
    )


@pytest.mark.parametrize("x", [0.2, 0.28, 0.2999, 0.32])
def test_a_can_over_an_edge(x: float) -> None:
    """Its contacts reach to the edge, where the rim crosses it, and as far as the rim inside."""
    can = Geometry.cylinder(0.05, 0.1)
    robot, state = lying(Geometry.hull(CORNERS), can, (x, 0.0, 0.2))
    contacts = artix.link_contacts(robot, state)
    touches = np.asarray(contacts.gap) < 0.5
    assert np.sum(touches) == (3 if x > 0.3 else 4)
    np.testing.assert_allclose(contacts.gap[touches], 0, atol=1e-12)
    np.testing.assert_allclose(contacts.normal, [[0.0, 0.0, -1.0]] * 4, atol=1e-12)
    places = np.asarray(contacts.point[touches] - state.root_pose[:3])
    np.testing.assert_allclose(places[:, 2], 0.1, atol=1e-12)
    np.testing.assert_array_less(np.hypot(places[:, 0] - x, places[:, 1]), 0.05 + 1e-12)
    assert abs(np.max(places[:, 0]) - min(0.3, x + 0.05)) < 1e-12
    assert abs(np.min(places[:, 0]) - (x - 0.05)) < 1e-12
    if x + 0.05 > 0.3:
        at_edge = np.sort(places[places[:, 0] > 0.3 - 1e-9, 1])
        reach = (0.05**2 - (0.3 - x) ** 2) ** 0.5
        np.testing.assert_allclose(at_edge[[0, -1]], [-reach, reach], atol=1e-12)


@pytest.mark.parametrize("place", [(0.1, 0.0, 0.25), (0.36, 0.05, 0.02), (0.34, 0.02, 0.21)])
def test_a_hull_of_spheres_is_larger_by_their_radius(place) -> None:
    """On its face, beside it along an edge, and at an edge: gaps, and places halfway between."""
    can = Geometry.cylinder(0.05, 0.1)
    thin, thick = (
        artix.link_contacts(
            *lying(Geometry.hull(CORNERS, radius=radius), can, place, (0.1, 0.2, 0))
        )
        for radius in (0.0, 0.01)
    )
    used = np.asarray(thin.gap) < 0.2
    assert np.any(used)
    np.testing.assert_allclose((thin.gap - thick.gap)[used], 0.01, atol=1e-12)
    np.testing.assert_allclose(thick.normal, thin.normal, atol=1e-12)
    # From the hull, the first, towards the can.
    moved = thin.point - 0.005 * thin.normal
    np.testing.assert_allclose(thick.point[used], moved[used], atol=1e-12)


@pytest.mark.slow
def test_a_hull_on_a_cap() -> None:
    """A small one has its corners there, a beam the crossings of its edges and the rim."""
    for half, reach in (((0.1, 0.05, 0.02), 0.1), ((0.6, 0.05, 0.02), (0.3**2 - 0.05**2) ** 0.5)):
        points = CORNERS / HALF * half
        robot, state = lying(Geometry.cylinder(0.3, 0.1), Geometry.hull(points), (0.0, 0.0, 0.12))
        contacts = artix.link_contacts(robot, state)
        np.testing.assert_allclose(contacts.gap, 0, atol=1e-12)
        np.testing.assert_allclose(contacts.normal, [[0.0, 0.0, -1.0]] * 4, atol=1e-12)
        places = np.abs(np.asarray(contacts.point - state.root_pose[:3]))
        np.testing.assert_allclose(places, [(reach, 0.05, 0.1)] * 4, atol=1e-12)


def test_what_cannot_touch_is_refused() -> None:
    many, line = ball(65), np.array([(0.0, 0.0, 0.0), (0.1, 0.0, 0.0)])
    for a, b, message in (
        (Geometry.sphere(0.1), Geometry.hull(many), "'b' is a hull of 65 points"),
        (Geometry.sphere(0.1), Geometry.hull(line), "'b' is a hull whose points are on a line"),
    ):
        with pytest.raises(ValueError, match=message):
            paired(a, b)


def test_archives_keep_faces(tmp_path) -> None:
    robot = paired(Geometry.box(HALF), Geometry.hull(ball(20))).astype("float32")
    artix.save(robot, tmp_path / "robot.npz")
    assert artix.load(tmp_path / "robot.npz").topology == robot.topology


@pytest.mark.parametrize(
    ("kinds", "most"),
    [
        (("sphere", "hull"), 950),
        (("capsule", "hull"), 1900),
        (("box", "hull"), 5200),
        (("prism", "prism"), 9400),
        (("box", "ball"), 9700),
        (("ball", "ball"), 13700),
        (("cylinder", "hull"), 8000),
        (("cylinder", "ball"), 26500),
    ],
    ids=str,
)
def test_operations(kinds: tuple[str, str], most: int) -> None:
    """All in one kernel; link poses are among them."""
    robot = paired(*(GEOMETRIES[kind] for kind in kinds)).astype("float32")
    (cost,) = artix.explain(artix.link_contacts, robot, artix.neutral_state(robot)).operations
    assert not cost.refusal
    assert sum(cost.operations) <= most
