"""Each task: shapes, random episodes that stay finite, and its particular features."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import artix
from artix import envs
from artix.envs import EnvState, commands, disturbances, terminations, terrain
from artix.envs.observation_terms import ObservationTerm
from artix.envs.tasks.humanoid import humanoid
from artix.envs.tasks.quadruped_velocity import HEIGHT, quadruped

SIZES = {
    "cart_pole": (5, 1),
    "arm_reach": (43, 7),
    "hopper": (11, 3),
    "ant": (37, 8),
    "quadruped_velocity": ({"privileged_state": 121, "state": 50}, 12),
    "quadruped_rough": ({"privileged_state": 154, "state": 83}, 12),
    "quadruped_get_up": ({"privileged_state": 107, "state": 42}, 12),
    "humanoid_stand": ({"privileged_state": 187, "state": 87}, 25),
    "humanoid_velocity": ({"privileged_state": 189, "state": 89}, 25),
    "humanoid_dance": (142, 25),
}
QUICK = ("cart_pole",)


def make(name):
    tiles = (
        {"tiles": terrain.tiles(levels=3, columns=4, size=4.0, dtype="float32")}
        if name == "quadruped_rough"
        else {}
    )
    return envs.make(name, dtype="float32", episode_length=30, **tiles)


def test_all_tasks_are_known():
    assert set(SIZES) == set(envs.NAMES)


@pytest.mark.parametrize(
    ("name", "option", "rule"),
    [
        ("cart_pole", {"force": np.nan}, "finite"),
        ("arm_reach", {"action_scale": np.inf}, "finite"),
        ("hopper", {"torque": np.inf}, "finite"),
        ("hopper", {"effort": np.nan}, "finite"),
        ("ant", {"torque": np.inf}, "finite"),
        ("arm_reach", {"spread": 3.0}, "from 0 to 1"),
        ("quadruped_get_up", {"chance_of_fall": 3.0}, "from 0 to 1"),
        ("quadruped_get_up", {"action_scale": np.nan}, "finite"),
        ("quadruped_velocity", {"action_scale": np.nan}, "finite"),
        ("quadruped_velocity", {"tracking_sigma": 0.0}, "finite and positive"),
        ("quadruped_velocity", {"max_foot_height": 0.0}, "finite and positive"),
        ("quadruped_velocity", {"least_reward": np.nan}, "finite"),
        ("quadruped_velocity", {"lowest_up": "0"}, "from -1 to 1"),
    ],
)
def test_options_out_of_range_are_refused_by_name(name, option, rule):
    ((key, value),) = option.items()
    with pytest.raises(ValueError, match=f"{key}: expected one number, {rule}; found {value}"):
        envs.make(name, **option)


@pytest.mark.slow
def test_options_take_on_the_dtype_of_the_robot():
    third = np.float64(1 / 3)
    several = [
        envs.make("cart_pole", dtype="float32", force=third),
        envs.make(
            "arm_reach",
            dtype="float32",
            action_scale=third,
            spread=third,
            rewards={"action_rate": third},
        ),
    ]
    for each in several:
        state = jax.eval_shape(each.reset, jax.random.key(0))
        end = jax.eval_shape(each.step, state, jax.ShapeDtypeStruct((each.action_size,), "float32"))
        assert jax.tree.map(lambda x: x.dtype, state) == jax.tree.map(lambda x: x.dtype, end)
        assert not [x for x in jax.tree.leaves(state) if x.dtype == "float64"]
    drawn = (
        disturbances.draw_noise(
            jax.random.key(0),
            disturbances.as_noise_scales({"gyro": third}, {"gyro": 3}),
            {"gyro": 3},
            "float32",
        ),
        disturbances.draw_push(
            jax.random.key(0), disturbances.Pushes((third, third), third), 0.02, "float32"
        ),
        commands.draw_command(
            jax.random.key(0), commands.VelocityCommands(mean_time=third), "float32"
        ),
    )
    assert not [x for x in jax.tree.leaves(drawn) if x.dtype == "float64"]


@pytest.mark.parametrize(
    "name", [x if x in QUICK else pytest.param(x, marks=pytest.mark.slow) for x in SIZES]
)
def test_random_episodes(name):
    environment = envs.autoreset(make(name))
    obs, actions = SIZES[name]
    assert environment.observation_size == obs
    assert environment.action_size == actions
    state = jax.jit(jax.vmap(environment.reset))(jax.random.split(jax.random.key(0), 16))

    def advance(state, key):
        action = jax.random.uniform(key, (16, actions), jnp.float32, -1, 1)
        state = jax.vmap(environment.step)(state, action)
        return state, (state.reward, state.done, state.metrics, state.articulation_state.root_pose)

    keys = jax.random.split(jax.random.key(1), 60)
    end, (reward, done, metrics, _) = jax.jit(lambda state: jax.lax.scan(advance, state, keys))(
        state
    )
    assert jax.tree.structure(end) == jax.tree.structure(state)
    floats = [x for x in jax.tree.leaves(end) if jnp.issubdtype(x.dtype, jnp.floating)]
    assert all(x.dtype == jnp.float32 and np.all(np.isfinite(x)) for x in floats)
    assert np.sum(metrics["nan"]) == 0
    assert np.all(np.sum(done, axis=0) >= 2)
    assert np.std(reward) > 0
    weighted = sum(np.asarray(value) for key, value in metrics.items() if key.startswith("reward/"))
    if name not in (
        "cart_pole",
        "hopper",
        "ant",
    ):  # products, and sums that are no integrals over time
        is_free = name in ("arm_reach", "humanoid_stand", "humanoid_dance")
        clipped = np.maximum(weighted * environment.dt, -np.inf if is_free else 0)
        np.testing.assert_allclose(reward, clipped, atol=1e-5)


@pytest.fixture(scope="module")
def still():
    """The quadruped, told to stand, seen without noise."""
    commands = envs.commands.VelocityCommands(largest=(0.0, 0.0, 0.0))
    return envs.make(
        "quadruped_velocity", dtype="float32", noise_scales={}, velocity_commands=commands
    )


@pytest.mark.slow
def test_a_quadruped_that_stands_is_seen_to_stand(still):
    state = still.reset(jax.random.key(0))
    at_rest = state.articulation_state.replace(root_velocity=jnp.zeros(6, "float32"))
    state, step = state.replace(articulation_state=at_rest), jax.jit(still.step)
    for _ in range(250):  # 5 s
        state = step(state, jnp.zeros(12, "float32"))
    assert state.done == 0
    seen = np.asarray(state.obs["privileged_state"][50:])
    parts = np.split(seen, np.cumsum([3, 3, 3, 3, 3, 12, 12, 12, 4, 12, 4])[:-1])
    gyro, accelerometer, gravity, linear, _, _, speed, force, contact, feet, air_time = parts
    np.testing.assert_allclose(np.linalg.norm(accelerometer), 9.81, atol=0.1)
    np.testing.assert_allclose(accelerometer / 9.81, -gravity, atol=0.02)
    assert (
        max(np.abs(gyro).max(), np.abs(linear).max(), np.abs(speed).max(), np.abs(feet).max())
        < 0.05
    )
    assert contact.tolist() == [1, 1, 1, 1]
    assert air_time.tolist() == [0, 0, 0, 0]
    # What gravity asks of the motors, given that each foot carries its impulse.
    memory, moved = state.info["contact_memory"], state.articulation_state
    carried = float(jnp.sum(memory.impulse[:, 2])) / still.physics_dt
    assert carried == pytest.approx(9.81 * float(jnp.sum(still.articulation.link_mass)), rel=0.02)
    jacobians = [
        artix.frame_jacobian(still.articulation, moved, foot)[:3, 6:] for foot in still.robot.feet
    ]
    lift = sum(
        jac.T @ jnp.array([*impulse[:2], impulse[2]])
        for jac, impulse in zip(jacobians, memory.impulse, strict=True)
    )
    wanted = artix.gravity_compensation(still.articulation, moved)[6:] - lift / still.physics_dt
    np.testing.assert_allclose(force, wanted, atol=0.5)


@pytest.mark.slow
def test_the_mean_yaw_rate_forgets_within_half_a_stride(still):
    """The yaw rate weighted by ``exp(-age / 0.4 s)``, from poses and velocities."""
    state, step = still.reset(jax.random.key(0)), jax.jit(still.step)
    spinning = state.articulation_state.root_velocity.at[5].add(2.0)
    state = state.replace(
        articulation_state=state.articulation_state.replace(root_velocity=spinning)
    )
    rates = []
    for k in range(30):
        state = step(state, 0.5 * jax.random.normal(jax.random.key(k), 12, "float32"))
        moved = state.articulation_state
        turned = Rotation.from_quat(np.asarray(moved.root_pose[3:]))
        rates.append(turned.apply(np.asarray(moved.root_velocity[3:]), inverse=True)[2])
    weights = 0.05 * 0.95 ** np.arange(30)[::-1]
    assert abs(weights @ rates) > 0.05
    np.testing.assert_allclose(
        state.metrics["mean_yaw_rate_error"], abs(weights @ rates), atol=1e-5
    )


@pytest.mark.slow
def test_a_fall_ends_the_episode(still):
    state = still.reset(jax.random.key(0))
    step = jax.jit(still.step)
    over = jnp.array([0, 0, 0.5, 1, 0, 0, 0], "float32")
    low = state.articulation_state.root_pose.at[2].set(0.05)
    for pose in (over, low):
        end = step(
            state.replace(articulation_state=state.articulation_state.replace(root_pose=pose)),
            jnp.zeros(12),
        )
        assert end.done == 1
        assert end.info["truncation"] == 0
        assert end.metrics["reward/termination"] == -1
    assert step(state, jnp.zeros(12)).done == 0


def test_feet_are_on_the_ground_where_episodes_begin():
    for robot, height in ((quadruped("float64"), HEIGHT), (humanoid("float64"), None)):
        pose = jnp.array([0, 0, robot.height if height is None else height, 0, 0, 0, 1])
        state = artix.neutral_state(robot.articulation).replace(
            root_pose=pose, joint_position=robot.default_position
        )
        ground = artix.Ground.flat(dtype="float64")
        index = envs.observations.geometry_numbers(robot.articulation, robot.feet)
        distances = artix.geometry_distances(artix.Scene(robot.articulation, ground=ground), state)[
            index
        ]
        np.testing.assert_allclose(distances, 0, atol=2e-7)


@pytest.mark.slow
def test_noise_is_on_what_the_policy_sees_alone():
    keys = jax.random.split(jax.random.key(0), 200)
    reset = jax.jit(jax.vmap(envs.make("quadruped_velocity", dtype="float32").reset))
    obs = reset(keys).obs
    order = ("linear_velocity", "gyro", "gravity", "joint_position", "joint_velocity")
    exact = jnp.split(obs["privileged_state"][:, 50:], [3, 6, 9, 12, 15, 27, 39], axis=1)
    exact = jnp.concatenate([exact[k] for k in (3, 0, 2, 5, 6)], axis=1)
    error = np.asarray(obs["state"][:, :33] - exact)
    scale = np.repeat([disturbances.GO1_NOISE[name] for name in order], [3, 3, 3, 12, 12])
    assert np.all(np.abs(error) <= scale + 1e-6)
    np.testing.assert_allclose(np.std(error, axis=0), scale / np.sqrt(3), rtol=0.2)
    np.testing.assert_array_equal(obs["privileged_state"][:, :50], obs["state"])


@pytest.mark.slow
def test_pushes_change_the_velocity(still):
    always = disturbances.Pushes(speed=(0.7, 0.7), mean_time=1e-9)
    pushed = envs.make("quadruped_velocity", dtype="float32", pushes=always)
    state = pushed.reset(jax.random.key(0))
    drawn = pushed.draw(jax.random.key(1))
    change = (
        pushed.disturb(state.articulation_state, drawn).root_velocity
        - state.articulation_state.root_velocity
    )
    assert float(jnp.linalg.norm(change)) == pytest.approx(0.7, rel=1e-5)
    assert change[2:].tolist() == [0, 0, 0, 0]


@pytest.mark.slow
def test_without_moving_up_every_episode_begins_on_any_level():
    """Where the one before ended, and how far it was from its start, does not count."""
    tiles = terrain.tiles(levels=4, columns=1, size=4.0, dtype="float32")
    rough = envs.make("quadruped_rough", dtype="float32", tiles=tiles, moves_up=False)

    def next_level(key):
        robot, memory = rough.begin(key)
        info = memory | {"asked": jnp.float32(9.0), "level": jnp.int32(0)}
        zero = jnp.float32(0.0)
        ended = EnvState(robot, zero, zero, zero, {}, info)
        return rough.begin_again(key, ended)[1]["level"]

    keys = jax.random.split(jax.random.key(0), 400)
    levels = jax.jit(jax.vmap(next_level))(keys)
    shares = np.bincount(levels, minlength=4) / len(keys)
    # Six standard deviations of a share
    np.testing.assert_allclose(shares, 0.25, atol=6 * np.sqrt(0.25 * 0.75 / len(keys)))


@pytest.mark.slow
def test_a_curriculum_goes_up_and_down():
    rough = make("quadruped_rough")
    state, renew = jax.jit(rough.reset)(jax.random.key(0)), jax.jit(rough.renew)

    def moved(x, asked, level):
        where = state.articulation_state
        place = state.info["start"] + jnp.array([x, 0], "float32")
        there = where.replace(root_pose=where.root_pose.at[:2].set(place))
        info = state.info | {
            "asked": jnp.array(asked, "float32"),
            "level": jnp.array(level, jnp.int32),
        }
        return state.replace(articulation_state=there, info=info)

    def levels(ended):
        return int(renew(jax.random.key(1), ended.replace(done=jnp.float32(1))).info["level"])

    assert levels(moved(2.5, 3.0, 1)) == 2
    assert levels(moved(1.8, 3.0, 1)) == 1
    assert levels(moved(0.5, 3.0, 1)) == 0
    assert levels(moved(0.0, 3.0, 0)) == 0
    assert levels(moved(2.5, 3.0, 2)) in (0, 1, 2)
    robot, ground = rough.articulation, artix.Ground((rough.tiles.field,))
    keys = jax.random.split(jax.random.key(2), 50)
    ended = state.replace(done=jnp.float32(1))
    scene = artix.Scene(robot, ground=ground)

    @jax.jit
    @jax.vmap
    def lowest_of(key):
        # Of the feet: the trunk's shape is a sensor, and a block may stand below it.
        start = renew(key, ended).articulation_state
        return jnp.min(artix.ground_contacts(scene, start).contacts.gap)

    lowest = lowest_of(keys)
    # However steep it is; positions of 12 m in float32. A foot beside the edge of a step may start
    # above the edge.
    assert (lowest > 0.01 - 2e-5).all()
    assert jnp.mean(jnp.abs(lowest - 0.01) < 2e-5) >= 0.95


@pytest.mark.slow
def test_curricula_follow_episodes():
    """Commands grow with episodes that last, and shrink with falls; a number of the user's is a
    signal."""

    def harder(level, ended):
        return level + 0.25

    def told(key, dtype):
        return commands.DrawnCommand(
            jnp.array([1.0, 0.0, 0.5], dtype), jnp.ones(3, bool), jnp.array(9.0, dtype)
        )

    def effort(action, hardness):
        return hardness * jnp.sum(action**2)

    task = envs.make(
        "quadruped_velocity",
        dtype="float32",
        episode_length=2,
        curricula={"commands": 0.3, "hardness": (0.5, harder)},
        velocity_commands=told,
        rewards={"effort": (-1.0, effort)},
        least_reward=-10.0,
    )
    environment = envs.autoreset(task)
    state, step = jax.jit(environment.reset)(jax.random.key(0)), jax.jit(environment.step)
    np.testing.assert_allclose(state.info["command"], [0.3, 0, 0.15], rtol=1e-6)
    seen = []
    for number in range(6):
        if number == 5:  # It falls: low on the ground.
            pose = state.articulation_state.root_pose.at[2].set(0.05)
            state = state.replace(
                articulation_state=state.articulation_state.replace(root_pose=pose)
            )
        state = step(state, jnp.full(12, 0.5, "float32"))
        seen.append(
            [float(state.metrics["reward/effort"]), *(float(x) for x in state.info["command"])]
        )
    np.testing.assert_allclose(
        [row[0] for row in seen], -3 * np.array([0.5, 0.5, 0.75, 0.75, 1, 1]), rtol=1e-6
    )
    np.testing.assert_allclose([row[1] for row in seen], [0.3, 0.4, 0.4, 0.5, 0.5, 0.4], rtol=1e-5)
    assert float(state.metrics["curricula/commands"]) == pytest.approx(0.5)
    assert task.undisturbed().curricula["commands"][0] == 1.0


@pytest.mark.slow
def test_episodes_start_anywhere_on_the_clock():
    """First commands, which are a quarter of all that a policy meets, would otherwise always go with
    a phase of zero.
    """
    task = envs.make("quadruped_velocity", dtype="float32")
    keys = jax.random.split(jax.random.key(0), 1000)
    phase = np.asarray(jax.jit(jax.vmap(lambda key: task.begin(key)[1]["phase"]))(keys))
    assert np.all((phase >= -np.pi) & (phase < np.pi))
    share = np.histogram(phase, 8, (-np.pi, np.pi))[0] / len(phase)
    np.testing.assert_allclose(share, 1 / 8, atol=0.04)  # Four standard deviations.
    lagging = envs.make("quadruped_velocity", dtype="float32", action_delay=(0.0, 0.04))
    memory = jax.jit(jax.vmap(lambda key: lagging.begin(key)[1]))(keys)
    correlation = np.corrcoef(memory["phase"], memory["delay"].lag)[0, 1]
    assert abs(correlation) < 0.13
    for still in (task.undisturbed(), envs.make("quadruped_velocity", resets={})):
        assert float(still.begin(keys[0])[1]["phase"]) == 0


@pytest.mark.slow
def test_a_history_begins_with_the_first_observation():
    seen = {
        "gyro": ObservationTerm(history=3),
        "joint_position": ObservationTerm(scale=2.0, history=2),
    }
    environment = envs.autoreset(
        envs.make("quadruped_velocity", dtype="float32", observations=seen, episode_length=3)
    )
    state, step = jax.jit(environment.reset)(jax.random.key(0)), jax.jit(environment.step)
    parts = []
    for _ in range(4):
        obs = np.asarray(state.obs["state"])  # The clock is last.
        parts.append((obs[:9].reshape(3, 3), obs[9:33].reshape(2, 12)))
        state = step(state, jnp.zeros(12, "float32"))
    for past in parts[0] + parts[3]:  # After the end of the first episode, a new one.
        np.testing.assert_array_equal(past, np.broadcast_to(past[0], past.shape))
    for before, after in itertools.pairwise(parts[:3]):
        for old, new in zip(before, after, strict=True):
            np.testing.assert_array_equal(new[1:], old[:-1])
            assert not np.array_equal(new[0], old[0])
    np.testing.assert_array_equal(state.info["seen"]["gyro"].shape, (3, 3))


@pytest.mark.slow
def test_contacts_belong_to_the_feet_in_any_order():
    """A foot is on the ground where its distance says so, whatever the order of the feet, beside
    shapes of other sizes and on a ground of two surfaces.
    """
    usual = quadruped("float32")
    builder = artix.builder_from_articulation(usual.articulation)
    builder.add_geometry(
        "front_left_shank", artix.Geometry.box((0.01, 0.01, 0.01)), name="front_left_knee"
    )
    feet = tuple(usual.feet[k] for k in (3, 0, 2, 1))
    robot = usual._replace(articulation=builder.build(dtype="float32"), feet=feet)
    flat = artix.Ground.flat(dtype="float32")
    low = flat.surfaces[0].replace(height=jnp.array(-0.5, "float32"))
    ground = flat.replace(surfaces=(*flat.surfaces, low))
    task = envs.make("quadruped_velocity", robot=robot, ground=ground, noise_scales={}, resets={})
    names = robot.articulation.topology.dof_names
    scene, step = artix.Scene(robot.articulation, ground=ground), jax.jit(task.step)
    index = envs.observations.geometry_numbers(robot.articulation, feet)
    start = task.reset(jax.random.key(0))
    for standing in feet:
        bent = [
            name.endswith("knee") and standing.removesuffix("_foot") not in name for name in names
        ]
        joints = jnp.where(np.array(bent), -2.5, robot.default_position)
        where = start.articulation_state.replace(joint_position=joints)
        action = jnp.clip((joints - robot.default_position) / 0.5, -1, 1)
        end = step(start.replace(articulation_state=where), action)
        distance = artix.geometry_distances(scene, end.articulation_state)[index]
        touches = [foot == standing for foot in feet]
        np.testing.assert_array_equal(np.asarray(distance) < 1e-3, touches)
        np.testing.assert_array_equal(end.info["gait"].contact, touches)
        assert [float(end.metrics[f"duty/{foot}"]) for foot in feet] == touches


@pytest.mark.slow
def test_a_curriculum_of_commands_may_start_at_zero():
    task = envs.make(
        "quadruped_velocity",
        episode_length=1,
        curricula={"commands": 0.0},
        velocity_commands=lambda key, dtype: commands.DrawnCommand(
            jnp.array([1.0, 0.0, 0.5], dtype), jnp.ones(3, bool), jnp.array(9.0, dtype)
        ),
    )
    environment = envs.autoreset(task)
    state, step = environment.reset(jax.random.key(0)), jax.jit(environment.step)
    np.testing.assert_allclose(state.info["command"], 0, atol=2e-6)
    for level in (0.1, 0.2, 0.3):
        state = step(state, jnp.zeros(12))
        np.testing.assert_allclose(state.info["command"], level * np.array([1, 0, 0.5]), rtol=1e-5)


@pytest.mark.slow
def test_options_that_say_two_things_are_not_ignored():
    """The type of a robot that is given, and a ground beside the tiles."""
    robot = quadruped("float64")
    task = envs.make("quadruped_velocity", robot=robot, dtype="float32")
    assert (task.articulation.dtype, task.robot.pose_weight.dtype) == ("float32", "float32")
    assert envs.make("quadruped_velocity", robot=robot).articulation.dtype == "float64"
    assert (
        envs.make("humanoid_stand", robot=humanoid("float64"), dtype="float32")
        .reset(jax.random.key(0))
        .obs["state"]
        .dtype
        == "float32"
    )
    with pytest.raises(ValueError, match="give tiles= instead"):
        envs.make("quadruped_rough", ground=artix.Ground.flat())


@pytest.mark.parametrize("value", [0, 1, "no", 0.5])
def test_a_termination_is_on_or_off_or_a_function(value):
    signals = ("up", "lowest_up")
    with pytest.raises(ValueError, match="'tilted' must be True, False, None or a function"):
        terminations.check_terminations({"tilted": value}, signals)
    assert not terminations.check_terminations({"tilted": np.bool_(False)}, signals)
    assert terminations.check_terminations({"tilted": np.bool_(True)}, signals)


@pytest.mark.slow
def test_a_term_may_be_another_one_for_the_critic():
    """Its size there was taken for that of what the policy sees."""
    seen = {"feet": ObservationTerm(function=lambda feet_height: feet_height[:2]), "command": 1.0}
    known = {"feet": ObservationTerm(function=lambda feet_height: feet_height)}
    task = envs.make("quadruped_velocity", observations=seen, privileged=known, gait_frequency=2.0)
    assert [(one.start, one.size) for one in task.layout] == [(0, 2), (2, 3), (5, 2)]
    assert task.observation_size == {"state": 7, "privileged_state": 11}
