"""Visuals of robots are where Pinocchio and MuJoCo put them, and missing ones cause warnings."""

import dataclasses
import warnings

import jax
import numpy as np
import pytest

import artix
from artix import robots, viewer
from artix.cli import main
from artix.viewer.meshes import compose, rotate
from tests.viewer.test_meshes_and_pictures import volume


def world_poses(articulation, state, visuals):
    """The poses of surfaces in the world, [V, 7]."""
    links = np.asarray(artix.frame_pose(articulation, state), float)
    return np.stack([compose(links[one.link], np.asarray(one.pose, float)) for one in visuals])


@pytest.mark.parametrize("name", ["arm7", "quadruped"])
def test_visuals_of_a_urdf_lie_where_pinocchio_has_them(name):
    pin = pytest.importorskip("pinocchio")
    path = str(robots.path(name))
    free = () if name == "arm7" else (pin.JointModelFreeFlyer(),)
    model = pin.buildModelFromUrdf(path, *free)
    geometry = pin.buildGeomFromUrdf(model, path, pin.GeometryType.VISUAL)
    robot = robots.load(name)
    joints = np.random.default_rng(0).uniform(-1, 1, robot.topology.num_dofs)
    state = artix.neutral_state(robot)
    state = state.replace(joint_position=jax.numpy.asarray(joints, robot.dtype))
    q = pin.neutral(model)
    for k, joint in enumerate(robot.topology.dof_names):
        q[model.joints[model.getJointId(joint)].idx_q] = joints[k]
    data, placed = model.createData(), geometry.createData()
    pin.updateGeometryPlacements(model, data, geometry, placed, q)
    by_link: dict[str, list[np.ndarray]] = {}
    for one, at in zip(geometry.geometryObjects, placed.oMg, strict=True):
        by_link.setdefault(model.frames[one.parentFrame].name, []).append(at)
    visuals = viewer.load_visuals(path, robot)
    assert len(visuals) == len(geometry.geometryObjects)
    for link, link_name in enumerate(robot.topology.link_names):
        own = [one for one in visuals if one.link == link]
        expected = by_link.get(link_name, [])
        assert len(own) == len(expected)
        for pose, at in zip(world_poses(robot, state, own) if own else [], expected, strict=True):
            np.testing.assert_allclose(pose[:3], at.translation, atol=2e-6)
            axes = np.stack([rotate(pose[3:], axis) for axis in np.eye(3)], axis=1)
            np.testing.assert_allclose(axes, at.rotation, atol=2e-6)


MJCF = """<mujoco><worldbody><body name="a" pos="0 0 1"><freejoint/>
  <geom size="0.1" rgba="1 0 0 1"/><geom type="capsule" size="0.05 0.2" pos="0.3 0 0" euler="0 40 0" group="3"/>
  <body name="b" pos="0.2 0 0"><joint axis="0 1 0"/><geom type="box" size="0.1 0.2 0.3" pos="0.1 0.2 0" euler="30 0 20"/>
  <geom type="ellipsoid" size="0.1 0.2 0.3" group="1"/></body></body></worldbody></mujoco>"""


def test_geoms_of_an_mjcf_lie_where_mujoco_has_them(tmp_path):
    mujoco = pytest.importorskip("mujoco")
    path = tmp_path / "robot.xml"
    path.write_text(MJCF)
    robot, model = artix.load(path), mujoco.MjModel.from_xml_string(MJCF)
    data = mujoco.MjData(model)
    data.qpos[7] = 0.7
    mujoco.mj_forward(model, data)
    state = artix.neutral_state(robot)
    state = state.replace(
        joint_position=state.joint_position.at[0].set(0.7), root_pose=state.root_pose.at[2].set(1.0)
    )
    visuals = viewer.load_visuals(path, robot)
    shown = [geom for geom in range(model.ngeom) if model.geom_group[geom] < 3]
    poses = world_poses(robot, state, visuals)
    np.testing.assert_allclose(poses[:, :3], data.geom_xpos[shown], atol=2e-6)
    for pose, expected in zip(poses, data.geom_xmat[shown], strict=True):
        axes = np.stack([rotate(pose[3:], axis) for axis in np.eye(3)], axis=1)
        np.testing.assert_allclose(axes, expected.reshape(3, 3), atol=2e-6)
    assert visuals[0].color == (1.0, 0.0, 0.0)
    volumes = [volume(one.mesh) for one in visuals]
    assert volumes[1] == pytest.approx(8 * 0.006, rel=1e-5)
    assert volumes[2] == pytest.approx(4 / 3 * np.pi * 0.006, rel=0.05)


USD = """#usda 1.0
(
    metersPerUnit = 0.01
    upAxis = "Z"
)
def Xform "robot" (prepend apiSchemas = ["PhysicsArticulationRootAPI"]) {
    def Xform "base" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"]) {
        float physics:mass = 1
        float3 physics:diagonalInertia = (1, 1, 1)
        def Cube "shell" {
            double size = 10
            color3f[] primvars:displayColor = [(0.2, 0.4, 0.6)]
            double3 xformOp:translate = (20, 0, 0)
            uniform token[] xformOpOrder = ["xformOp:translate"]
        }
        def Mesh "plate" {
            point3f[] points = [(0, 0, 0), (10, 0, 0), (10, 20, 0), (0, 20, 0)]
            int[] faceVertexCounts = [4]
            int[] faceVertexIndices = [0, 1, 2, 3]
        }
        def Sphere "collider" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {
            double radius = 3
            uniform token purpose = "guide"
        }
    }
}
"""


def test_visible_geometry_of_usd_is_drawn_in_metres(tmp_path):
    pytest.importorskip("pxr")
    pytest.importorskip("trimesh")
    path = tmp_path / "robot.usda"
    path.write_text(USD)
    robot = artix.load(path)
    shell, plate = viewer.load_visuals(path, robot)
    np.testing.assert_allclose(np.asarray(shell.pose)[:3], [0.2, 0, 0], atol=1e-9)
    assert volume(shell.mesh) == pytest.approx(1e-3, rel=1e-5)
    np.testing.assert_allclose(shell.color, (0.2, 0.4, 0.6), atol=1e-6)
    corners = plate.mesh.vertices[plate.mesh.faces].astype(float)
    crossed = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    assert 0.5 * np.linalg.norm(crossed, axis=1).sum() == pytest.approx(0.02, rel=1e-5)


WITH_MESHES = """<robot name="meshed">
  <material name="red"><color rgba="1 0 0 1"/></material>
  <link name="base"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial>
    <visual><origin xyz="0 0 1"/><geometry><mesh filename="package://some_robot/meshes/part.stl" scale="2 2 2"/></geometry>
      <material name="red"/></visual></link>
  <link name="arm"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial>
    <visual><geometry><mesh filename="nowhere.stl"/></geometry></visual>
    <collision><origin xyz="0 0 0.5"/><geometry><box size="1 1 1"/></geometry></collision></link>
  <joint name="mount" type="fixed"><parent link="base"/><child link="arm"/><origin xyz="0 3 0"/></joint>
</robot>"""


@pytest.fixture
def meshed(tmp_path):
    trimesh = pytest.importorskip("trimesh")
    (tmp_path / "some_robot" / "meshes").mkdir(parents=True)
    (tmp_path / "some_robot" / "urdf").mkdir()
    trimesh.creation.box((0.1, 0.1, 0.1)).export(tmp_path / "some_robot" / "meshes" / "part.stl")
    path = tmp_path / "some_robot" / "urdf" / "robot.urdf"
    path.write_text(WITH_MESHES)
    return path


def test_a_missing_mesh_is_said_and_drawn_as_its_collision_shape(meshed):
    robot = artix.load(meshed)
    with pytest.warns(artix.DescriptionWarning, match=r"link 'arm': .* the mesh 'nowhere\.stl'"):
        part, box = viewer.load_visuals(meshed, robot)
    assert volume(part.mesh) == pytest.approx(8e-3, rel=1e-4)
    assert (part.color, np.asarray(part.pose)[2], part.link) == ((1.0, 0.0, 0.0), 1.0, 0)
    assert volume(box.mesh) == pytest.approx(1.0, rel=1e-5)
    assert robot.topology.link_names[box.link] == "arm"


def test_the_command_names_the_first_of_many_missing_meshes(meshed, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(viewer, "render_png", lambda *_, **__: None)
    link = (
        '<link name="{0}"><visual><geometry><mesh filename="{0}.stl"/></geometry></visual></link>'
    )
    joint = (
        '<joint name="to_{0}" type="fixed"><parent link="base"/><child link="{0}"/></joint></robot>'
    )
    more = "".join(
        link.format(f"tip{k}") + joint.format(f"tip{k}").replace("</robot>", "") for k in range(9)
    )
    meshed.write_text(meshed.read_text().replace("</robot>", more + "</robot>"))
    assert main(["view", str(meshed), "--png", str(tmp_path / "robot.png")]) == 0
    told = capsys.readouterr().err.splitlines()
    assert "link 'arm'" in told[0]
    assert len(told) == 5
    assert told[-1] == "artix: and 6 more; --package-dirs says where to look"


def test_addresses_of_packages_may_have_three_slashes(meshed):
    meshed.write_text(
        meshed.read_text().replace("package://", "package:///").replace("nowhere", "../meshes/part")
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", artix.DescriptionWarning)
        assert len(viewer.load_visuals(meshed, artix.load(meshed))) == 2


def test_links_that_were_merged_are_drawn_where_they_are(meshed):
    robot = artix.load(meshed, merge_fixed_joints=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, box = viewer.load_visuals(meshed, robot)
    assert box.link == 0
    np.testing.assert_allclose(np.asarray(box.pose)[:3], [0.0, 3.0, 0.5], atol=1e-6)


def test_large_meshes_are_simplified(tmp_path):
    trimesh = pytest.importorskip("trimesh")
    pytest.importorskip("fast_simplification")
    trimesh.creation.icosphere(subdivisions=5, radius=0.1).export(tmp_path / "nowhere.stl")
    path = tmp_path / "robot.urdf"
    path.write_text(WITH_MESHES.replace("package://some_robot/meshes/part.stl", "nowhere.stl"))
    robot = artix.load(path)
    whole = viewer.load_visuals(path, robot, max_triangles=None)
    few = viewer.load_visuals(path, robot, max_triangles=2000)
    assert [len(one.mesh.faces) for one in whole] == [20480, 20480]
    assert all(500 < len(one.mesh.faces) < 1500 for one in few)
    assert volume(few[1].mesh) == pytest.approx(volume(whole[1].mesh), rel=0.01)


def test_visuals_of_another_robot_are_refused():
    arm, cart = robots.load("arm7"), robots.load("cart_pole")
    with pytest.raises(ValueError, match="none of its links with visuals"):
        viewer.load_visuals(robots.path("cart_pole"), arm)
    with pytest.raises(ValueError, match="use visuals with the articulation"):
        viewer.make_scene(cart, artix.neutral_state(cart), 1.0, visuals=viewer.visuals_of(arm))
    with pytest.raises(ValueError, match="no reader of visuals"):
        viewer.load_visuals("robot.step", arm)


def test_boxes_of_inertias_are_those_that_were_described():
    """The URDF of the humanoid has the inertia of a box of 0.2 x 0.3 x 0.42 m for its torso."""
    humanoid = robots.load("humanoid")
    torso = humanoid.topology.link_index("torso")
    boxes = [
        one
        for one in viewer.link_visuals(humanoid)
        if one.link == torso and len(one.mesh.faces) == 12
    ]
    edges = np.sort(np.ptp(boxes[0].mesh.vertices, axis=0))
    np.testing.assert_allclose(edges, [0.2, 0.3, 0.42], rtol=1e-4)


def test_robots_without_a_file_are_drawn_by_shapes_or_inertias():
    quadruped = robots.load("quadruped")
    other = quadruped.replace(topology=dataclasses.replace(quadruped.topology, name="mine"))
    found = viewer.visuals_of(other)
    heavy = set(np.flatnonzero(np.asarray(other.link_mass)).tolist())
    assert heavy <= {one.link for one in found}
    assert [one.link for one in viewer.collision_visuals(other)] == [one.link for one in found[:4]]


def test_shapes_left_out_of_contact_are_still_drawn():
    """As of a robot from MJCF whose feet alone touch the ground."""
    builder = artix.ArticulationBuilder(name="walker")
    trunk = builder.add_link(mass=1.0, inertia=(0.1, 0.1, 0.1), name="trunk")
    builder.add_geometry(trunk, artix.Geometry.box((0.2, 0.1, 0.05)), "body")
    foot = builder.add_link(
        trunk,
        artix.Joint.revolute(artix.Axis.TWIST),
        mass=1.0,
        inertia=(0.1, 0.1, 0.1),
        name="foot",
    )
    builder.add_geometry(foot, artix.Geometry.sphere(0.03), "sole")
    robot = builder.build()
    cut = artix.select_geometry(artix.select_geometry(robot, ["sole", "body"]), ["sole"])
    before, after = viewer.visuals_of(robot), viewer.visuals_of(cut)
    assert [one.link for one in after] == [one.link for one in before] == [0, 1]
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one.mesh.vertices, other.mesh.vertices)
    assert len(viewer.collision_visuals(cut)) == 1
    # It makes no program of its own.
    assert cut.topology == dataclasses.replace(cut.topology, drawn_shapes=())
    held = artix.lock_joints(cut, artix.neutral_state(cut), cut.topology.joint_names)
    assert [one.link for one in viewer.visuals_of(held)] == [0, 1]
    # Traced numbers are not kept.
    jax.jit(lambda robot: artix.select_geometry(robot, ["sole"]).geometry.size)(robot)
