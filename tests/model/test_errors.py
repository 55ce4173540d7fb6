"""Bad input is refused early, with a message that says what is wrong and where."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import ArticulationBuilder, Axis, Joint, JointType, builder_from_articulation
from tests.support.models import random_states, tree_of

# --- joints.py -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "axes"),
    [
        (JointType.FIX, (Axis.TWIST,)),
        (JointType.PRISMATIC, ()),
        (JointType.PRISMATIC, (Axis.TWIST,)),
        (JointType.PRISMATIC, (Axis.X, Axis.Y)),
        (JointType.REVOLUTE, (Axis.X,)),
        (JointType.REVOLUTE, (Axis.TWIST, Axis.SWING1)),
        (JointType.REVOLUTE_UNWRAPPED, ()),
        (JointType.SPHERICAL, ()),
        (JointType.SPHERICAL, (Axis.SWING1, Axis.TWIST)),
        (JointType.SPHERICAL, (Axis.TWIST, Axis.TWIST)),
        (JointType.SPHERICAL, (Axis.TWIST, Axis.X)),
    ],
)
def test_axes_that_a_joint_cannot_have(kind: JointType, axes: tuple[Axis, ...]) -> None:
    with pytest.raises(
        ValueError, match=rf"joint 'hip': a {kind.name.lower()} joint takes .* found \("
    ) as caught:
        Joint(type=kind, axes=axes, name="hip")
    assert all(axis.name.lower() in str(caught.value) for axis in axes)


def test_numbers_that_name_no_type_or_axis() -> None:
    with pytest.raises(ValueError, match="17 is not a valid JointType"):
        Joint(type=17)
    with pytest.raises(ValueError, match=r"9 is not a valid Axis; choose from artix.Axis.TWIST, "):
        Joint(type=JointType.REVOLUTE, axes=(9,))


# --- builder.py ---------------------------------------------------------------------------------

POSE = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]


def two_links(**options) -> ArticulationBuilder:
    builder = ArticulationBuilder(name="robot")
    builder.add_link(mass=1.0, inertia=[1.0, 1.0, 1.0], name="base")
    builder.add_link(0, Joint.revolute(name="hip", **options), name="leg")
    return builder


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mass": -1.0}, "link 'arm': mass must be finite and not negative .* found -1.0"),
        ({"mass": np.nan}, "link 'arm': mass must be finite"),
        ({"mass": np.inf}, "link 'arm': mass must be finite"),
        ({"inertia": [1.0, 1.0, 1.0]}, "link 'arm': a link without mass cannot have inertia"),
        (
            {"mass": 1.0, "inertia": np.ones((2, 2))},
            r"link 'arm': inertia: expected shape \(3, 3\), found \(2, 2\)",
        ),
        (
            {"mass": 1.0, "inertia": [1.0, np.nan, 1.0]},
            "link 'arm': inertia: every number must be finite",
        ),
        (
            {"mass": 1.0, "inertia": [[1, 0.1, 0], [0, 1, 0], [0, 0, 1]]},
            "link 'arm': the inertia must be symmetric",
        ),
        (
            {"mass": 1.0, "inertia": [-1.0, 1.0, 1.0]},
            "link 'arm': no mass distribution has a negative moment of inertia",
        ),
        (
            {"mass": 1.0, "inertia": [1.0, 1.0, 3.0]},
            r"link 'arm': .* triangle inequality .* 3\) .*strict=False",
        ),
        ({"com_pose": POSE[:6]}, r"link 'arm': com_pose: expected shape \(7,\), found \(6,\)"),
        ({"com_pose": [*POSE[:6], 2.0]}, "link 'arm': com_pose: the quaternion .* found length 2"),
        ({"com_pose": [np.inf, *POSE[1:]]}, "link 'arm': com_pose: every number must be finite"),
        ({"gravity_scale": np.nan}, "link 'arm': gravity_scale must be finite"),
        ({"gravity_scale": [1.0, 1.0]}, r"link 'arm': gravity_scale must be one number"),
    ],
)
def test_links(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        two_links().add_link(0, Joint.fixed(), name="arm", **options)


def test_a_builder_that_is_not_strict_takes_what_no_body_has_but_no_negative_moments() -> None:
    builder = ArticulationBuilder(strict=False)
    builder.add_link(mass=1.0, inertia=[1.0, 1.0, 3.0], name="base")
    builder.add_link(0, Joint.fixed(), inertia=[1.0, 1.0, 1.0], name="sensor")
    given = builder.build().link_inertia
    assert np.array_equal(given, np.stack([np.diag([1.0, 1.0, 3.0]), np.eye(3)]))
    assert np.array_equal(builder_from_articulation(builder.build()).build().link_inertia, given)
    with pytest.raises(
        ValueError, match="link 'arm': no mass distribution has a negative moment of inertia"
    ):
        builder.add_link(0, Joint.fixed(), mass=1.0, inertia=[-1.0, 1.0, 1.0], name="arm")


@pytest.mark.parametrize(
    ("parent", "joint", "name", "message"),
    [
        (0, Joint.fixed(), "leg", "link 'leg': the name is taken"),
        (None, None, "arm", "link 'arm': the first link is the root"),
        (0, None, "arm", "link 'arm': the first link is the root"),
        (None, Joint.fixed(), "arm", "link 'arm': the first link is the root"),
        (
            2,
            Joint.fixed(),
            "arm",
            "link 'arm': parent 2 is not a link yet; links so far are 0 to 1",
        ),
        (-1, Joint.fixed(), "arm", "link 'arm': parent -1 is not a link yet"),
        (0, Joint.fixed(name="hip"), "arm", "link 'arm': the joint name 'hip' is taken"),
        (
            0,
            Joint.fixed(parent_pose=POSE[:3]),
            "arm",
            r"link 'arm': joint.parent_pose: expected shape \(7,\)",
        ),
        (
            0,
            Joint.fixed(child_pose=[*POSE[:6], 0.0]),
            "arm",
            "link 'arm': joint.child_pose: the quaternion",
        ),
    ],
)
def test_places_in_the_tree(parent, joint, name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        two_links().add_link(parent, joint, name=name)


def test_a_root_with_a_parent() -> None:
    with pytest.raises(ValueError, match="link 'base': the first link is the root"):
        ArticulationBuilder().add_link(0, Joint.fixed(), name="base")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"limits": [(1.0, 0.0)]},
            "joint 'hip': the lower limit 1.0 must not exceed the upper limit 0.0",
        ),
        ({"limits": [(np.nan, 0.0)]}, "joint 'hip': the lower limit nan"),
        (
            {"limits": [(0.0, 1.0), None]},
            "joint 'hip': limits must have one entry per free axis; found 2",
        ),
        ({"armature": -0.1}, "joint 'hip': armature must lie in .* found -0.1"),
        ({"armature": [0.1, 0.2]}, "joint 'hip': armature must be a number or have length 1"),
        ({"max_velocity": -1.0}, "joint 'hip': max_velocity must lie in"),
        ({"max_force": np.nan}, "joint 'hip': max_force must lie in"),
    ],
)
def test_numbers_of_joints(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        two_links(**options).build()


def test_limits_of_spherical_joints() -> None:
    builder = two_links()
    builder.add_link(1, Joint.spherical(name="ball", limits=[None, (-4.0, 1.0), None]))
    with pytest.raises(
        ValueError, match=r"joint 'ball': limits of a spherical joint must lie within \[-pi, pi\]"
    ):
        builder.build()


@pytest.mark.parametrize("gravity", [[0.0, -9.81], [0.0, 0.0, np.nan]])
def test_gravity(gravity) -> None:
    with pytest.raises(ValueError, match="'robot': gravity: "):
        ArticulationBuilder(gravity=gravity, name="robot")


def test_links_by_name() -> None:
    builder = two_links()
    builder.add_frame("tool", "leg")
    builder.add_link("leg", Joint.revolute(), name="foot", mass=1.0)
    topology = builder.build().topology
    leg = topology.link_index("leg")
    assert topology.frame_links == (leg,)
    assert topology.parent[topology.link_index("foot")] == leg
    for add in (builder.add_link, lambda link, _: builder.add_frame("far", link)):
        with pytest.raises(ValueError, match=r"there is no link 'arm'; choose from: .*leg, foot"):
            add("arm", Joint.fixed())


def test_an_articulation_without_links() -> None:
    with pytest.raises(ValueError, match="'robot': there is no link"):
        ArticulationBuilder(name="robot").build()


def test_frames() -> None:
    builder = two_links()
    builder.add_frame("tool", 1)
    for name in ("tool", "leg"):
        with pytest.raises(ValueError, match=f"frame '{name}': the name is taken"):
            builder.add_frame(name, 1)
    with pytest.raises(ValueError, match="frame 'far': link 2 is not a link; there are 2"):
        builder.add_frame("far", 2)
    with pytest.raises(ValueError, match=r"frame 'far': pose: expected shape \(7,\)"):
        builder.add_frame("far", 1, POSE[:3])


def test_mimic_joints() -> None:
    builder = two_links()
    builder.add_link(1, Joint.spherical(name="ball"))
    with pytest.raises(ValueError, match="mimic joint 'hip': a joint cannot follow itself"):
        builder.add_mimic("hip", "hip", 1.0)
    with pytest.raises(ValueError, match="mimic joint 'hip': gear_ratio must be finite"):
        builder.add_mimic("hip", "ball", np.inf)
    builder.add_mimic("hip", "ball", 1.0)
    with pytest.raises(
        ValueError,
        match="mimic joint 'hip': joint 'ball' must have exactly one DOF; its DOFs are: ball:0",
    ):
        builder.build()
    builder = two_links()
    builder.add_mimic("hip", "knee", 1.0)
    with pytest.raises(
        ValueError, match="mimic joint 'hip': no joint or DOF called 'knee'; choose from: hip"
    ):
        builder.build()


# --- checks.py and the public functions ---------------------------------------------------------


@pytest.fixture(scope="module")
def arm():
    articulation = tree_of(
        ["revolute_twist", "prismatic_x", "spherical_012"], [0, 1, 2], fixed_base=False
    )
    return articulation, jax.tree.map(lambda leaf: leaf[0], random_states(articulation, 1))


@pytest.mark.parametrize(
    "function",
    [
        artix.forward_kinematics,
        artix.physx.dense_jacobian,
        artix.mass_matrix,
        artix.bias_force,
        artix.center_of_mass,
        artix.centroidal_momentum,
        artix.kinetic_energy,
        lambda a, s: artix.integrate(a, s, jnp.zeros(11)),
        lambda a, s: artix.difference(a, s, s),
    ],
)
@pytest.mark.parametrize(
    "field", ["root_pose", "root_velocity", "joint_position", "joint_velocity"]
)
def test_states(arm, function, field: str) -> None:
    articulation, state = arm
    value = getattr(state, field)
    with pytest.raises(
        ValueError,
        match=rf"state.{field}: expected shape \({value.size},\) .* found \({value.size + 1},\)$",
    ):
        function(articulation, state.replace(**{field: jnp.zeros(value.size + 1)}))
    with pytest.raises(
        ValueError,
        match=rf"state.{field}: .* one articulation and one state; use jax.vmap over batches",
    ):
        function(articulation, state.replace(**{field: jnp.stack([value, value])}))
    with pytest.raises(
        TypeError, match=rf"state.{field}: expected dtype float64.* found float32; .*astype"
    ):
        function(articulation, state.replace(**{field: value.astype("float32")}))


@pytest.mark.parametrize(
    ("message", "call"),
    [
        (
            "^articulation: expected artix.Articulation, found State$",
            lambda a, s: artix.mass_matrix(s, a),
        ),
        (
            "found str; load it with artix.load or artix.robots.load$",
            lambda a, s: artix.mass_matrix("arm7", s),
        ),
        ("found Fleet; use fleet.evaluate", lambda a, s: artix.mass_matrix(artix.Fleet([a]), s)),
        (
            "found tuple; artix.load_world returns a scene and its states$",
            lambda a, s: artix.neutral_state((a, s)),
        ),
        (
            "found str; load it with artix.load or artix.robots.load$",
            lambda a, s: artix.random_state("arm7", jax.random.key(0)),
        ),
        (
            "found Scene; take one robot of it",
            lambda a, s: artix.mass_matrix(artix.Scene({"arm": a}), s),
        ),
        (
            "state: expected a dictionary by the",
            lambda a, s: artix.step(artix.Scene({"arm": a}), s, None, 0.01),
        ),
        ("^state: expected artix.State, found NoneType$", lambda a, s: artix.mass_matrix(a, None)),
        (
            "^force: expected an array .* found list; .*asarray",
            lambda a, s: artix.forward_dynamics(a, s, [0.0] * 11),
        ),
        (
            "^control: expected artix.Control, found an array$",
            lambda a, s: artix.step(a, s, jnp.zeros(5), 0.01),
        ),
        (
            "^options: expected artix.SolverOptions, found str$",
            lambda a, s: artix.step(a, s, None, 0.01, "pgs"),
        ),
        ("^options: .* found str$", lambda a, s: artix.step_and_report(a, s, None, 0.01, "pgs")),
        (
            "^ground: expected artix.Ground, found str$",
            lambda a, s: artix.step(artix.Scene(a, ground="plane"), s, None, 0.01),
        ),
        ("^dt: .* found NoneType$", lambda a, s: artix.step(a, s, None, None)),
        ("^frame: expected a name .* found 1.5$", lambda a, s: artix.frame_pose(a, s, 1.5)),
    ],
)
def test_arguments_of_other_kinds(arm, message: str, call) -> None:
    with pytest.raises(TypeError, match=message):
        call(*arm)


def test_numbers_out_of_range(arm) -> None:
    articulation, state = arm
    for index in (-1, 4):
        with pytest.raises(IndexError, match=rf"^frame: there is no link {index}; .* 0 to 3$"):
            artix.frame_jacobian(articulation, state, index)
    for dt in (float("nan"), float("inf")):
        with pytest.raises(
            ValueError, match=rf"^dt: expected a finite number of seconds, found {dt}$"
        ):
            artix.step(articulation, state, None, dt)
    with pytest.raises(
        ValueError, match=r"^dt: expected one number of seconds, found an array of shape \(2,\)$"
    ):
        artix.step(articulation, state, None, jnp.ones(2))
    with pytest.raises(
        ValueError,
        match=r"^dt: expected zero or more seconds, found -0.01; only artix.step's 'rk4'",
    ):
        artix.step(articulation, state, None, -0.01)


@pytest.mark.slow
def test_rk4_steps_back_in_time() -> None:
    articulation = artix.robots.load("double_pendulum")
    start = artix.neutral_state(articulation).replace(joint_position=jnp.array([0.5, -0.3]))
    rk4 = artix.SolverOptions(solver="rk4")
    back = artix.step(
        articulation, artix.step(articulation, start, None, 0.01, rk4), None, -0.01, rk4
    )
    np.testing.assert_allclose(back.joint_position, start.joint_position, atol=1e-6)


def test_switches_and_dtypes_of_other_kinds(arm) -> None:
    with (
        pytest.raises(TypeError, match=r"^enabled: expected True or False, found 'off'$"),
        artix.use_kernels("off"),
    ):
        pass
    with pytest.raises(
        TypeError, match=r"^dtype: expected a floating-point type such as float32, found int32$"
    ):
        arm[0].astype("int32")
    with pytest.raises(
        TypeError, match=r"^dtype: expected a floating-point type such as float32, found int32$"
    ):
        artix.robots.load("arm7", dtype="int32")
    articulation, state = arm
    scene = artix.Scene(articulation, ground=artix.Ground.flat())
    for value in (articulation, state, scene, scene.ground):
        with pytest.raises(
            TypeError, match=r"^dtype: artix computes in float32 or float64, found float16$"
        ):
            value.astype("float16")
    with jax.enable_x64(False):
        for make in (
            lambda: articulation.astype(np.float64),
            lambda: state.astype("float64"),
            lambda: scene.astype("float64"),
            lambda: artix.robots.load("arm7", dtype="float64"),
            lambda: artix.Ground.flat(dtype=jnp.float64),
        ):
            with pytest.raises(
                TypeError, match=r"^dtype: float64 needs JAX's x64 mode: call .*jax_enable_x64"
            ):
                make()
        assert artix.robots.load("arm7", dtype="float32").astype("float32").dtype == "float32"


def test_seeds_and_batches_are_no_random_keys(arm) -> None:
    with pytest.raises(
        TypeError,
        match=r"^key: expected a random key, found int; make one with jax.random.key\(seed\)$",
    ):
        artix.random_state(arm[0], 0)
    with pytest.raises(TypeError, match=r"^key: expected a random key, found int"):
        artix.Fleet([arm[0]]).random_state(0)
    with pytest.raises(
        ValueError, match=r"^key: expected one random key, found an array of shape \(8,\)"
    ):
        artix.random_state(arm[0], jax.random.split(jax.random.key(0), 8))


def test_double_precision_without_x64(arm) -> None:
    with jax.enable_x64(True):
        articulation, state = jax.tree.map(lambda x: jnp.asarray(x, jnp.float64), arm)
    with jax.enable_x64(False):
        for call in (artix.mass_matrix, jax.jit(artix.mass_matrix)):
            with pytest.raises(
                TypeError,
                match=r"^mass_matrix: argument articulation.link_mass .* float64, .*jax_enable_x64",
            ):
                call(articulation, state)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "complex64"])
def test_other_precisions(arm, dtype: str) -> None:
    articulation, state = jax.tree.map(lambda x: x.astype(dtype), arm)
    with pytest.raises(
        TypeError, match=rf"^articulation: .* float32 or float64, found {dtype}; .*astype"
    ):
        artix.mass_matrix(articulation, state)


@pytest.mark.parametrize(
    ("name", "size", "function"),
    [
        ("acceleration", (11,), artix.inverse_dynamics),
        ("acceleration", (11,), artix.frame_acceleration),
        ("external_force", (4, 6), artix.generalized_external_force),
        ("external_force", (4, 6), lambda a, s, w: artix.inverse_dynamics(a, s, jnp.zeros(11), w)),
        ("dnu", (11,), artix.integrate),
        ("rate", (5,), artix.joint_velocity_from_rate),
        ("velocity", (5,), artix.joint_rate_from_velocity),
        ("offset", (7,), lambda a, s, pose: artix.frame_pose(a, s, "tool", pose)),
    ],
)
def test_other_arrays(arm, name: str, size: tuple[int, ...], function) -> None:
    articulation, state = arm
    with pytest.raises(ValueError, match=rf"^{name}: expected shape \({size[0]},"):
        function(articulation, state, jnp.zeros((size[0] + 1, *size[1:])))
    with pytest.raises(ValueError, match=rf"^{name}: .* use jax.vmap over batches"):
        function(articulation, state, jnp.zeros((2, *size)))
    with pytest.raises(TypeError, match=rf"^{name}: expected dtype float64"):
        function(articulation, state, jnp.zeros(size, "float32"))


def test_a_batch_of_articulations(arm) -> None:
    articulation, state = arm
    with pytest.raises(
        ValueError, match=r"articulation.link_mass: expected shape \(4,\) .* use jax.vmap"
    ):
        artix.mass_matrix(articulation.replace(link_mass=jnp.ones((2, 4))), state)


@pytest.mark.parametrize(
    "function",
    [artix.frame_pose, artix.frame_velocity, artix.frame_jacobian, artix.frame_jacobian_rate],
)
def test_frames_that_do_not_exist(arm, function) -> None:
    with pytest.raises(
        KeyError, match=r"no link or frame called 'hand'; choose from: link_0, .*, tool"
    ):
        function(*arm, "hand")
    quadruped = artix.robots.load("quadruped")
    framed = artix.builder_from_articulation(quadruped)
    framed.add_frame("camera", "trunk")
    with pytest.raises(
        KeyError, match=r"no link or frame called 'cam'; choose from: trunk, .*, camera"
    ):
        function(framed.build(), artix.neutral_state(quadruped), "cam")


def test_names_of_joints_where_links_are_meant(arm) -> None:
    """Pinocchio has a frame for each joint."""
    articulation, state = arm
    link = articulation.topology.link_names[1]
    message = rf"no link( or frame)? called 'joint_1'; the joint of this name moves link '{link}'; "
    for call in (
        lambda: artix.frame_pose(articulation, state, "joint_1"),
        lambda: articulation.topology.link_index("joint_1"),
        lambda: artix.Constraints.of(articulation, [artix.Constraint(frame_a="joint_1")]),
    ):
        with pytest.raises(KeyError, match=message + "choose from: "):
            call()


def test_constraints_of_frames_that_do_not_exist(arm) -> None:
    with pytest.raises(
        KeyError, match=r"no link or frame called 'hand'; choose from: link_0, .*, tool"
    ):
        artix.Constraints.of(arm[0], [artix.Constraint(frame_a="hand")])


def test_an_articulation_is_no_static_argument(arm) -> None:
    with pytest.raises(ValueError, match=r"let jax\.jit take it as an ordinary argument, without"):
        jax.jit(artix.mass_matrix, static_argnums=0)(*arm)


def test_a_mass_that_is_no_array(arm) -> None:
    articulation, state = arm
    heavy = articulation.replace(link_mass=2.0)
    for function in (
        lambda: artix.mass_matrix(heavy, state),
        lambda: artix.step(heavy, state, None, 0.01),
    ):
        with pytest.raises(
            TypeError, match=r"articulation\.link_mass: expected an array, found float"
        ):
            function()


@pytest.mark.parametrize(
    "function", [artix.frame_velocity, artix.frame_jacobian, artix.frame_jacobian_rate]
)
def test_axes_that_do_not_exist(arm, function) -> None:
    with pytest.raises(
        ValueError, match="axes must be 'world_aligned', 'local' or 'world'; found 'body'"
    ):
        function(*arm, "tool", axes="body")


def test_names_that_do_not_exist(arm) -> None:
    articulation, state = arm
    with pytest.raises(ValueError, match="frame must be 'world' or 'root'; found 'base'"):
        artix.center_of_mass(articulation, state, "base")
    with pytest.raises(KeyError, match="no joint called 'knee'; choose from: joint_1"):
        articulation.topology.dofs("knee")


# --- links, limits and parameters of the builder ------------------------------------------------


def test_a_refused_link_leaves_nothing_behind() -> None:
    builder = ArticulationBuilder(fixed_base=True)
    builder.add_link(name="floor")
    with pytest.raises(ValueError, match="mass must be finite and not negative"):
        builder.add_link(0, artix.CompositeJoint.planar(), mass=-1.0, name="cart")
    with pytest.raises(ValueError, match="the name is taken"):
        builder.add_link(
            0, artix.CompositeJoint.planar(), mass=1.0, inertia=(1, 1, 1), name="floor"
        )
    builder.add_link(0, artix.CompositeJoint.planar(), mass=1.0, inertia=(1, 1, 1), name="cart")
    cart = builder.build()
    acceleration = artix.forward_dynamics(cart, artix.neutral_state(cart), jnp.ones(3))
    np.testing.assert_allclose(acceleration, 1, rtol=1e-6)


def test_numbers_of_links_are_whole() -> None:
    builder = two_links()
    for parent in (0.5, True):
        with pytest.raises(
            ValueError, match=f"parent {parent!r} is not a link yet; links so far are 0 to 1"
        ):
            builder.add_link(parent, Joint.revolute())
        with pytest.raises(ValueError, match=f"link {parent} is not a link; there are 2"):
            builder.add_geometry(parent, artix.Geometry.sphere(0.1))
    with pytest.raises(ValueError, match=r"frame 'f': link 0.5 is not a link; there are 2"):
        builder.add_frame("f", 0.5)
    with pytest.raises(TypeError, match=r"geometry: expected artix\.Geometry, found str"):
        builder.add_geometry(0, "sphere")
    with pytest.raises(
        TypeError, match=r"expected an artix\.Joint or artix\.CompositeJoint, found str"
    ):
        builder.add_link(0, "hinge")
    with pytest.raises(TypeError, match="composite joint None: expected joints, found str"):
        artix.CompositeJoint(joints=("x",))


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (
            [(-1.0, 0.0, 1.0)],
            r"joint 'hip': limits must be pairs \(lower, upper\) or None; found \(-1.0, 0.0, 1.0\)",
        ),
        ((-1.0, 1.0), "limits must have one entry per free axis; found 2"),
        ([0.5], "limits must be pairs"),
        (0.5, "limits must have one pair per free axis; found 0.5"),
        ([(np.inf, np.inf)], "no position lies between the limits inf and inf"),
    ],
)
def test_malformed_limits(limits, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        two_links(limits=limits).build()


def test_inertias_rotated_in_single_precision_are_symmetric_enough() -> None:
    axes = jnp.asarray(np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0], jnp.float32)
    inertia = axes @ jnp.diag(jnp.asarray([0.3, 0.2, 0.25], jnp.float32)) @ axes.T
    builder = ArticulationBuilder()
    builder.add_link(mass=1.0, inertia=inertia)
    np.testing.assert_allclose(builder.build().link_inertia[0], inertia, rtol=1e-5, atol=1e-7)
    with pytest.raises(ValueError, match="the inertia must be symmetric"):
        builder.add_link(0, Joint.revolute(), mass=1.0, inertia=inertia.at[0, 1].add(1e-5))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda a: {"drive": a.drive.replace(stiffness=jnp.asarray(50.0))},
            r"drive.stiffness: expected shape \(5,\)",
        ),
        (
            lambda a: {"drive": a.drive.replace(stiffness=jnp.ones(1))},
            r"drive.stiffness: expected shape \(5,\)",
        ),
        (
            lambda a: {"drive": a.drive.replace(stiffness=50.0)},
            "drive.stiffness: expected an array .*found float",
        ),
        (
            lambda a: {"drive": a.drive.replace(damping=jnp.ones(5, jnp.int32))},
            "drive.damping: expected dtype",
        ),
        (
            lambda a: {"geometry": a.geometry.replace(friction=jnp.ones(9))},
            r"geometry.friction: expected shape",
        ),
        (lambda a: {"gravity": [0, 0, -1.0]}, "gravity: expected an array"),
        (
            lambda a: {"link_inertia": a.link_inertia[:, 0]},
            r"link_inertia: expected shape \(4, 3, 3\)",
        ),
    ],
)
def test_parameters_that_do_not_fit_the_topology(arm, change, message: str) -> None:
    articulation, state = arm
    with pytest.raises((TypeError, ValueError), match=rf"articulation\.{message}"):
        artix.step(articulation.replace(**change(articulation)), state, None, 0.01)


def test_batches_of_robots_where_one_is_expected(arm) -> None:
    one = arm[0]
    batch = jax.tree.map(lambda x: jnp.stack([x, x]), one)
    theta = artix.log_cholesky_from_articulation(one)
    for call in (
        lambda: artix.neutral_state(batch),
        lambda: artix.random_state(batch, jax.random.key(0)),
        lambda: artix.log_cholesky_from_articulation(batch),
        lambda: artix.with_log_cholesky(batch, theta),
    ):
        with pytest.raises(
            ValueError, match=r"articulation.link_mass: expected shape \(4,\) .* use jax.vmap"
        ):
            call()


def test_velocity_scales_and_keys(arm) -> None:
    for scale in (
        np.ones(3),
        -1.0,
        np.nan,
        np.float32("inf"),
        np.array(-1.0),
        jnp.array(jnp.nan),
        "fast",
    ):
        with pytest.raises(
            ValueError, match="velocity_scale: expected one number, finite and not negative"
        ):
            artix.random_state(arm[0], jax.random.key(0), velocity_scale=scale)
    with pytest.raises(TypeError, match="key: expected a random key, found uint32"):
        artix.random_state(arm[0], np.uint32(3))
    with pytest.raises(TypeError, match="vector: expected an array, found list"):
        artix.lie.so3_exp([0.0, 0.0, 1.0])


def test_steps_that_are_known_to_be_negative(arm) -> None:
    for dt in (np.array(-0.01), jnp.asarray(-0.01)):
        with pytest.raises(ValueError, match=r"dt: expected zero or more seconds, found -0\.01"):
            artix.step(*arm, None, dt)
    with pytest.raises(ValueError, match="dt: expected a finite number of seconds, found nan"):
        artix.step(*arm, None, jnp.asarray(jnp.nan))
    with pytest.raises(
        ValueError, match="tendon_law must be 'physx' or 'virtual_work'; found 'foo'"
    ):
        artix.vector_field(0.0, arm[1], (arm[0], None), tendon_law="foo")
