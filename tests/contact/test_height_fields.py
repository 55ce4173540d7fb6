"""Height fields: nearest points by search on a fine grid, closed forms of ridges and bowls, energy
on steep steps."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.interpolate import RegularGridInterpolator
from scipy.spatial.transform import Rotation
from scipy.special import ellipk

import artix
from tests.support.rollouts import reported_rollout

GRAVITY = 9.81
SPACING, ORIGIN = np.array([0.15, 0.2]), np.array([-0.5, -0.7, 0.3])


def body(shape: artix.Geometry, radius: float, dtype=jnp.float64) -> artix.Articulation:
    """A free kilogram with the inertia of a ball of this radius."""
    builder = artix.ArticulationBuilder()
    inertia = (0.4 * radius**2,) * 3
    builder.add_link(
        mass=1.0, inertia=inertia, name="body", linear_damping=0.0, angular_damping=0.0
    )
    builder.add_geometry("body", shape)
    return builder.build(dtype)


def rough(size: float, dtype=jnp.float64) -> artix.HeightField:
    heights = size * np.random.default_rng(0).normal(size=(12, 10))
    return artix.HeightField.of(heights, spacing=SPACING, origin=ORIGIN, dtype=dtype)


def surface(field: artix.HeightField):
    """The height at x and y, by SciPy, level beyond the edges."""
    heights = np.asarray(field.heights, float)
    ends = np.array(heights.shape) - 1
    sample = RegularGridInterpolator([np.arange(end + 1) for end in ends], heights)

    def height(x, y):
        places = [
            np.clip((one - ORIGIN[k]) / SPACING[k], 0, ends[k]) for k, one in enumerate((x, y))
        ]
        return ORIGIN[2] + sample(tuple(places))

    return height


def least_distance(height, point: np.ndarray, within: float) -> float:
    """From a point to a surface: on a grid, and on ever finer ones about its best place."""
    center, width = point[:2], within
    for _ in range(14):
        x, y = (center[k] + np.linspace(-width, width, 41) for k in (0, 1))
        grid = np.stack(np.meshgrid(x, y, indexing="ij"))
        square = (
            np.sum((grid - point[:2, None, None]) ** 2, axis=0) + (height(*grid) - point[2]) ** 2
        )
        row, column = np.unravel_index(np.argmin(square), square.shape)
        center, width = grid[:, row, column], 0.15 * width
    return float(np.sqrt(square[row, column]))


def points_near(field: artix.HeightField, count: int, deepest: float, highest: float) -> np.ndarray:
    """Random points [3, count] at depths and heights of at most these, some of them beyond the
    edges."""
    rng = np.random.default_rng(3)
    x, y = rng.uniform(-0.8, 1.3, count), rng.uniform(-1.0, 1.3, count)
    return np.stack([x, y, surface(field)(x, y) + rng.uniform(-deepest, highest, count)])


@jax.jit
def distances(field: artix.HeightField, points) -> tuple[jax.Array, jax.Array]:
    count = points.shape[1]
    radius = jnp.full(count, 0.12, points.dtype)
    return field.distances(
        jnp.zeros(3, points.dtype), jnp.asarray(points), radius, np.ones(count, int)
    )


@pytest.mark.parametrize(("size", "most"), [(0.02, 1e-8), (0.1, 1e-8)])
def test_distances_are_those_of_the_nearest_points(size: float, most: float) -> None:
    """Slopes up to 0.4, and up to 2, where one point in a hundred takes a cell that is not quite
    the nearest."""
    field = rough(size)
    height = surface(field)
    points = points_near(field, 120, 0.05, 0.11)
    gap = np.asarray(distances(field, points)[0])
    wanted = np.array([least_distance(height, point, 0.2) for point in points.T])
    wanted = np.where(points[2] < height(*points[:2]), -wanted, wanted)
    error = np.abs(gap - wanted)[np.abs(wanted) < 0.12]
    assert len(error) > 100
    assert np.quantile(error, 0.97) < most
    assert np.max(error) < 5e-4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "most"),
    [(jnp.float64, 1e-7), pytest.param(jnp.float32, 2e-3, marks=pytest.mark.slow)],
)
def test_normals_are_gradients(dtype, most: float) -> None:
    field = rough(0.05, dtype)
    points = jnp.asarray(points_near(field, 150, 0.03, 0.1), dtype)
    gap, normal = distances(field, points)
    slope = jax.grad(lambda points: jnp.sum(distances(field, points)[0]))(points)
    near = jnp.abs(gap) < 0.12
    np.testing.assert_allclose(jnp.sum(normal**2, axis=0), 1.0, atol=10 * jnp.finfo(dtype).eps)
    assert jnp.quantile(jnp.max(jnp.abs(slope - normal), axis=0)[near], 0.98) < most


@pytest.mark.slow
def test_derivatives_of_normals_are_differences() -> None:
    """The curvature that a ball feels as it rolls."""
    field = rough(0.05)
    points = jnp.asarray(points_near(field, 100, 0.03, 0.1))
    normals = lambda points: distances(field, points)[1]  # noqa: E731
    along = jax.random.normal(jax.random.key(0), points.shape)
    slope = jax.jvp(normals, (points,), (along,))[1]
    assert np.all(np.isfinite(slope))
    ends = [normals(points + sign * 1e-6 * along) for sign in (1, -1)]
    error = np.max(np.abs(slope - (ends[0] - ends[1]) / 2e-6), axis=0)
    assert np.quantile(error, 0.9) < 1e-6


def test_a_ball_on_a_ridge() -> None:
    """Above a roof of 45 degrees the normal points from the ridge to the centre; beside it, it is
    that of the roof."""
    roof = artix.HeightField.of(
        [[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]], spacing=(1.0, 1.0), origin=(-1.0, -0.5, -1.0)
    )
    points = np.array([[0.03, 0.0, 0.1], [-0.1, 0.0, 0.0], [0.0, 0.1, 0.05], [0.2, 0.0, -0.1]]).T
    gap, normal = distances(roof, points)
    length, half = np.hypot(0.03, 0.1), 0.5**0.5
    np.testing.assert_allclose(gap, [length, 0.1 * half, 0.05, 0.1 * half], atol=1e-15)
    wanted = [[0.03 / length, 0, 0.1 / length], [-half, 0, half], [0, 0, 1], [half, 0, half]]
    np.testing.assert_allclose(normal.T, wanted, atol=1e-14)


def test_a_wall_is_near_before_it_is_below() -> None:
    """A ball over level ground in front of a wall of 45 degrees touches the wall as soon as it is
    near, and the ground beside it."""
    wall = artix.HeightField.of(
        [[0.0] * 2, [0.0] * 2, [1.0] * 2], spacing=(1.0, 1.0), origin=(-1.0, -0.5, 0.0)
    )
    robot = body(artix.Geometry.sphere(0.1), 0.1)
    state = artix.neutral_state(robot)
    state = state.replace(root_pose=state.root_pose.at[:3].set(jnp.array([-0.04, 0.0, 0.11])))
    found = artix.ground_contacts(artix.Scene(robot, ground=artix.Ground((wall,))), state).contacts
    np.testing.assert_allclose(found.gap[:2], [0.15 * 0.5**0.5 - 0.1, 0.01], atol=1e-15)
    assert found.gap[2] > 1.0
    sides = [[-(0.5**0.5), 0, 0.5**0.5], [0, 0, 1]]
    np.testing.assert_allclose(found.normal[:2], sides, atol=1e-15)


def test_corners_far_above_rough_ground_are_far_above_it() -> None:
    """As those of a trunk over bent cells: they are near some point of the cell below, if not
    always its nearest."""
    heights = np.random.default_rng(1).uniform(-0.08, 0.08, (40, 40))
    field = artix.HeightField.of(heights, spacing=(0.1, 0.1))
    places = np.random.default_rng(2).uniform(0.3, 3.6, (2, 2000))
    points = jnp.asarray(np.concatenate([places, np.full((1, 2000), 0.25)]))
    gap, normal = jax.jit(field.distances)(jnp.zeros(3), points)
    over = field.heights_below(jnp.zeros(3), points)
    assert jnp.max(gap / over) < 1.25
    assert jnp.min(gap) > 0.25 - 0.08
    assert jnp.min(normal[2]) > 0.5


def test_what_is_no_number_is_not_near() -> None:
    gap, _ = distances(rough(0.1), np.array([[np.nan, 0, 0], [0, np.inf, 0], [1e9, -1e9, 0.5]]).T)
    assert np.all(np.isnan(gap[:2]))
    assert np.isfinite(gap[2])


def bowl(radius: float, spacing: float, friction: float) -> artix.HeightField:
    along = np.arange(-1.2, 1.2 + spacing / 2, spacing)
    x, y = np.meshgrid(along, along, indexing="ij")
    heights = radius - np.sqrt(radius**2 - x**2 - y**2)
    return artix.HeightField.of(
        heights, spacing=(spacing,) * 2, origin=(-1.2, -1.2, 0.0), friction=friction
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("friction", "inertia"), [(0.0, 1.0), pytest.param(1.0, 1.4, marks=pytest.mark.slow)]
)
def test_a_ball_swings_in_a_bowl(friction: float, inertia: float) -> None:
    """As a pendulum of length R - r; 7/5 of its mass swing if it rolls. Each edge between cells
    takes a little energy,

    the part that an inelastic impact at their angle takes, and nothing ever adds any.
    """
    radius, ball, angle, dt, spacing = 2.0, 0.1, 0.4, 2e-3, 0.04
    robot, ground = (
        body(artix.Geometry.sphere(ball), ball),
        artix.Ground((bowl(radius, spacing, friction),)),
    )
    length = radius - ball
    start = jnp.array([np.sin(angle), 0.005, -np.cos(angle)]) * (length - 1e-3) + jnp.array(
        [0.0, 0.0, radius]
    )
    state = artix.neutral_state(robot)
    state = state.replace(root_pose=state.root_pose.at[:3].set(start))
    path = artix.rollout(artix.Scene(robot, ground=ground), state, None, dt, num_steps=2400)
    x, time = np.asarray(path.root_pose[:, 0]), dt * np.arange(1, 2401)
    before = np.flatnonzero(np.diff(np.sign(x)))
    crossings = time[before] - x[before] * dt / (x[before + 1] - x[before])
    period = 4 * np.sqrt(inertia * length / GRAVITY) * ellipk(np.sin(angle / 2) ** 2)
    assert len(crossings) >= 3
    # Of length R it is 2.6 % longer.
    assert 2 * np.mean(np.diff(crossings)) == pytest.approx(period, rel=3e-3)
    velocity = np.asarray(path.root_velocity)
    energy = 0.5 * np.sum(velocity[:, :3] ** 2, axis=1) + 0.2 * ball**2 * np.sum(
        velocity[:, 3:] ** 2, axis=1
    )
    energy += GRAVITY * (np.asarray(path.root_pose[:, 2]) - ball)
    first = GRAVITY * (float(start[2]) - ball)
    assert np.max(energy) < first
    edges = 4 * angle * radius / spacing * time[-1] / period
    assert energy[-1] / first > (1 - (spacing / radius) ** 2) ** edges


SHAPES = {
    "ball": artix.Geometry.sphere(0.1),
    "capsule": artix.Geometry.capsule(0.06, 0.1),
    "box": artix.Geometry.box((0.1, 0.08, 0.06)),
    "hull": artix.Geometry.hull(
        [[0.1, 0, -0.06], [-0.05, 0.08, -0.06], [-0.05, -0.08, -0.06], [0, 0, 0.1]]
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    ["ball", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("capsule", "box", "hull"))],
)
def test_steep_steps_add_no_energy(kind: str) -> None:
    """Bodies fall onto steps of 0.3 m within 0.15 m, in float32: what a step adds undoes
    penetrations at 0.1 m/s."""
    dt, steps, count = 0.005, 400, 100
    robot = body(SHAPES[kind], 0.1, jnp.float32)
    heights = sum(
        np.where(np.arange(24) // k % 2 == 0, 0.0, 0.3).reshape(s)
        for k, s in ((2, (24, 1)), (3, (1, 24)))
    )
    field = artix.HeightField.of(heights, spacing=(0.15, 0.15), friction=0.5, dtype=jnp.float32)
    ground, rng = artix.Ground((field,)), np.random.default_rng(0)
    states = jax.vmap(lambda key: artix.random_state(robot, key))(
        jax.random.split(jax.random.key(0), count)
    )
    place = jnp.asarray(rng.uniform((0.5, 0.5, 1.0), (3.0, 3.0, 1.6), (count, 3)), jnp.float32)
    velocity = jnp.asarray(rng.normal(size=(count, 6)) * np.repeat([1.0, 4.0], 3), jnp.float32)
    states = states.replace(root_pose=states.root_pose.at[:, :3].set(place), root_velocity=velocity)
    path = jax.jit(
        jax.vmap(
            lambda s: artix.rollout(artix.Scene(robot, ground=ground), s, None, dt, num_steps=steps)
        )
    )(states)
    velocity = np.asarray(path.root_velocity, float)
    energy = 0.5 * np.sum(velocity[..., :3] ** 2, axis=-1) + 0.002 * np.sum(
        velocity[..., 3:] ** 2, axis=-1
    )
    # In flight, a semi-implicit step keeps this energy.
    energy += GRAVITY * (np.asarray(path.root_pose[..., 2], float) + 0.5 * dt * velocity[..., 2])
    # The points that may be pushed out in different directions.
    pushed = 1 if kind == "ball" else 2
    assert np.max(np.diff(energy, axis=1)) < 0.5 * 0.1**2 * pushed + 1e-4
    assert np.all(np.max(energy, axis=1) <= energy[:, 0] + 1e-4)
    last = jax.tree.map(lambda x: x[:, -1], path)
    lowest = jax.vmap(
        lambda state: artix.geometry_distances(artix.Scene(robot, ground=ground), state)[0]
    )(last)
    assert np.min(lowest) > -4e-3


def _on_a_sphere(count: int, sizes: tuple[float, float, float]) -> np.ndarray:
    points = np.random.default_rng(1).normal(size=(count, 3))
    return points / np.linalg.norm(points, axis=1)[:, None] * sizes


BENT = {
    "hull": artix.Geometry.hull(_on_a_sphere(48, (0.06, 0.05, 0.04))),
    "cylinder": artix.Geometry.cylinder(0.05, 0.06),
    "ellipsoid": artix.Geometry.ellipsoid((0.06, 0.05, 0.04)),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "is_rough", "most"),
    [
        ("hull", True, 1e-3),
        pytest.param("cylinder", False, 2e-2, marks=pytest.mark.slow),
        pytest.param("ellipsoid", False, 3e-2, marks=pytest.mark.slow),
        pytest.param("ellipsoid", True, 2e-2, marks=pytest.mark.slow),
    ],
)
def test_points_of_bodies_that_roll_over_terrain_do_not_sink_in(
    kind: str, is_rough: bool, most: float
) -> None:
    """A point that sinks in is pushed out, and energy comes from nowhere: 0.15 to 0.4 J in 2 s with
    points that are the lowest against the plane below the body's centre."""
    count, dt, spacing = 48, 0.002, 0.05
    along = spacing * np.arange(60) - 1.5
    heights = 0.3 * (along[:, None] ** 2 + along**2)
    if is_rough:
        heights = np.random.default_rng(0).uniform(-0.02, 0.02, heights.shape)
    field = artix.HeightField.of(
        heights, spacing=(spacing, spacing), origin=(-1.5, -1.5, 0.0), friction=0.6
    )
    robot, rng = body(BENT[kind], 0.06), np.random.default_rng(2)
    turn = rng.normal(size=(count, 4))
    turn = turn / np.linalg.norm(turn, axis=1)[:, None]
    place = rng.uniform(-1.0, 1.0, (count, 2))
    above = 0.3 * np.sum(place**2, axis=1) + 0.15
    state = jax.tree.map(
        lambda x: jnp.broadcast_to(x, (count, *x.shape)), artix.neutral_state(robot)
    )
    state = state.replace(root_pose=jnp.asarray(np.c_[place, above, turn]))

    def energies(start: artix.State) -> jax.Array:
        scene = artix.Scene(robot, ground=artix.Ground((field,)))
        path = artix.rollout(scene, start, None, dt, num_steps=1000)
        return jax.vmap(
            lambda s: artix.kinetic_energy(robot, s) + artix.potential_energy(robot, s)
        )(path)

    gains = np.maximum(np.diff(np.asarray(jax.jit(jax.vmap(energies))(state)), axis=1), 0)
    assert np.max(np.sum(gains, axis=1)) < most


@pytest.mark.slow
def test_an_ellipsoid_touches_rough_ground_where_it_does() -> None:
    """Against points of the field a millimetre apart: none is inside, and one is on the surface. At
    a ridge, the normal is that of the ellipsoid."""
    spacing, sizes, rng = 0.05, np.array([0.1, 0.07, 0.04]), np.random.default_rng(3)
    heights = rng.uniform(0.0, 0.03, (13, 13))
    field = artix.HeightField.of(heights, spacing=(spacing,) * 2, origin=(-0.3, -0.3, 0.0))
    robot = body(artix.Geometry.ellipsoid(sizes), 0.07)
    scene = artix.Scene(robot, ground=artix.Ground((field,)))
    turn = rng.normal(size=(40, 4))
    pose = np.c_[rng.uniform(-0.1, 0.1, (40, 2)), np.full(40, 0.2), turn]
    pose[:, 3:] /= np.linalg.norm(turn, axis=1)[:, None]
    state = artix.neutral_state(robot)

    def gap(pose: jax.Array) -> jax.Array:
        return artix.geometry_distances(scene, state.replace(root_pose=pose))[0]

    lowered = jax.jit(jax.vmap(lambda pose: pose.at[2].add(-gap(pose))))
    for _ in range(60):
        pose = lowered(pose)
    found = jax.vmap(lambda pose: artix.ground_contacts(scene, state.replace(root_pose=pose)))(pose)
    contacts = found.contacts
    along = np.arange(-0.25, 0.2501, 0.001)
    x, y = np.meshgrid(along, along, indexing="ij")
    cells = np.stack([x, y]) / spacing + 6
    cell = np.floor(cells).astype(int)
    (i, j), (s, t) = cell, cells - cell
    z = (1 - s) * ((1 - t) * heights[i, j] + t * heights[i, j + 1])
    z += s * ((1 - t) * heights[i + 1, j] + t * heights[i + 1, j + 1])
    points = np.stack([x, y, z], axis=-1).reshape(-1, 3)
    for k, each in enumerate(np.asarray(pose)):
        axes = Rotation.from_quat(each[3:]).as_matrix()
        inside = np.linalg.norm((points - each[:3]) @ axes / sizes, axis=1)
        assert 1 - 1e-9 < np.min(inside) < 1 + 2e-3
        nearest = np.argmin(contacts.gap[k])
        point = np.asarray(contacts.point[k, nearest])
        np.testing.assert_allclose(np.sum((point / sizes) ** 2), 1, rtol=1e-12)
        normal = axes @ (-point / sizes**2)
        normal /= np.linalg.norm(normal)
        np.testing.assert_allclose(contacts.normal[k, nearest], normal, atol=1e-12)
        assert np.min(np.linalg.norm(points - each[:3] - axes @ point, axis=1)) < 1.5e-3
    # A distance along its normal, so that its derivative by the height is that normal's. One of
    # these lies in a cell that is bent as much as it is itself, where any point is about as near.
    slopes = jax.vmap(jax.grad(gap))(pose)[:, 2]
    first = np.argmin(contacts.gap, axis=1)
    apart = np.sort(np.abs(slopes - contacts.normal[np.arange(40), first, 2]))
    assert apart[-2] < 1e-6
    assert apart[-1] < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("kind", ["groove", "corner of a step", "pit"])
def test_a_ball_rests_on_all_sides_at_once(kind: str, dtype) -> None:
    """Without friction, forces on the sides of a groove are closed forms. Of a pit with four sides
    three hold the ball, in turn if only the nearest did."""
    along = 0.1 * np.arange(41) - 2.0
    slope = {"groove": 1.0, "corner of a step": 3.0, "pit": 0.5}[kind]
    heights = slope * np.abs(along)[:, None] + 0 * along
    if kind == "corner of a step":
        heights = slope * np.clip(along, 0.0, 0.1)[:, None] + 0 * along
    if kind == "pit":
        heights = slope * (np.abs(along)[:, None] + np.abs(along))
    field = artix.HeightField.of(
        heights, spacing=(0.1, 0.1), origin=(-2.0, -2.0, 0.0), friction=0.0, dtype=dtype
    )
    robot, radius = body(artix.Geometry.sphere(0.06), 0.06, dtype), 0.06
    aside = 3.0 if kind == "corner of a step" else 0.0
    robot = robot.replace(gravity=jnp.asarray([aside, 0.0, -GRAVITY], dtype))
    x, tilt = 0.0, np.arctan(slope)
    height = radius / np.cos(tilt)
    if kind == "corner of a step":
        x, height = -radius * np.tan(0.5 * tilt), radius
    if kind == "pit":
        height = radius * np.sqrt(1 + 2 * slope**2)
    state = artix.neutral_state(robot)
    state = state.replace(
        root_pose=state.root_pose.at[:3].set(jnp.asarray([x, 0.03, height], dtype))
    )
    if kind == "pit":
        state = state.replace(root_pose=state.root_pose.at[1].set(0.0))
    scene = artix.Scene(robot, ground=artix.Ground((field,)))
    rest, reports = reported_rollout(scene, state, None, 0.002, 500)
    close = 1e-9 if dtype == jnp.float64 else 1e-4
    assert np.max(np.abs(rest.root_velocity[100:])) < close
    assert bool(reports.is_solved[-1])
    force = np.asarray(reports.contacts.force[-1])
    np.testing.assert_allclose(np.sum(force, axis=0), [-aside, 0.0, GRAVITY], atol=20 * close)
    if kind == "groove":
        size = np.sort(np.linalg.norm(force, axis=1))[::-1]
        np.testing.assert_allclose(size[:2], 0.5 * GRAVITY / np.cos(tilt), rtol=20 * close)
        assert size[2] == 0


@pytest.mark.slow
def test_flat_fields_have_one_side_each() -> None:
    """Whatever the shape of cells, and beside others whose nearest points are still sought."""
    x, y = 0.3 * np.arange(8), 0.2 * np.arange(9)
    flat = artix.HeightField.of(0.5 * x[:, None] + 0.2 * y, spacing=(0.3, 0.2))
    bent = artix.HeightField.of(
        0.4 * np.random.default_rng(0).normal(size=(8, 9)), spacing=(0.3, 0.2)
    )
    draw = np.random.default_rng(1)
    place = np.r_[draw.uniform(0.3, 1.3, (2, 200)), [draw.uniform(1.2, 1.4, 200)]]
    radius, sides = jnp.full(200, 0.4), np.full(200, 3)
    gap, _ = flat.distances(jnp.zeros(3), jnp.asarray(place), radius, sides)
    assert np.all(gap.reshape(200, 3)[:, 1:] > 1.5)
    gap, normal = bent.distances(jnp.zeros(3), jnp.asarray(place), radius, sides)
    gap, normal = gap.reshape(200, 3), normal.T.reshape(200, 3, 3)
    outside = gap[:, 0] > 0
    assert np.sum(outside) > 100
    assert np.all((gap[:, 1:] >= gap[:, :1] - 1e-9)[outside])
    # The other sides are above the plane of the first.
    points = place.T[:, None] - gap[..., None] * normal
    above = np.sum((points[:, 1:] - points[:, :1]) * normal[:, :1], axis=2)
    exists = outside[:, None] & (gap[:, 1:] < 1.5)
    assert np.sum(exists) > 100
    assert np.all(above[exists] > 0)
