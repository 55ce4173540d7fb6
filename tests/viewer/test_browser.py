"""Scenes in a real browser: Chromium without a network, inspected through its remote debugging
protocol."""

import base64
import io
import json
import shutil
import subprocess
import time
import urllib.request

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.image import imread

import artix
from artix import viewer
from tests.support.oracles import ROBOTS

pytest.importorskip("viser")
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")]
FLAGS = """--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
    --disable-component-update --disable-sync --use-gl=angle --use-angle=swiftshader --enable-unsafe-swiftshader
    --window-size=700,450 --remote-debugging-port=0"""
OFFLINE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"


class Page:
    """A page of the browser."""

    def __init__(self, port, url):
        from websockets.sync.client import connect

        request = urllib.request.Request(f"http://127.0.0.1:{port}/json/new?{url}", method="PUT")
        with urllib.request.urlopen(request) as answer:
            address = json.load(answer)["webSocketDebuggerUrl"]
        self.socket, self.count = connect(address, max_size=None, proxy=None), 0

    def call(self, method, **parameters):
        self.count += 1
        self.socket.send(json.dumps({"id": self.count, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self.socket.recv(timeout=60))
            if answer.get("id") == self.count:
                return answer["result"]

    def evaluate(self, script):
        return self.call("Runtime.evaluate", expression=script)["result"].get("value")

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=39
            )

    def colors(self):
        """Red, green and blue of all pixels, from 0 to 1."""
        data = self.call("Page.captureScreenshot")["data"]
        return np.moveaxis(imread(io.BytesIO(base64.b64decode(data)), format="png")[..., :3], -1, 0)

    def wait(self, holds):
        """Waits until the pixels are as they should be, and gives them."""
        deadline = time.time() + 120.0
        while not holds(found := self.colors()):
            assert time.time() < deadline, "the page does not show what it should"
            time.sleep(0.5)
        return found


@pytest.fixture(scope="module")
def open_page(tmp_path_factory):
    profile = tmp_path_factory.mktemp("profile")
    command = [CHROMIUM, *FLAGS.split(), OFFLINE, f"--user-data-dir={profile}", "about:blank"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            told, deadline = profile / "DevToolsActivePort", time.time() + 90.0
            while not (told.exists() and told.read_text()) and time.time() < deadline:
                time.sleep(0.1)
            port = told.read_text().split()[0]
            yield lambda url: Page(port, url)
        finally:
            process.terminate()


def purple(colors):
    red, green, blue = colors
    return (red > 1.5 * green) & (blue > 1.5 * green) & (blue > 0.2)


def red(colors):
    red, green, blue = colors
    return (red > 2.0 * green) & (red > 2.0 * blue) & (red > 0.3)


def test_a_recording_is_drawn_and_moves(open_page, tmp_path):
    quadruped, path = artix.robots.load("quadruped"), tmp_path / "motion.html"
    still = artix.neutral_state(quadruped)
    states = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (40, *leaf.shape)), still)
    states = states.replace(root_pose=states.root_pose.at[:, 1].set(jnp.linspace(0.0, 3.0, 40)))
    viewer.save_html(path, quadruped, states, 0.05, follow=False)
    page = open_page(f"file://{path}")
    first = purple(page.wait(lambda colors: purple(colors).sum() > 300))
    page.wait(lambda colors: (first & ~purple(colors)).sum() > 150)


def test_a_robot_that_walks_stays_in_the_picture_and_large(open_page, tmp_path):
    quadruped, path = artix.robots.load("quadruped"), tmp_path / "walk.html"
    still = artix.neutral_state(quadruped)
    states = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (60, *leaf.shape)), still)
    states = states.replace(root_pose=states.root_pose.at[:, 1].set(jnp.linspace(0.0, 40.0, 60)))
    viewer.save_html(path, quadruped, states, 0.05)
    page = open_page(f"file://{path}")
    for _ in range(4):
        seen = purple(page.wait(lambda colors: purple(colors).sum() > 2000))
        rows, columns = (
            np.mean(where) / size for where, size in zip(np.nonzero(seen), seen.shape, strict=True)
        )
        assert 0.2 < rows < 0.8 and 0.2 < columns < 0.8
        time.sleep(0.7)
    assert page.evaluate("document.title") == "quadruped"


@pytest.mark.exhaustive
def test_a_fleet_of_64_is_drawn_in_its_colours_with_the_forces_on_it(open_page, tmp_path):
    quadruped, path = artix.robots.load("quadruped"), tmp_path / "fleet.html"
    fleet = artix.Fleet([quadruped, artix.robots.load("cart_pole")] * 32)
    points = jnp.zeros((64, 1, 3))
    forces = jnp.zeros((64, 1, 3)).at[::2, 0, 2].set(139.7)
    viewer.save_html(path, fleet, fleet.neutral_state(), 1.0, contacts=(points[None], forces[None]))
    page = open_page(f"file://{path}")
    page.wait(lambda colors: purple(colors).sum() > 300 and red(colors).sum() > 300)


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore::artix.DescriptionWarning")
def test_a_slider_moves_a_robot_of_meshes(open_page):
    """An ANYmal from example-robot-data: keys in the browser move its joints, and its pixels."""
    path = ROBOTS / "anymal_c_simple_description" / "urdf" / "anymal.urdf"
    anymal = artix.load(path)
    posed = viewer.pose(anymal, visuals=viewer.load_visuals(path, anymal), port=0)
    try:
        page = open_page(posed.url.replace("localhost", "127.0.0.1"))
        before = page.wait(lambda colors: red(colors).sum() > 300)
        page.evaluate("document.querySelectorAll('[role=slider]')[0].focus()")
        for _ in range(100):
            page.press("ArrowRight")
        deadline = time.time() + 30.0
        while posed.state.joint_position[0] < 0.17 and time.time() < deadline:
            time.sleep(0.1)
        moved = np.flatnonzero(posed.state.joint_position)
        assert moved.tolist() == [0]
        assert posed.state.joint_position[0] == pytest.approx(np.radians(100 * 0.1), abs=0.002)
        page.wait(lambda colors: (np.abs(colors - before).max(axis=0) > 0.2).sum() > 300)
    finally:
        posed.close()
