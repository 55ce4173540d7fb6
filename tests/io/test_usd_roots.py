"""Which bodies and joints of a stage make an articulation: roots, bases, islands, loops, names,
state."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import artix
from artix.io.usd.reader import load_usd_with_state
from tests.support.usd_stages import body, joint, robot

ROOT = ', "PhysicsArticulationRootAPI"'
CHAIN = [body("a"), body("b"), body("c"), joint("ab", "a", "b"), joint("bc", "b", "c")]


def links(text: str, **options) -> tuple[str, ...]:
    return artix.load_usd(text, **options).topology.link_names


def test_a_root_that_is_a_body_floats():
    text = robot(body("a"), body("b", schemas=ROOT), joint("ab", "a", "b"), schemas="")
    articulation = artix.load_usd(text)
    assert articulation.topology.link_names == ("b", "a")
    assert not articulation.topology.fixed_base
    assert articulation.topology.name == "robot"


def test_a_root_that_is_a_joint_to_the_world_fixes_its_body():
    fixing = joint("fix", None, "b", kind="Fixed", schemas='"PhysicsArticulationRootAPI"')
    articulation = artix.load_usd(robot(*CHAIN, fixing, schemas=""))
    assert articulation.topology.link_names == ("b", "a", "c")
    assert articulation.topology.fixed_base
    assert articulation.topology.name == "robot"


def test_a_root_above_the_bodies_takes_the_joint_to_the_world_or_the_centre_of_the_graph():
    assert links(robot(*CHAIN)) == ("b", "a", "c")
    fixed = artix.load_usd(robot(*CHAIN, joint("fix", None, "c", kind="Fixed")))
    assert fixed.topology.link_names == ("c", "b", "a")
    assert fixed.topology.fixed_base
    # Two centres, a tie of eccentricities: the one with more joints.
    longer = [*CHAIN, body("d"), joint("cd", "c", "d"), body("e"), joint("ce", "c", "e")]
    assert links(robot(*longer))[0] == "c"


@pytest.mark.parametrize("seed", range(8))
def test_the_centre_of_a_random_tree_has_the_least_eccentricity(seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(3, 14))
    parents = [int(rng.integers(0, k)) for k in range(1, count)]
    prims = [body(f"n{k}") for k in range(count)]
    prims += [joint(f"j{k}", f"n{parent}", f"n{k}") for k, parent in enumerate(parents, start=1)]
    distance = np.full((count, count), np.inf)
    np.fill_diagonal(distance, 0)
    for k, parent in enumerate(parents, start=1):
        distance[k, parent] = distance[parent, k] = 1
    for k in range(count):
        distance = np.minimum(distance, distance[:, k, None] + distance[None, k])
    eccentricity, degree = distance.max(axis=1), (distance == 1).sum(axis=1)
    best = min(range(count), key=lambda k: (eccentricity[k], -degree[k], f"n{k}"))
    assert links(robot(*prims))[0] == f"n{best}"


def test_a_joint_to_the_world_keeps_its_freedom():
    text = robot(
        *CHAIN, joint("slide", None, "a", "float physics:lowerLimit = -1", kind="Prismatic")
    )
    articulation = artix.load_usd(text)
    assert articulation.topology.link_names == ("world", "a", "b", "c")
    assert articulation.topology.dof_names == ("slide", "ab", "bc")
    assert articulation.topology.fixed_base
    assert float(articulation.link_mass[0]) == 0.0
    assert float(articulation.joint_lower_limit[0]) == -1.0


def test_the_caller_decides_about_the_base():
    text = robot(*CHAIN, joint("fix", None, "c", kind="Fixed"))
    assert not artix.load_usd(text, fixed_base=False).topology.fixed_base
    assert artix.load_usd(robot(*CHAIN), fixed_base=True).topology.fixed_base
    sliding = robot(
        body("a", schemas=ROOT), joint("slide", None, "a", kind="Prismatic"), schemas=""
    )
    assert artix.load_usd(sliding, fixed_base=False).topology.dof_names == ()
    assert artix.load_usd(sliding).topology.dof_names == ("slide",)


def test_a_root_body_with_a_joint_to_the_world_is_joined_to_it():
    bodies = [body("a", schemas=ROOT), body("b"), joint("ab", "a", "b")]
    fixed = artix.load_usd(robot(*bodies, joint("fix", None, "a", kind="Fixed"), schemas=""))
    assert fixed.topology.fixed_base
    elsewhere = robot(*bodies, joint("hold", None, "b", kind="Fixed"), schemas="")
    loop = artix.load_usd(elsewhere).topology
    assert [one.name for one in loop.loop_joints] == ["hold"]
    assert not loop.fixed_base
    assert any("becomes a loop joint" in issue.message for issue in artix.check_usd(elsewhere))


def test_any_prim_may_be_taken_as_the_root():
    text = robot(*CHAIN, schemas="")
    with pytest.raises(artix.DescriptionError, match=r"PhysicsArticulationRootAPI.*root="):
        artix.load_usd(text)
    assert links(text, root="/World/robot") == ("b", "a", "c")
    assert links(text, root="/World/robot/c") == ("c", "b", "a")
    with pytest.raises(artix.DescriptionError, match="no prim </World/nothing>"):
        artix.load_usd(text, root="/World/nothing")
    with pytest.raises(artix.DescriptionError, match="not one to the world"):
        artix.load_usd(text, root="/World/robot/ab")
    with pytest.raises(artix.DescriptionError, match="no rigid body at or below"):
        artix.load_usd(robot(schemas='"PhysicsArticulationRootAPI"'))


def test_islands():
    alone = body("alone")
    issues = artix.check_usd(robot(*CHAIN, alone))
    assert any("</World/robot>" in issue.element and "alone" in issue.message for issue in issues)
    assert links(robot(*CHAIN, alone)) == ("b", "a", "c")
    assert links(robot(alone)) == ("alone",)
    other = [body("x"), body("y"), joint("xy", "x", "y")]
    with pytest.raises(artix.DescriptionError, match="2 articulations are below the root"):
        artix.load_usd(robot(*CHAIN, *other))


def test_siblings_are_ordered_as_physx_orders_them():
    sides = [body(name) for name in "pqrs"]
    joints = [
        joint("z", "a", "p", kind="Fixed"),
        joint("n", "a", "q"),
        joint("m", "a", "r"),
        joint("b", "a", "s", kind="Spherical"),
    ]
    topology = artix.load_usd(
        robot(body("a", schemas=ROOT), *sides, *reversed(joints), schemas="")
    ).topology
    assert topology.joint_names == ("z", "m", "n", "b")


def test_what_does_not_move_is_the_world():
    wall = body("wall", "bool physics:kinematicEnabled = true")
    articulation = artix.load_usd(robot(*CHAIN, wall, joint("fix", "wall", "a", kind="Fixed")))
    assert articulation.topology.fixed_base
    assert articulation.topology.link_names == ("a", "b", "c")
    disabled = robot(
        *CHAIN, body("off", "bool physics:rigidBodyEnabled = false"), joint("ao", "a", "off")
    )
    assert artix.load_usd(disabled).topology.link_names == ("world", "a", "b", "c")
    assert links(
        robot(*CHAIN, body("d"), joint("cd", "c", "d", "bool physics:jointEnabled = false"))
    ) == (
        "b",
        "a",
        "c",
    )


def test_a_joint_may_name_a_prim_within_a_body():
    inner = """def Xform "mark" {
        double3 xformOp:translate = (0, 0, 0.5)
        uniform token[] xformOpOrder = ["xformOp:translate"]
    }"""
    text = robot(
        body("a", inner=inner),
        body("b"),
        joint("ab", "a/mark", "b", "point3f physics:localPos0 = (1, 0, 0)"),
    )
    articulation = artix.load_usd(text, root="/World/robot/a")
    assert np.allclose(articulation.joint_parent_pose[1, :3], [1.0, 0.0, 0.5])


def test_a_loop_is_refused_until_one_joint_is_excluded():
    with pytest.raises(
        artix.DescriptionError, match=r"</World/robot/bc>: closes a loop.*excludeFromArticulation"
    ):
        artix.load_usd(robot(*CHAIN, joint("ca", "c", "a"), schemas=""), root="/World/robot/a")
    content = """bool physics:excludeFromArticulation = true
        uniform token physics:axis = "Z"
        point3f physics:localPos0 = (0, 0, 1)"""
    articulation = artix.load_usd(robot(*CHAIN, joint("ca", "c", "a", content)))
    (loop,) = articulation.topology.loop_joints
    assert loop.type is artix.LoopJointType.REVOLUTE
    assert [articulation.topology.link_names[link] for link in (loop.link_a, loop.link_b)] == [
        "c",
        "a",
    ]
    pose = np.asarray(articulation.loop_joints.pose_a[0])
    assert np.allclose(pose[:3], [0, 0, 1])
    x, y, z, w = pose[3:]
    assert np.allclose(
        [1 - 2 * (y * y + z * z), 2 * (x * y + z * w), 2 * (x * z - y * w)], [0, 0, 1]
    )  # its x is USD's z


def test_stacked_joints_make_a_chain():
    stack = [
        joint("x", None, "a", kind="Prismatic"),
        joint("turn", None, "a", 'uniform token physics:axis = "Z"'),
    ]
    with pytest.raises(artix.DescriptionError, match=r"closes a loop.*newton:jointsAddMobility"):
        artix.load_usd(robot(body("a"), *stack))
    newton = '"PhysicsArticulationRootAPI", "NewtonArticulationRootAPI"'
    adds = "\n    uniform bool newton:jointsAddMobility = true"
    text = robot(adds, body("a"), *stack, schemas=newton)
    articulation = artix.load_usd(text)
    assert articulation.topology.link_names == ("world", "a:x", "a")
    assert articulation.topology.joint_names == ("x", "turn")
    assert np.allclose(articulation.link_mass, [0, 0, 2])
    # The stage says in which order, not the names.
    reverse = text.replace('"x"', '"z"')
    assert artix.load_usd(reverse).topology.joint_names == ("z", "turn")
    elsewhere = text.replace(
        'uniform token physics:axis = "Z"', "point3f physics:localPos0 = (1, 0, 0)"
    )
    with pytest.raises(artix.DescriptionError, match="disagree on the rest pose"):
        artix.load_usd(elsewhere)


def test_excluded_joints_of_every_kind():
    excluded = "bool physics:excludeFromArticulation = true\n"
    distance = joint("rope", "a", "c", excluded + "float physics:maxDistance = 3", kind="Distance")
    generic = joint(
        "six", None, "c", excluded + 
            "float limit:rotX:physics:low = 1\nfloat limit:rotX:physics:high = -1",
        kind="", schemas='"PhysicsLimitAPI:rotX"',
    )  # fmt: skip
    limited = joint("hinge", "c", "a", excluded + "float physics:lowerLimit = 0")
    with pytest.warns(artix.DescriptionWarning, match="loop joints have no limits"):
        articulation = artix.load_usd(robot(*CHAIN, distance, generic, limited))
    loops = {one.name: (one, index) for index, one in enumerate(articulation.topology.loop_joints)}
    assert loops["rope"][0].type is artix.LoopJointType.DISTANCE
    assert float(articulation.loop_joints.max_distance[loops["rope"][1]]) == 3.0
    assert loops["six"][0].link_a == -1
    assert loops["six"][0].locked_axes == (artix.Axis.TWIST,)
    with pytest.raises(artix.DescriptionError, match="a distance joint cannot connect links"):
        artix.load_usd(robot(*CHAIN, body("d"), joint("cd", "c", "d", kind="Distance")))


def test_names_that_several_prims_have():
    inner = "".join([body("tip"), joint("hinge", "left", "left/tip")])
    other = "".join([body("tip"), joint("hinge", "right", "right/tip")])
    text = robot(
        body("left", inner=inner), body("right", inner=other), joint("lr", "left", "right")
    )
    articulation = artix.load_usd(text, root="/World/robot/left")
    assert set(articulation.topology.link_names) == {"left", "right", "left/tip", "right/tip"}
    assert set(articulation.topology.joint_names) == {"lr", "left/hinge", "right/hinge"}


def test_fixed_links_merge_into_frames():
    camera = body("camera", place="(0, 0, 1)")
    fixing = joint("mount", "c", "camera", "point3f physics:localPos0 = (0, 0, 1)", kind="Fixed")
    merged = artix.load_usd(
        robot(*CHAIN, camera, fixing), root="/World/robot/a", merge_fixed_joints=True
    )
    assert merged.topology.link_names == ("a", "b", "c")
    assert merged.topology.frame_names == ("camera",)
    assert float(merged.link_mass[2]) == 4.0
    assert np.allclose(merged.frame_local_pose[0], [0, 0, 1, 0, 0, 0, 1])


STATE = """float state:angular:physics:position = 90
        float state:angular:physics:velocity = -180
        uniform token physics:axis = "Z" """


def test_the_state_of_joints_and_root():
    moving = "vector3f physics:velocity = (1, 2, 3)\nvector3f physics:angularVelocity = (0, 90, 0)"
    text = robot(
        body("a", moving, schemas=ROOT, place="(5, 0, 0)"),
        body("b"),
        joint("ab", "a", "b", STATE, schemas='"PhysicsJointStateAPI:angular"'),
        schemas="",
    )
    _, state = load_usd_with_state(text)
    assert np.allclose(state.root_pose, [5, 0, 0, 0, 0, 0, 1])
    assert np.allclose(state.root_velocity, [1, 2, 3, 0, np.pi / 2, 0])
    assert np.allclose(state.joint_position, [np.pi / 2])
    assert np.allclose(state.joint_velocity, [-np.pi])
    # Body b is drawn at the origin, 5 m and a quarter turn from there.
    (issue,) = (issue for issue in artix.check_usd(text) if "from the pose" in issue.message)
    assert "5 m and 90 degrees" in issue.message
    backwards = text.replace("</World/robot/a>", "<X>").replace("</World/robot/b>", "</World/robot/a>").replace(
        "<X>", "</World/robot/b>"
    )  # fmt: skip
    _, state = load_usd_with_state(backwards)
    assert np.allclose(state.joint_position, [-np.pi / 2])


def test_gravity():
    scene = """def PhysicsScene "{name}" {{ vector3f physics:gravityDirection = {direction}
        float physics:gravityMagnitude = {size}
    }}
    """
    text = robot(*CHAIN)
    assert np.allclose(artix.load_usd(text).gravity, [0, 0, -9.81])
    sideways = robot(*CHAIN, before=scene.format(name="s", direction=(0, 2, 0), size=4))
    assert np.allclose(artix.load_usd(sideways).gravity, [0, 4, 0])
    default = robot(*CHAIN, before=scene.format(name="s", direction=(0, 0, 0), size="-inf"))
    assert np.allclose(artix.load_usd(default).gravity, [0, 0, -9.81])
    assert np.allclose(artix.load_usd(sideways, gravity=(0, 0, -1)).gravity, [0, 0, -1])
    moon = scene.format(name="moon", direction=(0, 0, -1), size=1.62)
    owned = [body("a", "rel physics:simulationOwner = </moon>", schemas=ROOT)]
    both = robot(
        *owned,
        before=scene.format(name="earth", direction=(0, 0, -1), size=9.81) + moon,
        schemas="",
    )
    assert np.allclose(artix.load_usd(both).gravity, [0, 0, -1.62])


def test_a_disabled_joint_leaves_out_what_hangs_on_it_and_says_so():
    off = "bool physics:jointEnabled = false"
    text = robot(*CHAIN, body("d"), joint("cd", "c", "d", off), joint("ca", "c", "a", off))
    with pytest.warns(artix.DescriptionWarning) as caught:
        assert links(text) == ("b", "a", "c")
    said = [
        str(warning.message)
        for warning in caught
        if "the joint is disabled" in str(warning.message)
    ]
    assert len(said) == 2
    assert "</World/robot/cd.physics:jointEnabled>" in said[0] and "as in PhysX" in said[0]
    assert "</World/robot/ca.physics:jointEnabled>" in said[1] and "as in PhysX" not in said[1]


FREE = joint("free", None, "a", kind="")


@pytest.mark.parametrize("where", ["robot", "body", "joint"])
def test_a_root_joint_of_six_free_axes_is_a_floating_base(where):
    schema = '"PhysicsArticulationRootAPI"'
    root = (
        FREE.replace('"free" ', f'"free" (prepend apiSchemas = [{schema}])')
        if where == "joint"
        else FREE
    )
    bodies = [body("a", schemas=f", {schema}" if where == "body" else ""), *CHAIN[1:]]
    text = robot(*bodies, root, schemas=schema if where == "robot" else "")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        floating = artix.load_usd(text)
    assert not floating.topology.fixed_base
    assert floating.topology.link_names == ("a", "b", "c")
    assert floating.topology.dof_names == ("ab", "bc")
    assert artix.load_usd(text, fixed_base=True).topology.fixed_base
    assert artix.load_usd(text, fixed_base=True).topology.link_names == ("a", "b", "c")
    assert not artix.load_usd(text, fixed_base=False).topology.fixed_base


def test_what_a_free_root_joint_cannot_do_is_said():
    content = "float limit:transZ:physics:low = 0\nfloat drive:transX:physics:stiffness = 3"
    schemas = '"PhysicsLimitAPI:transZ", "PhysicsDriveAPI:transX"'
    text = robot(*CHAIN, joint("free", None, "a", content, kind="", schemas=schemas))
    with pytest.warns(artix.DescriptionWarning) as caught:
        assert links(text) == ("a", "b", "c")
    said = " ".join(str(warning.message) for warning in caught)
    assert "a floating base has no limits" in said and "a floating base has no drives" in said
