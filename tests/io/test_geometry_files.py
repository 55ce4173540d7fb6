"""Shapes and ground from files, against MuJoCo."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

import artix
from artix.io.usd.reader import load_usd_with_state
from tests.contact.test_geometry import with_shapes
from tests.io.test_mjcf_models import files

FEET = """<mujoco model="walker">
  <option gravity="0 0 -9.81"/>
  <asset>
    <mesh name="wedge" vertex="0 0 0 0.1 0 0 0 0.2 0 0 0 0.3 0.1 0 0.2"/>
    <mesh name="ball" builtin="sphere" params="2"/>
    <hfield name="hills" nrow="3" ncol="4" size="3 2 0.5 0.1" elevation="0 1 2 3 2 4 1 0 0 3 1 2"/>
  </asset>
  <worldbody>
    <geom name="floor" type="plane" size="0 0 1" pos="0 0 -0.2" euler="5 10 0" friction="0.6"/>
    <geom name="hills" type="hfield" hfield="hills" pos="1 -2 -1" friction="0.7"/>
    <geom name="crate" type="box" size="1 1 1" pos="9 9 0"/>
    <body name="trunk" pos="0 0 1"><freejoint/>
      <geom name="trunk" type="box" size="0.2 0.1 0.05" euler="10 20 30" friction="0.3"/>
      <geom name="shell" type="box" size="0.3 0.3 0.3" contype="0" conaffinity="0"/>
      <geom name="round" type="mesh" mesh="ball"/>
      <geom name="egg" type="ellipsoid" size="0.1 0.2 0.3"/>
      <body name="leg" pos="0.1 0.2 -0.1"><joint name="hip" axis="0 1 0"/><joint name="knee" axis="1 0 0"/>
        <geom name="shin" type="capsule" fromto="0 0 0 0.05 0.1 -0.3" size="0.03" friction="0.9"/>
        <geom name="heel" type="cylinder" size="0.05 0.1" pos="0.1 0 -0.3" euler="40 0 0"/>
        <geom name="toe" size="0.04" pos="0.2 0 -0.3"/>
        <geom name="wedge" type="mesh" mesh="wedge" pos="0.1 0.1 0.1"/>
      </body>
    </body>
  </worldbody>
</mujoco>"""


def random_qpos(model: mujoco.MjModel, rng: np.random.Generator) -> np.ndarray:
    qpos = np.zeros(model.nq)
    mujoco.mj_integratePos(model, qpos := model.qpos0.copy(), rng.normal(size=model.nv), 1.0)
    return qpos


def distances_agree(
    robot: artix.Articulation, model: mujoco.MjModel, planes: dict[str, artix.Plane], tolerance
) -> None:
    """The distances of all shapes from planes are those of the geoms of the same name."""
    data, rng = mujoco.MjData(model), np.random.default_rng(0)
    coordinates = artix.MujocoCoordinates(robot, model)
    for _ in range(3):
        data.qpos[:] = random_qpos(model, rng)
        mujoco.mj_kinematics(model, data)
        state = coordinates.state(data.qpos, np.zeros(model.nv))
        for floor, plane in planes.items():
            found = artix.geometry_distances(
                artix.Scene(robot, ground=artix.Ground((plane,))), state
            )
            for k, one in enumerate(robot.topology.geometries):
                a, b = model.geom(floor).id, model.geom(one.name).id
                expected = mujoco.mj_geomDistance(model, data, a, b, 1e3, None)
                limit = 1e-7 if model.geom_type[b] == mujoco.mjtGeom.mjGEOM_MESH else tolerance
                assert found[k] == pytest.approx(expected, abs=limit), one.name


def test_shapes_of_mjcf_are_mujocos() -> None:
    robot = artix.load_mjcf(FEET)
    assert [one.name for one in robot.topology.geometries] == [
        "trunk",
        "egg",
        "shin",
        "heel",
        "toe",
        "wedge",
    ]
    np.testing.assert_allclose(robot.geometry.friction, [0.3, 1, 0.9, 1, 1, 1])
    ground = artix.load_world(FEET)[0].ground
    plane, hills = ground.surfaces
    distances_agree(robot, mujoco.MjModel.from_xml_string(FEET), {"floor": plane}, 1e-12)
    assert ground.friction_combination == "max"
    np.testing.assert_allclose([plane.friction, hills.friction], [0.6, 0.7])


@pytest.mark.parametrize("turn", [0, 90, 180, -90])
def test_heights_of_mjcf_are_mujocos(turn: int) -> None:
    """Those of a field that its body turns by quarters, too."""
    geom = '<geom name="hills" type="hfield" hfield="hills" pos="1 -2 -1" friction="0.7"/>'
    text = FEET.replace(geom, f'<body name="field" euler="0 0 {turn}">{geom}</body>')
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    model.geom_group[:] = 1
    model.geom_group[model.geom("hills").id] = 0
    mujoco.mj_forward(model, data)
    _, hills = artix.load_world(text)[0].ground.surfaces
    only, hit = np.array([1, 0, 0, 0, 0, 0], np.uint8), np.zeros(1, np.int32)
    turned = data.xmat[model.body("field").id].reshape(3, 3)
    for i in range(4):
        for j in range(3):
            # Just within the edges, where MuJoCo's rays meet the field.
            x, y = (-2 + 2 * i, -4 + 2 * j) + np.sign([1.5 - i, 1 - j]) * 1e-9
            start = turned @ [x, y, 5.0]
            height = 5 - mujoco.mj_ray(model, data, start, [0, 0, -1.0], only, 1, -1, hit)
            above = hills.heights_below(jnp.array(start), jnp.zeros((3, 1)))
            assert hit[0] == model.geom("hills").id
            # MuJoCo keeps heights in float32
            assert 5 - above[0] == pytest.approx(height, abs=1e-7)


def test_ellipsoids_survive_mjcf_and_are_said_to_be_lost_elsewhere(tmp_path) -> None:
    builder = artix.ArticulationBuilder(name="egg")
    builder.add_link(mass=1.0, inertia=(0.1, 0.2, 0.15), name="body")
    shape = artix.Geometry.ellipsoid((0.1, 0.2, 0.15), pose=(0, 0, 0.1, 0.6, 0, 0, 0.8))
    builder.add_geometry("body", shape, name="egg")
    robot = builder.build("float64")
    assert artix.save(robot, tmp_path / "egg.xml") == []
    again = artix.load(tmp_path / "egg.xml", dtype="float64")
    assert again.topology.geometries == robot.topology.geometries
    np.testing.assert_allclose(again.geometry.size, robot.geometry.size, rtol=1e-12)
    np.testing.assert_allclose(again.geometry.pose, robot.geometry.pose, atol=1e-12)
    for suffix, said in (("urdf", "an ellipsoid"), ("usda", "USD has no ellipsoids: 'egg' is")):
        issues = artix.save(robot, tmp_path / f"egg.{suffix}")
        assert any(said in issue.message for issue in issues), suffix
        assert artix.load(tmp_path / f"egg.{suffix}").topology.geometries == ()


def test_what_is_left_out_is_said() -> None:
    messages = [
        issue.message for issue in artix.check_mjcf(FEET) if "no actuator" not in issue.message
    ]
    assert messages == [
        "1 geom of type mesh is left out and touches nothing (body trunk)",
        "floating articulations do not touch the 1 static geom of type box",
    ]
    crate = 'name="crate" type="box" size="1 1 1" pos="9 9 0"'
    for harmless in (
        FEET.replace(crate, f'{crate} contype="0" conaffinity="0"'),
        FEET.replace("<freejoint/>", ""),
    ):
        assert not any("static geoms" in issue.message for issue in artix.check_mjcf(harmless))


@pytest.mark.parametrize(
    ("geom", "pair", "said"),
    [
        ('condim="6" margin="0.01"', "", "condim, margin of"),
        ('condim="1"', "", None),
        ("", 'gap="0.1" condim="4"', "condim, gap of"),
        ('condim="1" contype="0" conaffinity="0"', "", None),
    ],
)
def test_unread_parameters_of_contacts_are_named(geom, pair, said) -> None:
    text = f"""<mujoco><worldbody><geom name="a" type="plane" size="1 1 1"/><body><freejoint/><geom name="b" size="0.1"/>
    <geom size="0.1" {geom}/></body></worldbody><contact><pair geom1="a" geom2="b" {pair}/></contact></mujoco>"""
    found = [
        issue.message for issue in artix.check_mjcf(text) if "do not have these" in issue.message
    ]
    assert [message[: len(said or "")] for message in found] == ([] if said is None else [said])


@pytest.mark.parametrize(
    ("floor", "foot", "pair", "friction"),
    [
        ('contype="1" conaffinity="0"', 'contype="0" conaffinity="1"', "", 1.0),
        ('contype="2" conaffinity="0"', 'contype="1" conaffinity="1"', "", None),
        ('contype="0" conaffinity="0"', 'contype="1" conaffinity="1"', "", None),
        (
            "",
            'contype="0" conaffinity="0"',
            '<pair geom1="foot" geom2="floor" friction="0.4 0.4"/>',
            0.4,
        ),
        ("", 'contype="0" conaffinity="0"', "", None),
    ],
)
def test_the_same_geoms_touch_as_in_mujoco(floor, foot, pair, friction) -> None:
    text = f"""<mujoco><worldbody><geom name="floor" type="plane" size="0 0 1" {floor}/>
    <body name="ball"><freejoint/><geom name="foot" size="0.1" {foot}/><inertial mass="1" pos="0 0 0" diaginertia="1 1 1"/>
    </body></worldbody><contact>{pair}</contact></mujoco>"""
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    robot = artix.load_mjcf(text)
    assert len(robot.topology.geometries) == data.ncon == (friction is not None)
    if friction is not None:
        assert robot.geometry.friction[0] == pytest.approx(friction)
        assert data.contact[0].friction[0] == pytest.approx(friction)


@pytest.mark.parametrize(("priority", "expected"), [(0, 0.9), (1, 0.2)])
def test_priority_gives_the_friction_of_pairs_to_geoms(priority, expected) -> None:
    text = f"""<mujoco><worldbody><geom name="floor" type="plane" size="0 0 1" friction="0.9"/>
    <body name="ball"><freejoint/><geom size="0.1" friction="0.2" priority="{priority}"/></body></worldbody></mujoco>"""
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    robot = artix.load_mjcf(text)
    contacts = artix.ground_contacts(
        artix.Scene(robot, ground=artix.load_world(text)[0].ground), artix.neutral_state(robot)
    ).contacts
    assert contacts.friction[0] == pytest.approx(expected) == data.contact[0].friction[0]
    np.testing.assert_allclose(contacts.gap[0], data.contact[0].dist, atol=1e-15)
    np.testing.assert_allclose(contacts.normal[0], data.contact[0].frame[:3], atol=1e-15)


def test_models_of_others_have_mujocos_distances() -> None:
    path = files("gymnasium")["ant.xml"]
    robot, model = artix.load_mjcf(path), mujoco.MjModel.from_xml_path(str(path))
    assert len(robot.topology.geometries) == 13
    model.geom_sameframe[0] = mujoco.mjtSameFrame.mjSAMEFRAME_NONE
    (plane,) = artix.load_world(path)[0].ground.surfaces
    data, rng = mujoco.MjData(model), np.random.default_rng(0)
    coordinates = artix.MujocoCoordinates(robot, model)
    geoms = np.flatnonzero(model.geom_bodyid)
    for _ in range(3):
        data.qpos[:] = random_qpos(model, rng)
        mujoco.mj_kinematics(model, data)
        state = coordinates.state(data.qpos, np.zeros(model.nv))
        found = artix.geometry_distances(artix.Scene(robot, ground=artix.Ground((plane,))), state)
        expected = [mujoco.mj_geomDistance(model, data, 0, int(geom), 1e3, None) for geom in geoms]
        np.testing.assert_allclose(np.sort(found), np.sort(expected), atol=1e-12)


def test_shapes_survive_mjcf(tmp_path) -> None:
    robot = artix.load_mjcf(FEET)
    issues = artix.save(robot, tmp_path / "robot.xml")
    assert not [issue for issue in issues if "geometry" in issue.element]
    again = artix.load_mjcf(tmp_path / "robot.xml")
    assert again.topology.geometries == robot.topology.geometries
    state, ground = artix.random_state(robot, jax.random.key(0)), artix.Ground.flat()
    first, second = (
        artix.geometry_distances(artix.Scene(one, ground=ground), state) for one in (robot, again)
    )
    np.testing.assert_allclose(first, second, atol=1e-7)
    np.testing.assert_allclose(np.delete(first, 4), np.delete(second, 4), atol=1e-13)
    np.testing.assert_array_equal(again.geometry.friction, robot.geometry.friction)


# --- URDF ---------------------------------------------------------------------------------------

URDF = """<robot name="cart">
  <link name="base"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
    <collision><origin xyz="0.1 0.2 0.3" rpy="0.1 0.2 0.3"/><geometry><box size="0.2 0.3 0.4"/></geometry></collision>
    <collision name="shape"><geometry><sphere radius="0.2"/></geometry></collision>
  </link>
  <link name="arm"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
    <collision name="shape"><origin xyz="0 0 -0.2"/><geometry><cylinder radius="0.1" length="0.5"/></geometry></collision>
  </link>
  <link name="tip"><collision name="tip"><origin rpy="1 0 0"/><geometry>
    <capsule radius="0.05" length="0.2"/></geometry></collision></link>
  <joint name="hinge" type="continuous"><parent link="base"/><child link="arm"/><axis xyz="0 1 0"/>
    <origin xyz="0 0 0.5"/></joint>
  <joint name="weld" type="fixed"><parent link="arm"/><child link="tip"/><origin xyz="0 0.3 -0.4" rpy="0.4 0 0"/></joint>
</robot>"""


@pytest.mark.parametrize("merge", [False, True])
def test_shapes_of_urdf_are_mujocos(merge, tmp_path) -> None:
    robot = artix.load_urdf(URDF, fixed_base=False, merge_fixed_joints=merge)
    assert [one.name for one in robot.topology.geometries] == ["base:0", "base:1", "arm:0", "tip"]
    assert robot.topology.geometries[3].link == (1 if merge else 2)
    spec = mujoco.MjSpec.from_string(URDF)
    spec.worldbody.first_body().add_freejoint()
    spec.worldbody.add_geom(name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1])
    model = spec.compile()
    data = mujoco.MjData(model)
    geoms = np.flatnonzero(model.geom_type != mujoco.mjtGeom.mjGEOM_PLANE)
    for seed in range(3):
        state = artix.random_state(robot, jax.random.key(seed))
        root = np.asarray(state.root_pose)
        data.qpos[:] = [*root[:3], root[6], *root[3:6], float(state.joint_position[0])]
        mujoco.mj_kinematics(model, data)
        expected = [
            mujoco.mj_geomDistance(model, data, model.geom("floor").id, int(geom), 1e3, None)
            for geom in geoms
        ]
        found = artix.geometry_distances(artix.Scene(robot, ground=artix.Ground.flat()), state)
        np.testing.assert_allclose(np.sort(found), np.sort(expected), atol=1e-12)
    issues = artix.save(robot, tmp_path / "robot.urdf")
    assert {issue.message for issue in issues if "geometry" in issue.element} == {
        "not every URDF reader supports <capsule>"
    }
    again = artix.load_urdf(tmp_path / "robot.urdf", fixed_base=False, merge_fixed_joints=merge)
    assert again.topology.geometries == robot.topology.geometries
    np.testing.assert_allclose(
        artix.geometry_distances(artix.Scene(again, ground=artix.Ground.flat()), state),
        found,
        atol=1e-14,
    )


def test_writers_say_what_formats_cannot_of_shapes(tmp_path) -> None:
    builder = artix.ArticulationBuilder()
    builder.add_link(mass=1.0, inertia=(1, 1, 1), name="body")
    builder.add_geometry(
        "body", artix.Geometry.sphere(0.1, friction=0.5, restitution=0.1, stiffness=10.0)
    )
    builder.add_geometry("body", artix.Geometry.box((0.1, 0.1, 0.1), sensor=True))
    builder.add_geometry("body", artix.Geometry.hull([(0, 0, 0), (0, 0, 1)]))
    robot = builder.build()

    def said(suffix: str) -> list[str]:
        issues = artix.save(robot, tmp_path / f"robot{suffix}")
        return [issue.message for issue in issues if "geometry" in issue.element]

    assert said(".urdf") == [
        "URDF cannot express its friction",
        "URDF cannot express its restitution",
        "URDF cannot express its stiffness",
        "URDF cannot express a sensor shape",
        "URDF cannot express a hull of points",
    ]
    assert said(".xml") == [
        "MJCF cannot express its restitution",
        "MJCF cannot express its stiffness",
        "MJCF cannot express a sensor shape",
        "MJCF has no flat or rounded hulls; it is left out",
    ]


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ("<sphere/>", "the attribute 'radius' is missing"),
        ('<sphere radius="-1"/>', "a size is negative"),
        ('<cylinder radius="1" length="nan"/>', "is not finite"),
        ("", "its <geometry> must be one of sphere, capsule, box, cylinder, mesh"),
        ('<sphere radius="1"/><box size="1 1 1"/>', "its <geometry> must be one of"),
    ],
)
def test_malformed_shapes_of_urdf_are_left_out_with_a_warning(shape, message) -> None:
    text = f'<robot name="r"><link name="a"><collision><geometry>{shape}</geometry></collision></link></robot>'
    (issue,) = [issue for issue in artix.check_urdf(text) if "collision" in issue.element]
    assert issue.severity == "warning"
    assert message in issue.message
    assert not artix.load_urdf(text).topology.geometries


# --- USD ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".usda", ".usdc"])
def test_shapes_survive_usd(suffix, tmp_path) -> None:
    robot = with_shapes()
    kept = [one.name for one in robot.topology.geometries if one.name != "ellipsoid"]
    robot = artix.select_geometry(robot, kept[:-1], sensors=kept[-1:])
    robot = robot.replace(
        geometry=robot.geometry.replace(friction=jnp.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.1]))
    )
    assert artix.save_usd(robot, tmp_path / f"robot{suffix}") == []
    again, state = load_usd_with_state(tmp_path / f"robot{suffix}", dtype=jnp.float64)
    names = [one.name for one in again.topology.geometries]
    assert sorted(names) == sorted(one.name for one in robot.topology.geometries)
    order = np.array([names.index(one.name) for one in robot.topology.geometries])
    assert tuple(again.topology.geometries[k] for k in order) == robot.topology.geometries
    for field in ("size", "friction", "restitution", "stiffness", "damping"):
        found = getattr(again.geometry, field)[order]
        np.testing.assert_allclose(found, getattr(robot.geometry, field), rtol=1e-6, err_msg=field)
    ground = artix.Ground.flat()
    found = artix.geometry_distances(artix.Scene(again, ground=ground), state)[order]
    np.testing.assert_allclose(
        found, artix.geometry_distances(artix.Scene(robot, ground=ground), state), atol=1e-6
    )


USD = """#usda 1.0
(
  metersPerUnit = 0.01
  upAxis = "Z"
)
def Xform "robot" ( prepend apiSchemas = ["PhysicsArticulationRootAPI", "PhysicsRigidBodyAPI", "PhysicsMassAPI"] ) {
  float physics:mass = 1
  float3 physics:diagonalInertia = (10000, 10000, 10000)
  point3f physics:centerOfMass = (0, 0, 0)
  def Capsule "lying" ( prepend apiSchemas = ["PhysicsCollisionAPI", "MaterialBindingAPI"] ) {
    double radius = 2
    double height = 10
    uniform token axis = "X"
    rel material:binding:physics = </rubber>
    double3 xformOp:translate = (0, 5, 3)
    uniform token[] xformOpOrder = ["xformOp:translate"]
  }
  def Cube "plate" ( prepend apiSchemas = ["PhysicsCollisionAPI", "PhysxTriggerAPI"] ) {
    double size = 2
    double3 xformOp:scale = (1, 2, 3)
    uniform token[] xformOpOrder = ["xformOp:scale"]
  }
  def Mesh "roof" ( prepend apiSchemas = ["PhysicsCollisionAPI", "PhysicsMeshCollisionAPI"] ) {
    point3f[] points = [(0, 0, 0), (8, 0, 0), (0, 6, 0), (0, 0, 4), (0, 0, 4)]
    int[] faceVertexCounts = [3]
    int[] faceVertexIndices = [0, 1, 2]
    uniform token physics:approximation = "%s"
  }
  def Cone "hat" ( prepend apiSchemas = ["PhysicsCollisionAPI"] ) {
  }
  def Sphere "bad" ( prepend apiSchemas = ["PhysicsCollisionAPI"] ) {
    double radius = -1
  }
}
def Material "rubber" ( prepend apiSchemas = ["PhysicsMaterialAPI", "PhysxMaterialAPI"] ) {
  float physics:dynamicFriction = 0.7
  float physics:staticFriction = 0.8
  float physics:restitution = 0.25
  float physxMaterial:compliantContactStiffness = 5000
  float physxMaterial:compliantContactDamping = 20
}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("approximation", "distance"),
    # The roof hangs by its point at z = 0, 5 m up; its bounding ball has a radius of sqrt(4^2 + 3^2
    # + 2^2) cm.
    [("convexHull", 5.0), ("boundingCube", 5.0), ("boundingSphere", 5.02 - np.sqrt(29) / 100)],
)
def test_colliders_of_usd(approximation, distance) -> None:
    with pytest.warns(
        artix.DescriptionWarning, match="dynamic friction at rest, too, instead of 0.8"
    ):
        robot = artix.load_usd(USD % approximation, dtype=jnp.float64)
    assert [(one.name, one.sensor) for one in robot.topology.geometries] == [
        ("lying", False),
        ("plate", True),
        ("roof", False),
    ]
    shape = robot.geometry
    numbers = [shape.friction[0], shape.restitution[0], shape.stiffness[0], shape.damping[0]]
    np.testing.assert_allclose(numbers, [0.7, 0.25, 5000, 20], rtol=1e-6)
    state = artix.neutral_state(robot)
    state = state.replace(root_pose=state.root_pose.at[2].set(5.0))
    found = artix.geometry_distances(artix.Scene(robot, ground=artix.Ground.flat()), state)
    np.testing.assert_allclose(found, [5.03 - 0.02, 5 - 0.03, distance], atol=1e-7)
    lying = artix.ground_contacts(
        artix.Scene(robot, ground=artix.Ground.flat()), state
    ).contacts.point[:2]
    np.testing.assert_allclose(np.sort(lying[:, 0]), [-0.05, 0.05], atol=1e-7)
    messages = [
        issue.message
        for issue in artix.check_usd(USD % approximation)
        if "touches nothing" in issue.message
    ]
    assert len(messages) == 2
    assert "Cone is not supported" in messages[0]
    assert "must lie in [0, 1e+12], found -1" in messages[1]


def test_a_turned_height_field_and_a_missing_ground_are_refused() -> None:
    turned = FEET.replace('pos="1 -2 -1"', 'pos="1 -2 -1" euler="0 0 30"')
    with pytest.raises(artix.DescriptionError, match="not aligned with the world axes"):
        artix.load_world(turned)
    scene, _ = artix.load_world(
        '<mujoco><worldbody><body><geom size="1"/></body></worldbody></mujoco>'
    )
    assert scene.ground is None


PAIRS = """<mujoco model="arm">
  <worldbody>
    <geom name="floor" type="plane" size="0 0 1"/>
    <geom name="table" type="box" size="1 1 0.1" pos="0 0 -0.5" contype="4" conaffinity="4"/>
    <body name="upper"><joint name="one" axis="0 1 0"/><geom name="upper" type="capsule" size="0.05 0.2" mass="1"/>
      <body name="lower" pos="0 0 0.3"><joint name="two" axis="0 1 0"/>
        <geom type="box" size="0.1 0.05 0.1" mass="1" contype="2" conaffinity="2" friction="0.3"/>
        <body name="tip" pos="0 0 0.3"><joint name="three" axis="1 0 0"/>
          <geom name="tip" size="0.05" mass="1" contype="7" conaffinity="7"/>
          <geom name="can" type="cylinder" size="0.05 0.1" mass="1"/>
          <body name="nail" pos="0 0 0.1"><geom name="nail" size="0.01" mass="0.1"/></body>
        </body>
      </body>
    </body>
  </worldbody>
  <contact><pair geom1="upper" geom2="tip" friction="0.7"/><exclude body1="upper" body2="lower"/></contact>
</mujoco>"""


def test_pairs_of_mjcf_are_those_that_mujoco_lets_touch() -> None:
    """Explicit ones always, filtered ones when asked for: those of MuJoCo's contacts where
    everything overlaps."""
    robot = artix.load_mjcf(PAIRS)
    assert robot.topology.geometry_pairs == (("upper", "tip"),)
    warnings = [issue.message for issue in artix.io.check_mjcf(PAIRS)]
    assert any("3 pairs of geoms that contype" in message for message in warnings)
    assert any(
        "friction of the <pair> of 'upper' and 'tip', 0.7" in message for message in warnings
    )
    with_all = artix.load_mjcf(PAIRS, self_contact=True)
    found = {frozenset(pair) for pair in with_all.topology.geometry_pairs}
    # With large margins, all that may touch does.
    margins = '<default><geom margin="10"/><pair margin="10"/></default><worldbody>'
    model = mujoco.MjModel.from_xml_string(PAIRS.replace("<worldbody>", margins))
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    names = [model.geom(k).name or "lower:0" for k in range(model.ngeom)]
    touching = {frozenset(names[k] for k in contact.geom) for contact in data.contact}
    missing = {pair for pair in touching if "floor" in pair}
    assert found == touching - missing
    assert len(found) == 4
    sensors = {shape.name: shape.sensor for shape in with_all.topology.geometries}
    assert sensors == {"table": True, "upper": False, "tip": False, "can": False, "nail": False}


def test_pairs_survive_files(tmp_path) -> None:
    robot = artix.robots.load("quadruped")
    feet = [shape.name for shape in robot.topology.geometries]
    robot = artix.select_geometry_pairs(
        artix.select_geometry(robot, feet[:2], sensors=feet[2:]), [feet[:2], feet[1:3]]
    )
    for suffix in ("xml", "npz", "usda", "urdf"):
        issues = [str(issue) for issue in artix.save(robot, tmp_path / f"robot.{suffix}")]
        said = {
            "urdf": "URDF cannot express its contact with",
            "usda": "does not touch other links either",
        }.get(suffix)
        assert said is None or any(said in issue for issue in issues)
        options = {"self_contact": True} if suffix == "usda" else {}
        again = artix.load(tmp_path / f"robot.{suffix}", **options)
        wanted = {"urdf": (), "usda": (tuple(feet[:2]),)}.get(suffix, robot.topology.geometry_pairs)
        assert again.topology.geometry_pairs == wanted, suffix
    # What MuJoCo makes of the file: the pairs, and no other contact between its geoms.
    margins = '<default><geom margin="10"/><pair margin="10"/></default><worldbody>'
    model = mujoco.MjModel.from_xml_string(
        (tmp_path / "robot.xml").read_text().replace("<worldbody>", margins)
    )
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    touching = {frozenset(model.geom(k).name for k in contact.geom) for contact in data.contact}
    assert touching == {frozenset(pair) for pair in robot.topology.geometry_pairs}


def test_filters_of_usd(tmp_path) -> None:
    """Collision groups, filtered pairs of bodies, and the articulation's own switch."""
    from pxr import Usd, UsdPhysics

    robot = artix.robots.load("quadruped")
    feet = [shape.name for shape in robot.topology.geometries]
    path = tmp_path / "robot.usda"
    artix.save(
        artix.select_geometry_pairs(robot, artix.editing.possible_geometry_pairs(robot)), path
    )
    assert len(artix.load_usd(path, self_contact=True).topology.geometry_pairs) == 6
    assert artix.load_usd(path).topology.geometry_pairs == ()
    assert any("6 pairs of its shapes" in issue.message for issue in artix.check(path))
    stage = Usd.Stage.Open(str(path))
    prims = {
        prim.GetName(): prim for prim in stage.Traverse() if prim.HasAPI(UsdPhysics.CollisionAPI)
    }
    groups = [UsdPhysics.CollisionGroup.Define(stage, f"/World/group_{k}") for k in (0, 1)]
    for k, group in enumerate(groups):
        group.GetCollidersCollectionAPI().CreateIncludesRel().SetTargets([prims[feet[k]].GetPath()])
    groups[0].CreateFilteredGroupsRel().SetTargets([groups[1].GetPath()])
    body = prims[feet[2]].GetParent()
    UsdPhysics.FilteredPairsAPI.Apply(body).CreateFilteredPairsRel().SetTargets(
        [prims[feet[3]].GetPath()]
    )
    pairs = artix.load_usd(stage, self_contact=True).topology.geometry_pairs
    assert len(pairs) == 4
    assert not {frozenset(feet[:2]), frozenset(feet[2:])} & {frozenset(pair) for pair in pairs}
    alone = tmp_path / "alone.usda"  # Without pairs, the switch is off.
    artix.save(robot, alone)
    assert artix.load_usd(alone, self_contact=True).topology.geometry_pairs == ()


def _two_spheres(pair: str) -> artix.Articulation:
    """Three links in a row with a ball each; the pair of ``pair`` touches."""
    builder = artix.ArticulationBuilder(fixed_base=True)
    joint = artix.Joint.revolute(wrapped=False, limits=[(-1, 1)])
    for k, name in enumerate("abc"):
        builder.add_link(*((k - 1, joint) if k else ()), mass=1.0, inertia=[1, 1, 1], name=name)
        builder.add_geometry(name, artix.Geometry.sphere(0.1), name=f"ball_{name}")
    builder.add_geometry_pair(*(f"ball_{name}" for name in pair))
    if pair == "ac":
        strut = artix.LoopJointType.DISTANCE
        builder.add_loop_joint(
            artix.LoopJoint(name="strut", link_a="a", link_b="c", type=strut, max_distance=1.0)
        )
    return builder.build()


def test_usd_keeps_neighbours_apart_and_says_so(tmp_path) -> None:
    """PhysX filters the two links of a joint in an articulation, whatever the joint says."""
    issues = artix.save(_two_spheres("ab"), tmp_path / "robot.usda")
    assert any("does not touch 'ball_" in str(issue) for issue in issues)
    again = artix.load_usd(tmp_path / "robot.usda", self_contact=True)
    assert again.topology.geometry_pairs == ()


def test_a_loop_joint_between_links_that_touch_survives_usd(tmp_path) -> None:
    """Its default in USD is to keep the two links apart."""
    issues = artix.save(_two_spheres("ac"), tmp_path / "robot.usda")
    assert not any("does not touch" in str(issue) for issue in issues)
    again = artix.load_usd(tmp_path / "robot.usda", self_contact=True)
    assert {frozenset(pair) for pair in again.topology.geometry_pairs} == {
        frozenset(("ball_a", "ball_c"))
    }


@pytest.mark.parametrize("kind", ["hull", "ellipsoid", "sensor"])
def test_mjcf_says_that_materials_of_all_shapes_are_lost(kind, tmp_path) -> None:
    """Those of hulls, ellipsoids and paired sensors were dropped without a word."""
    material = {"restitution": 0.5, "stiffness": 1e4, "damping": 10.0, "sensor": kind == "sensor"}
    points = np.array([[x, y, z] for x in (-0.1, 0.1) for y in (-0.1, 0.1) for z in (-0.1, 0.1)])
    shape = {
        "hull": lambda: artix.Geometry.hull(points, **material),
        "ellipsoid": lambda: artix.Geometry.ellipsoid((0.1, 0.2, 0.3), **material),
        "sensor": lambda: artix.Geometry.sphere(0.1, **material),
    }[kind]()
    builder = artix.ArticulationBuilder()
    builder.add_link(mass=1.0, inertia=[1, 1, 1], name="base")
    builder.add_link("base", artix.Joint.prismatic(), mass=1.0, inertia=[1, 1, 1], name="tip")
    builder.add_geometry("tip", shape, name="tip")
    if kind == "sensor":
        builder.add_geometry("base", artix.Geometry.sphere(0.1), name="ball")
        builder.add_geometry_pair("ball", "tip")
    issues = [str(issue) for issue in artix.save(builder.build(), tmp_path / "robot.xml")]
    for lost in ("its restitution", "its stiffness"):
        assert any(f"geometry 'tip': MJCF cannot express {lost}" in issue for issue in issues)
