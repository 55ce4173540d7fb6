"""The built-in robots."""

from __future__ import annotations

from xml.etree import ElementTree

import jax
import numpy as np
import pytest

import artix
from artix import robots
from artix.io.urdf.reader import check_urdf
from tests.support.rigid_bodies import placements

#: Name: (number of degrees of freedom, total mass [kg], whether the base is fixed).
EXPECTED = {
    "arm7": (7, 17.1, True),
    "cart_pole": (2, 1.2, True),
    "double_pendulum": (2, 2.0, True),
    "humanoid": (25, 61.4, False),
    "quadruped": (12, 14.24, False),
}


def test_names():
    assert robots.names() == tuple(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_robots_load_without_a_remark(name):
    dofs, mass, fixed = EXPECTED[name]
    assert check_urdf(robots.path(name), fixed_base=fixed) == []
    articulation = robots.load(name)
    assert articulation.topology.name == name
    assert (articulation.topology.num_dofs, articulation.topology.fixed_base) == (dofs, fixed)
    np.testing.assert_allclose(np.asarray(articulation.link_mass).sum(), mass, rtol=1e-6)
    merged = robots.load(name, merge_fixed_joints=True, fixed_base=not fixed)
    assert merged.topology.num_links == dofs + 1
    assert merged.topology.fixed_base is not fixed


def principal_inertia(geometry: ElementTree.Element, mass: float) -> list[float]:
    """Moments about x, y and z of a solid body of even density."""
    shape = geometry[0]
    if shape.tag == "box":
        x, y, z = (side * side for side in map(float, shape.attrib["size"].split()))
        return [mass * (y + z) / 12, mass * (x + z) / 12, mass * (x + y) / 12]
    radius = float(shape.attrib["radius"])
    if shape.tag == "sphere":
        return [0.4 * mass * radius**2] * 3
    across = mass * (3 * radius**2 + float(shape.attrib["length"]) ** 2) / 12
    return [across, across, 0.5 * mass * radius**2]


@pytest.mark.parametrize("name", EXPECTED)
def test_inertias_are_those_of_the_shapes(name):
    with_mass = [
        link
        for link in ElementTree.parse(robots.path(name)).iter("link")
        if link.find("inertial") is not None
    ]
    assert with_mass
    for link in with_mass:
        inertial, visual = link.find("inertial"), link.find("visual")
        assert inertial.find("origin").attrib == visual.find("origin").attrib
        found = [float(inertial.find("inertia").attrib[key]) for key in ("ixx", "iyy", "izz")]
        expected = principal_inertia(
            visual.find("geometry"), float(inertial.find("mass").attrib["value"])
        )
        np.testing.assert_allclose(found, expected, rtol=1e-5, err_msg=link.attrib["name"])


def test_the_legs_and_arms_of_the_two_sides_mirror_each_other():
    for name in ("humanoid", "quadruped"):
        placed = placements(robots.load(name))
        pairs = [(link, link.replace("left", "right")) for link in placed if "left" in link]
        assert len(pairs) >= 8
        for left, right in pairs:
            np.testing.assert_allclose(
                placed[left][:3, 3] * [1, -1, 1], placed[right][:3, 3], atol=1e-6
            )


def test_heights():
    humanoid = placements(robots.load("humanoid"))
    np.testing.assert_allclose(humanoid["left_sole"][2, 3], -1.01, atol=1e-6)
    np.testing.assert_allclose(humanoid["head"][2, 3] + 0.2, 0.84, atol=1e-6)
    quadruped = placements(robots.load("quadruped"))
    np.testing.assert_allclose(quadruped["rear_right_foot"][2, 3], -0.42, atol=1e-6)


def test_an_unknown_name_is_answered_with_the_known_ones():
    for function in (robots.load, robots.path):
        with pytest.raises(
            ValueError, match="no robot called 'arm8'; choose from: arm7, cart_pole"
        ):
            function("arm8")


def test_two_loads_of_one_file_share_one_compilation() -> None:
    jitted = jax.jit(artix.gravity_compensation)
    for _ in range(2):
        arm = robots.load("arm7")
        jitted(arm, artix.neutral_state(arm))
    assert jitted._cache_size() == 1


@pytest.mark.parametrize(
    ("name", "shapes", "heights"),
    [
        # Legs straight down: the distances of the feet below the root, by the lengths of the links.
        (
            "quadruped",
            ["front_left_foot", "front_right_foot", "rear_left_foot", "rear_right_foot"],
            [-0.44] * 4,
        ),
        ("humanoid", ["left_foot", "right_foot"], None),
        ("arm7", ["hand"], None),
    ],
)
def test_robots_stand_on_their_feet(name, shapes, heights):
    robot = robots.load(name)
    state = artix.neutral_state(robot)
    assert [one.name for one in robot.topology.geometries] == shapes
    distances = artix.geometry_distances(
        artix.Scene(robot, ground=artix.Ground.flat(dtype=robot.dtype)), state
    )
    if heights is not None:
        np.testing.assert_allclose(distances, heights, atol=1e-6)
    if name == "humanoid":
        soles = [artix.frame_pose(robot, state, f"{side}_sole")[2] for side in ("left", "right")]
        np.testing.assert_allclose(distances, soles, atol=1e-6)
