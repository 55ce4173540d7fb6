"""Files around a URDF: meshes, packages, includes of xacro, and pointers of Git LFS."""

from __future__ import annotations

import warnings
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import viewer
from artix.io.common.diagnostics import DescriptionError, DescriptionWarning
from artix.io.common.meshes import mesh_shape

BODY = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
LFS = (
    "version https://git-lfs.github.com/spec/v1\noid "
    "sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32\nsize 12345\n"
)
TETRAHEDRON = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"


def collision(shape: str) -> str:
    return f"<collision><geometry>{shape}</geometry></collision>"


def mesh(file: str = "mesh.obj") -> str:
    return collision(f'<mesh filename="{file}"/>')


BALL = collision('<sphere radius="0.1"/>')


def legged(trunk: str, thigh: str, foot: str) -> str:
    """Two moving links on a root, with these shapes."""
    joint = '<joint name="{0}" type="continuous"><parent link="{1}"/><child link="{0}"/><axis xyz="0 1 0"/></joint>'
    links = "".join(
        f'<link name="{name}">{BODY}{shape}</link>'
        for name, shape in (("trunk", trunk), ("thigh", thigh), ("foot", foot))
    )
    return f'<robot name="legged">{links}{joint.format("thigh", "trunk")}{joint.format("foot", "thigh")}</robot>'


# --- shapes that are meshes ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shapes", "bare", "others"),
    [
        ((BALL, BALL, mesh()), "foot", "trunk, thigh"),
        ((BALL, mesh(), BALL), "thigh", "trunk, foot"),
        ((mesh(), mesh(), mesh()), "trunk, thigh, foot", None),
        (("", "", mesh()), "foot", None),
    ],
)
def test_a_floating_robot_that_sinks_into_the_ground_is_warned_of(shapes, bare, others):
    text = legged(*shapes)
    with pytest.warns(DescriptionWarning) as caught:
        artix.load_urdf(text)
    (message,) = (str(one.message) for one in caught)
    assert f"links touch nothing without them: {bare}" in message and "meshes='hull'" in message
    assert others is None or f"only these keep shapes: {others}" in message
    assert [str(issue) for issue in artix.check_urdf(text)] == [message]


@pytest.mark.parametrize(
    ("shapes", "fixed_base"),
    [((BALL, BALL, mesh()), True), ((BALL, BALL, BALL + mesh()), False), ((mesh(), "", ""), False)],
)
def test_other_meshes_that_are_left_out_are_only_noted(shapes, fixed_base):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        artix.load_urdf(legged(*shapes), fixed_base=fixed_base)
    (issue,) = artix.check_urdf(legged(*shapes), fixed_base=fixed_base)
    assert issue.severity == "note" and "are left out" in issue.message


# --- mesh files ---------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["obj", "stl"])
@pytest.mark.parametrize("meshes", ["hull", "capsule"])
def test_a_vertex_that_is_not_finite_is_refused(tmp_path, suffix, meshes):
    """Trimesh drops such vertices by itself; the hull of the others is another shape."""
    trimesh = pytest.importorskip("trimesh")
    path = tmp_path / "robot.urdf"
    path.write_text(legged(BALL, BALL, mesh(f"mesh.{suffix}")))
    vertices = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]])
    faces = [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]
    for bad in (None, np.nan, np.inf):
        points = vertices.copy()
        points[3, 2] = 1.0 if bad is None else bad
        trimesh.Trimesh(points, faces, process=False).export(tmp_path / f"mesh.{suffix}")
        if bad is None:
            robot = artix.load_urdf(path, meshes=meshes)
            assert len(robot.topology.geometries) == 3
            continue
        with pytest.raises(DescriptionError, match="some of its vertices are not finite"):
            artix.load_urdf(path, meshes=meshes)
        with pytest.warns(DescriptionWarning, match="some of its vertices are not finite"):
            viewer.load_visuals(path, artix.load_urdf(legged(BALL, BALL, BALL)))


@pytest.mark.parametrize("meshes", ["hull", "capsule"])
def test_a_shape_of_vertices_that_are_not_finite_is_refused(meshes):
    points = np.random.default_rng(0).normal(size=(30, 3))
    points[7, 1] = np.nan
    with pytest.raises(ValueError, match="not finite"):
        mesh_shape(points, meshes, np.array([0, 0, 0, 0, 0, 0, 1.0]))


def test_a_pointer_of_git_lfs_is_called_that(tmp_path):
    pytest.importorskip("trimesh")
    path = tmp_path / "robot.urdf"
    path.write_text(legged(BALL, BALL, mesh()))
    (tmp_path / "mesh.obj").write_text(LFS)
    with pytest.raises(DescriptionError, match=r"pointer of Git LFS.*git lfs pull"):
        artix.load_urdf(path, meshes="hull")
    with pytest.warns(DescriptionWarning, match="pointer of Git LFS"):
        viewer.load_visuals(path, artix.load_urdf(legged(BALL, BALL, BALL)))
    path.write_text(LFS)
    with pytest.raises(DescriptionError, match="pointer of Git LFS") as caught:
        artix.load_urdf(path)
    assert "git lfs pull" in caught.value.issues[0].fix


def test_packages_say_where_meshes_are(tmp_path):
    pytest.importorskip("trimesh")
    (tmp_path / "robots").mkdir()
    (tmp_path / "parts" / "meshes").mkdir(parents=True)
    (tmp_path / "parts" / "meshes" / "mesh.obj").write_text(TETRAHEDRON)
    path = tmp_path / "robots" / "robot.urdf"
    path.write_text(legged(BALL, BALL, mesh("package://legged_parts/meshes/mesh.obj")))
    with pytest.raises(DescriptionError, match=r"packages=\{name: folder\}"):
        artix.load(path, meshes="hull")
    robot = artix.load(path, meshes="hull", packages={"legged_parts": tmp_path / "parts"})
    assert robot.topology.geometries[-1].num_points == 4
    assert (
        artix.check(path, meshes="hull", packages={"legged_parts": str(tmp_path / "parts")})[
            0
        ].severity
        == "note"
    )
    with pytest.raises(DescriptionError, match="there is no file"):
        artix.load(path, meshes="hull", packages={"legged_parts": tmp_path / "robots"})
    path.write_text(path.read_text().replace("collision>", "visual>"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (
            len(viewer.load_visuals(path, robot, packages={"legged_parts": tmp_path / "parts"}))
            == 3
        )


# --- xacro --------------------------------------------------------------------------------------

XACRO = '<robot name="{name}" xmlns:xacro="http://www.ros.org/wiki/xacro">{inner}</robot>'


def write(path: Path, inner: str, name: str = "robot") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(XACRO.format(name=name, inner=inner))
    return path


def include(name: str) -> str:
    return f'<xacro:include filename="{name}"/>'


def link(name: str) -> str:
    return f'<link name="{name}">{BODY}</link>'


def test_files_are_included_from_beside_the_file_that_includes_them(tmp_path, monkeypatch):
    pytest.importorskip("xacrodoc")
    (tmp_path / "elsewhere").mkdir()
    path = write(tmp_path / "robot" / "robot.xacro", include("parts/first.xacro"), name="whole")
    write(tmp_path / "robot" / "parts" / "first.xacro", include("second.xacro"))
    write(tmp_path / "robot" / "parts" / "second.xacro", link("base"))
    for folder in (tmp_path / "elsewhere", tmp_path / "robot"):
        monkeypatch.chdir(folder)
        for name in (path, Path("..") / "robot" / "robot.xacro"):
            topology = artix.load(name).topology
            assert (topology.name, topology.link_names) == ("whole", ("base",))
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert artix.check(path) == []
    write(path, include("missing.xacro"))
    with pytest.raises(DescriptionError, match=r"missing\.xacro"):
        artix.load(path)


def test_arguments_of_xacro_are_those_of_the_file(tmp_path):
    """Misspelt ones are said, beside those that there are; numbers are taken."""
    pytest.importorskip("xacrodoc")
    inner = '<xacro:arg name="side" default="left"/><xacro:arg name="k" default="1"/>'
    path = write(tmp_path / "robot.xacro", inner + link("$(arg side)${2 * $(arg k)}"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert artix.load(path, arguments={"k": 3}).topology.link_names == ("left6",)
    with pytest.warns(DescriptionWarning, match="it has no argument 'sied'; it has 'k', 'side'"):
        robot = artix.load(path, arguments={"sied": "right", "k": "4"})
    assert robot.topology.link_names == ("left8",)
    with pytest.raises(TypeError, match="arguments: expected values by name"):
        artix.load(path, arguments=["side:=right"])
    (issue,) = artix.check(path, arguments={"sied": "right"})
    assert (issue.severity, issue.file) == ("warning", str(path))


def test_packages_of_xacro_are_looked_for_around_the_file(tmp_path, monkeypatch):
    """A folder of that name above the file, beside it, or where ``packages`` says; one robot's are
    not another's."""
    pytest.importorskip("xacrodoc")
    monkeypatch.delenv("ROS_PACKAGE_PATH", raising=False)
    for number in "12":
        root = tmp_path / f"workspace{number}" / "my_robot"
        path = write(
            root / "urdf" / "robot.xacro",
            include("$(find my_robot)/urdf/inner.xacro") + include("$(find other)/x.xacro"),
        )
        write(root / "urdf" / "inner.xacro", link(f"base{number}"))
        write(tmp_path / f"workspace{number}" / "other" / "x.xacro", "")
        assert artix.load(path).topology.link_names == (f"base{number}",)
    far = tmp_path / "far"
    write(path, include("$(find strange)/x.xacro"))
    write(far / "x.xacro", link("strange_base"))
    with pytest.raises(DescriptionError, match="strange") as caught:
        artix.load(path)
    assert caught.value.issues[0].fix == "give the folder of the package: packages={'strange': ...}"
    assert artix.load(path, packages={"strange": far}).topology.link_names == ("strange_base",)
    assert artix.check(path, packages={"strange": far}) == []
    with pytest.raises(DescriptionError, match="strange"):
        artix.load(path)
    # What packages says comes first.
    write(path, include("$(find my_robot)/x.xacro"))
    assert artix.load(path, packages={"my_robot": far}).topology.link_names == ("strange_base",)


# --- hints --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_targets_of_drives_without_gains_are_warned_of():
    """A URDF has no gains, so every robot from one would ignore them without a word."""
    robot = artix.load_urdf(legged("", "", ""), fixed_base=True)
    state = artix.neutral_state(robot)
    for control in (
        artix.Control(drive_target=jnp.ones(2)),
        artix.Control(drive_target_velocity=jnp.ones(2)),
    ):
        with pytest.warns(
            UserWarning, match="targets in control have no effect, as all drives have stiffness 0"
        ):
            artix.step(robot, state, control, 0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        artix.step(robot, state, artix.Control(joint_force=jnp.ones(2)), 0.01)
        driven = robot.replace(drive=robot.drive.replace(stiffness=jnp.array([1.0, 0.0])))
        artix.step(driven, state, artix.Control(drive_target=jnp.ones(2)), 0.01)


def test_errors_of_shape_mention_a_base_that_floats():
    floating, fixed = (
        artix.load_urdf(legged("", "", ""), fixed_base=base) for base in (False, True)
    )
    with pytest.raises(
        ValueError,
        match=r"expected shape \(8,\) \(nv\), found \(2,\); the base of this robot floats",
    ):
        artix.inverse_dynamics(floating, artix.neutral_state(floating), jnp.zeros(2))
    with pytest.raises(ValueError, match=r"found \(3,\)$"):
        artix.inverse_dynamics(fixed, artix.neutral_state(fixed), jnp.zeros(3))
