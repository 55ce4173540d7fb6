"""Meshes of colliders as hulls and capsules: distances from planes against MuJoCo's of the mesh
itself."""

from __future__ import annotations

import re
import sys
import warnings

import mujoco
import numpy as np
import pytest

import artix
import artix.viewer
from artix.io import check_mjcf, check_urdf, check_usd
from artix.io.common.meshes import mesh_shape
from tests.support.usd_stages import HEADER, body

_RNG = np.random.default_rng(0)
#: A bean of 0.3 m, and the corners of a box with points inside and on it.
BEAN = np.round(_RNG.normal(size=(300, 3)), 3)
BEAN = np.round(
    BEAN / np.linalg.norm(BEAN, axis=1)[:, None] * (0.05, 0.04, 0.15) + (0.01, 0.02, 0.03), 4
)
CORNERS = np.stack(np.meshgrid((-0.1, 0.1), (-0.2, 0.2), (-0.05, 0.05)), axis=-1).reshape(-1, 3)
IDENTITY = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])

MJCF = """<mujoco>
  <asset><mesh name="bean" vertex="{points}"/></asset>
  <worldbody>
    <geom name="floor" type="plane" size="0 0 1"/>
    <body name="foot"><freejoint/><geom name="bean" type="mesh" mesh="bean" pos="0.1 0 0" euler="20 30 40"/></body>
  </worldbody>
</mujoco>"""
URDF = """<robot name="r"><link name="foot"><inertial><mass value="1"/>
  <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
  <collision name="bean"><origin xyz="0.1 0 0" rpy="0.2 0.3 0.4"/>
  <geometry><mesh filename="{file}" scale="1 1 1"/></geometry></collision>
  </link></robot>"""


def reaches(points: np.ndarray, directions: np.ndarray) -> np.ndarray:
    return (directions @ points.T).max(axis=1)


@pytest.mark.parametrize(("meshes", "most"), [("hull", 0.015), ("capsule", 0.024)])
def test_shapes_are_as_near_as_they_say(meshes: str, most: float) -> None:
    """Their errors are those over random planes; hulls are inside, capsules around the mesh; the
    same every time."""
    shape, error = mesh_shape(BEAN, meshes, IDENTITY)
    directions = _RNG.normal(size=(20000, 3))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    if meshes == "hull":
        reach = reaches(np.asarray(shape.points), directions)
        assert {tuple(point) for point in np.asarray(shape.points)} <= {
            tuple(point) for point in BEAN
        }
    else:
        position, (x, y, z, w) = np.split(np.asarray(shape.pose), [3])
        axis = np.array([2 * (x * z + w * y), 2 * (y * z - w * x), w * w - x * x - y * y + z * z])
        ends = position + np.outer((-1, 1), shape.size[1] * axis)
        reach = reaches(ends, directions) + shape.size[0]
    off = reach - reaches(BEAN, directions)
    assert np.max(-off if meshes == "capsule" else off) <= 1e-12
    assert 0.97 * error <= np.max(np.abs(off)) <= 1.05 * error
    assert error <= most
    again = mesh_shape(BEAN, meshes, IDENTITY)[0]
    assert again.size == shape.size
    np.testing.assert_array_equal(np.asarray(again.pose), shape.pose)


def test_a_box_is_its_corners() -> None:
    inside = np.concatenate(
        [np.random.default_rng(0).uniform(-1, 1, (50, 3)) * (0.1, 0.2, 0.05), CORNERS]
    )
    shape, error = mesh_shape(inside, "hull", IDENTITY)
    assert error <= 1e-12
    np.testing.assert_allclose(
        sorted(map(tuple, np.asarray(shape.points))), sorted(map(tuple, CORNERS))
    )


def test_a_capsule_is_found_again() -> None:
    around = np.random.default_rng(0).normal(size=(2000, 3))
    around *= 0.05 / np.linalg.norm(around, axis=1)[:, None]
    axis = np.array([0.48, -0.6, 0.64])
    shape, error = mesh_shape(
        around + np.where(around @ axis > 0, 0.2, -0.1)[:, None] * axis, "capsule", IDENTITY
    )
    np.testing.assert_allclose(shape.size, [0.05, 0.15], rtol=2e-2)
    np.testing.assert_allclose(np.asarray(shape.pose)[:3], 0.05 * axis, atol=1e-3)
    assert error <= 2e-3


@pytest.mark.parametrize(
    "points", [CORNERS[:1], CORNERS[:2], CORNERS[:4]], ids=["point", "edge", "face"]
)
@pytest.mark.parametrize("meshes", ["hull", "capsule"])
def test_flat_meshes(points: np.ndarray, meshes: str) -> None:
    shape, error = mesh_shape(np.repeat(points, 6, axis=0), meshes, IDENTITY)
    assert np.isfinite(error)
    assert np.isfinite(np.asarray(shape.pose)).all()


@pytest.mark.parametrize("meshes", ["hull", "capsule"])
def test_meshes_of_mjcf(meshes: str) -> None:
    text = MJCF.format(points=" ".join(map(str, BEAN.ravel())))
    robot = artix.load_mjcf(text, meshes=meshes, dtype="float64")
    (issue,) = [issue for issue in check_mjcf(text, meshes=meshes) if "meshes" in issue.message]
    told = 1e-3 * float(re.search(r"up to ([\d.]+) mm", issue.message)[1])
    model = mujoco.MjModel.from_xml_string(text)
    data, ground = mujoco.MjData(model), artix.Ground.flat().astype("float64")
    coordinates, off = artix.MujocoCoordinates(robot, model), []
    for _ in range(20):
        data.qpos[3:] = _RNG.normal(size=4)
        data.qpos[3:] /= np.linalg.norm(data.qpos[3:])
        mujoco.mj_kinematics(model, data)
        state = coordinates.state(data.qpos.copy(), data.qvel.copy())
        wanted = mujoco.mj_geomDistance(
            model, data, model.geom("floor").id, model.geom("bean").id, 10.0, None
        )
        off.append(
            float(artix.geometry_distances(artix.Scene(robot, ground=ground), state)[0]) - wanted
        )
    off = np.array(off) if meshes == "hull" else -np.array(off)
    assert off.min() >= -1e-6
    assert 0.3 * told <= off.max() <= 1.1 * told
    assert not artix.load_mjcf(text).topology.geometries
    (left,) = [issue for issue in check_mjcf(text) if "left out" in issue.message]
    assert "meshes='hull' or 'capsule'" in left.fix


@pytest.mark.parametrize("meshes", ["hull", "capsule"])
def test_meshes_of_urdf_and_usd(meshes: str, tmp_path) -> None:
    """They are the shapes of the same points."""
    trimesh = pytest.importorskip("trimesh")
    pytest.importorskip("pxr")
    hull = trimesh.convex.convex_hull(BEAN)
    (tmp_path / "meshes").mkdir()
    hull.export(tmp_path / "meshes" / "bean.obj")
    path = tmp_path / "robot.urdf"
    path.write_text(URDF.format(file="package://robot_description/meshes/bean.obj"))
    robot = artix.load_urdf(path, meshes=meshes)
    wanted = mesh_shape(hull.vertices, meshes, IDENTITY)[0]
    (shape,) = robot.topology.geometries
    assert (shape.name, shape.type) == ("bean", wanted.type)
    if meshes == "hull":
        np.testing.assert_allclose(robot.geometry.point, wanted.points, atol=1e-6)
        np.testing.assert_allclose(robot.geometry.pose[0, :3], [0.1, 0, 0])
    assert (
        sum("collision meshes" in issue.message for issue in check_urdf(path, meshes=meshes)) == 1
    )
    points = ", ".join(f"({x}, {y}, {z})" for x, y, z in BEAN)
    mesh = f'def Mesh "bean" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {{ point3f[] points = [{points}]\n}}'
    root = ', "PhysicsArticulationRootAPI"'
    stage = HEADER + 'def Xform "World" {\n' + body("foot", schemas=root, inner=mesh) + "\n}\n"
    robot = artix.load_usd(stage, meshes=meshes)
    wanted = mesh_shape(BEAN.astype("float32").astype(float), meshes, IDENTITY)[0]
    np.testing.assert_allclose(robot.geometry.size[0, : len(wanted.size)], wanted.size, atol=1e-6)
    assert (
        sum("collision meshes" in issue.message for issue in check_usd(stage, meshes=meshes)) == 1
    )


def test_paths_in_a_xacro_file_are_relative_to_it(tmp_path) -> None:
    trimesh = pytest.importorskip("trimesh")
    pytest.importorskip("xacrodoc")
    (tmp_path / "meshes").mkdir()
    trimesh.convex.convex_hull(BEAN).export(tmp_path / "meshes" / "bean.stl")
    path = tmp_path / "robot.xacro"
    path.write_text(URDF.format(file="meshes/bean.stl"))
    assert len(artix.load(path, meshes="hull").topology.geometries) == 1
    assert {issue.file for issue in artix.check(path, meshes="hull")} == {str(path)}
    robot = artix.load(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(artix.viewer.load_visuals(path, robot)) == 1


@pytest.mark.slow
def test_refusals(tmp_path, monkeypatch) -> None:
    text = URDF.format(file="meshes/none.stl")
    with pytest.raises(artix.DescriptionError, match=r"there is no file .meshes/none\.stl"):
        artix.load_urdf(text, meshes="hull")
    (tmp_path / "broken.stl").write_text("nothing")
    (tmp_path / "robot.urdf").write_text(URDF.format(file="broken.stl"))
    with pytest.raises(artix.DescriptionError, match=r"cannot be read as a mesh|has no vertices"):
        artix.load_urdf(tmp_path / "robot.urdf", meshes="capsule")
    for load in (artix.load_urdf, artix.load_mjcf, artix.load_usd):
        with pytest.raises(ValueError, match="meshes must be 'hull', 'capsule' or None"):
            load(text, meshes="sphere")
    monkeypatch.setitem(sys.modules, "trimesh", None)
    with pytest.raises(ImportError, match=r"pip install 'artix\[meshes\]'"):
        artix.load_urdf(tmp_path / "robot.urdf", meshes="hull")
