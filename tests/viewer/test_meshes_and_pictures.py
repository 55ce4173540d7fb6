"""Meshes have the volumes of their shapes, and pixels agree with geometry."""

import itertools
import sys
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import Geometry, viewer
from artix.viewer import meshes
from artix.viewer.rasterizer import Camera, corner_normals, rasterize

N = meshes.AROUND
#: Area of the regular polygon that stands for a circle of radius 1.
POLYGON = 0.5 * N * np.sin(2 * np.pi / N)


def volume(mesh):
    """By the divergence theorem: positive only if triangles are counter-clockwise seen from
    outside."""
    corners = mesh.vertices[mesh.faces].astype(float)
    return float(np.linalg.det(corners).sum() / 6.0)


@pytest.mark.parametrize(
    ("shape", "expected", "tolerance"),
    [
        (Geometry.box((0.1, 0.2, 0.3)), 8 * 0.006, 1e-6),
        (Geometry.cylinder(0.2, 0.5), POLYGON * 0.04, 1e-6),
        (Geometry.sphere(0.3), 4 / 3 * np.pi * 0.027, 0.05),
        (Geometry.capsule(0.1, 0.4), 4 / 3 * np.pi * 1e-3 + np.pi * 0.01 * 0.8, 0.05),
        (Geometry.hull([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]), 1 / 6, 1e-6),
    ],
    ids=lambda value: getattr(getattr(value, "type", None), "value", None),
)
def test_surfaces_are_closed_and_turned_outwards(shape, expected, tolerance):
    assert volume(viewer.geometry_mesh(shape)) == pytest.approx(expected, rel=tolerance)


def test_a_mirrored_surface_keeps_its_outside():
    box = meshes.box_mesh((0.1, 0.2, 0.3))
    assert volume(box.scaled((1.0, -2.0, 1.0))) == pytest.approx(2 * volume(box), rel=1e-6)


def test_edges_of_boxes_are_sharp_and_spheres_smooth():
    box = meshes.box_mesh((1.0, 1.0, 1.0))
    np.testing.assert_allclose(np.abs(corner_normals(box)).max(axis=-1), 1.0, atol=1e-6)
    ball = meshes.sphere_mesh(2.0)
    radial = ball.vertices[ball.faces] / 2.0
    # Facets are 18 degrees wide.
    np.testing.assert_allclose(corner_normals(ball), radial, atol=0.06)


@pytest.mark.parametrize("wrong", [[[0, 0]], [[0, 0, np.nan]]])
def test_malformed_meshes_are_refused(wrong):
    with pytest.raises(ValueError, match=r"shape|finite"):
        viewer.TriangleMesh(np.array(wrong), np.zeros((1, 3), int))
    with pytest.raises(ValueError, match="there are 1"):
        viewer.TriangleMesh(np.zeros((1, 3)), np.array([[0, 0, 1]]))


def test_a_triangle_covers_its_area():
    corners = np.array([[[10.0, 10.0, 1.0], [90.0, 20.0, 1.0], [30.0, 80.0, 1.0]]])
    found = rasterize(corners, (100, 100), perspective=True)
    (x0, y0), (x1, y1), (x2, y2) = corners[0, :, :2]
    area = 0.5 * abs((x1 - x0) * (y2 - y0) - (x2 - x0) * (y1 - y0))
    assert (found.triangle == 0).sum() == pytest.approx(area, rel=0.01)


def test_the_nearer_triangle_is_seen():
    """Two that cross: each is seen where it is nearer."""
    left_near = [[0.0, 0.0, 1.0], [0.0, 100.0, 1.0], [200.0, 50.0, 9.0]]
    right_near = [[100.0, 0.0, 1.0], [100.0, 100.0, 1.0], [-100.0, 50.0, 9.0]]
    found = rasterize(np.array([left_near, right_near]), (100, 100), perspective=False)
    assert found.triangle[50, 10] == 0
    assert found.triangle[50, 90] == 1
    assert found.depth[50, 10] == pytest.approx(1.0 + 8.0 * 10.5 / 200.0, rel=1e-6)


def test_pixels_lie_where_the_camera_projects_points():
    """What is found in a pixel, by its weights, is projected into that pixel again."""
    rng = np.random.default_rng(0)
    triangle = rng.normal(size=(1, 3, 3))
    camera, size = Camera((4.0, -3.0, 2.0), (0.0, 0.0, 0.0)), (64, 48)
    found = rasterize(camera.project(triangle, size), size, perspective=True)
    rows, columns = np.nonzero(found.triangle == 0)
    assert len(rows) > 10
    points = np.einsum("pk,ki->pi", found.weights[rows, columns], triangle[0])
    again = camera.project(points, size)
    np.testing.assert_allclose(again[:, 0], columns + 0.5, atol=1e-4)
    np.testing.assert_allclose(again[:, 1], rows + 0.5, atol=1e-4)
    np.testing.assert_allclose(again[:, 2], found.depth[rows, columns], rtol=1e-5)


def test_a_camera_around_points_has_them_in_its_picture():
    points = np.random.default_rng(1).normal(size=(50, 3)) * [3.0, 1.0, 0.2]
    seen = Camera.around(points, aspect=2.0).project(points, (200, 100))
    assert (seen[:, 2] > 0).all()
    assert ((seen[:, :2] > 0) & (seen[:, :2] < [200, 100])).all()


@pytest.fixture(scope="module")
def arm():
    return artix.robots.load("arm7")


def test_pictures_are_png_files(arm, tmp_path):
    with pytest.raises(ValueError, match=r"arm.jpg: pictures are PNG files"):
        viewer.render_png(tmp_path / "arm.jpg", arm, artix.neutral_state(arm))


@pytest.mark.slow
def test_a_picture_shows_a_robot_in_its_colours_on_a_floor(arm, tmp_path):
    from matplotlib.image import imread

    path = tmp_path / "arm.png"
    viewer.render_png(path, arm, artix.neutral_state(arm), size=(120, 160))
    image = imread(path)
    assert image.shape == (160, 120, 4)
    red, green, blue = np.moveaxis(image[..., :3], -1, 0)
    orange = (red > 0.4) & (red > 2 * green) & (red > 3 * blue)
    dark = image[..., :3].max(axis=-1) < 0.3
    assert orange.sum() > 20
    assert dark.sum() > 100
    assert np.allclose(image[0, 0], 1.0)


@pytest.mark.slow
def test_shadows_fall_on_the_floor(arm):
    scene = viewer.make_scene(arm, artix.neutral_state(arm), 1.0)
    camera = Camera((0.0, -0.01, 6.0), (0.0, 0.0, 0.0))
    with_robot = viewer.draw_scene(
        scene, size=(100, 100), camera=camera, background=(1.0, 1.0, 1.0)
    )
    hidden = viewer.make_scene(arm, artix.neutral_state(arm), 1.0, show=())
    without = viewer.draw_scene(hidden, size=(100, 100), camera=camera, background=(1.0, 1.0, 1.0))
    darker = (without - with_robot)[..., :3].min(axis=-1) > 0.15
    # The light comes from the right and from the front, so shadows fall to the left and the back.
    assert darker[:50, :50].sum() > 1.5 * darker[50:, 50:].sum() + 10


def test_translucent_bodies_are_seen_through_one_another():
    """Each pixel mixes what is in it from the back to the front, as Porter and Duff's *over*."""
    robot = artix.robots.load("cart_pole")
    wall = viewer.geometry_mesh(artix.Geometry.box((0.01, 5.0, 5.0)))
    colors = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (1.0, 1.0, 1.0))
    opacities = (0.25, 0.5, 1.0, 0.0)
    places = (2.0, 1.0, 0.0, 3.0)  # The last one is invisible, and nearest.
    bodies = [
        viewer.Visual(0, wall, (x, 0, 0, 0, 0, 0, 1), color, opacity)
        for x, color, opacity in zip(places, colors, opacities, strict=True)
    ]
    camera = Camera((20.0, 0.0, 0.0), (0.0, 0.0, 0.0))

    def middle(shown):
        scene = viewer.make_scene(robot, artix.neutral_state(robot), 1.0, visuals=shown)
        return viewer.draw_scene(scene, size=(9, 9), camera=camera, floor=False)[4, 4]

    red, green, blue = (middle([replace(each, opacity=1.0)])[:3] for each in bodies[:3])
    mixed = 0.25 * red + 0.75 * (0.5 * green + 0.5 * blue)
    np.testing.assert_allclose(middle(bodies), [*mixed, 1.0], atol=0.06)
    # Without anything solid, the picture stays translucent.
    assert middle(bodies[:2])[3] == pytest.approx(1 - 0.75 * 0.5, abs=1e-3)


def test_the_floor_is_seen_through_translucent_robots(arm):
    still = artix.neutral_state(arm)
    camera = Camera((0.0, -0.01, 6.0), (0.0, 0.0, 0.0))
    ball = viewer.geometry_mesh(artix.Geometry.sphere(0.5))
    drawn = {"size": (40, 40), "camera": camera}

    def picture(opacity):
        shown = [viewer.Visual(0, ball, (0, 0, 1, 0, 0, 0, 1), (1.0, 0.0, 0.0), opacity)]
        return viewer.draw_scene(viewer.make_scene(arm, still, 1.0, visuals=shown), **drawn)

    # A solid ball in the middle of the floor; through a faint one the floor covers the picture.
    assert picture(0.2)[18:22, 18:22, 3].min() > 0.98


def test_far_from_the_origin_pictures_are_the_same(arm):
    scene = viewer.make_scene(arm, artix.neutral_state(arm), 1.0)
    camera = Camera((1.5, -1.5, 1.2), (0.0, 0.0, 0.5))
    away = np.array([2.0**17, -(2.0**18), 0.0])
    crowd = scene.crowds[0]
    poses = crowd.poses.copy()
    poses[..., :3] += away
    moved = replace(scene, crowds=(replace(crowd, poses=poses),))
    there = Camera(np.asarray(camera.position) + away, np.asarray(camera.look_at) + away)
    pictures = [
        viewer.draw_scene(one, size=(60, 60), camera=eye, floor=False)
        for one, eye in ((scene, camera), (moved, there))
    ]
    assert np.mean(np.abs(pictures[0] - pictures[1]).max(axis=-1) > 0.05) < 0.01


def test_a_robot_without_surfaces_has_a_scene(arm):
    still = artix.neutral_state(arm)
    bare = viewer.make_scene(arm, still, 1.0, visuals=[], show=("collision", "frames"))
    places = np.asarray(artix.frame_pose(arm, still))[:, :3]
    np.testing.assert_allclose(bare.crowds[0].corners()[:, 0, 0, 0], places, atol=1e-6)
    assert viewer.draw_scene(bare, size=(40, 30)).shape == (30, 40, 4)


def test_frames_that_are_not_there_are_refused(arm):
    scene = viewer.make_scene(arm, artix.neutral_state(arm), 1.0)
    with pytest.raises(ValueError, match="from -1 to 0"):
        viewer.draw_scene(scene, frames=(1,))


@pytest.fixture(scope="module")
def walk():
    """An arm that moves its first joint in 9 states, 20 ms apart."""
    arm = artix.robots.load("arm7")
    angles = jnp.zeros((9, 7), arm.dtype).at[:, 0].set(jnp.linspace(0, 1, 9))
    return arm, jax.vmap(lambda q: artix.neutral_state(arm).replace(joint_position=q))(angles)


@pytest.mark.slow
@pytest.mark.parametrize(("dt", "fps"), [(1 / 60, 30), (1 / 240, 25), (0.004, 250), (0.035, 25)])
def test_frames_of_a_gif_begin_when_they_should(dt, fps, tmp_path):
    """Its times are in units of 10 ms, and browsers show a frame for 20 ms at least."""
    from PIL import Image

    arm = artix.robots.load("arm7")
    angles = jnp.zeros((40, 7), arm.dtype).at[:, 0].set(jnp.linspace(0, 2, 40))
    states = jax.vmap(lambda q: artix.neutral_state(arm).replace(joint_position=q))(angles)
    viewer.save_video(tmp_path / "fast.gif", arm, states, dt, fps=fps, size=(30, 22))
    with Image.open(tmp_path / "fast.gif") as film:
        shown = np.array(
            [film.info["duration"] for k in range(film.n_frames) if film.seek(k) is None]
        )
    step = max(round(1 / (fps * dt)), 1)
    step = max(step, int(np.ceil(0.02 / dt - 1e-6)))
    assert shown.min() >= 20
    begins = np.concatenate([[0], np.cumsum(shown)]) / 1000
    np.testing.assert_allclose(begins, step * dt * np.arange(len(shown) + 1), atol=0.005 + 1e-9)


@pytest.mark.slow
def test_a_video_runs_at_the_speed_of_the_motion(tmp_path, walk):
    from PIL import Image

    viewer.save_video(tmp_path / "walk.gif", *walk, 0.02, size=(60, 44))
    with Image.open(tmp_path / "walk.gif") as film:
        assert (film.size, film.n_frames, film.info["duration"], film.info["loop"]) == (
            (60, 44),
            5,
            40,
            0,
        )
        images = [np.asarray(film.convert("RGB"), int) for k in range(5) if film.seek(k) is None]
    assert all(np.abs(one - other).max() > 50 for one, other in itertools.pairwise(images))
    for name, message in (("walk.avi", "let its name end in .gif or .mp4"), ("walk", "GIF or MP4")):
        with pytest.raises(ValueError, match=message):
            viewer.save_video(tmp_path / name, *walk, 0.02)
    with pytest.raises(ValueError, match="fps must be positive"):
        viewer.save_video(tmp_path / "walk.gif", *walk, 0.02, fps=0)
    with pytest.raises(ValueError, match=r"size must be even for .mp4; found \(61, 44\)"):
        viewer.save_video(tmp_path / "walk.mp4", *walk, 0.02, size=(61, 44))


def test_an_mp4_says_what_it_needs(tmp_path, walk, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(ImportError, match=r"pip install 'artix\[video\]'"):
        viewer.save_video(tmp_path / "walk.mp4", *walk, 0.02, size=(60, 44))


def test_an_mp4_has_all_frames(tmp_path, walk):
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    viewer.save_video(tmp_path / "walk.mp4", *walk, 0.02, size=(64, 48))
    frames, seconds = ffmpeg.count_frames_and_secs(str(tmp_path / "walk.mp4"))
    assert (frames, round(seconds, 2)) == (5, 0.2)


def test_the_camera_of_a_video_moves_with_the_robot(tmp_path):
    from PIL import Image

    inertial = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    shape = '<collision><geometry><sphere radius="0.2"/></geometry></collision>'
    path = tmp_path / "ball.urdf"
    path.write_text(f'<robot name="ball"><link name="ball">{inertial}{shape}</link></robot>')
    ball = artix.load(path, fixed_base=False)
    states = jax.vmap(
        lambda x: artix.neutral_state(ball).replace(
            root_pose=jnp.array([x, 0, 1, 0, 0, 0, 1], ball.dtype)
        )
    )(jnp.linspace(0, 50, 3))
    viewer.save_video(tmp_path / "ball.gif", ball, states, 0.04, size=(60, 44))
    with Image.open(tmp_path / "ball.gif") as film:
        middles = [
            np.asarray(film.convert("RGB"), int)[22, 30] for k in range(3) if film.seek(k) is None
        ]
    assert all(np.abs(middle - middles[0]).max() < 12 for middle in middles)
    assert middles[0].max() < 230  # not the white of the background
