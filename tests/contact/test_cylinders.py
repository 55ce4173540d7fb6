"""Points between cylinders and other shapes: against MuJoCo, finite differences and closed forms."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import artix
from artix import Geometry
from tests.contact.test_link_contacts import assert_finite_derivatives, lying, paired, placed
from tests.contact.test_pairs import SHAPES
from tests.support.marks import slow_besides

CYLINDERS = {
    "cylinder": SHAPES["cylinder"],
    "coin": (Geometry.cylinder(0.2, 0.01), 'type="cylinder" size="0.2 0.01"'),
    "pole": (Geometry.cylinder(0.02, 0.4), 'type="cylinder" size="0.02 0.4"'),
}
OTHERS = ("sphere", "capsule", "cylinder", "box")
PAIRS = [(cylinder, other) for cylinder in CYLINDERS for other in OTHERS]


@pytest.mark.parametrize(
    "kinds",
    slow_besides([("cylinder", "sphere"), ("coin", "cylinder"), ("cylinder", "box")], PAIRS),
    ids="-".join,
)
def test_distances_are_those_of_mujoco(kinds: tuple[str, str]) -> None:
    """Of 1,000 pairs: where they are apart also the normal; where they overlap by up to 1 cm, none
    is deeper than MuJoCo says but by the preference of faces, a ten-thousandth of a metre."""
    every = CYLINDERS | SHAPES
    robot, count = paired(*(every[kind][0] for kind in kinds)), 1000
    bodies = "".join(f'<body mocap="true"><geom {every[kind][1]}/></body>' for kind in kinds)
    model = mujoco.MjModel.from_xml_string(
        '<mujoco><option ccd_tolerance="1e-10" ccd_iterations="200"/>'
        f"<worldbody>{bodies}</worldbody></mujoco>"
    )
    data, states = mujoco.MjData(model), placed(robot, count)
    found = jax.jit(jax.vmap(lambda s: artix.geometry_pair_distances(robot, s, (("a", "b"),))))(
        states
    )
    poses = np.asarray(jax.vmap(lambda s: artix.frame_pose(robot, s))(states))[:, [0, -1]]
    distances, ends = np.zeros(count), np.zeros((count, 6))
    for k in range(count):
        data.mocap_pos[:], data.mocap_quat[:] = poses[k, :, :3], poses[k][:, [6, 3, 4, 5]]
        mujoco.mj_forward(model, data)
        distances[k] = mujoco.mj_geomDistance(model, data, 0, 1, 10.0, ends[k])
    errors = np.asarray(found.distance[:, 0]) - distances
    apart, overlap = distances > 1e-6, (distances < -1e-6) & (distances > -1e-2)
    assert np.sum(apart) > 500
    np.testing.assert_allclose(errors[apart], 0, atol=1e-7)
    far = distances > 1e-2
    normals = (ends[far, :3] - ends[far, 3:]) / distances[far, None]
    np.testing.assert_allclose(found.normal[far, 0], normals, atol=1e-3)
    if kinds == ("cylinder", "box"):
        assert np.sum(overlap) > 10
        np.testing.assert_allclose(errors[overlap], 0, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "under",
    [pytest.param(kind, marks=() if kind == "box" else pytest.mark.slow) for kind in OTHERS],
)
def test_first_and_second_derivatives_are_finite_where_shapes_are_aligned(
    under: str, dtype: str
) -> None:
    """A can that stands on another shape, lies on it along either axis, stands beside it, over its
    rim or in its middle."""
    shapes = {
        "sphere": Geometry.sphere(0.1),
        "capsule": Geometry.capsule(0.1, 0.1),
        "cylinder": Geometry.cylinder(0.1, 0.1),
        "box": Geometry.box((0.3, 0.2, 0.1)),
    }
    robot = paired(shapes[under], Geometry.cylinder(0.05, 0.1)).astype(dtype)
    quarter = np.pi / 2
    places = [
        (0, 0, 0.2, 0, 0, 0),
        (0, 0, 0.15, quarter, 0, 0),
        (0, 0.1, 0.15, quarter, 0, 0),
        (0, 0, 0.15, 0, quarter, 0),
        (0.35, 0, 0, 0, 0, 0),
        (0.05, 0.05, 0.2, 0, 0, 0.3),
        (0.2, 0, 0.2, 0, 0, 0),
        (0, 0, 0, 0, 0, 0),
    ]
    assert_finite_derivatives(robot, places, unused=0.5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kinds",
    slow_besides([("cylinder", "box")], [("cylinder", kind) for kind in OTHERS]),
    ids="-".join,
)
def test_derivatives_where_they_touch(kinds: tuple[str, str]) -> None:
    """First ones of all points, against differences, and second ones of the nearest gap."""
    robot, count = paired(*(SHAPES[kind][0] for kind in kinds)), 12

    def everything(q, state):
        found = artix.link_contacts(robot, state.replace(joint_position=q))
        used = found.gap < 0.3
        return (
            jnp.concatenate(
                [
                    jnp.where(used, found.gap, 0),
                    jnp.where(used[:, None], found.normal, 0).ravel(),
                    jnp.where(used[:, None], found.point, 0).ravel(),
                ]
            ),
            found,
        )

    def least(q, state):
        return jnp.min(everything(q, state)[1].gap)

    def values(q, state):
        return everything(q, state)[0]

    slopes, bend = jax.jit(jax.jacrev(values)), jax.jit(jax.hessian(least))
    slope = jax.jit(jax.grad(least))
    states = placed(robot, count)
    # Until they touch, along the normal.
    found = jax.vmap(lambda s: artix.link_contacts(robot, s))(states)
    nearest = np.argmin(found.gap, axis=1)
    way = np.asarray(found.gap[np.arange(count), nearest, None] + 1e-4) * np.asarray(
        found.normal[np.arange(count), nearest]
    )
    turn = np.asarray(jax.vmap(lambda s: artix.frame_pose(robot, s))(states))[:, 0, 3:]
    local = np.stack([Rotation.from_quat(q).inv().apply(w) for q, w in zip(turn, way, strict=True)])
    states = states.replace(joint_position=states.joint_position.at[:, :3].add(local))
    step = 1e-6 * jnp.eye(6)
    touching = 0
    for k in range(count):
        state = jax.tree.map(lambda x, k=k: x[k], states)
        q = state.joint_position
        touching += bool(abs(least(q, state) + 1e-4) < 1e-5)
        near = jax.vmap(lambda d, q=q, s=state: values(q + d, s))(jnp.concatenate([step, -step]))
        np.testing.assert_allclose(slopes(q, state), (near[:6] - near[6:]).T / 2e-6, atol=1e-6)
        near = jax.vmap(lambda d, q=q, s=state: slope(q + d, s))(jnp.concatenate([step, -step]))
        np.testing.assert_allclose(bend(q, state), (near[:6] - near[6:]).T / 2e-6, atol=1e-4)
    assert touching > 6


UPRIGHT = (0.0, 0.0, 0.0)
SIDEWAYS = (0.0, np.pi / 2, 0.0)
CROSSING = (0.05**2 - 0.02**2) ** 0.5


@pytest.mark.parametrize(
    ("place", "turn", "points"),
    [
        # Inside the face: a quarter turn apart.
        ((0.1, 0.02, 0.2), UPRIGHT, [(0.05, 0.02), (0.1, -0.03), (0.1, 0.07), (0.15, 0.02)]),
        # Over the edge at x = 0.3, which the rim crosses.
        (
            (0.28, 0.0, 0.2),
            UPRIGHT,
            [(0.23, 0.0), (0.28, -0.05), (0.3, -CROSSING), (0.3, CROSSING)],
        ),
        # On its wall, and over the edge.
        ((0.0, 0.0, 0.15), SIDEWAYS, [(-0.1, 0.0), (0.1, 0.0)]),
        ((0.25, 0.0, 0.15), SIDEWAYS, [(0.15, 0.0), (0.3, 0.0)]),
    ],
)
def test_a_can_on_a_box(place, turn, points) -> None:
    robot, state = lying(Geometry.box((0.3, 0.2, 0.1)), Geometry.cylinder(0.05, 0.1), place, turn)
    found = artix.link_contacts(robot, state)
    used = np.asarray(found.gap) < 0.01
    np.testing.assert_allclose(found.gap[used], 0, atol=1e-12)
    np.testing.assert_allclose(found.normal[used], [[0.0, 0.0, -1.0]] * len(points), atol=1e-12)
    places = np.asarray(found.point[used] - state.root_pose[:3])
    order = np.lexsort(places.round(9).T[::-1])
    np.testing.assert_allclose(places[order], [(*point, 0.1) for point in points], atol=1e-12)


def test_corners_of_a_small_box_on_a_cap() -> None:
    """All of a small one's, and of a beam the crossings of its edges and the rim."""
    reach = (0.3**2 - 0.05**2) ** 0.5
    for half, wanted in (((0.1, 0.05, 0.02), (0.1, 0.05)), ((0.6, 0.05, 0.02), (reach, 0.05))):
        robot, state = lying(Geometry.cylinder(0.3, 0.1), Geometry.box(half), (0.0, 0.0, 0.12))
        found = artix.link_contacts(robot, state)
        np.testing.assert_allclose(found.gap, 0, atol=1e-12)
        places = np.abs(np.asarray(found.point - state.root_pose[:3]))
        np.testing.assert_allclose(places[:, :2], [wanted] * 4, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["cylinder", "box", "hull"])
def test_a_rim_seen_edge_on(kind: str, dtype: str) -> None:
    """The end of a lying cylinder beside a standing shape: across the axis of the latter, it is a
    rectangle, whose corner is what touches a circle or another corner."""
    radius, half, length, width = 0.15, 0.1, 0.2, 0.1
    size = np.array([radius, radius, half])
    standing = {
        "cylinder": Geometry.cylinder(radius, half),
        "box": Geometry.box(size),
        "hull": Geometry.hull(size * list(itertools.product((-1, 1), repeat=3))),
    }[kind]
    robot = paired(standing, Geometry.cylinder(width, length)).astype(jnp.dtype(dtype))
    rng, count = np.random.default_rng(0), 200
    corner = rng.uniform(0.02, 0.15, (count, 2)) + (0 if kind == "cylinder" else radius)
    height = rng.uniform(-0.9, 0.9, count) * half
    place = rng.choice([-1, 1], (count, 2)) * (corner + [width, length])
    turn = np.broadcast_to([np.pi / 2, 0, 0], (count, 3))
    places = jnp.asarray(np.concatenate([place, height[:, None], turn], axis=1), dtype)
    rest = artix.neutral_state(robot)
    gaps = jax.jit(
        jax.vmap(lambda place: artix.link_contacts(robot, rest.replace(joint_position=place)).gap)
    )(places)
    wanted = np.hypot(*(corner - (0 if kind == "cylinder" else radius)).T)
    wanted = wanted - (radius if kind == "cylinder" else 0)
    near = wanted > -0.03  # Deeper, another way out may be shorter.
    assert np.sum(near) > 100
    tolerance = {"float32": 1e-6, "float64": 1e-12}[dtype]
    np.testing.assert_allclose(np.min(gaps, axis=1)[near], wanted[near], atol=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_capsule_beside_a_rim(dtype: str) -> None:
    """It stands nearly upright, its lower end within some millimetres of the rim of a coin, outside or
    inside: its distance is that of this end, wherever its axis would cross the coin."""
    radius, half, length, rounding = 0.2, 0.1, 0.2, 0.1
    robot = paired(Geometry.cylinder(radius, half), Geometry.capsule(rounding, length))
    robot = robot.astype(jnp.dtype(dtype))
    rng, count = np.random.default_rng(0), 20_000
    angle, turn = rng.uniform(0, 2 * np.pi, (2, count))
    tilt = 10 ** rng.uniform(-8, -2, count)
    outside = rng.choice([-1, 1], count) * 10 ** rng.uniform(-9, -1.5, count)
    height = half + rng.uniform(0, 0.12, count)
    vectors = tilt[:, None] * np.stack([np.cos(turn), np.sin(turn), 0 * turn], axis=1)
    axis = Rotation.from_rotvec(vectors).as_matrix()[:, :, 2]
    around = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    end = np.concatenate([(radius + outside)[:, None] * around, height[:, None]], axis=1)
    places = jnp.asarray(np.concatenate([end + length * axis, vectors], axis=1), dtype)
    rest = artix.neutral_state(robot)
    gaps = jax.jit(
        jax.vmap(lambda place: artix.link_contacts(robot, rest.replace(joint_position=place)).gap)
    )(places)
    wanted = np.hypot(np.maximum(outside, 0), height - half) - rounding
    missing = wanted - np.min(np.asarray(gaps, float), axis=1)
    assert np.min(missing) > {"float32": -1e-6, "float64": -1e-12}[dtype]
    assert np.quantile(missing, 0.999) < 1e-4  # A thousandth of the shortest half is preference.


@pytest.mark.parametrize("is_hull", [False, True])
def test_a_rolling_cylinder_never_jumps(is_hull: bool) -> None:
    """Over a face and down its edge: the smallest gap is what geometry says, at every angle."""
    radius, half = 0.05, (0.3, 0.2, 0.1)
    corners = np.array(list(itertools.product((-1.0, 1.0), repeat=3))) * half
    robot = paired(
        Geometry.hull(corners) if is_hull else Geometry.box(half),
        Geometry.cylinder(radius, 0.1, pose=(0.0, 0.0, 0.0, -(0.5**0.5), 0.0, 0.0, 0.5**0.5)),
    )
    start = artix.neutral_state(robot)
    x = jnp.concatenate([jnp.linspace(0.2, 0.3, 41), 0.3 + 0.05 * jnp.sin(jnp.linspace(0, 1, 41))])
    z = jnp.concatenate([jnp.full(41, 0.15), 0.1 + 0.05 * jnp.cos(jnp.linspace(0, 1, 41))])
    zero = jnp.zeros_like(x)
    turns = jnp.stack([zero, jnp.linspace(0, 3, 82), zero], axis=1)
    q = jnp.concatenate([jnp.stack([x, zero, z], axis=1), turns], axis=1)
    found = jax.vmap(lambda q: artix.link_contacts(robot, start.replace(joint_position=q)))(q)
    order = np.argsort(found.gap, axis=1)[:, :2]
    gaps = np.take_along_axis(np.asarray(found.gap), order, axis=1)
    np.testing.assert_allclose(gaps, 0, atol=1e-12)
    normals = np.take_along_axis(np.asarray(found.normal), order[:, :, None], axis=1)
    slopes = np.clip((x - 0.3) / radius, 0, 1)
    wanted = np.stack([-slopes, zero, -np.sqrt(1 - slopes**2)], axis=1)
    np.testing.assert_allclose(normals[:, 0], wanted, atol=1e-6)
    across = np.asarray(found.point)[..., 1] - np.asarray(start.root_pose)[1]
    np.testing.assert_allclose(
        np.sort(np.take_along_axis(across, order, axis=1)), [[-0.1, 0.1]] * 82, atol=1e-12
    )
