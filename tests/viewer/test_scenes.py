"""Scenes of states with all leading axes; error messages; forces, commands, support polygons;
inverse kinematics."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import viewer
from artix.viewer.sliders import drag_frame


@pytest.fixture(scope="module")
def cart():
    return artix.robots.load("cart_pole")


@pytest.fixture(scope="module")
def quadruped():
    return artix.robots.load("quadruped")


def tiled(state, *leading):
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (*leading, *leaf.shape)), state)


@pytest.mark.parametrize("leading", [(), (3,), (3, 4)])
def test_states_of_one_description(cart, leading):
    state = tiled(artix.neutral_state(cart), *leading)
    scene = viewer.make_scene(cart, state, 0.1, layout="overlaid")
    (crowd,) = scene.crowds
    frames, robots = {0: (1, 1), 1: (3, 1), 2: (3, 4)}[len(leading)]
    assert crowd.poses.shape == (frames, robots, 3, 7)
    expected = artix.frame_pose(cart, artix.neutral_state(cart))
    np.testing.assert_allclose(crowd.poses, np.broadcast_to(expected, crowd.poses.shape), atol=1e-6)
    assert crowd.opacities.tolist() == [1.0] + [0.3] * (robots - 1)


def test_robots_with_parameters_of_their_own(cart):
    longer = cart.joint_parent_pose.at[2, 2].set(1.0)
    both = jax.tree.map(
        lambda *leaves: jnp.stack(leaves), cart, cart.replace(joint_parent_pose=longer)
    )
    scene = viewer.make_scene(both, tiled(artix.neutral_state(cart), 2), 0.1, layout="overlaid")
    heights = [crowd.poses[0, 0, 2, 2] for crowd in scene.crowds]
    np.testing.assert_allclose(heights, [0.1, 1.0], atol=1e-6)


@pytest.mark.slow
def test_robots_are_drawn_with_shapes_of_their_own(quadruped):
    """All robots of a batch had the shapes of the first."""
    radius = jnp.array([0.02, 0.05, 0.02, 0.03], quadruped.dtype)

    def with_feet(radius):
        size = jnp.full_like(quadruped.geometry.size, radius)
        heavier = quadruped.link_mass * (1 + radius)  # Masses are not drawn.
        geometry = quadruped.geometry.replace(size=size)
        return quadruped.replace(geometry=geometry, link_mass=heavier)

    def crowds(robots, members):
        start = artix.neutral_state(quadruped)
        states = jax.tree.map(lambda leaf: jnp.stack(members * [leaf]), start)
        return viewer.make_scene(robots, states, 0.01).crowds

    batch = jax.vmap(with_feet)(radius)
    for robots in (batch, artix.Fleet([with_feet(each) for each in radius])):
        drawn = crowds(robots, 4)
        assert [crowd.poses.shape[1] for crowd in drawn] == [2, 1, 1]
        sizes = [np.ptp(crowd.collisions[0].mesh.vertices[:, 2]) / 2 for crowd in drawn]
        np.testing.assert_allclose(sizes, [0.02, 0.05, 0.03], rtol=0.02)
    many = jax.vmap(with_feet)(jnp.linspace(0.01, 0.05, 40, dtype=quadruped.dtype))
    with pytest.warns(UserWarning, match="40 robots of 40 different shapes are drawn with those"):
        assert len(crowds(many, 40)) == 1


def test_a_fleet_of_64_stands_in_a_grid(cart, quadruped):
    fleet = artix.Fleet([quadruped, cart] * 32)
    scene = viewer.make_scene(fleet, fleet.neutral_state(), 1.0)
    assert [(crowd.name, crowd.poses.shape) for crowd in scene.crowds] == [
        ("quadruped", (1, 32, 18, 7)),
        ("cart_pole", (1, 32, 3, 7)),
    ]
    corners = [
        np.moveaxis(crowd.corners()[:, 0], 1, 0).reshape(32, -1, 3) for crowd in scene.crowds
    ]
    low, high = (np.concatenate([end(one, axis=1) for one in corners]) for end in (np.min, np.max))
    touching = ((low[:, None] < high) & (low < high[:, None]))[..., :2].all(axis=-1)
    assert touching.sum() == 64  # Each overlaps with itself alone, as seen from above.
    np.testing.assert_allclose(low[:, 2], scene.floor, atol=1e-6)
    assert np.prod(np.ptp(np.concatenate([low, high])[:, :2], axis=0)) < 64 * 2.0 * 3.0
    alone = artix.frame_pose(quadruped, artix.neutral_state(quadruped))
    own = scene.crowds[0].poses[0, 5]
    np.testing.assert_allclose(own[:, :3] - own[0, :3], np.asarray(alone)[:, :3], atol=1e-6)


@pytest.mark.parametrize(
    ("leading", "message"),
    [((2, 3, 4), "no leading axes"), ((0,), "none of them empty"), ((0, 2), "none of them")],
)
def test_other_arrangements_are_refused(cart, leading, message):
    with pytest.raises(ValueError, match=message):
        viewer.make_scene(cart, tiled(artix.neutral_state(cart), *leading), 0.1)


def test_states_of_wrong_shapes_are_refused_by_name(cart, quadruped):
    state = artix.neutral_state(cart)
    with pytest.raises(
        ValueError, match=r"'quadruped': joint_position must have shape \[..., 12\].*found \(2,\)"
    ):
        viewer.make_scene(quadruped, state, 0.1)
    with pytest.raises(
        ValueError, match=r"root_pose must have shape \[..., 7\] with the leading axes \(5,\)"
    ):
        viewer.make_scene(cart, state.replace(joint_position=jnp.zeros((5, 2))), 0.1)
    moving = tiled(state, 4)
    broken = moving.replace(joint_position=moving.joint_position.at[2, 1].set(jnp.nan))
    with pytest.raises(ValueError, match=r"joint_position is not finite at \[2\]"):
        viewer.make_scene(cart, broken, 0.1)
    fleet = artix.Fleet([cart, cart])
    with pytest.raises(ValueError, match=r"expected leading axes \[2\] or \[T, 2\]; found \(3,\)"):
        viewer.make_scene(fleet, tiled(state, 3), 0.1)
    with pytest.raises(ValueError, match=r"must be an artix\.State"):
        viewer.make_scene(cart, jnp.zeros(2), 0.1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dt": 0.0}, "dt must be a positive time"),
        ({"show": ("bones",)}, r"unknown layers \['bones'\]"),
        ({"show": "colision"}, r"unknown layers \['colision'\]"),
        ({"layout": "circle"}, "layout must be"),
        ({"commands": np.zeros((2, 3))}, "commands must have shape"),
        ({"show": ("support_polygon",)}, "support polygons need a ground"),
    ],
)
def test_bad_options_are_refused(cart, options, message):
    with pytest.raises(ValueError, match=message):
        viewer.make_scene(cart, artix.neutral_state(cart), **{"dt": 0.1, **options})


def test_one_layer_can_be_named_alone(quadruped):
    state = artix.neutral_state(quadruped)
    alone, among = (
        viewer.make_scene(quadruped, state, 0.1, show=show) for show in ("frames", ("frames",))
    )
    assert [segments.ends.shape for segments in alone.segments] == [
        segments.ends.shape for segments in among.segments
    ]


def test_pictures_without_pixels_are_refused(cart):
    scene = viewer.make_scene(cart, artix.neutral_state(cart), 0.1)
    with pytest.raises(ValueError, match=r"at least one pixel; found \(0, 10\)"):
        viewer.draw_scene(scene, size=(0, 10))


def test_forces_between_links_are_drawn():
    builder = artix.ArticulationBuilder(fixed_base=True)
    builder.add_link(name="table")
    builder.add_link(
        0, artix.Joint.prismatic(artix.Axis.Z), mass=1.0, inertia=(0.01, 0.01, 0.01), name="weight"
    )
    builder.add_geometry("table", artix.Geometry.box((1.0, 1.0, 0.1)), name="top")
    builder.add_geometry(
        "weight", artix.Geometry.sphere(0.1, position=(0.0, 0.0, 0.2)), name="ball"
    )
    builder.add_geometry_pair("ball", "top")
    scale = builder.build()
    state, report = artix.step_and_report(scale, artix.neutral_state(scale), None, 0.005)
    (arrows,) = viewer.make_scene(scale, state, 0.1, contacts=report.link_contacts).arrows
    np.testing.assert_allclose(arrows.starts[0], [[0.0, 0.0, 0.1]], atol=1e-4)
    assert arrows.vectors[0, 0, 2] > 0.1


@pytest.fixture(scope="module")
def standing(quadruped):
    """The quadruped on its legs, straight down, on level ground."""
    state = artix.neutral_state(quadruped)
    return state.replace(root_pose=state.root_pose.at[2].set(0.44))


def test_the_support_polygon_joins_the_feet(quadruped, standing):
    ground = artix.Ground.flat()
    scene = viewer.make_scene(
        quadruped,
        standing,
        0.1,
        ground=ground,
        show=("visual", "support_polygon", "center_of_mass"),
    )
    ends = scene.segments[0].ends[0]
    lengths = np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1)
    corners = ends[lengths > 1e-6, 0]
    area = 0.5 * abs(
        np.sum(
            corners[:, 0] * np.roll(corners[:, 1], -1) - corners[:, 1] * np.roll(corners[:, 0], -1)
        )
    )
    assert len(corners) == 4
    # Hips lie 0.38 m apart, and the feet 0.28 m.
    assert area == pytest.approx(0.38 * 0.28, rel=1e-3)
    np.testing.assert_allclose(
        scene.marks[0].centers[0, 0], artix.center_of_mass(quadruped, standing), atol=1e-6
    )


def test_forces_are_arrows_as_long_as_a_robot_for_its_weight(quadruped, standing):
    weight = 9.81 * float(quadruped.link_mass.sum())
    point, force = jnp.zeros((1, 2, 3)), jnp.array([[[0.0, 0.0, weight], [0.0, 0.0, 0.0]]])
    blank = jnp.zeros((1, 2))
    contacts = artix.ContactReport(
        links=(1, 2),
        geometries=(0, 1),
        point=point,
        normal=point,
        gap=blank,
        force=force,
        impulse=force,
        slip=blank,
        sticks=blank > 0,
        slides=blank > 0,
        link_force=jnp.zeros((1, 18, 3)),
        omitted=jnp.zeros(1, jnp.int32),
        residual=jnp.zeros(1),
    )
    scene = viewer.make_scene(quadruped, tiled(standing, 1), 0.1, contacts=contacts)
    lengths = np.linalg.norm(scene.arrows[0].vectors[0], axis=1)
    np.testing.assert_allclose(lengths, [0.8 * scene.size, 0.0], rtol=1e-3)
    with pytest.raises(ValueError, match=r"contacts: point and force must have shape"):
        viewer.make_scene(quadruped, tiled(standing, 2), 0.1, contacts=contacts)


def test_forces_on_kinds_of_a_fleet_are_arrows_of_their_own_weights(cart, quadruped):
    """Points and forces, filled up with zeros; each robot's weight is an arrow of one length."""
    fleet = artix.Fleet([quadruped, cart, quadruped])
    weights = 9.81 * np.array(
        [float(np.sum(robot.link_mass)) for robot in (quadruped, cart, quadruped)]
    )
    points, forces = np.zeros((1, 3, 4, 3)), np.zeros((1, 3, 4, 3))
    forces[0, :, 0, 2] = weights
    points[0, :, 0, 0] = [0.3, 0.0, 0.3]
    states = tiled(fleet.neutral_state(), 1)
    scene = viewer.make_scene(fleet, states, 0.1, contacts=(points, forces))
    lengths = np.linalg.norm(scene.arrows[0].vectors[0], axis=1).reshape(3, 4)
    np.testing.assert_allclose(
        lengths, np.eye(4)[[0, 0, 0]] * 0.8 * scene.size, rtol=1e-3, atol=1e-9
    )
    roots = np.stack(
        [crowd.poses[0, k, 0, :3] for crowd, k in zip(scene.crowds[:1] * 2, (0, 1), strict=True)]
    )
    starts = scene.arrows[0].starts[0].reshape(3, 4, 3)[[0, 2], 0]
    np.testing.assert_allclose((starts - roots)[:, :2], [[0.3, 0.0], [0.3, 0.0]], atol=1e-6)
    with pytest.raises(ValueError, match=r"found \(1, 3, 4, 3\) and \(1, 3, 3, 3\)"):
        viewer.make_scene(fleet, states, 0.1, contacts=(points, forces[:, :, 1:]))


def test_commands_turn_with_the_heading(quadruped, standing):
    left = jnp.array([0.0, 0.0, np.sin(np.pi / 4), np.cos(np.pi / 4)], standing.root_pose.dtype)
    turned = standing.replace(root_pose=standing.root_pose.at[3:].set(left))
    scene = viewer.make_scene(quadruped, tiled(turned, 1), 0.1, commands=[[1.0, 0.0, 0.5]])
    forward, yaw = (arrows.vectors[0, 0] / scene.size for arrows in scene.arrows)
    np.testing.assert_allclose(forward, [0.0, 0.6, 0.0], atol=1e-6)
    np.testing.assert_allclose(yaw, [0.0, 0.0, 0.3], atol=1e-6)


def test_ground_is_drawn_where_it_is():
    rng = np.random.default_rng(0)
    heights = rng.normal(size=(4, 5))
    field = artix.HeightField.of(heights, spacing=(0.5, 0.2), origin=(1.0, -1.0, 0.3))
    from artix.viewer.meshes import height_field_mesh, is_level, plane_mesh

    mesh = height_field_mesh(field)
    np.testing.assert_allclose(mesh.vertices[7], [1.5, -0.6, 0.3 + heights[1, 2]], atol=1e-6)
    up = np.cross(
        *(mesh.vertices[mesh.faces[:, k]] - mesh.vertices[mesh.faces[:, 0]] for k in (1, 2))
    )
    assert (up[:, 2] > 0).all()
    slope = artix.Plane.of(normal=(0.3, 0.0, 1.0), point=(0.0, 0.0, 2.0))
    points = plane_mesh(slope, np.array([1.0, 1.0, 0.0]), 3.0).vertices
    np.testing.assert_allclose(points @ np.asarray(slope.normal), float(slope.height), atol=1e-5)
    assert is_level(artix.Ground.flat(0.5))
    assert not is_level(artix.Ground((slope,)))
    assert not is_level(artix.Ground((field,)))


@pytest.mark.slow
def test_a_dragged_frame_reaches_what_can_be_reached():
    arm = artix.robots.load("arm7")
    reach = jax.jit(
        jax.vmap(lambda start, target: drag_frame(arm, start, "tool", target, iterations=60))
    )
    states = jax.vmap(lambda key: artix.random_state(arm, key))(
        jax.random.split(jax.random.key(0), 32)
    )
    nearby = jnp.clip(states.joint_position + 0.2, arm.joint_lower_limit, arm.joint_upper_limit)
    pose = jax.vmap(lambda state: artix.frame_pose(arm, state, "tool"))
    targets = pose(states.replace(joint_position=nearby))
    found = reach(states, targets)
    error = jnp.linalg.norm((pose(found) - targets)[:, :3], axis=1)
    assert float(jnp.median(error)) < 1e-5
    assert float(jnp.mean(error < 1e-3)) > 0.9
    within = (found.joint_position >= arm.joint_lower_limit) & (
        found.joint_position <= arm.joint_upper_limit
    )
    assert bool(within.all())
    far = targets.at[:, :3].multiply(100.0)
    assert bool(jnp.isfinite(reach(states, far).joint_position).all())


@pytest.mark.slow
def test_neither_viser_nor_trimesh_is_loaded_before_it_is_used():
    code = (
        "import sys, artix; from artix import viewer; arm = artix.robots.load('arm7'); "
        "viewer.visuals_of(arm); assert 'artix.viewer' in sys.modules; print({'viser', 'trimesh', "
        "'matplotlib'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.slow
def test_members_of_a_scene_are_where_they_are(cart, quadruped):
    """Each in its own colour and under its own name, with its forces; bad arguments are named."""
    scene = artix.Scene({"dog": quadruped, "one": cart, "other": cart})
    states = {name: tiled(state, 3) for name, state in scene.neutral_state().items()}
    away = states["one"].root_pose.at[:, 0].set(5.0)
    states["one"] = states["one"].replace(root_pose=away)
    force = (np.zeros((3, 1, 3)), np.full((3, 1, 3), 2.0))
    shown = viewer.make_scene(
        scene, states, 0.1, contacts={"one": force}, show=("visual", "center_of_mass")
    )
    assert [crowd.name for crowd in shown.crowds] == ["dog", "one", "other"]
    assert shown.num_frames == 3
    for crowd in shown.crowds:
        poses = jax.vmap(lambda state, name=crowd.name: artix.frame_pose(scene[name], state))(
            states[crowd.name]
        )
        np.testing.assert_allclose(crowd.poses[:, 0], poses, atol=1e-6)
        assert crowd.opacities.tolist() == [1.0]
    assert [arrows.name for arrows in shown.arrows] == ["one_contact_forces"]
    assert [marks.name for marks in shown.marks] == [
        "dog_center_of_mass",
        "one_center_of_mass",
        "other_center_of_mass",
    ]
    assert viewer.draw_scene(shown, size=(40, 30)).shape == (30, 40, 4)
    with pytest.raises(ValueError, match="states of a scene: nothing for one, other"):
        viewer.make_scene(scene, {"dog": states["dog"]}, 0.1)
    with pytest.raises(
        ValueError, match="contacts of a scene: no robot called cat; choose from: dog, one, other"
    ):
        viewer.make_scene(scene, states, 0.1, contacts={"cat": force})
    with pytest.raises(ValueError, match="states of 'one' have 1 frames, others 3"):
        viewer.make_scene(scene, states | {"one": artix.neutral_state(cart)}, 0.1)
    with pytest.raises(ValueError, match=r"states and contacts by name need an artix\.Scene"):
        viewer.make_scene(cart, states, 0.1)
    ground = artix.Ground.flat()
    assert viewer.make_scene(scene.replace(ground=ground), states, 0.1).ground is ground
    alone = viewer.make_scene(artix.Scene(cart, ground=ground), states["one"], 0.1)
    assert alone.ground is ground
    assert alone.num_frames == 3


def test_a_robot_without_mass_is_drawn_as_a_ball(tmp_path):
    builder = artix.ArticulationBuilder()
    builder.add_link(name="place")
    place = builder.build()
    (ball,) = viewer.link_visuals(place)
    assert ball.link == 0
    viewer.render_png(tmp_path / "place.png", place, artix.neutral_state(place), size=(60, 40))
    assert (tmp_path / "place.png").stat().st_size > 0


@pytest.mark.parametrize("port", [None, 0, 9123])
def test_foreign_addresses_and_impossible_ports_are_refused(cart, port):
    pytest.importorskip("viser")
    with pytest.raises(OSError, match=r"'203\.0\.113\.7' is not an address of this machine"):
        viewer.pose(cart, host="203.0.113.7", port=port)
    with pytest.raises(ValueError, match="port must be from 0 to 65535; found 'http'"):
        viewer.pose(cart, port="http")
    with pytest.raises(ValueError, match="port must be from 0 to 65535; found 99999"):
        viewer.pose(cart, port=99999)
