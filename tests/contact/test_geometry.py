"""Shapes on links and their distances from the ground, against MuJoCo and closed forms."""

from __future__ import annotations

import json
import zipfile

import jax
import jax.numpy as jnp
import jax.test_util
import mujoco
import numpy as np
import pytest
import scipy.interpolate

import artix
from artix import SolverOptions
from artix.simulation.many import stack_touches, stacked

G = artix.Geometry
TURNED = (
    0.03,
    -0.02,
    0.05,
    *(np.array([0.3, -0.5, 0.2, 0.7]) / np.linalg.norm([0.3, -0.5, 0.2, 0.7])),
)
SHAPES = {
    "sphere": G.sphere(0.07, position=TURNED[:3]),
    "capsule": G.capsule(0.05, 0.12, pose=TURNED),
    "box": G.box((0.1, 0.2, 0.3), pose=TURNED),
    "cylinder": G.cylinder(0.08, 0.11, pose=TURNED),
    "ellipsoid": G.ellipsoid((0.1, 0.06, 0.15), pose=TURNED),
    "hull": G.hull(
        [(0.1, 0, 0), (-0.1, 0.05, 0), (0, -0.1, 0.02), (0, 0, 0.2)], radius=0.0, pose=TURNED
    ),
}


def one_body(*shapes: artix.Geometry, dtype=jnp.float64) -> artix.Articulation:
    """A free body with these shapes."""
    builder = artix.ArticulationBuilder()
    builder.add_link(mass=1.0, inertia=(0.1, 0.2, 0.15), name="body")
    for shape in shapes:
        builder.add_geometry("body", shape)
    return builder.build(dtype)


def two_links() -> artix.ArticulationBuilder:
    builder = artix.ArticulationBuilder(name="pair")
    root = builder.add_link(
        mass=1.0, inertia=(0.1, 0.2, 0.15), com_pose=(0.1, 0, 0.2, 0, 0, 0, 1), name="root"
    )
    joint = artix.Joint.revolute(parent_pose=TURNED, child_pose=(0.1, 0.2, 0, 0, 0, 0, 1))
    builder.add_link(root, joint, mass=1.0, inertia=(0.1, 0.2, 0.15), name="leg")
    return builder


def random_states(robot: artix.Articulation, count: int) -> artix.State:
    return jax.vmap(lambda key: artix.random_state(robot, key))(
        jax.random.split(jax.random.key(1), count)
    )


# --- distances, against MuJoCo ------------------------------------------------------------------


def mujoco_distance(kind: str, root_pose: np.ndarray, normal: np.ndarray, height: float) -> float:
    """MuJoCo's distance of the shape of that name from a plane."""
    shape = SHAPES[kind]
    model, data = _scene(kind, shape.pose, shape.size, shape.points)
    quaternion = np.zeros(4)
    mujoco.mju_quatZ2Vec(quaternion, normal)
    model.geom_sameframe[0] = mujoco.mjtSameFrame.mjSAMEFRAME_NONE
    model.geom_pos[0], model.geom_quat[0] = normal * height, quaternion
    data.qpos[:] = [*root_pose[:3], root_pose[6], *root_pose[3:6]]
    mujoco.mj_kinematics(model, data)
    return mujoco.mj_geomDistance(model, data, 0, 1, 100.0, None)


def _scene(kind, pose, size, points):
    spec = mujoco.MjSpec()
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1])
    body = spec.worldbody.add_body(mass=1.0, inertia=[0.1, 0.2, 0.15], explicitinertial=True)
    body.add_freejoint()
    options = {"pos": pose[:3], "quat": [pose[6], *pose[3:6]]}
    if kind == "hull":
        spec.add_mesh(name="hull", uservert=np.ravel(points).tolist())
        options["meshname"] = "hull"
    else:
        options["size"] = [*size, 0, 0][:3]
    name = {"hull": "MESH"}.get(kind, kind.upper())
    body.add_geom(type=getattr(mujoco.mjtGeom, f"mjGEOM_{name}"), **options)
    model = spec.compile()
    return model, mujoco.MjData(model)


@pytest.mark.parametrize("kind", SHAPES)
def test_distances_from_planes_are_mujocos(kind: str) -> None:
    robot = one_body(SHAPES[kind])
    rng = np.random.default_rng(0)
    states = random_states(robot, 20)
    for k in range(20):
        state = jax.tree.map(lambda leaf, k=k: leaf[k], states)
        normal = rng.normal(size=3)
        normal /= np.linalg.norm(normal)
        ground = artix.Ground(surfaces=(artix.Plane.of(normal=normal, point=0.2 * normal),))
        found = artix.geometry_distances(artix.Scene(robot, ground=ground), state)
        expected = mujoco_distance(kind, np.asarray(state.root_pose), normal, 0.2)
        # MuJoCo keeps the points of meshes in float32.
        np.testing.assert_allclose(
            found, [expected], rtol=0, atol=1e-7 if kind == "hull" else 1e-12
        )


def test_a_cylinder_standing_upright_has_finite_derivatives() -> None:
    robot = one_body(G.cylinder(0.08, 0.11))

    def distance(robot, state):
        return artix.geometry_distances(artix.Scene(robot, ground=artix.Ground.flat()), state)[0]

    state = artix.neutral_state(robot)
    slopes = jax.jit(jax.grad(distance, argnums=(0, 1), allow_int=True))(robot, state)
    assert distance(robot, state) == pytest.approx(-0.11, abs=1e-15)
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(slopes))
    np.testing.assert_allclose(slopes[0].geometry.size, [[0, -1, 0]], atol=1e-15)
    np.testing.assert_allclose(slopes[1].root_pose[:3], [0, 0, 1], atol=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_an_ellipsoid_rocks_at_the_frequency_of_its_curvature(dtype: str) -> None:
    """Rolling about its shortest axis c, which is upright: it rises by half of ``(a^2/c - c)``
    times the square of the angle, so ``omega^2 = m g (a^2/c - c) / (I + m c^2)``."""
    a, c, mass, dt, steps = 0.1, 0.04, 1.0, 1e-3, 400
    inertia = 0.2 * mass * (a**2 + c**2)
    builder = artix.ArticulationBuilder()
    builder.add_link(mass=mass, inertia=(inertia, inertia, 0.4 * mass * a**2), name="egg")
    builder.add_geometry("egg", G.ellipsoid((a, a, c)))
    egg = builder.build(dtype)
    scene = artix.Scene(egg, ground=artix.Ground.flat(friction=1.0).astype(dtype))
    angle = 0.02
    turned = [0, 0, 0, 0, np.sin(angle / 2), 0, np.cos(angle / 2)]
    state = artix.neutral_state(egg).replace(root_pose=jnp.array(turned, dtype))
    low = artix.geometry_distances(scene, state)[0]
    state = state.replace(root_pose=state.root_pose.at[2].add(-low))
    path = artix.rollout(scene, state, None, dt, num_steps=steps)
    times = dt * np.arange(1, steps + 1)
    omega = np.sqrt(mass * 9.81 * (a**2 / c - c) / (inertia + mass * c**2))
    # One and a half periods; what is left is the damping of steps of the first order.
    angles = 2 * np.asarray(path.root_pose[:, 4])
    assert omega * times[-1] > 2 * np.pi
    np.testing.assert_allclose(angles, angle * np.cos(omega * times), atol=0.05 * angle)
    # The point that touches does not slide: the centre moves by the angle times its height.
    np.testing.assert_allclose(path.root_pose[:, 0], c * (angles - angle), atol=2e-3 * c * angle)


def test_distances_keep_their_digits_far_from_the_origin() -> None:
    robot = one_body(SHAPES["box"], dtype=jnp.float32)
    state = artix.neutral_state(robot)
    ground = artix.Ground.flat(dtype=jnp.float32)
    here = artix.ground_contacts(artix.Scene(robot, ground=ground), state).contacts
    far = state.replace(
        root_pose=state.root_pose.at[:2].set(jnp.array([1000.0, -1000.0], jnp.float32))
    )
    np.testing.assert_array_equal(
        artix.ground_contacts(artix.Scene(robot, ground=ground), far).contacts.gap, here.gap
    )


# --- contacts -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("surface", ["plane", "height field"])
def test_contact_points_lie_where_their_gaps_say(surface: str) -> None:
    builder = two_links()
    for link, kind in (
        ("root", "box"),
        ("leg", "sphere"),
        ("root", "cylinder"),
        ("root", "ellipsoid"),
        ("leg", "capsule"),
        ("leg", "hull"),
    ):
        builder.add_geometry(link, SHAPES[kind])
    robot = builder.build(jnp.float64)
    state = artix.random_state(robot, jax.random.key(3))
    normal = np.array([0.2, -0.3, 0.9]) / np.linalg.norm([0.2, -0.3, 0.9])
    ground = artix.Ground(surfaces=(artix.Plane.of(normal=normal, point=(0.0, 0.0, -0.3)),))
    if surface == "height field":
        x, y = 40.0 * np.mgrid[-1:1:9j, -1:1:7j]
        heights = -0.3 - (normal[0] * x + normal[1] * y) / normal[2]
        spacing = (x[1, 0] - x[0, 0], y[0, 1] - y[0, 0])
        ground = artix.Ground(
            surfaces=(artix.HeightField.of(heights, spacing=spacing, origin=(-40.0, -40.0, 0.0)),)
        )
    contacts = artix.ground_contacts(artix.Scene(robot, ground=ground), state).contacts
    # An ellipsoid, a sphere and the ends of a capsule may touch three sides of a field, which is
    # flat here.
    touch, on_root = np.ones(24, bool), 17
    if surface == "height field":
        touch, on_root = np.array([True] * 16 + 4 * [True, False, False] + [True] * 4), 19
        assert np.min(contacts.gap[~touch]) > np.sum(spacing)
    assert contacts.links == (0,) * on_root + (1,) * (len(touch) - on_root)
    np.testing.assert_allclose(contacts.normal[touch], np.tile(normal, (24, 1)), atol=1e-14)
    for k in np.flatnonzero(touch):
        link = contacts.links[k]
        at = jnp.concatenate([contacts.point[k], jnp.array([0.0, 0.0, 0.0, 1.0])])
        place = np.asarray(artix.frame_pose(robot, state, link, at)[:3])
        assert (place - np.array([0.0, 0.0, -0.3])) @ normal == pytest.approx(
            float(contacts.gap[k]), abs=1e-13
        )


@pytest.mark.slow
def test_selected_contacts_are_the_lowest_in_order() -> None:
    robot = one_body(SHAPES["box"], SHAPES["sphere"])
    rng = np.random.default_rng(0)
    found = jax.jit(
        jax.vmap(
            lambda s: artix.ground_contacts(
                artix.Scene(robot, ground=artix.Ground.flat(), max_contacts_per_geometry=3), s
            )
        )
    )
    states = random_states(robot, 50)
    states = states.replace(root_pose=states.root_pose.at[:, 2].set(rng.uniform(-0.3, 0.3, 50)))
    every = jax.vmap(
        lambda s: artix.ground_contacts(artix.Scene(robot, ground=artix.Ground.flat()), s)
    )(states)
    some = found(states)
    assert some.geometries == (0, 0, 0, 1)
    order = np.argsort(every.contacts.gap[:, :8], axis=1, kind="stable")[:, :3]
    for field in ("gap", "point"):
        values = np.asarray(getattr(every.contacts, field))
        kept = np.take_along_axis(values[:, :8].reshape(50, 8, -1), order[:, :, None], axis=1)
        np.testing.assert_array_equal(
            np.asarray(getattr(some.contacts, field))[:, :3].reshape(50, 3, -1), kept
        )
        np.testing.assert_array_equal(np.asarray(getattr(some.contacts, field))[:, 3], values[:, 8])
    touching = np.sum(np.asarray(every.contacts.gap) <= 0, axis=1)
    left = touching - np.sum(np.asarray(some.contacts.gap) <= 0, axis=1)
    assert left.max() > 0
    np.testing.assert_array_equal(some.omitted, left)
    np.testing.assert_array_equal(every.omitted, 0)
    smallest = np.stack(
        [np.min(every.contacts.gap[:, :8], axis=1), every.contacts.gap[:, 8]], axis=1
    )
    distances = jax.vmap(
        lambda s: artix.geometry_distances(artix.Scene(robot, ground=artix.Ground.flat()), s)
    )(states)
    np.testing.assert_allclose(distances, smallest, atol=1e-15)


def test_equal_gaps_keep_the_order_of_candidates() -> None:
    robot = one_body(G.box((0.1, 0.2, 0.3)))
    state = artix.neutral_state(robot)
    some = artix.ground_contacts(
        artix.Scene(robot, ground=artix.Ground.flat(), max_contacts_per_geometry=3), state
    ).contacts
    every = artix.ground_contacts(artix.Scene(robot, ground=artix.Ground.flat()), state).contacts
    np.testing.assert_array_equal(some.point, every.point[np.array([0, 2, 4])])


def test_every_surface_touches_by_itself() -> None:
    robot = one_body(SHAPES["sphere"])
    walls = artix.Ground(
        surfaces=(
            artix.Plane.of(friction=0.5),
            artix.Plane.of(normal=(1, 0, 0), point=(-2, 0, 0), friction=0.9),
        )
    )
    found = artix.ground_contacts(artix.Scene(robot, ground=walls), artix.neutral_state(robot))
    np.testing.assert_allclose(
        found.contacts.gap, [TURNED[2] - 0.07, TURNED[0] + 2 - 0.07], atol=1e-15
    )
    np.testing.assert_array_equal(found.contacts.friction, [0.5, 0.9])
    nearest = artix.geometry_distances(artix.Scene(robot, ground=walls), artix.neutral_state(robot))
    np.testing.assert_allclose(nearest, [TURNED[2] - 0.07], atol=1e-15)


def test_sensors_and_what_cannot_move_only_measure() -> None:
    builder = artix.ArticulationBuilder(fixed_base=True)
    builder.add_link(name="base")
    builder.add_link(0, artix.Joint.fixed(), name="plate")
    builder.add_link(1, artix.Joint.revolute(), mass=1.0, inertia=(0.1, 0.1, 0.1), name="arm")
    builder.add_geometry("plate", G.sphere(0.1))
    builder.add_geometry("arm", G.sphere(0.2, sensor=True))
    builder.add_geometry("arm", G.sphere(0.3))
    robot = builder.build(jnp.float64)
    state, ground = artix.neutral_state(robot), artix.Ground.flat(1.0)
    assert artix.ground_contacts(artix.Scene(robot, ground=ground), state).geometries == (2,)
    np.testing.assert_allclose(
        artix.geometry_distances(artix.Scene(robot, ground=ground), state),
        [-1.1, -1.2, -1.3],
        atol=1e-15,
    )
    assert [one.name for one in robot.topology.geometries] == ["plate:0", "arm:0", "arm:1"]
    assert robot.topology.geometry_index("arm:1") == 2


@pytest.mark.slow
def test_materials_of_pairs() -> None:
    shape = G.sphere(0.1, friction=0.4, restitution=0.2, stiffness=1e4, damping=100.0)
    robot = one_body(shape)
    state = artix.neutral_state(robot)
    soft = {"friction": 0.6, "restitution": 0.5, "stiffness": 3e4, "damping": 60.0}
    expected = {
        "max": (0.6, 0.5),
        "average": (0.5, 0.35),
        "min": (0.4, 0.2),
        "multiply": (0.24, 0.1),
    }
    for name, values in expected.items():
        ground = artix.Ground(
            surfaces=(artix.Plane.of(**soft),),
            friction_combination=name,
            restitution_combination=name,
        )
        contacts = artix.ground_contacts(artix.Scene(robot, ground=ground), state).contacts
        np.testing.assert_allclose(
            [contacts.friction[0], contacts.restitution[0]], values, rtol=1e-15
        )
    np.testing.assert_allclose(contacts.compliance, [1 / 1e4 + 1 / 3e4], rtol=1e-15)
    np.testing.assert_allclose(contacts.relaxation_time, [100 / 1e4 + 60 / 3e4], rtol=1e-15)
    other = one_body(G.sphere(0.1, **soft))
    name = robot.topology.geometries[0].name
    for rule, values in expected.items():
        scene = artix.Scene(
            {"a": robot, "b": other},
            pairs=[(f"a/{name}", f"b/{name}")],
            friction_combination=rule,
            restitution_combination=rule,
        )
        states = scene.neutral_state()
        stacks = stacked(scene, tuple(states.values()), (artix.Control(),) * 2)
        for contacts in (
            artix.link_contacts(scene, states),
            stack_touches(scene, stacks, SolverOptions()).between,
        ):
            np.testing.assert_allclose(
                [contacts.friction[0], contacts.restitution[0]], values, rtol=1e-15
            )
    with pytest.raises(ValueError, match="must be one of average, min, multiply, max; found 'gr"):
        scene.replace(friction_combination="ground")
    rigid = artix.ground_contacts(
        artix.Scene(one_body(SHAPES["sphere"]), ground=artix.Ground.flat()), state
    ).contacts
    np.testing.assert_array_equal(
        [rigid.compliance[0], rigid.relaxation_time[0], rigid.restitution[0]], 0.0
    )


@pytest.mark.slow
def test_gradients_by_everything_are_those_of_differences() -> None:
    builder = two_links()
    for link, kind in (
        ("root", "box"),
        ("leg", "sphere"),
        ("root", "cylinder"),
        ("root", "ellipsoid"),
        ("leg", "capsule"),
        ("leg", "hull"),
    ):
        builder.add_geometry(link, SHAPES[kind])
    robot = builder.build(jnp.float64)
    state = artix.random_state(robot, jax.random.key(5))
    heights = 0.1 * jax.random.normal(jax.random.key(2), (9, 7))
    field = artix.HeightField.of(
        heights, spacing=(2.1, 2.3), origin=(-8.0, -8.0, 0.0), stiffness=1e3, damping=10.0
    )
    weights = jax.random.normal(jax.random.key(1), (7, 32))

    def value(geometry, position, ground):
        body = robot.replace(geometry=geometry)
        found = artix.ground_contacts(
            artix.Scene(body, ground=ground), state.replace(joint_position=position)
        ).contacts
        parts = [
            found.gap,
            found.friction,
            found.relaxation_time,
            *found.point.T,
            found.normal[:, 0],
        ]
        return jnp.sum(weights * jnp.stack(parts))

    arguments = (
        robot.geometry.replace(stiffness=jnp.full(6, 2e3)),
        state.joint_position,
        artix.Ground((field,)),
    )
    jax.test_util.check_grads(
        value, arguments, order=1, modes=("rev", "fwd"), atol=1e-7, rtol=1e-7, eps=1e-6
    )


# --- height fields ------------------------------------------------------------------------------


def test_height_fields_are_bilinear() -> None:
    rng = np.random.default_rng(4)
    heights, spacing, origin = (
        rng.normal(size=(6, 8)),
        np.array([0.3, 0.5]),
        np.array([-1.0, 2.0, 0.7]),
    )
    field = artix.HeightField.of(heights, spacing=spacing, origin=origin)
    grid = [origin[k] + spacing[k] * np.arange(heights.shape[k]) for k in range(2)]
    sample = scipy.interpolate.RegularGridInterpolator(grid, heights)
    x, y = (rng.uniform(grid[k][0], grid[k][-1], 200) for k in range(2))
    z = rng.normal(size=200)
    above = jax.jit(field.heights_below)(jnp.zeros(3), jnp.array([x, y, z]))
    np.testing.assert_allclose(above, z - origin[2] - sample((x, y)), atol=1e-13)
    gap, normal = jax.jit(field.distances)(
        jnp.zeros(3), jnp.array([x, y, origin[2] + sample((x, y))])
    )
    step = 1e-7 * np.eye(2)
    slope = [(sample((x + d[0], y + d[1])) - sample((x - d[0], y - d[1]))) / 2e-7 for d in step]
    up = 1 / np.sqrt(1 + slope[0] ** 2 + slope[1] ** 2)
    np.testing.assert_allclose(normal, [-slope[0] * up, -slope[1] * up, up], atol=1e-7)
    np.testing.assert_allclose(gap, 0, atol=1e-13)


@pytest.mark.slow
def test_large_height_fields_are_part_of_kernels() -> None:
    """Derivatives by the state, too; those by the heights are left to XLA. All are those of one
    robot by XLA."""
    rng = np.random.default_rng(7)
    terrain = artix.HeightField.of(
        0.2 * rng.normal(size=(90, 80)), spacing=(0.1, 0.2), origin=(-4.0, -8.0, 0.1)
    )
    robot = one_body(SHAPES["sphere"], SHAPES["capsule"])
    states = random_states(robot, 40)
    states = states.replace(
        root_pose=states.root_pose.at[:, :2].set(jnp.array(rng.uniform(-5, 6, (40, 2))))
    )

    def gaps(state, terrain):
        return artix.geometry_distances(artix.Scene(robot, ground=artix.Ground((terrain,))), state)

    slopes, by_height = (
        jax.jacfwd(gaps),
        jax.jacrev(lambda s, h: gaps(s, terrain.replace(heights=h)), argnums=1),
    )
    for function in (gaps, slopes):
        found = jax.jit(jax.vmap(function, (0, None)))(states, terrain)
        with artix.use_kernels(False):
            wanted = jax.jit(jax.vmap(function, (0, None)))(states, terrain)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-12), found, wanted)
        one = jax.tree.map(lambda x: x[0], states)
        assert "one kernel" in str(
            artix.explain(lambda _, s, t, f=function: f(s, t), robot, one, terrain)
        )
    one = jax.tree.map(lambda x: x[1], states)
    slope, step = by_height(one, terrain.heights), 1e-6 * rng.normal(size=terrain.heights.shape)
    near = [gaps(one, terrain.replace(heights=terrain.heights + sign * step)) for sign in (1, -1)]
    np.testing.assert_allclose(
        jnp.sum(slope * step, axis=(1, 2)), 0.5 * (near[0] - near[1]), atol=1e-13
    )
    assert np.count_nonzero(slope) > 0


def test_height_fields_are_level_beyond_their_edges() -> None:
    field = artix.HeightField.of([[0.0, 1.0], [2.0, 4.0]], spacing=(1.0, 1.0))
    places = jnp.array([[-5.0, -3.0, 0.2], [9.0, 0.5, 3.1], [7.0, 8.0, 3.7]]).T
    gap, normal = jax.jit(field.distances)(jnp.zeros(3), places)
    np.testing.assert_allclose(normal[:, 0], [0, 0, 1])
    np.testing.assert_allclose(normal[:, 1], np.array([0, -2, 1]) / np.sqrt(5), rtol=1e-15)
    np.testing.assert_allclose(gap, [0.2, 0.1 / np.sqrt(5), -0.3], rtol=1e-14)


def test_each_robot_may_have_a_ground_of_its_own() -> None:
    robot = one_body(SHAPES["box"])
    states = random_states(robot, 3)
    heights = jax.random.normal(jax.random.key(0), (3, 5, 4))

    def distances(state, heights, friction):
        field = artix.HeightField.of(
            heights, spacing=(0.5, 0.5), origin=(-1.0, -1.0, 0.0), friction=friction
        )
        found = artix.ground_contacts(artix.Scene(robot, ground=artix.Ground((field,))), state)
        return found.contacts.gap, found.contacts.friction

    friction = jnp.array([0.1, 0.2, 0.3])
    gaps, frictions = jax.jit(jax.vmap(distances))(states, heights, friction)
    for k in range(3):
        one = distances(jax.tree.map(lambda leaf, k=k: leaf[k], states), heights[k], friction[k])
        np.testing.assert_allclose(gaps[k], one[0], rtol=1e-13)
        np.testing.assert_array_equal(frictions[k], one[1])


def test_single_numbers_of_a_ground_may_be_traced() -> None:
    """A height, one part of a normal, a spacing."""
    tilt = lambda x: artix.Plane.of(normal=(x, 0.0, 1.0), point=(x, 0.0, 0.0))  # noqa: E731

    def field(x):
        return artix.HeightField.of([[0.0, x], [0.0, 0.0]], spacing=(x, 1.0), origin=(0.0, 0.0, x))

    for make in (artix.Ground.flat, tilt, field):
        known, traced = make(0.5), jax.jit(make)(0.5)
        for leaf, other in zip(jax.tree.leaves(traced), jax.tree.leaves(known), strict=True):
            np.testing.assert_allclose(leaf, other, atol=1e-7)


# --- articulations with shapes ------------------------------------------------------------------


def with_shapes() -> artix.Articulation:
    builder = two_links()
    for k, kind in enumerate(SHAPES):
        builder.add_geometry(("root", "leg")[k % 2], SHAPES[kind], name=kind)
    builder.add_geometry(
        "leg",
        G.hull([(0, 0, 0), (0, 0, 1)], sensor=True, restitution=0.5, stiffness=100.0, damping=2.0),
    )
    return builder.build(jnp.float64)


def same(a: artix.Articulation, b: artix.Articulation) -> None:
    assert a.topology == b.topology
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=0, atol=1e-15), a, b)


def test_shapes_survive_archives_and_builders(tmp_path) -> None:
    robot = with_shapes()
    artix.save(robot, tmp_path / "robot.npz")
    same(artix.load(tmp_path / "robot.npz"), robot)
    same(artix.builder_from_articulation(robot).build(jnp.float64), robot)
    assert robot.astype(jnp.float32).geometry.size.dtype == jnp.float32


def test_archives_without_geometry_are_read(tmp_path) -> None:
    robot = two_links().build(jnp.float64)
    artix.save(robot, tmp_path / "new.npz")
    with (
        zipfile.ZipFile(tmp_path / "new.npz") as new,
        zipfile.ZipFile(tmp_path / "old.npz", "w") as old,
    ):
        for name in new.namelist():
            content = new.read(name)
            if name == "header.json":
                header = json.loads(content)
                del header["geometries"]
                content = json.dumps(header).encode()
            if not name.startswith("geometry."):
                old.writestr(zipfile.ZipInfo(name), content)
    same(artix.load(tmp_path / "old.npz"), robot)


def test_archives_that_lack_only_the_numbers_of_shapes_are_refused(tmp_path) -> None:
    artix.save(with_shapes(), tmp_path / "new.npz")
    with (
        zipfile.ZipFile(tmp_path / "new.npz") as new,
        zipfile.ZipFile(tmp_path / "bad.npz", "w") as bad,
    ):
        for name in new.namelist():
            if name != "geometry.size.npy":
                bad.writestr(zipfile.ZipInfo(name), new.read(name))
    with pytest.raises(artix.DescriptionError, match=r"geometry\.size\.npy"):
        artix.load(tmp_path / "bad.npz")


def test_shapes_survive_surgery(tmp_path) -> None:
    robot = with_shapes()
    state = artix.random_state(robot, jax.random.key(0))
    ground = artix.Ground.flat()
    expected = artix.geometry_distances(artix.Scene(robot, ground=ground), state)
    locked = artix.lock_joints(robot, state, ["leg_joint"])
    rigid = state.replace(joint_position=jnp.zeros(0), joint_velocity=jnp.zeros(0))
    np.testing.assert_allclose(
        artix.geometry_distances(artix.Scene(locked, ground=ground), rigid), expected, atol=1e-14
    )
    both = artix.attach_articulation(robot, "root", robot, artix.Joint.fixed(), prefix="second_")
    links = [one.link for one in both.topology.geometries]
    assert links == sorted(links)
    position = jnp.concatenate([state.joint_position] * 2)
    twice = state.replace(joint_position=position, joint_velocity=position)
    found = artix.geometry_distances(artix.Scene(both, ground=ground), twice)
    names = [one.name for one in robot.topology.geometries]
    for prefix in ("", "second_"):
        index = np.array([both.topology.geometry_index(prefix + name) for name in names])
        np.testing.assert_allclose(found[index], expected, atol=1e-14)
    artix.save(both, tmp_path / "both.npz")
    same(artix.load(tmp_path / "both.npz"), both)
    with pytest.raises(
        ValueError, match="both have box, capsule, cylinder, ellipsoid, hull, leg:0, sphere"
    ):
        artix.attach_articulation(robot, "root", robot)


def test_distances_of_fleets_of_one_topology() -> None:
    robot = with_shapes()
    larger = robot.replace(geometry=robot.geometry.replace(size=1.1 * robot.geometry.size))
    fleet = artix.Fleet([robot, larger])
    state = fleet.random_state(jax.random.key(0))
    found = jax.vmap(
        lambda a, s: artix.geometry_distances(artix.Scene(a, ground=artix.Ground.flat()), s)
    )(fleet.articulation, state)
    one = artix.geometry_distances(
        artix.Scene(larger, ground=artix.Ground.flat()), fleet.member_state(state, 1)
    )
    np.testing.assert_allclose(found[1], one, atol=1e-14)


def test_some_shapes_are_selected() -> None:
    robot = with_shapes()
    state, ground = artix.random_state(robot, jax.random.key(0)), artix.Ground.flat()
    distances = artix.geometry_distances(artix.Scene(robot, ground=ground), state)
    some = artix.select_geometry(robot, ["leg:0", "sphere"], sensors=["cylinder"])
    assert [(one.name, one.sensor) for one in some.topology.geometries] == [
        ("sphere", False),
        ("cylinder", True),
        ("leg:0", False),
    ]
    np.testing.assert_array_equal(
        artix.geometry_distances(artix.Scene(some, ground=ground), state),
        distances[np.array([0, 4, 6])],
    )
    assert artix.ground_contacts(artix.Scene(some, ground=ground), state).geometries == (0, 2, 2)
    batch = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), robot)
    assert artix.select_geometry(batch, ["hull"]).geometry.point.shape == (2, 4, 3)
    same(
        artix.select_geometry(
            robot, [one.name for one in robot.topology.geometries[:-1]], sensors=["leg:0"]
        ),
        robot,
    )
    with pytest.raises(KeyError, match="no geometry called 'foot'; choose from: sphere"):
        artix.select_geometry(robot, ["foot"])
    with pytest.raises(ValueError, match="box: a shape is either touching or a sensor"):
        artix.select_geometry(robot, ["box"], sensors=["box"])
    with pytest.raises(TypeError, match="found the one string 'box'"):
        artix.select_geometry(robot, "box")


def test_topologies_tell_shapes_apart() -> None:
    robot = with_shapes()
    assert hash(robot.topology) == hash(with_shapes().topology)
    assert robot.topology == with_shapes().topology
    assert robot.topology != two_links().build(jnp.float64).topology


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: G.sphere(-0.1),
            r"sphere: its size must be finite and not negative \[m\]; found \(-0.1,\)",
        ),
        (lambda: G.box((0.1, np.nan, 0.1)), "box: its size must be finite"),
        (lambda: G(type="box", size=(0.1, 0.2)), "box: its size is 3 numbers"),
        (lambda: G.box(0.1), r"box: its size is 3 numbers; found \(0.1,\)"),
        (lambda: G.capsule(0.1, 0.2, pose=(0, 0, 0, 0, 0, 0, 2)), "capsule: pose: the quaternion"),
        (
            lambda: G.sphere(0.1, friction=-1.0),
            "sphere: friction must be finite and not negative; found -1",
        ),
        (
            lambda: G.sphere(0.1, restitution=1.5),
            r"sphere: restitution must lie in \[0, 1\]; found 1.5",
        ),
        (lambda: G.sphere(0.1, stiffness=0.0), "sphere: a stiffness of zero would carry nothing"),
        (lambda: G.sphere(0.1, damping=1.0), "sphere: a rigid surface has no damping"),
        (
            lambda: G.hull(np.zeros((4097, 3))),
            r"hull: points must have shape \[P, 3\] with P from 1 to 4096; found \(4097, 3\)",
        ),
        (lambda: G.hull([(0, 0, np.inf)]), "hull: points: every number must be finite"),
        (
            lambda: G(type="sphere", size=(0.1,), points=np.zeros((1, 3))),
            "points are given for a hull, and only for it",
        ),
        (
            lambda: two_links().add_geometry("arm", G.sphere(0.1)),
            "there is no link 'arm'; choose from: root, leg",
        ),
        (lambda: two_links().add_geometry(7, G.sphere(0.1)), "link 7 is not a link; there are 2"),
        (lambda: artix.Plane.of(normal=(0, 0, 0)), "plane: the normal must not be zero"),
        (
            lambda: artix.Ground.flat(friction=-1.0),
            "plane: friction must be finite and not negative",
        ),
        (lambda: artix.Ground.flat(damping=1.0), "plane: a rigid surface has no damping"),
        (
            lambda: artix.HeightField.of([[0, 1]], spacing=(1, 1)),
            r"R and C at least 2; found \(1, 2\)",
        ),
        (
            lambda: artix.HeightField.of([[0, 1], [np.nan, 0]], spacing=(1, 1)),
            r"1 are not, the first at \(1, 0\)",
        ),
        (lambda: artix.HeightField.of(np.eye(2), spacing=(1, 0)), "the spacing must be positive"),
        (
            lambda: artix.Ground((), friction_combination="mean"),
            "friction_combination must be one of max, average, min",
        ),
        (
            lambda: contacts_of(two_links().build()),
            "'pair' has no geometry that can touch the ground",
        ),
        (
            lambda: contacts_of(with_shapes(), max_contacts_per_geometry=0),
            "max_contacts_per_geometry must be at least 1; found 0",
        ),
        (lambda: contacts_of(with_shapes(), artix.Ground(())), "the ground has no surface"),
    ],
)
def test_refusals(make, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def contacts_of(
    robot: artix.Articulation, ground: artix.Ground | None = None, **options
) -> artix.GroundContacts:
    ground = artix.Ground.flat() if ground is None else ground
    return artix.ground_contacts(
        artix.Scene(robot, ground=ground, **options), artix.neutral_state(robot)
    )


def test_names_and_dtypes_are_refused() -> None:
    builder = two_links()
    builder.add_geometry("leg", G.sphere(0.1), name="foot")
    with pytest.raises(ValueError, match="geometry 'foot': the name is taken"):
        builder.add_geometry("leg", G.sphere(0.1), name="foot")
    with pytest.raises(KeyError, match="no geometry called 'toe'; choose from: foot"):
        builder.build().topology.geometry_index("toe")
    with pytest.raises(TypeError, match=r"ground\.surfaces\[0\]\.normal: expected dtype float32"):
        contacts_of(builder.build(jnp.float32))


@pytest.mark.parametrize(
    ("name", "options", "most"),
    [
        ("quadruped", {}, 403),
        ("humanoid", {}, 449),
        ("humanoid", {"max_contacts_per_geometry": 4}, 961),
        ("arm7", {}, 337),
    ],
)
def test_operations_of_ground_contacts(name, options, most) -> None:
    robot = artix.robots.load(name)
    ground = artix.Ground.flat(dtype=robot.dtype)
    costs = artix.explain(
        lambda robot, state: artix.ground_contacts(
            artix.Scene(robot, ground=ground, **options), state
        ),
        robot,
        artix.neutral_state(robot),
    )
    (cost,) = costs.operations
    assert not cost.refusal
    assert sum(cost.operations) <= most


@pytest.mark.slow
def test_kernels_and_xla_agree() -> None:
    robot = with_shapes()
    states = random_states(robot, 5)

    def found(state):
        return artix.ground_contacts(
            artix.Scene(robot, ground=artix.Ground.flat(), max_contacts_per_geometry=2), state
        )

    by_kernel = jax.jit(jax.vmap(found))(states)
    assert "one kernel" in str(artix.explain(lambda robot, state: found(state), robot))
    with artix.use_kernels(False):
        by_xla = jax.jit(jax.vmap(lambda state: found(state)))(states)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-14), by_kernel, by_xla)


def test_what_is_remembered_of_a_corner_meets_it_again() -> None:
    """Whichever corners of a box are nearest to the ground: of two surfaces, in any order."""
    robot = one_body(SHAPES["box"], SHAPES["sphere"])
    ground = artix.Ground((artix.Plane.of(), artix.Plane.of(normal=(1.0, 0.0, 0.2))))
    orders = set()
    for k in range(5):
        state = jax.tree.map(lambda x, k=k: x[k], random_states(robot, 5))
        every = artix.ground_contacts(artix.Scene(robot, ground=ground), state)
        some = artix.ground_contacts(
            artix.Scene(robot, ground=ground, max_contacts_per_geometry=3), state
        )
        assert every.choice.num_candidates == some.choice.num_candidates == 18
        recorded = some.choice.recorded(some.contacts.point)
        np.testing.assert_array_equal(some.choice.recalled(recorded), some.contacts.point)
        chosen = np.any(np.asarray(recorded) != 0, axis=1)
        assert chosen.sum() == 8
        np.testing.assert_allclose(recorded[chosen], every.contacts.point[chosen], atol=1e-15)
        np.testing.assert_array_equal(
            every.choice.recorded(every.contacts.point), every.contacts.point
        )
        orders.add(tuple(np.asarray(some.choice.candidate).astype(int).tolist()))
    assert len(orders) > 1


def test_shapes_are_compared_by_value() -> None:
    corners = np.random.default_rng(0).normal(size=(5, 3))
    for make in (
        lambda: artix.Geometry.sphere(0.1, position=(1, 2, 3)),
        lambda: artix.Geometry.hull(corners),
    ):
        assert make() == make()
        assert len({make(), make()}) == 1
    assert artix.Geometry.sphere(0.1) != artix.Geometry.sphere(0.1, position=(1, 2, 3))


def test_a_sphere_has_a_position_instead_of_a_pose() -> None:
    with pytest.raises(TypeError, match=r"sphere: give its position=\(x, y, z\) instead of a pose"):
        artix.Geometry.sphere(0.1, pose=(0, 0, 1, 0, 0, 0, 1))
