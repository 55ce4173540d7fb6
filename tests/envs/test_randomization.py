"""Domain randomisation: distributions, entries, error messages, times of draws; actuator delays and
networks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import envs
from artix.envs import Change, actuators, disturbances, randomization

KEYS = jax.random.split(jax.random.key(0), 4000)


@pytest.fixture(scope="module")
def robot():
    return artix.robots.load("quadruped", dtype="float64")


def drawn(robot, *changes):
    return jax.vmap(lambda key: envs.randomize(robot, key, changes))(KEYS)


@pytest.mark.slow
def test_distributions(robot):
    fleet = drawn(
        robot,
        Change("armature", "absolute", (0.1, 0.3)),
        Change("drive.stiffness", "absolute", (1.0, 100.0), distribution="log_uniform"),
        Change("drive.damping", "add", (2.0, 0.5), distribution="normal"),
        Change("max_joint_force", "scale", (0.5, 1.5), shared=True),
    )
    uniform, logs = np.asarray(fleet.armature), np.log(np.asarray(fleet.drive.stiffness))
    np.testing.assert_allclose([uniform.mean(), uniform.std()], [0.2, 0.2 / np.sqrt(12)], rtol=0.01)
    assert uniform.min() >= 0.1
    assert uniform.max() <= 0.3
    np.testing.assert_allclose(
        [logs.mean(), logs.std()], np.log(100) * np.array([0.5, 12**-0.5]), rtol=0.01
    )
    normal = np.asarray(fleet.drive.damping)
    np.testing.assert_allclose([normal.mean(), normal.std()], [2.0, 0.5], rtol=0.01)
    assert np.mean(np.abs(normal - 2.0) > 1.0) == pytest.approx(0.0455, abs=0.004)
    factor = np.asarray(fleet.max_joint_force / robot.max_joint_force)
    np.testing.assert_allclose(np.ptp(factor, axis=1), 0, atol=1e-12)
    assert abs(np.corrcoef(uniform[:, 0], uniform[:, 1])[0, 1]) < 0.06


@pytest.mark.slow
def test_places(robot):
    fleet = drawn(
        robot,
        Change("link_mass", "scale", (0.9, 1.1), also=("link_inertia",)),
        Change("link_mass", "add", (1.0, 2.0), entries=("trunk",)),
        Change("link_com_pose", "add", (-0.05, 0.05), entries=("trunk",), components=(0, 1)),
        Change(
            "friction.static",
            "scale",
            (2.0, 2.0),
            entries=("front_left_knee", 0),
            also=("friction.dynamic",),
        ),
        Change("geometry.friction", "absolute", (0.5, 0.5), entries=("rear_left_foot",)),
    )
    topology, change = robot.topology, np.asarray(fleet.link_com_pose - robot.link_com_pose)
    moved = np.abs(change).max(axis=0) > 0
    assert np.argwhere(moved).tolist() == [[0, 0], [0, 1]]
    thigh = topology.link_index("front_left_thigh")
    factor = fleet.link_mass[:, thigh] / robot.link_mass[thigh]
    np.testing.assert_allclose(
        fleet.link_inertia[:, thigh], factor[:, None, None] * robot.link_inertia[thigh]
    )
    trunk = fleet.link_inertia[:, 0, 0, 0] / robot.link_inertia[0, 0, 0]
    payload = fleet.link_mass[:, 0] - trunk * robot.link_mass[0]
    assert np.all((payload > 1 - 1e-9) & (payload < 2 + 1e-9))
    doubled = [0, topology.dof_names.index("front_left_knee")]
    for name in ("static", "dynamic"):
        ratio = getattr(fleet.friction, name)[0] / getattr(robot.friction, name)
        assert np.flatnonzero(ratio > 1.5).tolist() == doubled
    assert np.asarray(fleet.geometry.friction[0]).tolist() == [0, 0, 0.5, 0]
    np.testing.assert_array_equal(fleet.joint_parent_pose[7], robot.joint_parent_pose)


@pytest.mark.slow
def test_inertias_rotations_and_normals_stay_what_they_are(robot):
    """Numbers drawn one by one made matrices that are not symmetric, and rotations that stretch."""
    inertia = np.array(robot.link_inertia)
    inertia[:, 0, 1] = inertia[:, 1, 0] = -0.1 * inertia[:, 0, 0]
    robot = robot.replace(link_inertia=jnp.asarray(inertia))
    fleet = drawn(
        robot,
        Change("link_inertia", "scale", (0.5, 1.5), entries=(0, "front_left_thigh")),
        Change("link_com_pose", "add", (-0.05, 0.05)),
        Change("joint_child_pose", "scale", (0.9, 1.1), components=(3, 4, 5, 6)),
    )
    links = [0, robot.topology.link_index("front_left_thigh")]
    factor = fleet.link_inertia[:, links, 0, 0] / inertia[links, 0, 0]
    assert float(jnp.std(factor)) == pytest.approx(12**-0.5, rel=0.05)
    wanted = np.broadcast_to(inertia, fleet.link_inertia.shape).copy()
    wanted[:, links] *= np.asarray(factor)[..., None, None]
    np.testing.assert_allclose(fleet.link_inertia, wanted, rtol=1e-12)
    for poses in (fleet.link_com_pose, fleet.joint_child_pose):
        np.testing.assert_allclose(np.linalg.norm(poses[..., 3:], axis=-1), 1, atol=1e-12)
    assert float(jnp.std(fleet.link_com_pose[:, 0, 3])) == pytest.approx(0.1 / 12**0.5, rel=0.05)
    ground = artix.Ground.flat(dtype="float64")
    sloped = drawn(ground, Change("surfaces.0.normal", "add", (-0.1, 0.1))).surfaces[0].normal
    np.testing.assert_allclose(np.linalg.norm(sloped, axis=-1), 1, atol=1e-12)
    along = Change("link_inertia", "scale", (0.5, 1.5), also=("link_mass",))
    heavier = envs.randomize(robot, KEYS[0], [along])
    ratio = heavier.link_inertia[0, 0, 0] / inertia[0, 0, 0]
    assert float(heavier.link_mass[0] / robot.link_mass[0]) == pytest.approx(float(ratio))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda: Change("link_masses", "scale", (1, 2)),
            r"no leaf called 'link_masses'.*link_mass",
        ),
        (
            lambda: Change("link_mass", "scale", (1, 2), entries=("torso",)),
            r"no entry called 'torso'.*trunk",
        ),
        (
            lambda: Change("link_mass", "scale", (1, 2), entries=(18,)),
            r"entries \(18,\).*do not fit.*\(18,\)",
        ),
        (
            lambda: Change("link_mass", "scale", (1, 2), also=("inertia",)),
            r"no leaf called 'inertia'",
        ),
        (
            lambda: Change("link_mass", "scale", (1, 2), components=(0,)),
            r"components \(0,\) do not fit.*\(18,\)",
        ),
        (
            lambda: Change("link_mass", "times", (1, 2)),
            r"operation must be one of absolute, scale, add.*'times'",
        ),
        (
            lambda: Change("link_mass", "scale", (1, 2), distribution="gauss"),
            r"distribution must be one of uniform",
        ),
        (lambda: Change("link_inertia", "add", (0, 1)), "only factors of whole matrices"),
        (lambda: Change("link_inertia", "scale", (-1, 1)), "only factors of whole matrices"),
        (
            lambda: Change("link_inertia", "scale", (1, 2), components=(0,)),
            "only factors of whole matrices",
        ),
        (lambda: Change("mimic.offset", "add", (0, 1)), "mimic.offset: there is none to randomise"),
        (lambda: Change("link_mass", "scale", 1.5), "a range of two numbers; found 1.5"),
        (lambda: Change("link_mass", "scale", (1, 2, 3)), "a range of two numbers"),
        (lambda: Change("link_mass", "scale", (2, 1)), "lower one first"),
        (lambda: Change("link_mass", "scale", (1, np.inf)), "finite"),
        (
            lambda: Change("link_mass", "scale", (0, 1), distribution="log_uniform"),
            "must be positive",
        ),
        (lambda: Change("link_mass", "add", (0, 1), also=("link_inertia",)), "only factors"),
        (
            lambda: Change("link_mass", "add", (0, 1), when="always"),
            r"'reset', 'start' or a time.*'always'",
        ),
        (lambda: Change("link_mass", "add", (0, 1), when=0.0), "must be positive"),
        (
            lambda: Change("link_mass", "add", (-1, 1)),
            r"'add' with bounds \(-1, 1\) makes it negative for 'imu', -1",
        ),
        (
            lambda: Change("drive.damping", "absolute", (-1, 1), entries=(3,)),
            "negative for 'rear_right_hip_roll', -1",
        ),
    ],
)
def test_what_is_refused(robot, change, message):
    with pytest.raises(ValueError, match=message):
        envs.randomize(robot, KEYS[0], [change()])


def test_single_values_in_place_of_several_are_refused_by_name(robot):
    mass = Change("link_mass", "scale", (1, 2))
    for given, message in (
        (
            lambda: Change("link_mass", "scale", (1, 2), entries="trunk"),
            r"entries must be .*\('trunk',\)",
        ),
        (
            lambda: Change("link_com_pose", "add", (0, 1), components=0),
            r"components must be .*\(0,\)",
        ),
        (
            lambda: Change("link_mass", "scale", (1, 2), also="link_inertia"),
            r"also must be .*\('link_inertia',\)",
        ),
        (
            lambda: envs.randomize(robot, KEYS[0], mass),
            "a sequence of artix.envs.Change, found Change",
        ),
        (lambda: envs.randomize(robot, 0, [mass]), "key: expected a random key, found int"),
        (
            lambda: envs.make("cart_pole", randomization=mass),
            "a sequence of artix.envs.Change, found Change",
        ),
        (
            lambda: envs.make("quadruped_velocity", noise_scales=0.1),
            "noise_scales must map linear_velocity, gyro",
        ),
    ):
        with pytest.raises(TypeError, match=message):
            given()
    for given, message in (
        (
            {"pushes": disturbances.Pushes(speed=1.0)},
            "pushes: expected bounds of the speed .*found 1.0",
        ),
        ({"action_delay": 0.01}, "action_delay needs 0 <= least <= largest .*found 0.01"),
    ):
        with pytest.raises(ValueError, match=message):
            envs.make("quadruped_velocity", **given)


def test_one_number_has_no_entries():
    for place in ({"entries": (0,)}, {"components": (0,)}):
        change = Change("surfaces.0.friction", "scale", (1, 2), **place)
        with pytest.raises(ValueError, match=r"do not fit its shape \(\)"):
            envs.randomize(artix.Ground.flat(), KEYS[0], [change])


def test_an_environment_refuses_leaves_when_it_is_made():
    with pytest.raises(
        ValueError, match=r"no leaf called 'ground\.surfaces\.1.*: ground\.surfaces\.0"
    ):
        envs.make(
            "quadruped_velocity",
            randomization=[Change("ground.surfaces.1.friction", "absolute", (0, 1))],
        )
    with pytest.raises(ValueError, match=r"ground\.surfaces\.0\.friction: 'add'.*negative, -0\.2"):
        envs.make(
            "quadruped_velocity",
            randomization=[Change("ground.surfaces.0.friction", "add", (-1, 1))],
        )


class _Cart(envs.Environment):
    """A cart on a rail, pushed by the action."""

    def __init__(self, *changes):
        robot = artix.robots.load("cart_pole", dtype="float64")
        options = {
            "action_size": 1,
            "dt": 0.02,
            "physics_dt": 0.02,
            "episode_length": 3,
            "randomization": changes,
        }
        super().__init__("cart", robot, **options)

    def begin(self, key):
        return artix.neutral_state(self.articulation), {}

    def actuate(self, articulation, state, memory, action):
        return artix.Control(joint_force=jnp.concatenate([action, jnp.zeros(1)])), memory

    def outcome(self, transition):
        return envs.Outcome(transition.articulation.link_mass[1], jnp.array(False), {}, {})

    def observe(self, transition):
        return transition.state.joint_velocity


@pytest.mark.slow
def test_what_is_drawn_acts_in_physics_and_task():
    """The cart without its pole: its speed is force over mass."""
    cart = _Cart(
        Change("link_mass", "scale", (0.5, 2.0), entries=("cart",)),
        Change("gravity", "scale", (0, 0)),
    )
    state = jax.vmap(cart.reset)(KEYS[:5])
    end = jax.jit(jax.vmap(cart.step))(state, jnp.ones((5, 1)))
    mass = cart.articulation.link_mass[1] * state.info["randomized"][0][:, 0]
    np.testing.assert_allclose(end.reward, mass, rtol=1e-12)
    for k in range(5):
        robot = cart.articulation.replace(
            link_mass=cart.articulation.link_mass.at[1].set(mass[k]), gravity=jnp.zeros(3)
        )
        alone = artix.step(
            robot,
            artix.neutral_state(robot),
            artix.Control(joint_force=jnp.array([1.0, 0.0])),
            0.02,
        )
        np.testing.assert_allclose(end.obs[k], alone.joint_velocity, atol=1e-12)


@pytest.mark.slow
def test_when_numbers_are_drawn():
    changes = [
        Change("link_mass", "scale", (0.5, 2.0), when=when) for when in ("reset", "start", 0.04)
    ]
    cart = envs.autoreset(_Cart(*changes))
    state = jax.vmap(cart.reset)(KEYS[:200])

    def advance(state, _):
        state = jax.vmap(cart.step)(state, jnp.zeros((200, 1)))
        return state, (state.info["randomized"], state.done)

    _, (drawn, done) = jax.jit(lambda state: jax.lax.scan(advance, state, length=9))(state)
    series = zip((*state.info["randomized"],), drawn, strict=True)
    changed = [
        np.any(np.diff(np.concatenate([np.asarray(x)[None], y]), axis=0) != 0, axis=-1)
        for x, y in series
    ]
    np.testing.assert_array_equal(changed[0], np.asarray(done) == 1)
    assert not np.any(changed[1])
    within = changed[2][np.asarray(done) == 0]
    assert np.mean(within) == pytest.approx(1 - np.exp(-0.5), abs=0.05)
    assert np.all(changed[2][np.asarray(done) == 1])


def test_leaves_of_a_robot_and_of_a_ground_have_names(robot):
    assert {"link_mass", "friction.static", "geometry.size"} <= set(randomization.leaf_names(robot))
    assert "surfaces.0.friction" in randomization.leaf_names(artix.Ground.flat())


def test_commands_arrive_as_late_as_the_lag_says():
    for lag in range(4):
        delay, arrived = actuators.Delay.of(jnp.array([-1.0]), most_steps=3, lag=lag), []
        for command in range(6):
            delay = delay.then(jnp.array([float(command)]))
            arrived.append(float(delay.arrived[0]))
        assert arrived == [-1.0] * lag + [float(k) for k in range(6 - lag)]
    lags = np.asarray(jax.vmap(lambda key: actuators.random_lag(key, 0.004, 0.016, 0.004))(KEYS))
    np.testing.assert_allclose(np.bincount(lags)[1:] / len(lags), 0.25, atol=0.03)
    with pytest.raises(ValueError, match="least <= most"):
        actuators.random_lag(KEYS[0], 0.02, 0.01, 0.004)
    with pytest.raises(ValueError, match="most_steps must be at least 0"):
        actuators.Delay.of(jnp.zeros(1), most_steps=-1)
    with pytest.raises(ValueError, match="lag: expected most_steps=1 at most, found 5"):
        actuators.Delay.of(jnp.zeros(1), most_steps=1, lag=5)
    with pytest.raises(TypeError, match=r"lag: expected a whole number, found 0\.5"):
        actuators.Delay.of(jnp.zeros(1), most_steps=1, lag=0.5)


def test_an_actuator_network_is_its_layers():
    rng = np.random.default_rng(0)
    layers = [
        (rng.normal(size=(4, 8)), rng.normal(size=8)),
        (rng.normal(size=(8, 1)), rng.normal(size=1)),
    ]
    history = rng.normal(size=(3, 4))
    hidden = history @ layers[0][0] + layers[0][1]
    wanted = (hidden / (1 + np.abs(hidden))) @ layers[1][0] + layers[1][1]
    params = jax.tree.map(jnp.asarray, layers)
    np.testing.assert_allclose(
        actuators.actuator_network(params, jnp.asarray(history)), wanted[:, 0], rtol=1e-12
    )
    with pytest.raises(ValueError, match="layer 0 gets 3 numbers"):
        actuators.actuator_network(params, jnp.zeros((3, 3)))
    with pytest.raises(ValueError, match="one output"):
        actuators.actuator_network(params[:1], jnp.zeros((3, 4)))


def test_names_are_those_of_the_rows_of_a_leaf():
    robot, key = artix.robots.load("quadruped"), jax.random.key(0)
    (shank,) = (k for k, name in enumerate(robot.topology.link_names) if name == "front_left_shank")
    for name in (
        "front_left_knee",
        "front_left_shank",
    ):  # a joint's frame belongs to its child link
        change = Change("joint_parent_pose", "add", (1.0, 1.0), entries=(name,), components=(2,))
        moved = envs.randomize(robot, key, [change]).joint_parent_pose - robot.joint_parent_pose
        np.testing.assert_array_equal(np.argwhere(moved), [[shank, 2]])
    slow = envs.randomize(
        robot, key, [Change("max_link_linear_velocity", "absolute", (2.0, 2.0), entries=("trunk",))]
    )
    np.testing.assert_array_equal(np.flatnonzero(np.isfinite(slow.max_link_linear_velocity)), [0])
    with pytest.raises(
        ValueError, match="gravity: its entries have no names; found 'z'; give its number"
    ):
        envs.randomize(robot, key, [Change("gravity", "scale", (1.0, 1.0), entries=("z",))])
    change = Change("link_mass", "scale", (2.0, 2.0), entries=("trunk",), also=("drive.stiffness",))
    with pytest.raises(
        ValueError, match=r"the rows of drive.stiffness stand for DOFs, its own for links"
    ):
        envs.randomize(robot, key, [change])


def test_drawn_numbers_have_the_dtype_of_the_leaf():
    robot = artix.robots.load("cart_pole", dtype="float32")
    for bounds in ((0.5, 2.0), (np.float64(0.5), np.float64(2.0))):
        change = Change("link_mass", "scale", bounds, distribution="log_uniform")
        (drawn,) = randomization.draw(robot, jax.random.key(0), [change])
        assert drawn.dtype == np.float32
