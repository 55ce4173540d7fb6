"""Scenes from files: robots, ground, pairs and states, beside what MuJoCo and the stages say."""

from __future__ import annotations

import itertools
import warnings

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

import artix
from artix.io.common.poses import quaternion_from_rpy

TABLE = """<mujoco model="table"><option timestep="0.002" cone="elliptic"/><worldbody>
  <geom name="floor" type="plane" size="0 0 1" friction="0.4"/>
  <body name="arm" pos="0 0 1"><joint name="hinge" axis="0 1 0" range="-2 2"/>
    <geom type="capsule" size="0.03" fromto="0 0 0 0 0 -0.5" mass="1"/></body>
  <body name="lab/cube" pos="1 0 0.1"><freejoint/><geom type="box" size="0.1 0.1 0.1" mass="2" friction="0.3"/></body>
  <body name="ball" pos="1 0 0.3"><freejoint/><geom name="skin" size="0.1" mass="0.5"/></body>
  <body name="ghost" pos="2 0 0.5"><freejoint/><geom size="0.1" mass="1" contype="0" conaffinity="0"/></body>
</worldbody><contact><exclude body1="arm" body2="ball"/></contact></mujoco>"""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::artix.DescriptionWarning")
def test_an_mjcf_is_a_scene_that_moves_as_in_mujoco() -> None:
    """A ball on a cube on a floor beside an arm: at rest as in MuJoCo, whose contacts give by less
    than 1 mm."""
    scene, state = artix.load_world(TABLE, dtype="float64")
    model = mujoco.MjModel.from_xml_string(TABLE)
    data = mujoco.MjData(model)
    assert scene.names == ("world", "lab:cube", "ball", "ghost")
    assert set(scene.pairs) == {
        ("world/arm:0", "lab:cube/lab/cube:0"),
        ("lab:cube/lab/cube:0", "ball/skin"),
    }
    assert len(scene.ground.surfaces) == 1
    np.testing.assert_allclose(scene.ground.surfaces[0].friction, 0.4)
    for name, robot in zip(scene.names, scene.articulations, strict=True):
        wanted = artix.MujocoCoordinates(robot, model).state(model.qpos0, np.zeros(model.nv))
        jax.tree.map(np.testing.assert_allclose, state[name], wanted)
    path = artix.rollout(scene, state, None, 0.002, num_steps=100)
    mujoco.mj_step(model, data, 100)
    for name in scene.names[1:]:
        at = model.jnt_qposadr[model.body(name.replace(":", "/")).jntadr[0]]
        np.testing.assert_allclose(path[name].root_pose[-1, :3], data.qpos[at : at + 3], atol=1e-3)
    np.testing.assert_allclose(path["ball"].root_pose[-1, 2], 0.3, atol=1e-9)
    np.testing.assert_allclose(path["ghost"].root_pose[-1, 2], data.qpos[at + 2], atol=1e-12)


FURNITURE = """<mujoco><option timestep="0.002" cone="elliptic"/>
<asset><mesh name="egg" vertex="{egg}" inertia="convex"/></asset><worldbody>
  <geom name="floor" type="plane" size="0 0 1" pos="0 0 {floor}"/>
  <body name="desk" pos="0 0 0.4"><geom name="top" type="box" size="0.5 0.5 0.02"/>
    <geom name="post" type="cylinder" size="0.05 0.2" pos="-0.3 0.3 0.22"/></body>
  <geom name="picture" type="box" size="0.1 0.1 0.1" pos="0.3 0 0.5" contype="0" conaffinity="0"/>
  <body name="cube" pos="0.3 0 0.47"><freejoint/><geom type="box" size="0.05 0.05 0.05" mass="1"/></body>
  <body name="can" pos="-0.3 0.3 0.87"><freejoint/><geom type="cylinder" size="0.04 0.05" mass="1"/></body>
  <body name="egg" pos="0 -0.3 0.47"><freejoint/><geom type="mesh" mesh="egg" mass="1"/></body>{more}
</worldbody></mujoco>"""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::artix.DescriptionWarning")
@pytest.mark.parametrize("has_arm", [False, True])
def test_things_rest_on_furniture_as_in_mujoco(has_arm: bool) -> None:
    """A cube on a desk, a can on a post of it, and a mesh of many vertices: what stands in the
    world is a fixed articulation, that of an arm if there is one, which touches the desk, too."""
    angles = np.arange(12) * np.pi / 6
    ring = 0.05 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    egg = [(x, y, z) for z in (-0.05, 0.05) for x, y in ring]
    arm = """<body name="arm" pos="0 0 1"><joint name="lift" type="slide" axis="0 0 1"/>
      <geom name="tip" type="sphere" size="0.05" mass="1"/></body>"""
    text = FURNITURE.format(
        egg=" ".join(f"{x:.9f}" for x in np.ravel(egg)),
        more=arm if has_arm else "",
        floor=-1,
    )
    scene, state = artix.load_world(text, dtype="float64")
    assert scene.names == ("world", "cube", "can", "egg")
    assert ("world/top", "cube/cube:0") in scene.pairs
    assert not any("picture" in name for pair in scene.pairs for name in pair)
    # Everything with everything: three things with each other and with top and post, and the arm.
    assert len(scene.pairs) == 3 + 6 + 3 * has_arm
    assert len(scene["world"].topology.geometry_pairs) == 2 * has_arm
    if not has_arm:  # The steps are those of the scene with one, without what it does.
        return
    path = artix.rollout(scene, state, None, 0.002, num_steps=500)
    for name, height in (("cube", 0.47), ("can", 0.87), ("egg", 0.47)):
        np.testing.assert_allclose(path[name].root_pose[:, 2], height, atol=1e-6)
        assert np.max(np.abs(path[name].root_velocity[-1])) < 1e-9
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data, 500)
    for name, robot in zip(scene.names, scene.articulations, strict=True):
        wanted = artix.MujocoCoordinates(robot, model).state(data.qpos, data.qvel)
        np.testing.assert_allclose(path[name].root_pose[-1], wanted.root_pose, atol=2e-3)
    # The arm falls by 0.53 m, onto the desk.
    height = path["world"].joint_position[-1, 0]
    np.testing.assert_allclose(height, -0.53, atol=1e-6)
    np.testing.assert_allclose(height, data.qpos[-1], atol=2e-3)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::artix.DescriptionWarning")
@pytest.mark.parametrize("furniture", ["", '<geom name="rail" size="0.1" pos="0 0.15 1"/>'])
def test_what_is_on_a_mocap_body_stands_in_the_way_as_in_mujoco(furniture: str) -> None:
    """A ball fell through a platform that a hand or a script moves, and furniture beside one made
    the reader refuse the file."""
    text = f"""<mujoco><worldbody>{furniture}
      <body name="lift" mocap="true" pos="0 0 1"><geom name="lift" type="box" size="0.2 0.2 0.05"/>
        <body pos="0 0 -0.1"><geom name="below" size="0.06"/></body></body>
      <body name="ball" pos="0 0 1.2"><freejoint/><geom name="ball" size="0.1" mass="1"/></body>
    </worldbody></mujoco>"""
    scene, state = artix.load_world(text, dtype="float64")
    model = mujoco.MjModel.from_xml_string(text.replace("<geom ", '<geom margin="5" '))
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    names = ({model.geom(k).name for k in contact.geom} for contact in data.contact)
    wanted = {frozenset(pair) for pair in names if "ball" in pair}
    found = {frozenset(name.split("/")[1] for name in pair) for pair in scene.pairs}
    assert found == wanted and len(wanted) == 2 + bool(furniture)
    end = artix.rollout(scene, state, None, 0.005, num_steps=200)
    np.testing.assert_allclose(end["ball"].root_pose[-1, 2], 1.15, atol=1e-5)


def test_a_robot_read_alone_is_said_to_miss_the_furniture() -> None:
    text = FURNITURE.format(egg="0 0 0 1 0 0 0 1 0 0 0 1", more="", floor=0)
    (issue,) = [i for i in artix.check(text, body="cube") if "do not touch" in i.message]
    assert issue.message == (
        "floating articulations do not touch the 2 static geoms of type box, cylinder"
    )
    assert "artix.load_world" in issue.fix


def test_a_file_of_one_robot_has_its_plain_state(tmp_path) -> None:
    arm = artix.robots.load("arm7")
    scene, state = artix.load_world(artix.robots.path("arm7"))
    assert scene.ground is None
    assert isinstance(state, artix.State)
    bent = state.replace(joint_position=state.joint_position + 0.1)
    artix.save(arm, tmp_path / "arm.npz")
    assert artix.load_world(tmp_path / "arm.npz")[0].articulations[0].topology == arm.topology
    artix.io.save_usd(arm, tmp_path / "arm.usda", state=bent)
    _, found = artix.load_world(tmp_path / "arm.usda")
    np.testing.assert_allclose(found.joint_position, bent.joint_position, atol=1e-6)
    with pytest.raises(ValueError, match=r"no reader for the suffix '\.stl'"):
        artix.load_world("arm.stl")


def test_a_scene_of_one_is_saved_with_its_ground(tmp_path) -> None:
    """MuJoCo's floor carries the quadruped where artix's does; other formats say that they have
    none."""
    robot = artix.robots.load("quadruped")
    tilted = artix.Plane.of(normal=(0.1, 0.0, 1.0), point=(0.0, 0.0, -0.2), friction=0.7)
    scene = artix.Scene(robot, ground=artix.Ground((tilted,)))
    issues = artix.save(scene, tmp_path / "robot.xml")
    assert not [issue for issue in issues if "ground" in issue.element]
    again, state = artix.load_world(tmp_path / "robot.xml")
    (plane,) = again.ground.surfaces
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), plane, tilted)
    found = artix.geometry_distances(again, state)
    np.testing.assert_allclose(
        found, artix.geometry_distances(scene, scene.neutral_state()), atol=1e-6
    )
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "robot.xml"))
    data = mujoco.MjData(model)
    data.qpos[2] = 0.2
    mujoco.mj_forward(model, data)
    assert {data.contact[k].geom1 for k in range(data.ncon)} == {0}
    assert data.ncon == np.sum(np.asarray(found) + 0.2 * tilted.normal[2] < 0)
    assert [issue.message for issue in artix.save(scene, tmp_path / "robot.npz")] == [
        "the format has no ground"
    ]
    for suffix in ("xml", "npz"):
        with pytest.raises(
            ValueError,
            match=r"the file holds one robot; save each of a scene, such as scene\['a'\]",
        ):
            artix.save(artix.Scene({"a": robot, "b": robot}), tmp_path / f"robots.{suffix}")


def _heap(seed: int) -> str:
    """Balls that overlap, two of them links of an arm, with friction by priority, condim, pairs."""
    random = np.random.default_rng(seed)

    def ball(name: str) -> str:
        values = {
            "friction": random.choice([0.2, 0.5, 0.7]),
            "priority": random.choice([0, 0, 1]),
            "condim": random.choice([1, 3, 3]),
        }
        told = " ".join(f'{key}="{value}"' for key, value in values.items())
        return f'<geom name="{name}" size="0.1" {told}/>'

    free = "".join(f'<body name="{n}"><freejoint/>{ball(n)}</body>' for n in "abc")
    arm = f"""<body name="arm"><joint axis="0 1 0"/>{ball("upper")}
      <body><joint axis="1 0 0"/><geom size="0.01" contype="0" conaffinity="0"/>
        <body><joint axis="0 1 0"/>{ball("lower")}</body></body></body>"""
    pair = '<contact><pair geom1="a" geom2="lower" friction="0.3 0.3"/></contact>'
    world = f"{free}{arm}{ball('table')}"
    return f"<mujoco><worldbody>{world}</worldbody>{pair if seed % 2 else ''}</mujoco>"


def test_no_archive_is_said_to_keep_a_ground(tmp_path) -> None:
    """Archives have none."""
    hills = artix.HeightField.of(np.ones((2, 2)), spacing=(1.0, 1.0))
    rubber = artix.Plane.of(normal=(0.0, 0.0, 1.0), point=(0.0, 0.0, 0.0), restitution=0.5)
    scene = artix.Scene(artix.robots.load("arm7"), ground=artix.Ground((hills, rubber)))
    issues = artix.save(scene, tmp_path / "robot.xml")
    of_ground = [issue for issue in issues if "ground" in issue.element]
    assert len(of_ground) == 2
    assert all("Scene(robot, ground=...)" in issue.fix for issue in of_ground)


@pytest.mark.parametrize("seed", range(8))
def test_friction_of_pairs_is_mujocos(seed: int) -> None:
    """Also of the links of one robot, by itself and in a scene."""
    text = _heap(seed)
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    wanted = {
        frozenset(model.geom(int(geom)).name for geom in contact.geom): (
            contact.friction[0] if contact.dim > 1 else 0.0
        )
        for contact in data.contact
    }
    scene, state = artix.load_world(text, self_contact=True, dtype="float64")
    contacts = artix.link_contacts(scene, state)
    pairs = [
        frozenset(name.split("/")[-1] for name in scene.geometry_pairs[k]) for k in contacts.pair
    ]
    assert set(pairs) == set(wanted)
    np.testing.assert_allclose(contacts.friction, [wanted[pair] for pair in pairs], rtol=1e-12)


@pytest.mark.slow
def test_friction_of_pairs_is_a_parameter() -> None:
    """A cube slides on a table as far as the coefficient of the pair says, in a batch of them."""
    text = """<mujoco><worldbody>
      <geom name="table" type="box" size="5 5 0.1" friction="0.9"/>
      <body name="cube" pos="0 0 0.15"><freejoint/>
        <geom name="cube" type="box" size="0.05 0.05 0.05" friction="0.3" priority="1"/></body>
    </worldbody></mujoco>"""
    with pytest.warns(artix.DescriptionWarning, match="have their own friction only"):
        scene, state = artix.load_world(text, dtype="float64")
    np.testing.assert_array_equal(scene.pair_friction, [0.3])
    velocity = state["cube"].root_velocity.at[0].set(1.0)
    state["cube"] = state["cube"].replace(root_velocity=velocity)

    def way(friction):
        sliding = scene.replace(pair_friction=friction[None])
        path = artix.rollout(sliding, state, None, 0.002, num_steps=300)
        return path["cube"].root_pose[-1, 0]

    frictions = jnp.array([0.2, 0.3, 0.5])
    ways, slopes = jax.jit(jax.vmap(jax.value_and_grad(way)))(frictions)
    time = np.minimum(0.6, 1 / (9.81 * frictions))  # when it stands still
    np.testing.assert_allclose(ways, time - 9.81 * frictions * time**2 / 2, atol=2e-3)
    # Steps of 2 ms are up to a hundredth of the time until it stands.
    np.testing.assert_allclose(slopes, -9.81 * time**2 / 2, rtol=1e-2)
    assert scene.astype("float32").pair_friction.dtype == jnp.float32
    with pytest.raises(ValueError, match=r"pair_friction: .*one coefficient for each of scene"):
        artix.step(scene.replace(pair_friction=frictions), state, None, 0.01)


def test_friction_of_pairs_survives_a_file(tmp_path) -> None:
    builder = artix.ArticulationBuilder(fixed_base=True)
    flat = artix.Geometry.hull(np.array([(0.0, 0.0, 0.0), (0.1, 0.0, 0.0), (0.0, 0.1, 0.0)]))
    shapes = {"a": artix.Geometry.sphere(0.1, friction=0.2), "b": flat}
    shapes["c"] = artix.Geometry.sphere(0.1, friction=0.6)
    builder.add_link(name="base")
    for name, shape in shapes.items():
        link = builder.add_link(
            0, artix.Joint.revolute(artix.Axis.TWIST), mass=1.0, inertia=(0.1, 0.1, 0.1), name=name
        )
        builder.add_geometry(link, shape, name=name)
    for pair in ("ab", "ac"):
        builder.add_geometry_pair(*pair)
    robot = builder.build("float64")
    told = jnp.array([0.3, 0.5])
    for scene, friction in (
        (artix.Scene(robot, pair_friction=told), 0.5),
        (artix.Scene(robot, friction_combination="average"), 0.4),
        (artix.Scene(robot), 0.6),
    ):
        issues = [issue.message for issue in artix.save(scene, tmp_path / "robot.xml")]
        assert any("one of these shapes is left out" in message for message in issues)
        model = mujoco.MjModel.from_xml_path(str(tmp_path / "robot.xml"))
        data = mujoco.MjData(model)
        mujoco.mj_forward(model, data)
        np.testing.assert_allclose([c.friction[0] for c in data.contact], [friction])
        again, state = artix.load_world(tmp_path / "robot.xml", dtype="float64")
        assert again.geometry_pairs == (("a", "c"),)
        np.testing.assert_allclose(artix.link_contacts(again, state).friction, [friction])


PLACE = """
    double3 xformOp:translate = ({place})
    uniform token[] xformOpOrder = ["xformOp:translate"]
"""
ROBOT = (
    """
def Xform "{name}" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI", "PhysicsArticulationRootAPI"])
{{
    float physics:mass = {mass}"""
    + PLACE
    + """
    def Sphere "ball" (prepend apiSchemas = ["PhysicsCollisionAPI"])
    {{
        double radius = 10
    }}
}}
"""
)
FLOOR = (
    """
def Plane "floor" (prepend apiSchemas = ["PhysicsCollisionAPI", "MaterialBindingAPI"])
{
    uniform token axis = "Z"
    rel material:binding:physics = </rubber>"""
    + PLACE.format(place="0, 0, 5")
    + """
}
def Material "rubber" (prepend apiSchemas = ["PhysicsMaterialAPI"])
{
    float physics:dynamicFriction = 0.6
}
"""
)


STAGE = """#usda 1.0
(
    metersPerUnit = 0.01
    upAxis = "{up}"
    kilogramsPerUnit = 1
)
"""
CUBE = (
    """
def Cube "{name}" (prepend apiSchemas = ["PhysicsCollisionAPI", "MaterialBindingAPI"{schemas}])
{{
    double size = {size}
    rel material:binding:physics = </rubber>
    {more}"""
    + PLACE
    + """
}}
"""
)
HINGE = """
def PhysicsRevoluteJoint "hinge"
{{
    uniform token physics:axis = "X"
    rel physics:body1 = </door>
    point3f physics:localPos0 = ({place})
}}
"""
BODY = ', "PhysicsRigidBodyAPI", "PhysicsMassAPI"'


@pytest.mark.filterwarnings("ignore::artix.DescriptionWarning")
def test_a_stage_of_two_robots_on_a_plane() -> None:
    """In centimetres. They touch each other."""
    text = STAGE.format(up="Z") + FLOOR
    text += ROBOT.format(name="left", mass=1, place="0, 0, 30")
    text += ROBOT.format(name="right", mass=2, place="100, 0, 30")
    scene, state = artix.load_world(text, dtype="float64")
    assert scene.names == ("left", "right")
    assert scene.pairs == (("left/ball", "right/ball"),)
    (floor,) = scene.ground.surfaces
    np.testing.assert_allclose((floor.height, floor.friction), (0.05, 0.6), rtol=1e-6)
    assert scene.ground.friction_combination == "average"
    np.testing.assert_allclose(state["right"].root_pose[:3], [1.0, 0.0, 0.3], atol=1e-12)
    np.testing.assert_allclose(scene["right"].link_mass, [2.0])
    height = artix.geometry_distances(
        artix.Scene(scene["left"], ground=scene.ground), state["left"]
    )
    np.testing.assert_allclose(height, [0.15], atol=1e-9)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::artix.DescriptionWarning")
@pytest.mark.parametrize("up", ["Y", "Z"])
def test_crates_on_a_table_of_a_stage(up: str) -> None:
    """Bodies of no articulation are robots of their own, hinged ones, too; what does not move is
    one called ``world``, also a kinematic body. Shapes that PhysX filters do not touch."""

    def place(x: float, y: float, z: float) -> str:
        return f"{x}, {y}, {z}" if up == "Z" else f"{x}, {z}, {-y}"

    def cube(name: str, size: float, where: str, schemas: str = "", more: str = "") -> str:
        return CUBE.format(name=name, size=size, place=where, schemas=schemas, more=more)

    mass = "float physics:mass = 1\n"
    text = STAGE.format(up=up) + FLOOR[FLOOR.index("def Material") :]
    text += cube("table", 100, place(0, 0, 50))
    text += cube(
        "lift", 20, place(200, 0, 50), BODY, mass + "    bool physics:kinematicEnabled = true"
    )
    text += cube("crate", 10, place(0, 0, 105), BODY, mass)
    text += cube("box", 10, place(200, 0, 65), BODY, mass)
    text += cube(
        "ghost",
        10,
        place(30, 0, 110),
        BODY + ', "PhysicsFilteredPairsAPI"',
        mass + "    rel physics:filteredPairs = [</table>, </crate>, </box>, </lift>]",
    )
    text += cube("door", 10, place(0, 300, 100), BODY, mass)
    text += HINGE.format(place=place(0, 300, 100))
    scene, state = artix.load_world(text, dtype="float64")
    assert set(scene.names) == {"crate", "box", "ghost", "door", "world"}
    assert scene["door"].topology.dof_names == ("hinge",)
    assert scene["door"].topology.fixed_base and scene["world"].topology.nv == 0
    touching = {tuple(sorted(name.split("/")[1] for name in pair)) for pair in scene.pairs}
    moving = ["crate", "box", "ghost", "door"]
    every = {tuple(sorted(pair)) for pair in itertools.combinations([*moving, "table", "lift"], 2)}
    filtered = {("ghost", other) for other in ("table", "lift")}
    filtered |= {("crate", "ghost"), ("box", "ghost"), ("lift", "table")}
    assert touching == every - filtered
    path = artix.rollout(scene, state, None, 0.005, num_steps=100)
    for name, height in (("crate", 1.05), ("box", 0.65)):
        np.testing.assert_allclose(path[name].root_pose[:, 2], height, atol=1e-6)
    fall = 9.81 * 0.005**2 * 100 * 101 / 2
    np.testing.assert_allclose(path["ghost"].root_pose[-1, 2], 1.1 - fall, atol=1e-6)


@pytest.mark.slow
def test_a_stage_of_bodies_without_an_articulation_needs_no_root() -> None:
    text = (
        STAGE.format(up="Z")
        + FLOOR
        + CUBE.format(
            name="crate", size=10, place="0, 0, 10", schemas=BODY, more="float physics:mass = 2"
        )
    )
    scene, state = artix.load_world(text, dtype="float64")
    assert isinstance(state, artix.State) and scene.articulations[0].link_mass[0] == 2.0
    end = artix.rollout(scene, state, None, 0.005, num_steps=10)
    np.testing.assert_allclose(end.root_pose[-1, 2], 0.1, atol=1e-6)


MESH = """
def Mesh "{name}" (prepend apiSchemas = ["PhysicsCollisionAPI"{schemas}])
{{
    point3f[] points = [{points}]
    int[] faceVertexCounts = []
    int[] faceVertexIndices = []
    {more}"""
MESH += PLACE + "\n}}\n"


@pytest.mark.slow
def test_meshes_of_bodies_are_hulls_and_those_around_are_said_to_be_left_out() -> None:
    angles = np.arange(12) * np.pi / 6
    ring = 5 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    points = ", ".join(f"({x}, {y}, {z})" for z in (-5, 5) for x, y in ring)
    text = STAGE.format(up="Z") + FLOOR
    drum = {"name": "drum", "schemas": BODY, "more": "float physics:mass = 1"}
    text += MESH.format(points=points, place="0, 0, 10", **drum)
    text += MESH.format(points=points, place="50, 0, 10", name="rock", schemas="", more="")
    with pytest.warns(artix.DescriptionWarning, match="left out, which are meshes: rock"):
        scene, state = artix.load_world(text, dtype="float64")
    assert [shape.num_points for shape in scene.articulations[0].topology.geometries] == [24]
    end = artix.rollout(scene, state, None, 0.005, num_steps=20)
    np.testing.assert_allclose(end.root_pose[-1, 2], 0.1, atol=1e-6)
    scene, _ = artix.load_world(text, meshes="hull")
    assert scene.names == ("drum", "world") and len(scene.pairs) == 1


ICE = """
def Material "ice" (prepend apiSchemas = ["PhysicsMaterialAPI", "PhysxMaterialAPI"])
{{
    float physics:dynamicFriction = 0.2
    float physics:restitution = 0.5
    uniform token physxMaterial:frictionCombineMode = "{friction}"
    uniform token physxMaterial:restitutionCombineMode = "{restitution}"
}}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "friction"), [("average", 0.4), ("min", 0.2), ("multiply", 0.12), ("max", 0.6)]
)
def test_materials_combine_as_in_physx(rule: str, friction: float) -> None:
    """Of a crate on a table and another one on the ground; they slide as far as the rule of their
    materials says, one of which is tried."""
    text = STAGE.format(up="Z") + FLOOR + ICE.format(friction=rule, restitution="multiply")
    mass = "float physics:mass = 1\n"
    text += CUBE.format(name="table", size=100, place="0, 0, 50", schemas="", more="")
    crate = CUBE.replace("</rubber>", "</ice>")
    text += crate.format(name="crate", size=10, place="0, 0, 105", schemas=BODY, more=mass)
    text += crate.format(name="box", size=10, place="200, 0, 10", schemas=BODY, more=mass)
    scene, state = artix.load_world(text, dtype="float64")
    assert scene.friction_combination == scene.ground.friction_combination == rule
    assert scene.restitution_combination == scene.ground.restitution_combination == "multiply"
    contacts = artix.link_contacts(scene, state)
    on_table = {pair for pair in scene.geometry_pairs if "world/table" in pair}
    is_on_table = [scene.geometry_pairs[k] in on_table for k in contacts.pair]
    np.testing.assert_allclose(contacts.friction[np.array(is_on_table)], friction, rtol=1e-6)
    box = artix.Scene(scene["box"], ground=scene.ground)
    on_ground = artix.ground_contacts(box, state["box"]).contacts
    np.testing.assert_allclose(on_ground.friction, friction, rtol=1e-6)
    if rule != "multiply":
        return
    speed = 0.5
    for name in ("crate", "box"):
        velocity = state[name].root_velocity.at[0].set(speed)
        state[name] = state[name].replace(root_velocity=velocity)
    path = artix.rollout(scene, state, None, 0.002, num_steps=400)
    for name in ("crate", "box"):
        slid = path[name].root_pose[-1, 0] - state[name].root_pose[0]
        # A step of its motion is the difference of a sum and an integral.
        np.testing.assert_allclose(slid, speed**2 / (2 * 9.81 * friction), atol=speed * 0.002)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("float physxCollision:restOffset = 0.1", "rest on each other"),
        ("float physxCollision:torsionalPatchRadius = 1", "no torsional friction"),
        ("float physics:staticFriction = 0.5", r"at rest, too, instead of 0\.5"),
        ("bool physxMaterial:compliantContactAccelerationSpring = true", "one of force"),
    ],
)
def test_what_contacts_do_not_have_is_said(line: str, said: str) -> None:
    of_material = "float physxMaterial:compliantContactStiffness = 1000"
    of_shape = "float physics:mass = 1"
    if "Collision" in line:
        of_shape += f"\n    {line}"
    else:
        of_material += f"\n    {line}"
    ice = ICE.format(friction="min", restitution="min").replace("\n}", f"\n    {of_material}\n}}")
    text = STAGE.format(up="Z") + FLOOR + ice
    crate = CUBE.replace("</rubber>", "</ice>")
    text += crate.format(name="crate", size=10, place="0, 0, 10", schemas=BODY, more=of_shape)
    with pytest.warns(artix.DescriptionWarning, match=said):
        artix.load_world(text)


def test_materials_that_do_not_agree() -> None:
    """Bodies have the friction of each pair. Of the ground the rule of most pairs holds, of wood on
    rubber, which is not that of ice, and this is said."""
    text = STAGE.format(up="Z") + FLOOR + ICE.format(friction="min", restitution="average")
    wood = ICE.replace("ice", "wood").replace("0.2", "0.4")
    text += wood.format(friction="multiply", restitution="average")
    more = "float physics:mass = 1\n"
    for k, material in enumerate(("wood", "wood", "wood", "ice", "ice")):
        cube = CUBE.replace("</rubber>", f"</{material}>")
        place = f"{20 * k}, 0, 10"
        text += cube.format(name=f"{material}_{k}", size=10, place=place, schemas=BODY, more=more)
    with pytest.warns(artix.DescriptionWarning) as warned:
        scene, _ = artix.load_world(text)
    assert scene.restitution_combination == scene.ground.restitution_combination == "average"
    assert scene.ground.friction_combination == "multiply"
    expected = {"wood wood": 0.4 * 0.4, "wood ice": 0.4 * 0.2, "ice ice": 0.2}
    pairs = [" ".join(name.split("_")[0] for name in pair) for pair in scene.geometry_pairs]
    np.testing.assert_allclose(scene.pair_friction, [expected[pair] for pair in pairs], rtol=1e-6)
    (said,) = [str(one.message) for one in warned if "PhysX's for" in str(one.message)]
    assert "the friction of shapes and the ground is combined by 'multiply'" in said
    assert "2 of 5 pairs, such as 'ice_3" in said
    assert "same physxMaterial:frictionCombineMode" in said


DOOR = """
def Cube "frame" (prepend apiSchemas = ["PhysicsCollisionAPI"])
{
    double size = 20
    double3 xformOp:scale = (1, 1, 10)
    uniform token[] xformOpOrder = ["xformOp:scale"]
}
def Cube "door" (prepend apiSchemas = ["PhysicsCollisionAPI", "PhysicsRigidBodyAPI", "PhysicsMassAPI"])
{
    float physics:mass = 5
    double size = 20
    double3 xformOp:scale = (5, 0.2, 9)
    double3 xformOp:translate = (50, 0, 0)
    uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:scale"]
}
def PhysicsRevoluteJoint "hinge"
{
    rel physics:body0 = </frame>
    rel physics:body1 = </door>
    uniform token physics:axis = "Z"
    point3f physics:localPos1 = (-10, 0, 0)
    %s
}
"""


@pytest.mark.parametrize("collides", [False, True])
def test_a_door_does_not_touch_the_frame_that_it_hangs_on(collides: bool) -> None:
    """Unless the joint's ``collisionEnabled`` says so; both ends are those of USD's own parser."""
    from pxr import Sdf, Usd, UsdPhysics

    line = "bool physics:collisionEnabled = true" if collides else ""
    text = STAGE.format(up="Z") + DOOR % line
    scene, state = artix.load_world(text, dtype="float64")
    assert scene.pairs == ((("door/door", "world/frame"),) if collides else ())
    stage = Usd.Stage.CreateInMemory()
    stage.GetRootLayer().ImportFromString(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        parsed = UsdPhysics.LoadUsdPhysicsFromRange(stage, [Sdf.Path("/")])
    ((_, (joint,)),) = [
        entry for kind, entry in parsed.items() if kind == UsdPhysics.ObjectType.RevoluteJoint
    ]
    assert (str(joint.body0), str(joint.body1)) == ("/frame", "/door")
    assert joint.collisionEnabled == collides
    pushed = {"door": artix.Control(joint_force=np.array([5.0])), "world": artix.Control()}
    if not collides:
        path = artix.rollout(scene, state, pushed, 0.005, num_steps=20)
        # A cuboid of 1 m by 0.04 m about its end.
        inertia = 5.0 * ((1.0**2 + 0.04**2) / 12 + 0.5**2)
        wanted = 5.0 / inertia * 0.005**2 * 20 * 21 / 2
        np.testing.assert_allclose(path["door"].joint_position[-1], [wanted], rtol=1e-3)


def test_filtered_pairs_of_an_articulation_hold_for_all_of_its_shapes() -> None:
    """USD applies the schema to an articulation root as well as to bodies and colliders."""
    arm = """
def Xform "arm" (prepend apiSchemas = ["PhysicsArticulationRootAPI"%s])
{
    %s
    def Cube "base" (prepend apiSchemas = ["PhysicsCollisionAPI", "PhysicsRigidBodyAPI"])
    {
        double size = 20
    }
    def PhysicsFixedJoint "anchor"
    {
        rel physics:body1 = </arm/base>
    }
}
"""
    crate = CUBE.format(name="crate", size=10, place="0, 0, 30", schemas=BODY, more="")
    for schema, relation, touching in (
        ("", "", 1),
        (', "PhysicsFilteredPairsAPI"', "rel physics:filteredPairs = </crate>", 0),
    ):
        text = STAGE.format(up="Z") + FLOOR + arm % (schema, relation) + crate
        scene, _ = artix.load_world(text)
        assert len(scene.pairs) == touching


OPEN_DOOR = """
def Xform "frame"
{
}
def Cube "door" (prepend apiSchemas = ["PhysicsCollisionAPI", "PhysicsRigidBodyAPI"%s])
{
    double size = 10
    double3 xformOp:translate = (%s)
    float3 xformOp:rotateXYZ = (%s)
    uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:rotateXYZ"]
    %s
}
def Physics%sJoint "hinge"
{
    rel physics:body%d = </frame>
    rel physics:body%d = </door>
    uniform token physics:axis = "Z"
}
"""


@pytest.mark.parametrize("kind", ["Revolute", "Prismatic", "Spherical"])
@pytest.mark.parametrize("parent", [0, 1])
def test_bodies_without_an_articulation_start_where_they_are(kind: str, parent: int) -> None:
    """Their joints are constraints in PhysX, which do not move a door that stands open."""
    turn = {"Revolute": "0, 0, 200", "Prismatic": "0, 0, 0", "Spherical": "20, -50, 70"}[kind]
    place = "0, 0, -40" if kind == "Prismatic" else "0, 0, 0"
    values = ("", place, turn, "", kind, parent, 1 - parent)
    text = STAGE.format(up="Z") + OPEN_DOOR % values
    with warnings.catch_warnings():
        warnings.simplefilter("error", artix.DescriptionWarning)
        scene, state = artix.load_world(text, dtype="float64")
    angles = np.radians([float(angle) for angle in turn.split(",")])
    wanted = np.zeros(7)
    wanted[2] = -0.4 if kind == "Prismatic" else 0.0
    wanted[3:] = quaternion_from_rpy(*angles)
    pose = np.asarray(artix.frame_pose(scene.articulations[0], state, frame="door"))
    np.testing.assert_allclose(pose[:3], wanted[:3], atol=1e-7)
    np.testing.assert_allclose(abs(pose[3:] @ wanted[3:]), 1.0, atol=1e-7)


@pytest.mark.parametrize(
    ("schemas", "line", "said"),
    [
        ("", "vector3f physics:angularVelocity = (0, 0, 90)", "speeds are those of joints"),
        (', "PhysxRigidBodyAPI"', "int physxRigidBody:lockedPosAxis = 3", "free to move"),
    ],
)
def test_what_bodies_of_constraints_have_and_links_do_not_is_said(schemas, line, said) -> None:
    text = STAGE.format(up="Z") + OPEN_DOOR % (
        schemas,
        "0, 0, 0",
        "0, 0, 0",
        line,
        "Revolute",
        0,
        1,
    )
    with pytest.warns(artix.DescriptionWarning, match=said):
        artix.load_world(text)


def test_bodies_of_different_scenes_do_not_meet() -> None:
    text = STAGE.format(up="Z") + FLOOR
    for name, height in (("one", 10), ("two", 30)):
        text += f'def PhysicsScene "of_{name}"\n{{\n}}\n' + CUBE.format(
            name=name,
            size=10,
            place=f"0, 0, {height}",
            schemas=BODY,
            more=f"rel physics:simulationOwner = </of_{name}>",
        )
    assert artix.load_world(text)[0].pairs == ()
    together = text.replace("simulationOwner = </of_two>", "simulationOwner = </of_one>")
    assert len(artix.load_world(together)[0].pairs) == 1
