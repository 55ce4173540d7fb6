"""What two faces share: against the corners of the intersection of half-planes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.spatial import ConvexHull, HalfspaceIntersection

from artix.contact.polygons import Polygon, on_both

NORMAL = np.array([0.0, 0.0, 1.0])


@pytest.fixture(autouse=True)
def _doubles():
    with jax.enable_x64(True):
        yield


def face(points: np.ndarray, normal: np.ndarray, count: int) -> Polygon:
    """A face with these corners, the last one repeated."""
    loop = np.concatenate([points, np.repeat(points[-1:], count - len(points), axis=0)])
    edges = np.roll(loop, -1, axis=0) - loop
    is_edge = np.any(edges != 0, axis=1)
    return Polygon(*map(jnp.asarray, (loop, edges, is_edge, normal)))


def convex(rng: np.random.Generator, count: int) -> np.ndarray:
    """A convex polygon with at most so many corners, counter-clockwise, [K, 2]."""
    angles = np.sort(rng.uniform(0, 2 * np.pi, count))
    points = np.stack([np.cos(angles), np.sin(angles)], axis=1) * rng.uniform(0.5, 1.5, 2)
    return points[ConvexHull(points).vertices] + rng.uniform(-1, 1, 2)


def shared(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The corners [C, 2] of what two polygons share."""
    lines = np.concatenate([ConvexHull(first).equations, ConvexHull(second).equations])
    # The middle of the largest circle within both is inside.
    best = linprog(
        [0, 0, -1], np.c_[lines[:, :2], np.ones(len(lines))], -lines[:, 2], bounds=(None, None)
    )
    if best.x[2] < 1e-3:
        return np.zeros((0, 2))
    corners = HalfspaceIntersection(lines, best.x[:2]).intersections
    return corners[ConvexHull(corners).vertices]


@pytest.mark.slow
@pytest.mark.parametrize("counts", [(3, 3), (4, 4), (4, 7), (8, 3)])
def test_corners_are_those_of_the_intersection(counts: tuple[int, int]) -> None:
    """All if there are at most four; else the lowest is among four that span most of the area."""
    rng = np.random.default_rng(sum(counts))
    most, compared = max(counts), 0
    solve = jax.jit(on_both)
    for _ in range(100):
        first, second = (convex(rng, count) for count in counts)
        slope = rng.normal(size=2) * 0.2
        tilted = np.cross([1, 0, slope[0]], [0, 1, slope[1]])
        loop = np.c_[second, 1 + second @ slope][::-1]
        height, place, is_used = map(
            np.asarray,
            solve(
                face(np.c_[first, np.zeros(len(first))], NORMAL, most),
                face(loop, -tilted / np.linalg.norm(tilted), most),
                jnp.asarray(4.0),
            ),
        )
        wanted = shared(first, second)
        if not len(wanted):
            continue
        compared += 1
        assert np.sum(is_used) == min(len(wanted), 4)
        apart = np.linalg.norm(place[is_used, None, :2] - wanted, axis=2)
        assert np.all(np.min(apart, axis=1) < 1e-9)
        assert len(set(np.argmin(apart, axis=1))) == np.sum(is_used)
        np.testing.assert_allclose(height[is_used], 1 + place[is_used, :2] @ slope, atol=1e-12)
        np.testing.assert_allclose(np.min(height), np.min(1 + wanted @ slope), atol=1e-9)
        share = ConvexHull(place[is_used, :2]).volume / ConvexHull(wanted).volume
        assert share > (0.999 if len(wanted) <= 4 else 0.5)
    assert compared > 20


@pytest.mark.slow
def test_faces_that_share_nothing_have_no_corner() -> None:
    square = np.array([(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)])
    beside = np.c_[square + [2.5, 0.5], np.full(4, 0.1)][::-1]
    lower = face(np.c_[square, np.zeros(4)], NORMAL, 4)
    height, place, is_used = on_both(lower, face(beside, -NORMAL, 4), jnp.asarray(4.0))
    assert not np.any(is_used)
    np.testing.assert_array_equal(height, 4.0)
    assert np.all(np.abs(place) < 4)
