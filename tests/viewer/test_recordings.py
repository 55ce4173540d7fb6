"""Recordings in one file, servers with scrubber and sliders, and commands."""

import base64
import contextlib
import errno
import os
import re
import socket
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import viewer
from artix.cli import demo, main
from artix.viewer.sliders import limbs_of, slider_numbers
from tests.support.oracles import ROBOTS

viser = pytest.importorskip("viser")
FRAMES = 250


@pytest.fixture(scope="module")
def quadruped():
    return artix.robots.load("quadruped")


@pytest.fixture(scope="module")
def states(quadruped):
    """Five seconds of legs that swing."""
    state, times = artix.neutral_state(quadruped), np.arange(FRAMES) * 0.02
    still = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (FRAMES, *leaf.shape)), state)
    swing = 0.5 * np.sin(6.0 * times[:, None] + np.arange(12.0))
    return still.replace(
        joint_position=jnp.asarray(swing, quadruped.dtype),
        root_pose=still.root_pose.at[:, 0].set(0.4 * times),
    )


@pytest.fixture(scope="module")
def page(quadruped, states, tmp_path_factory):
    path = tmp_path_factory.mktemp("recording") / "motion.html"
    viewer.save_html(path, quadruped, states, 0.02)
    return path


def messages(page):
    """The messages that a page plays, with their times."""
    import msgspec
    import zstandard

    data = base64.b64decode(re.search(r'__VISER_EMBED_DATA__="([^"]*)"', page.read_text())[1])
    inner = zstandard.ZstdDecompressor().decompress(
        data[8:], max_output_size=int.from_bytes(data[:8], "little")
    )
    length = int.from_bytes(inner[:8], "little")
    found = msgspec.msgpack.decode(inner[8 : 8 + length])
    return found["messages"], found["durationSeconds"]


@pytest.mark.slow
def test_a_recording_of_250_frames_is_small(page):
    assert page.stat().st_size < 1.2e6


def test_a_recording_asks_for_nothing_outside(page):
    text = re.sub(r'__VISER_EMBED_DATA__="[^"]*"', "", page.read_text())
    markup = re.sub(r"<script.*?</script>|<style.*?</style>", "", text, flags=re.DOTALL)
    assert not re.search(r"""(?:src|href)\s*=\s*["']?\s*(?:https?:)?//""", markup)
    assert not re.search(r"""<script[^>]+src=""", text)
    assert not re.search(r"""(?:@import|url\()\s*["']?https?:""", text)


def test_a_recording_moves_every_link_as_it_moved(page, quadruped, states):
    found, duration = messages(page)
    assert duration == pytest.approx(FRAMES * 0.02)
    poses = np.asarray(jax.jit(jax.vmap(artix.frame_pose, (None, 0)))(quadruped, states))
    names = {message["name"] for _, message in found if "name" in message}
    for link, name in enumerate(quadruped.topology.link_names):
        node = f"/world/robots/quadruped/{name}"
        assert node in names
        for kind, key, start, expected in (
            ("SetPositionMessage", "position", (0, 0, 0), poses[:, link, :3]),
            ("SetOrientationMessage", "wxyz", (1, 0, 0, 0), poses[:, link][:, [6, 3, 4, 5]]),
        ):
            told = {
                round(at / 0.02): m[key]
                for at, m in found
                if m["type"] == kind and m["name"] == node
            }
            value, shown = start, []
            for frame in range(FRAMES):
                value = told.get(frame, value)
                shown.append(value)
            np.testing.assert_allclose(shown, expected, atol=1e-4)
    assert "/world/robots/quadruped/trunk/visual/0" in names


def test_a_recording_follows_a_robot_that_walks(page, quadruped, states, tmp_path):
    """The world moves against it: on the page, the root stays where it was, and keeps its
    height."""
    found, _ = messages(page)
    moves = [
        m["position"]
        for _, m in found
        if m["type"] == "SetPositionMessage" and m["name"] == "/world"
    ]
    assert len(moves) >= FRAMES - 1
    np.testing.assert_allclose(moves[-1], [-float(states.root_pose[-1, 0]), 0.0, 0.0], atol=1e-4)
    still = jax.tree.map(lambda leaf: leaf[:20], states)  # It travels 0.15 m, less than its length.
    assert viewer.make_scene(quadruped, still, 0.02).path is None
    assert viewer.make_scene(quadruped, still, 0.02, follow=True).path is not None
    assert viewer.make_scene(quadruped, states, 0.02, follow=False).path is None
    several = jax.tree.map(lambda leaf: jnp.stack([leaf] * 2, axis=1), states)
    assert viewer.make_scene(quadruped, several, 0.02).path is None


def test_a_page_has_the_title_of_its_robot_or_task(page, quadruped, states):
    assert "<title>quadruped</title>" in page.read_text()
    one = jax.tree.map(lambda leaf: leaf[0], states)
    titled = viewer.scene_html(viewer.make_scene(quadruped, one, 0.02, title="walk </title> & run"))
    assert "<title>walk &lt;/title&gt; &amp; run</title>" in titled


@pytest.mark.slow
def test_series_are_plotted_below_a_recording(quadruped, states, tmp_path):
    path, times = tmp_path / "plots.html", np.arange(FRAMES) * 0.02
    height = np.where(times > 3.0, np.nan, 2.0 * times)
    series = {"knees": states.joint_position[:, 8:], "height <m>": height}
    viewer.save_html(path, quadruped, states, 0.02, series=series)
    text = path.read_text()
    assert "height &lt;m&gt;" in text
    curves = re.findall(r'<path stroke="[^"]*" d="([^"]*)"/>', text)
    assert len(curves) == 5
    points = np.array([pair.split(" ") for pair in curves[-1][1:].split("L")], float)
    known = ~np.isnan(height)
    np.testing.assert_allclose(points[:, 0], 1000.0 * times[known] / 5.0, rtol=1e-4)
    np.testing.assert_allclose(points[:, 1], 100.0 - 100.0 * times[known] / 3.0, atol=1e-2)
    with pytest.raises(ValueError, match=r"series 'height' must have shape \[250\]"):
        viewer.save_html(path, quadruped, states, 0.02, series={"height": height[1:]})


def test_frames_of_fast_recordings_are_thinned(quadruped, states, tmp_path):
    path = tmp_path / "fast.html"
    viewer.save_html(path, quadruped, states, 0.001, max_rate=50.0)
    found, duration = messages(path)
    times = sorted({at for at, message in found if message["type"] == "SetPositionMessage"})
    assert len(times) == 13  # 250 ms in steps of 20 ms.
    assert duration == pytest.approx(0.26)


def test_no_recording_has_more_frames_a_second_than_asked_for(quadruped, states, tmp_path):
    path = tmp_path / "odd.html"
    ten = jax.tree.map(lambda leaf: leaf[:10], states)
    viewer.save_html(path, quadruped, ten, 0.012, max_rate=60.0)
    found, duration = messages(path)
    times = sorted({at for at, message in found if message["type"] == "SetPositionMessage"})
    np.testing.assert_allclose(np.diff(times), 0.024, atol=1e-9)
    assert duration == pytest.approx(0.12)


def test_links_whose_names_differ_in_a_slash_are_both_drawn(tmp_path):
    mass = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>'
    names = ("base", "arm/left", "arm_left", "arm_left_")
    links = "".join(f'<link name="{name}">{mass}</inertial></link>' for name in names)
    joints = "".join(
        f'<joint name="to {name}" type="continuous"><parent link="base"/><child link="{name}"/>'
        "</joint>"
        for name in names[1:]
    )
    (tmp_path / "slash.urdf").write_text(f'<robot name="slash">{links}{joints}</robot>')
    robot = artix.load(tmp_path / "slash.urdf")
    for count in (1, 2):
        states = jax.vmap(lambda key: artix.random_state(robot, key))(
            jax.random.split(jax.random.key(0), count)
        )
        scene = viewer.make_scene(robot, jax.tree.map(lambda leaf: leaf[None], states), 0.1)
        path = tmp_path / "slash.html"
        path.write_text(viewer.scene_html(scene), encoding="utf-8")
        nodes = {message.get("name", "") for _, message in messages(path)[0]}
        for name in ("arm_left", "arm_left_", "arm_left__"):
            assert any(node.startswith(f"/world/robots/slash/{name}/visual") for node in nodes)


def test_long_series_keep_their_peaks(quadruped):
    """A blow of 1 ms in 100 s, as of a foot at 1 kHz, is seen where it is."""
    from artix.viewer.player import MAX_POINTS, Plot, thinned, with_plots

    force = np.stack([np.zeros(100_000), np.full(100_000, np.nan)], axis=1)
    force[33_333, 0], force[66_666, 0] = 100.0, -50.0
    frames, kept = thinned(force)
    assert len(frames) <= MAX_POINTS
    assert (np.diff(frames) > 0).all()
    for place, value in ((33_333, 100.0), (66_666, -50.0)):
        assert abs(frames[kept[:, 0] == value].item() - place) < 200
    assert np.isnan(kept[:, 1]).all()
    page = with_plots("<body></body>", {"force": force}, 0.001, 100.0, dark_mode=False)
    assert re.findall(r'class="end"[^>]*>([^<]*)', page) == ["100", "-50"]

    class Panel:
        def add_uplot(self, **options):
            self.data = options["data"]
            return self

    plot = Plot(Panel(), "force", force, 0.001)
    plot.show(50_000)
    times, curve, _, cursor = plot._handle.data
    assert (curve.min(), curve.max()) == (-50.0, 100.0)
    np.testing.assert_allclose(times[np.isfinite(cursor)], 50.0, atol=0.2)


def test_a_batch_is_drawn_as_batches_of_meshes(quadruped, states, tmp_path):
    several = jax.tree.map(lambda leaf: jnp.stack([leaf[:3]] * 4, axis=1), states)
    path = tmp_path / "batch.html"
    viewer.save_html(path, quadruped, several, 0.02, ground=artix.Ground.flat())
    found, _ = messages(path)
    kinds = {message["name"]: message["type"] for _, message in found if "props" in message}
    batches = [name for name, kind in kinds.items() if kind == "BatchedMeshesMessage"]
    assert any(
        name.startswith("/world/robots/quadruped/front_left_thigh/visual") for name in batches
    )
    assert kinds["/world/ground/0"] == "GridMessage"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_the_scrubber_moves_the_robot(quadruped, states):
    shown = viewer.view(
        quadruped, states, 0.02, port=free_port(), series={"knee": states.joint_position[:, 8:]}
    )
    try:
        shown.playing = False
        time.sleep(0.1)
        shown.frame = 200
        node = shown.nodes.handle("quadruped", "front_left_shank")
        state = jax.tree.map(lambda leaf: leaf[200], states)
        expected = np.asarray(artix.frame_pose(quadruped, state))[
            quadruped.topology.link_index("front_left_shank")
        ]
        deadline = time.time() + 60.0
        while not np.allclose(node.position, expected[:3], atol=1e-4) and time.time() < deadline:
            time.sleep(0.05)
        np.testing.assert_allclose(node.position, expected[:3], atol=1e-4)
        # The world moves against the robot, which is followed, until the panel's switch is turned
        # off.
        np.testing.assert_allclose(
            shown.nodes._world.position, [-0.4 * 200 * 0.02, 0.0, 0.0], atol=1e-4
        )
        shown._follows.value = False
        while np.any(shown.nodes._world.position) and time.time() < deadline:
            time.sleep(0.05)
        np.testing.assert_array_equal(shown.nodes._world.position, np.zeros(3))
        shown.playing = True
        time.sleep(0.5)
        assert shown.frame != 200
        with pytest.raises(ValueError, match="frame must be from 0 to 249"):
            shown.frame = 250
        with pytest.raises(OSError, match=r"port \d+ of 127\.0\.0\.1 cannot be used"):
            viewer.view(quadruped, states, 0.02, port=int(shown.url.rpartition(":")[2]))
    finally:
        shown.close()


def test_series_of_another_length_are_refused(quadruped, states):
    with pytest.raises(ValueError, match=r"series 'reward' must have shape \[250\]"):
        viewer.view(quadruped, states, 0.02, series={"reward": np.zeros(3)})


def test_a_notebook_shows_a_recording(quadruped, states):
    shown = viewer.view(quadruped, jax.tree.map(lambda leaf: leaf[:2], states), 0.02, port=0)
    try:
        assert shown._repr_html_().startswith('<iframe srcdoc="&lt;!')
    finally:
        shown.close()


def test_sliders_and_drags_move_the_joints():
    arm = artix.robots.load("arm7")
    posed = viewer.pose(arm, port=0)
    try:
        position = np.linspace(-0.5, 0.5, 7)
        posed.set(position)
        np.testing.assert_allclose(posed.state.joint_position, position, atol=1e-6)
        elbow = arm.topology.dof_names[3]
        degrees = [posed.sliders[name].value for name in posed.sliders]
        np.testing.assert_allclose(np.radians(degrees), position, atol=2e-4)
        posed.sliders[elbow].value = np.degrees(1.25)
        deadline = time.time() + 60.0
        while abs(float(posed.state.joint_position[3]) - 1.25) > 1e-3 and time.time() < deadline:
            time.sleep(0.05)
        assert float(posed.state.joint_position[3]) == pytest.approx(1.25, abs=1e-3)
        hand = arm.topology.link_index("hand")
        expected = np.asarray(artix.frame_pose(arm, posed.state))[hand]
        np.testing.assert_allclose(
            posed.nodes.handle("arm7", "hand").position, expected[:3], atol=1e-4
        )
        with pytest.raises(ValueError, match="joint_position must be finite, of shape"):
            posed.set(np.zeros(3))
    finally:
        posed.close()


@pytest.mark.slow
def test_posing_starts_within_the_limits():
    arm = artix.robots.load("arm7")
    bent = arm.replace(joint_lower_limit=arm.joint_lower_limit.at[3].set(0.5))
    posed = viewer.pose(bent, port=0)
    try:
        np.testing.assert_allclose(posed.state.joint_position, [0.0, 0.0, 0.0, 0.5, 0.0, 0.0, 0.0])
        # The slider's end, rounded inwards to 0.1 degrees.
        assert posed.sliders[arm.topology.dof_names[3]].value == pytest.approx(28.7)
    finally:
        posed.close()


def poser(path):
    """The panel of a robot of example-robot-data, drawn without its meshes."""
    robot = artix.load_urdf(path)
    return robot, viewer.pose(robot, visuals=viewer.link_visuals(robot), port=0)


def panel_of(posed):
    """The sliders of each folder, by their labels."""
    found = {}
    for slider in posed.sliders.values():
        folder = posed.server.gui._container_handle_from_uuid[slider._impl.parent_container_id]
        found.setdefault(folder.label, []).append(slider.label)
    return found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::artix.DescriptionWarning")
def test_sliders_are_grouped_by_limb_and_can_be_searched():
    """Go2 and Talos have joints whose range ends before zero, where its last bit decides."""
    _, posed = poser(ROBOTS / "go2_description" / "urdf" / "go2.urdf")
    try:
        panel = panel_of(posed)
        assert list(panel) == ["FL [°]", "FR [°]", "RL [°]", "RR [°]"]
        assert panel["FR [°]"] == ["FR_hip_joint", "FR_thigh_joint", "FR_calf_joint"]
        calf = posed.sliders["FL_calf_joint"]
        assert (calf.min, calf.max, calf.value) == (-155.9, -48.1, -48.1)
    finally:
        posed.close()
    robot, posed = poser(ROBOTS / "talos_data" / "robots" / "talos_full_v2.urdf")
    try:
        panel = panel_of(posed)
        assert list(panel)[:3] == ["torso [°]", "head [°]", "arm_left_1_link [°]"]
        assert panel["leg_left [°]"] == [f"leg_left_{k}_joint" for k in range(1, 7)]
        followers = {follower for follower, _ in robot.topology.mimic_dofs}
        assert sum(map(len, panel.values())) == robot.topology.num_dofs - len(followers)
        (search,) = (
            h
            for h in posed.server.gui._gui_input_handle_from_uuid.values()
            if h.label == "search joints"
        )
        search.value = "LEG_left 4"
        deadline = time.time() + 30.0
        while (
            sum(slider.visible for slider in posed.sliders.values()) > 1 and time.time() < deadline
        ):
            time.sleep(0.02)
        assert [name for name, slider in posed.sliders.items() if slider.visible] == [
            "leg_left_4_joint"
        ]
    finally:
        posed.close()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::artix.DescriptionWarning")
def test_every_joint_of_every_robot_is_in_one_limb_and_starts_within_its_slider():
    """What :func:`viewer.pose` refuses, without a server for each of 63 robots."""
    robots = dict.fromkeys(ROBOTS.rglob("*.urdf"))
    for path in robots:
        with contextlib.suppress(artix.DescriptionError):
            robots[path] = artix.load_urdf(path)
    loaded = [robot for robot in robots.values() if robot is not None]
    assert len(loaded) >= 63
    for robot in loaded:
        dofs = [dof for limb in limbs_of(robot.topology) for dof in limb.dofs]
        assert sorted(dofs) == list(range(robot.topology.num_dofs))
        names = [limb.name for limb in limbs_of(robot.topology)]
        assert len(set(names)) == len(names) and all(names)
        for dof in dofs:
            low, high = viewer.joint_range(robot, dof)
            for position in (low, 0.0, high):
                least, most, step, value = slider_numbers(robot, dof, position)
                assert least <= value <= most and step > 0.0
                unit = 1.0 if robot.topology.dof_is_linear[dof] else np.pi / 180.0
                assert low - 1e-6 <= least * unit and most * unit <= high + 1e-6


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::artix.DescriptionWarning")
def test_every_robot_can_be_posed():
    posed = 0
    for path in ROBOTS.rglob("*.urdf"):
        with contextlib.suppress(artix.DescriptionError):
            _, shown = poser(path)
            shown.close()
            posed += 1
    assert posed >= 63


@pytest.mark.slow
def test_artix_view_saves_a_picture_and_a_recording(tmp_path, capsys):
    png, html = tmp_path / "cart.png", tmp_path / "cart.html"
    assert main(["view", "cart_pole", "--png", str(png), "--html", str(html), "--collision"]) == 0
    assert png.read_bytes().startswith(b"\x89PNG")
    _, duration = messages(html)
    assert duration == pytest.approx(2 * 1.2)
    out = capsys.readouterr().out
    assert "picture saved to" in out
    assert "recording saved to" in out
    assert main(["view", "cart_pole", "--png", str(tmp_path / "nowhere" / "cart.png")]) == 1


@pytest.mark.filterwarnings("ignore::artix.DescriptionWarning")
def test_pictures_and_recordings_of_a_robot_stay_within_its_limits(tmp_path, monkeypatch):
    """Go2 cannot stretch its knees, and Panda's second finger mimics the first."""
    drawn = {}
    monkeypatch.setattr(viewer, "load_visuals", lambda *_, **__: ())
    monkeypatch.setattr(
        viewer, "render_png", lambda path, robot, state, **_: drawn.update(png=(robot, state))
    )
    monkeypatch.setattr(
        viewer, "save_html", lambda path, robot, states, dt, **_: drawn.update(html=(robot, states))
    )
    for file in ("go2_description/urdf/go2.urdf", "panda_description/urdf/panda.urdf"):
        arguments = [
            "view",
            str(ROBOTS / file),
            "--png",
            str(tmp_path / "a.png"),
            "--html",
            str(tmp_path / "a.html"),
        ]
        assert main(arguments) == 0
        for robot, states in drawn.values():
            position = np.asarray(states.joint_position)
            assert (position >= robot.joint_lower_limit - 1e-6).all()
            assert (position <= robot.joint_upper_limit + 1e-6).all()
            for follower, reference in robot.topology.mimic_dofs:
                np.testing.assert_allclose(
                    position[..., follower], position[..., reference], atol=1e-6
                )
        moving = np.ptp(np.asarray(drawn["html"][1].joint_position), axis=0)
        np.testing.assert_allclose(
            moving, robot.joint_upper_limit - robot.joint_lower_limit, rtol=0.1
        )


def test_a_file_that_cannot_be_written_is_named(tmp_path, monkeypatch, capsys):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(viewer, "render_png", full)
    assert main(["view", "arm7", "--png", str(tmp_path / "arm.png")]) == 1
    assert "arm.png' cannot be written: No space left on device" in capsys.readouterr().err


def test_artix_view_says_that_a_port_is_used(capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["view", "cart_pole", "--port", str(port), "--no-browser"]) == 1
    assert f"port {port} of 127.0.0.1 cannot be used" in capsys.readouterr().err


@pytest.mark.slow
def test_the_demonstration_shows_some_of_its_fleet(monkeypatch, capsys):
    """``artix demo --view`` after its tables: as many robots of the fleet as can be told apart,
    swinging."""
    waited = []
    monkeypatch.setattr(demo, "FRAMES", 5)
    monkeypatch.setattr(demo, "SHOWN", 8)
    monkeypatch.setattr(viewer.Viewer, "wait", lambda shown: waited.append(shown))
    monkeypatch.setattr("webbrowser.open", waited.append)
    fleet = artix.Fleet([artix.robots.load(name) for name in ("cart_pole", "double_pendulum")] * 5)
    state = fleet.random_state(jax.random.key(0))
    demo.show_fleet(fleet, state)
    url, shown = waited
    shown.close()
    assert f"8 of the robots at {url} (press Ctrl-C to stop)" in capsys.readouterr().out
    crowds = {crowd.name: crowd.poses.shape for crowd in shown.scene.crowds}
    assert crowds == {"cart_pole": (5, 4, 3, 7), "double_pendulum": (5, 4, 3, 7)}
    pole = next(crowd for crowd in shown.scene.crowds if crowd.name == "cart_pole").poses
    assert np.abs(pole[2] - pole[0]).max() > 0.1
