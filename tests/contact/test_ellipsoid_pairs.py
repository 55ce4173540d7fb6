"""Points between ellipsoids and other shapes, against directions, MuJoCo, spheres and differences."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import artix
from artix import Geometry
from tests.contact.test_hull_pairs import GEOMETRIES, HULLS
from tests.contact.test_link_contacts import assert_finite_derivatives, lying, paired, placed
from tests.contact.test_pairs import SHAPES
from tests.support.marks import slow_besides

SEMI_AXES = np.array((0.3, 0.1, 0.2))
OTHERS = ["sphere", "capsule", "cylinder", "box", "prism", "ball", "ellipsoid"]
OTHER_AXES = np.array((0.15, 0.25, 0.1))
EVERY = GEOMETRIES | {"ellipsoid": Geometry.ellipsoid(OTHER_AXES)}
EGG = Geometry.ellipsoid(SEMI_AXES)


def reach(kind: str, directions: np.ndarray) -> np.ndarray:
    """How far a shape reaches from its centre along directions [..., 3] of its frame, [...]."""
    x, y, z = np.moveaxis(directions, -1, 0)
    if kind == "sphere":
        return np.full(x.shape, 0.2)
    if kind == "capsule":
        return 0.1 + 0.4 * np.abs(z)
    if kind == "cylinder":
        return 0.15 * np.hypot(x, y) + 0.25 * np.abs(z)
    if kind == "box":
        return np.abs(directions) @ (0.3, 0.2, 0.1)
    if kind in HULLS:
        return np.max(directions @ HULLS[kind].T, axis=-1)
    return np.linalg.norm(directions * (OTHER_AXES if kind == "ellipsoid" else SEMI_AXES), axis=-1)


def separations(kind: str, poses: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """How far an ellipsoid and a shape with poses [N, 2, 7] are apart along directions [N, D, 3]
    from the shape to the ellipsoid, [N, D].
    """
    turns = Rotation.from_quat(poses[..., 3:].reshape(-1, 4)).as_matrix().reshape(-1, 2, 3, 3)
    between = np.sum(directions * (poses[:, :1, :3] - poses[:, 1:, :3]), axis=2)
    reaches = [reach(k, directions @ turns[:, side]) for side, k in enumerate(("egg", kind))]
    return between - reaches[0] - reaches[1]


def largest_separation(kind: str, poses: np.ndarray) -> np.ndarray:
    """The largest separation of N pairs: of 4,000 directions, then of ever closer ones."""
    rng = np.random.default_rng(5)
    first = rng.normal(size=(1, 4000, 3))
    best, width = None, 0.1
    for _ in range(18):
        around = first if best is None else best + width * rng.normal(size=(len(poses), 60, 3))
        around = around / np.linalg.norm(around, axis=2, keepdims=True)
        around = np.broadcast_to(around, (len(poses), *around.shape[1:]))
        if best is not None:
            around = np.concatenate([best, around], axis=1)
            width *= 0.4
        values = separations(kind, poses, around)
        place = np.argmax(values, axis=1)[:, None]
        best = np.take_along_axis(around, place[..., None], axis=1)
    return np.take_along_axis(values, place, axis=1)[:, 0]


@pytest.mark.slow
@pytest.mark.parametrize("kind", slow_besides(["sphere", "box", "ellipsoid"], OTHERS))
def test_gaps_are_the_largest_separations(kind: str) -> None:
    """Of 500 pairs: the distance if they are apart, and the shortest way out if they overlap by up
    to 2 cm. Deeper, it is a way out. The normal is the direction, and the point between both."""
    robot, count = paired(EGG, EVERY[kind]), 500
    states = placed(robot, count)
    found = jax.jit(jax.vmap(lambda s: artix.link_contacts(robot, s)))(states)
    poses = np.array(jax.vmap(lambda s: artix.frame_pose(robot, s))(states))[:, [0, -1]]
    assert found.gap.shape == (count, 1)
    gap, normal = np.asarray(found.gap[:, 0]), np.asarray(found.normal)
    np.testing.assert_allclose(separations(kind, poses, normal)[:, 0], gap, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(normal, axis=2), 1, atol=1e-14)
    missing = largest_separation(kind, poses) - gap
    is_near = gap > -0.02
    assert np.sum(is_near) > 200 and np.sum(is_near & (gap < 0)) > 5
    assert np.max(missing[is_near]) < 1e-9
    assert np.quantile(missing, 0.9) < 1e-9
    # Both surfaces are half of the gap away.
    turn = Rotation.from_quat(poses[:, 0, 3:])
    lowest = turn.inv().apply(
        np.asarray(found.point)[:, 0] + 0.5 * gap[:, None] * normal[:, 0] - poses[:, 0, :3]
    )
    np.testing.assert_allclose(np.sum((lowest / SEMI_AXES) ** 2, axis=1), 1, atol=1e-11)


@pytest.mark.parametrize("kind", slow_besides(["capsule"], ["sphere", "capsule", "box", "prism"]))
def test_an_ellipsoid_of_equal_axes_is_a_sphere(kind: str) -> None:
    """Its gaps are those of a sphere, which the nearest point of the other shape gives."""
    balls = [
        paired(shape, EVERY[kind])
        for shape in (Geometry.sphere(0.2), Geometry.ellipsoid([0.2] * 3))
    ]
    states = placed(balls[0], 500)
    wanted, found = (
        jax.jit(
            jax.vmap(lambda s, ball=ball: artix.geometry_pair_distances(ball, s, (("a", "b"),)))
        )(states)
        for ball in balls
    )
    is_near = np.asarray(wanted.distance[:, 0]) > -0.02
    assert np.sum(is_near) > 300
    np.testing.assert_allclose(found.distance[is_near], wanted.distance[is_near], atol=1e-12)
    np.testing.assert_allclose(found.normal[is_near], wanted.normal[is_near], atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_directions_that_are_even_to_all_axes(dtype: str) -> None:
    """A ball on each diagonal of a cube touches at its corner, where no axis is shorter than another
    to begin a direction across the normal with."""
    robot = paired(Geometry.box((0.2, 0.2, 0.2)), Geometry.ellipsoid((0.1, 0.1, 0.1)))
    robot = robot.astype(jnp.dtype(dtype))
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))
    distances = np.array([0.23, 0.25, 0.26, 0.3])[:, None, None]
    places = np.pad((distances * signs).reshape(-1, 3), ((0, 0), (0, 3))).astype(dtype)
    rest = artix.neutral_state(robot)
    points = jax.jit(
        jax.vmap(lambda place: artix.link_contacts(robot, rest.replace(joint_position=place)))
    )(places)
    nearest = np.argmin(points.gap, axis=1)
    gaps = np.take_along_axis(np.asarray(points.gap), nearest[:, None], 1).reshape(4, 8)
    wanted = 3**0.5 * (distances[..., 0] - 0.2) - 0.1
    tolerance = 1e-6 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(gaps, np.broadcast_to(wanted, (4, 8)), atol=tolerance)
    assert all(np.isfinite(leaf).all() for leaf in (points.point, points.normal))


@pytest.mark.slow
@pytest.mark.parametrize("kind", slow_besides(["cylinder", "box"], OTHERS))
def test_derivatives(kind: str) -> None:
    """First and second ones of gap, normal and point, against differences."""
    robot = paired(EGG, EVERY[kind])
    rest, direction = artix.neutral_state(robot), jnp.array([0.3, -0.2, 0.5, 0.4, -0.6, 0.2])

    def values(place):
        contacts = artix.link_contacts(robot, rest.replace(joint_position=place))
        return jnp.concatenate([contacts.gap, contacts.normal[0], contacts.point[0]])

    def along(place):
        return jax.jvp(values, (place,), (direction,))[1]

    both = jax.jit(lambda place: (along(place), jax.jvp(along, (place,), (direction,))[1]))
    for place in (
        (0.1, 0.2, 0.42, 0.1, -0.3, 0.2),
        (0.55, 0.2, -0.1, 0.5, 0.3, -0.2),
        (0.32, -0.25, 0.25, 0.3, 0.8, 0.1),
        (0.02, 0.01, 0.46, 0.01, 0.02, 0.03),
    ):
        first, second = both(jnp.array(place))
        step = 1e-5
        ends = [values(jnp.array(place) + k * step * direction) for k in (-1, 0, 1)]
        np.testing.assert_allclose(first, (ends[2] - ends[0]) / (2 * step), atol=1e-7)
        slopes = [along(jnp.array(place) + k * step * direction) for k in (-1, 1)]
        np.testing.assert_allclose(second, (slopes[1] - slopes[0]) / (2 * step), atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", slow_besides(["float32"], ["float32", "float64"]))
@pytest.mark.parametrize("kind", slow_besides(["cylinder", "ellipsoid"], OTHERS))
def test_derivatives_are_finite(kind: str, dtype: str) -> None:
    """In the middle, along an axis, on a face, on an edge and far away."""
    robot = paired(EGG, EVERY[kind]).astype(dtype)
    quarter = np.pi / 2
    places = [
        [0, 0, 0, 0, 0, 0],
        [0, 0, 0.3, 0, 0, 0],
        [0.5, 0, 0, 0, 0, 0],
        [0, 0.3, 0, 0, 0, quarter],
        [0.6, 0.3, 0, quarter, 0, 0],
        [10, 0, 0, 0, 0, 0],
        [0.45, 0, 0.3, 0, 0, 0],
    ]
    assert_finite_derivatives(robot, places, 100.0)


@pytest.mark.slow
def test_where_it_lies() -> None:
    """On a face it has one point, under its lowest; beside a capsule likewise."""
    robot, state = lying(Geometry.box((1.0, 1.0, 0.1)), EGG, (0.2, 0.1, 0.1 + 0.2 - 1e-3))
    contacts = artix.link_contacts(robot, state)
    np.testing.assert_allclose(contacts.gap, [-1e-3], atol=1e-15)
    np.testing.assert_allclose(contacts.normal, [[0, 0, -1]], atol=1e-15)
    np.testing.assert_allclose(contacts.point, [[0.2, 0.1, 0.1 - 0.5e-3]], atol=1e-15)
    robot, state = lying(SHAPES["capsule"][0], EGG, (0.0, 0.1 + 0.1, 0.3))
    contacts = artix.link_contacts(robot, state)
    np.testing.assert_allclose(contacts.gap, [0], atol=1e-15)
    np.testing.assert_allclose(contacts.point, [[0, 0.1, 0.3]], atol=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["cylinder", "capsule"])
def test_beyond_the_end_of_an_axis(kind: str, dtype: str) -> None:
    """Along the axis of a cylinder or a capsule there is no direction across it to begin with."""
    reach, rounding = {"cylinder": (0.25, 0.0), "capsule": (0.4, 0.1)}[kind]
    robot = paired(EVERY[kind], EGG).astype(jnp.dtype(dtype))
    rest = artix.neutral_state(robot)
    turns = Rotation.create_group("O")
    heights = reach + rounding + np.array([0.05, 0.1, 0.11, 0.2, 0.3])

    def gap_and_normal(place):
        points = artix.link_contacts(robot, rest.replace(joint_position=place))
        return points.gap[0], points.normal[0]

    axis = turns.as_matrix()[:, 2]  # The ellipsoid's components of the other axis.
    distance = np.linalg.norm(axis * SEMI_AXES, axis=1)
    places = np.concatenate(
        [
            np.broadcast_to(np.pad(heights[:, None, None], ((0, 0), (0, 0), (2, 0))), (5, 24, 3)),
            np.broadcast_to(turns.as_rotvec(), (5, 24, 3)),
        ],
        axis=2,
    ).reshape(-1, 6)
    gap, normal = jax.jit(jax.vmap(gap_and_normal))(jnp.asarray(places, dtype))
    wanted = (heights[:, None] - reach - rounding - distance).reshape(-1)
    near = wanted > -0.02  # Deeper, another way out may be shorter.
    tolerance = 1e-6 if dtype == "float32" else 1e-12
    assert np.sum(near) > 50
    np.testing.assert_allclose(gap[near], wanted[near], atol=tolerance)
    np.testing.assert_allclose(normal[near], [[0, 0, -1]] * np.sum(near), atol=100 * tolerance)
    if dtype == "float64":  # Beyond a capsule's end, the normal turns as the ellipsoid moves.
        place = jnp.array([0.0, 0.0, reach + rounding + 0.21, 0.0, 0.0, 0.0])
        found = jax.jacfwd(lambda x: gap_and_normal(x)[1])(place)
        moved = [
            (gap_and_normal(place + 1e-5 * e)[1] - gap_and_normal(place - 1e-5 * e)[1]) / 2e-5
            for e in jnp.eye(6)
        ]
        np.testing.assert_allclose(found, jnp.stack(moved, axis=1), atol=1e-8)


@pytest.mark.parametrize(
    ("kind", "most"),
    [
        ("sphere", 2860),
        ("capsule", 4140),
        ("cylinder", 5050),
        ("box", 11265),
        ("ball", 21400),
        ("ellipsoid", 3600),
    ],
)
def test_operations(kind: str, most: int) -> None:
    """All in one kernel; link poses are among them."""
    robot = paired(EGG, EVERY[kind]).astype("float32")
    (cost,) = artix.explain(artix.link_contacts, robot, artix.neutral_state(robot)).operations
    assert not cost.refusal
    assert sum(cost.operations) <= most
