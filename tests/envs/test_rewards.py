"""Reward terms against Playground's definitions in plain NumPy; gaits, commands and noise against
their definitions."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import envs
from artix.envs import commands, disturbances, rewards
from artix.envs.gait import Gait

RNG = np.random.default_rng(0)
SIGNALS = {
    "command": np.array([0.7, -0.2, 0.4]),
    "linear_velocity": np.array([0.4, 0.1, -0.3]),
    "angular_velocity": np.array([0.1, 0.2, 0.9]),
    "world_linear_velocity": np.array([0.3, 0.2, -0.4]),
    "world_angular_velocity": np.array([0.3, -0.5, 0.8]),
    "up": np.array([0.1, -0.2, 0.97]),
    "height": np.array(0.25),
    "target_height": 0.28,
    "joint_position": RNG.normal(size=12),
    "default_position": RNG.normal(size=12),
    "pose_weight": RNG.uniform(size=12),
    "joint_velocity": RNG.normal(size=12),
    "joint_acceleration": RNG.normal(size=12),
    "joint_force": RNG.normal(size=12),
    "mean_yaw_rate": np.array(0.4),
    "soft_lower": np.full(12, -0.5),
    "soft_upper": np.full(12, 0.4),
    "action": RNG.normal(size=12),
    "last_action": RNG.normal(size=12),
    "feet_velocity": RNG.normal(size=(4, 3)),
    "feet_height": RNG.uniform(size=4),
    "contact": np.array([True, False, True, False]),
    "first_contact": np.array([False, True, True, False]),
    "air_time": np.array([0.3, 0.05, 0.4, 0.2]),
    "contact_time": np.array([0.2, 0.0, 0.5, 0.0]),
    "swing_peak": np.array([0.05, 0.12, 0.08, 0.02]),
    "last_air_time": np.array([0.04, 0.1, 0.12, 0.06]),
    "last_contact_time": np.array([0.16, 0.1, 0.08, 0.14]),
    "feet_group": np.array([0, 1, 1, 0]),
    "phase": np.array(0.3),
    "terminated": np.array(True),
    "tracking_sigma": 0.25,
    "max_foot_height": 0.1,
}


def wanted(s):
    """Each term as Playground's Go1 and G1 have it."""
    off = s["joint_position"] - s["default_position"]
    below = -np.clip(s["joint_position"] - s["soft_lower"], None, 0)
    above = np.clip(s["joint_position"] - s["soft_upper"], 0, None)
    moves = np.linalg.norm(s["command"]) > 0.01
    horizontal = s["feet_velocity"][:, :2]
    return {
        "tracking_lin_vel": np.exp(
            -np.sum((s["command"][:2] - s["linear_velocity"][:2]) ** 2) / 0.25
        ),
        "tracking_ang_vel": np.exp(-((s["command"][2] - s["angular_velocity"][2]) ** 2) / 0.25),
        "tracking_mean_yaw_rate": np.exp(-((s["command"][2] - s["mean_yaw_rate"]) ** 2) / 0.25),
        "lin_vel_z": s["world_linear_velocity"][2] ** 2,
        "ang_vel_xy": np.sum(s["world_angular_velocity"][:2] ** 2),
        "orientation": np.sum(s["up"][:2] ** 2),
        "base_height": (s["height"] - s["target_height"]) ** 2,
        "pose": np.exp(-np.sum(off**2 * s["pose_weight"])),
        "stand_still": np.sum(np.abs(off)) * (not moves),
        "alive": 1.0,
        "termination": float(s["terminated"]),
        "dof_pos_limits": np.sum(below + above),
        "torques": np.linalg.norm(s["joint_force"]) + np.sum(np.abs(s["joint_force"])),
        "energy": np.sum(np.abs(s["joint_velocity"]) * np.abs(s["joint_force"])),
        "action_rate": np.sum((s["action"] - s["last_action"]) ** 2),
        "dof_vel": np.sum(s["joint_velocity"] ** 2),
        "dof_acc": np.sum(s["joint_acceleration"] ** 2),
        "feet_slip": np.sum(np.sum(horizontal**2, axis=-1) * s["contact"]) * moves,
        "feet_clearance": np.sum(
            np.abs(s["feet_height"] - 0.1) * np.sqrt(np.linalg.norm(horizontal, axis=-1))
        ),
        "feet_height": np.sum((s["swing_peak"] / 0.1 - 1.0) ** 2 * s["first_contact"]) * moves,
        "feet_air_time": np.sum((s["air_time"] - 0.1) * s["first_contact"]) * moves,
        "single_stance": 0.0,  # four feet; of two: below
        # Not Playground's: with feet 0 and 2 down, one of each group; in group 0 the phase of 0.3
        # is that of a swing.
        "feet_down": 0.5 * (not moves),
        "feet_in_turn": 0.0,
        "uneven_steps": sum(
            np.var(s[x]) / np.mean(s[x]) ** 2 for x in ("last_air_time", "last_contact_time")
        )
        * moves,
        "feet_on_time": 0.5 * moves,
    }


@pytest.mark.parametrize("command", [SIGNALS["command"], np.zeros(3)], ids=["moves", "stands"])
def test_terms_are_those_of_playground(command):
    signals = SIGNALS | {"command": command}
    known = wanted(signals)
    assert set(known) == set(rewards.TERMS)
    found = rewards.weighted_terms(
        dict.fromkeys(rewards.TERMS, 2.0), jax.tree.map(jnp.asarray, signals)
    )
    for name, value in known.items():
        np.testing.assert_allclose(found[name], 2.0 * value, rtol=1e-12, err_msg=name)


@pytest.mark.parametrize(
    ("down", "in_turn"),
    [([1, 0, 0, 1], 1.0), ([1, 1, 1, 1], 0.0), ([1, 0, 0, 0], 0.5), ([1, 1, 0, 0], 0.0)],
)
def test_diagonal_feet_stand_in_turn(down, in_turn):
    moves, group = SIGNALS["command"], SIGNALS["feet_group"]
    assert rewards.feet_in_turn(moves, jnp.array(down, bool), group) == in_turn
    assert rewards.feet_in_turn(np.zeros(3), jnp.array(down, bool), group) == 0
    on_time = rewards.feet_on_time(moves, jnp.array(down, bool), jnp.array(1.5 * np.pi), group)
    assert on_time == np.mean(np.array(down) == [1, 0, 0, 1])


def test_equal_steps_are_even():
    same, differ = np.full(4, 0.12), np.array([0.04, 0.12, 0.06, 0.1])
    assert rewards.uneven_steps(SIGNALS["command"], same, 0.2 * same) == 0
    assert 0.1 < rewards.uneven_steps(SIGNALS["command"], same, differ) < 0.2
    # Before the first steps
    assert rewards.uneven_steps(SIGNALS["command"], np.zeros(4), np.zeros(4)) == 0


@pytest.mark.parametrize("name", ["torques", "feet_clearance", "feet_slip", "pose"])
def test_terms_have_derivatives_where_all_is_still(name):
    zeros = {
        key: jnp.zeros_like(value)
        for key, value in SIGNALS.items()
        if np.asarray(value).dtype.kind == "f"
    }
    zeros |= {
        "contact": jnp.ones(4, bool),
        "first_contact": jnp.ones(4, bool),
        "max_foot_height": 0.1,
    }
    moving = [
        each for each in inspect.signature(rewards.TERMS[name]).parameters if jnp.ndim(zeros[each])
    ]
    moving = [each for each in moving if zeros[each].dtype.kind == "f"]

    def term(values):
        return rewards.weighted_terms({name: 1.0}, zeros | values)[name]

    gradient = jax.grad(term)({each: zeros[each] for each in moving})
    assert all(np.all(np.isfinite(x)) for x in jax.tree.leaves(gradient))


@pytest.mark.parametrize(
    ("contact", "contact_time", "air_time", "command", "found"),
    [
        ((True, False), (0.2, 0.0), (0.02, 0.3), (0.5, 0.0, 0.0), 0.3),
        ((False, True), (0.0, 0.2), (0.9, 0.02), (0.5, 0.0, 0.0), 0.4),  # no more than that
        ((True, False), (0.7, 0.0), (0.02, 0.3), (0.5, 0.0, 0.0), 0.0),  # for too long
        ((True, True), (0.2, 0.1), (0.02, 0.3), (0.5, 0.0, 0.0), 0.0),
        ((False, False), (0.0, 0.0), (0.1, 0.3), (0.5, 0.0, 0.0), 0.0),
        ((True, False), (0.2, 0.0), (0.02, 0.3), (0.0, 0.0, 0.0), 0.0),
    ],
)
def test_single_stance_is_time_in_the_air_beside_a_foot_that_stands(
    contact, contact_time, air_time, command, found
):
    given = {"contact_time": contact_time, "air_time": air_time, "command": command}
    signals = {name: jnp.array(value) for name, value in given.items()} | {
        "contact": jnp.array(contact)
    }
    assert float(
        rewards.weighted_terms({"single_stance": 1.0}, signals)["single_stance"]
    ) == pytest.approx(found)


def test_what_is_refused():
    with pytest.raises(
        ValueError,
        match=r"no reward called 'tracking_linvel'.*tracking_lin_vel.*\(weight, function\)",
    ):
        envs.make("quadruped_velocity", rewards={"tracking_linvel": 1.0})
    with pytest.raises(
        ValueError, match=r"reward 'mine' needs temperature, which this task does not have.*up"
    ):
        envs.make("quadruped_velocity", rewards={"mine": (1.0, lambda temperature: temperature)})
    with pytest.raises(ValueError, match=r"no measurement called 'gyroscope'.*gyro"):
        envs.make("quadruped_velocity", noise_scales={"gyroscope": 1.0})
    with pytest.raises(
        ValueError, match=r"noise of gyro: expected one number, finite and not negative; found -1"
    ):
        envs.make("quadruped_velocity", noise_scales={"gyro": -1.0})
    with pytest.raises(ValueError, match=r"action_delay needs.*\(0.02, 0.01\)"):
        envs.make("quadruped_velocity", action_delay=(0.02, 0.01))
    for weight in (np.nan, np.float32("nan"), "1"):
        with pytest.raises(
            ValueError, match=r"weight of reward 'alive': expected one number, finite; found"
        ):
            rewards.check_weights({"alive": weight}, ())
    with pytest.raises(ValueError, match=r"reward 'mine' must be a scalar; found the shape \(3,\)"):
        rewards.weighted_terms({"mine": (1.0, lambda up: up)}, {"up": jnp.zeros(3)})


def _drawn(value, changes):
    return lambda key, dtype: commands.DrawnCommand(jnp.zeros(value), jnp.zeros(changes, bool), 1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rewards": {"mine": (1.0,)}}, r"rewards: 'mine' must be \(weight, function\)"),
        ({"rewards": {"pose": (2.0, None)}}, r"rewards: 'pose' must be \(weight, function\)"),
        ({"resets": {"tilt": (0.1,)}}, r"resets: 'tilt' must be \(size, function\)"),
        ({"curricula": {"mine": (0.5,)}}, r"curricula: 'mine' must be \(start, function\)"),
        (
            {"curricula": {"mine": (0.5, lambda level, ended: jnp.ones(3))}},
            r"curricula: 'mine' must return one number; its shape is \(3,\)",
        ),
        ({"observations": {}, "gait_frequency": None, "rewards": {}}, "see one term at least"),
        (
            {"terminations": {"mine": lambda contact: contact}},
            r"terminations: 'mine' must return one true or false; found bool\[4\]",
        ),
        (
            {"terminations": {"mine": lambda height: height}},
            r"terminations: 'mine' must return one true or false; found float",
        ),
        ({"velocity_commands": lambda key, dtype: jnp.zeros(3)}, "must return an .*DrawnCommand"),
        (
            {"velocity_commands": _drawn(2, 3)},
            r"value of the drawn command .* \(3,\); found \(2,\)",
        ),
        ({"velocity_commands": _drawn(3, ())}, r"changes of the drawn command .* \(3,\)"),
    ],
)
def test_own_terms_of_another_form_are_refused_by_name(options, message):
    def begin():
        task = envs.autoreset(envs.make("quadruped_velocity", **options))
        jax.eval_shape(task.step, task.reset(jax.random.key(0)), jnp.zeros(12))

    with pytest.raises((ValueError, TypeError), match=message):
        begin()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"largest": (1.0, 0.5)}, "three largest magnitudes"),
        ({"largest": (1.0, 0.5, -1.0)}, "three largest magnitudes"),
        ({"chance_of_motion": (0.5, 0.5, 2.0)}, "three chances"),
        ({"largest": (np.inf, 0.0, 0.0)}, "three largest magnitudes"),
        ({"mean_time": 0.0}, r"mean_time \[s\]: expected one number, finite and positive"),
        ({"mean_time": np.inf}, r"mean_time \[s\]: expected one number, finite and positive"),
    ],
)
def test_commands_that_cannot_be_drawn_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        commands.check_commands(commands.VelocityCommands(**given))


@pytest.mark.parametrize(
    "given", [{"speed": (1.0, 0.5)}, {"speed": (0.0, np.inf)}, {"mean_time": 0.0}]
)
def test_pushes_that_cannot_be_drawn_are_refused(given):
    with pytest.raises(ValueError, match=r"lower <= upper|must be positive"):
        disturbances.check_pushes(disturbances.Pushes(**given))


def test_feet_count_their_time_in_the_air():
    gait, dt = Gait.standing(2, jnp.float64), 0.02
    contacts = [[1, 1], [0, 1], [0, 1], [0, 1], [1, 1], [1, 1]]
    heights = [[0.0, 0], [0.05, 0], [0.09, 0], [0.03, 0], [0.0, 0], [0, 0]]
    air, landed, peaks, stance, last = [], [], [], [], []
    for contact, height in zip(contacts, heights, strict=True):
        gait, first = gait.moved(jnp.array(contact, bool), jnp.array(height, float), dt)
        air.append(float(gait.air_time[0]))
        peaks.append(float(gait.swing_peak[0]))
        stance.append(float(gait.contact_time[0]))
        landed.append(first.tolist())
        last.append([float(gait.last_air_time[0]), float(gait.last_contact_time[0])])
        gait = gait.landed()
    # A step in the air counts from the last one on the ground, and the step of landing is part of
    # it.
    np.testing.assert_allclose(air, [0.02, 0.02, 0.04, 0.06, 0.08, 0.02])
    np.testing.assert_allclose(stance, [0.02, 0.04, 0.02, 0.02, 0.02, 0.04])
    np.testing.assert_allclose(peaks, [0.0, 0.05, 0.09, 0.09, 0.09, 0.0])
    np.testing.assert_allclose(last[3], [0.0, 0.02])
    np.testing.assert_allclose(last[4], [0.08, 0.02])
    assert landed == [[False, False]] * 4 + [[True, False], [False, False]]


@pytest.mark.slow
def test_commands_have_their_distribution():
    kinds, num = commands.VelocityCommands(), 20000
    keys = jax.random.split(jax.random.key(0), num)
    first, time = jax.vmap(lambda key: commands.first_command(key, kinds, jnp.float64))(keys)
    drawn = jax.vmap(lambda key: commands.draw_command(key, kinds, jnp.float64))(keys)
    bound = np.array(kinds.largest)
    assert np.all(np.abs(first) <= bound)
    stands = np.all(first == 0, axis=1)
    assert np.mean(stands) == pytest.approx(kinds.chance_of_standing, abs=0.01)
    np.testing.assert_allclose(np.std(first[~stands], axis=0), bound / np.sqrt(3), rtol=0.03)
    for times in (time, drawn.time):
        np.testing.assert_allclose([np.mean(times), np.std(times)], 5.0, rtol=0.04)
    moves = 1 - kinds.chance_of_standing
    wanted = moves * np.array(kinds.chance_of_motion)
    np.testing.assert_allclose(np.mean(drawn.value != 0, axis=0), wanted, atol=0.015)
    np.testing.assert_allclose(np.mean(drawn.changes, axis=0), 1 - 0.5 * moves, atol=0.015)
    stops = np.all(drawn.changes & (drawn.value == 0), axis=1)
    assert np.mean(stops) == pytest.approx(
        kinds.chance_of_standing + moves * 0.1 * 0.75 * 0.5 / 8, abs=0.01
    )


def test_a_command_holds_until_its_time_is_over():
    drawn = commands.DrawnCommand(
        jnp.array([9.0, 9.0, 9.0]), jnp.array([True, False, True]), jnp.array(3.0)
    )
    command = jnp.array([1.0, 2.0, 3.0])
    kept = commands.next_command(command, jnp.array(0.05), drawn, 0.02)
    changed = commands.next_command(command, jnp.array(0.02), drawn, 0.02)
    assert (kept[0].tolist(), pytest.approx(float(kept[1]))) == ([1, 2, 3], 0.03)
    assert (changed[0].tolist(), float(changed[1])) == ([9, 2, 9], 3.0)


@pytest.mark.slow
def test_noise_and_pushes_have_their_distributions():
    keys = jax.random.split(jax.random.key(0), 20000)
    sizes = {"gyro": 3, "gravity": 3, "position": 2}
    drawn = jax.vmap(
        lambda key: disturbances.draw_noise(key, {"gyro": 0.2, "gravity": 0.05}, sizes, jnp.float64)
    )(keys)
    assert np.all(drawn["position"] == 0)
    for name, scale in (("gyro", 0.2), ("gravity", 0.05)):
        assert np.max(np.abs(drawn[name])) <= scale
        np.testing.assert_allclose(np.std(drawn[name], axis=0), scale / np.sqrt(3), rtol=0.03)
    pushes = disturbances.Pushes(speed=(0.5, 1.0), mean_time=0.1)
    found = np.asarray(
        jax.vmap(lambda key: disturbances.draw_push(key, pushes, 0.02, jnp.float64))(keys)
    )
    speed = np.linalg.norm(found, axis=1)
    happened = speed > 0
    assert np.mean(happened) == pytest.approx(1 - np.exp(-0.2), abs=0.01)
    assert np.all((speed[happened] >= 0.5) & (speed[happened] <= 1.0))
    assert np.all(found[:, 2] == 0)
    np.testing.assert_allclose(
        np.mean(found[happened] / speed[happened, None], axis=0), 0, atol=0.04
    )


def test_soft_limits_are_those_of_playground():
    """Its formula, for limits of one sign, too: a calf of Unitree's Go2 from -2.7227 to -0.83776
    rad."""
    ranges = np.array([[-2.7227, -0.83776], [-1.0472, 1.0472], [0.5, 3.4907]])
    middle, size = ranges.mean(axis=1), ranges[:, 1] - ranges[:, 0]
    robot = artix.robots.load("quadruped").astype("float64")
    lower = robot.joint_lower_limit.at[:3].set(ranges[:, 0])
    upper = robot.joint_upper_limit.at[:3].set(ranges[:, 1]).at[4].set(jnp.inf)
    limited = robot.replace(joint_lower_limit=lower, joint_upper_limit=upper)
    soft = np.stack(rewards.soft_limits(limited))
    np.testing.assert_allclose(
        soft[:, :3], [middle - 0.5 * size * 0.95, middle + 0.5 * size * 0.95], atol=1e-15
    )
    assert soft[:, 4].tolist() == [lower[4], np.inf]  # It has no range.


def test_tasks_punish_positions_beyond_their_soft_limits_only():
    """Joints whose limits have one sign, in the middle of their ranges and at an end."""
    env = envs.make("quadruped_velocity", dtype="float64", rewards={"dof_pos_limits": -1.0})
    robot = env.articulation.replace(
        joint_lower_limit=jnp.full(12, -2.5), joint_upper_limit=jnp.full(12, -0.5)
    )
    shapes = jax.eval_shape(lambda key: (*env.begin(key), env.draw(key)), jax.random.key(0))
    _, memory, drawn = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), shapes)

    @jax.jit
    def reward(position):
        state = artix.neutral_state(robot).replace(joint_position=position)
        transition = envs.Transition(
            robot, env.ground, state, state, jnp.zeros((4, 3)), memory, jnp.zeros(12), drawn
        )
        return env.outcome(transition).metrics["reward/dof_pos_limits"]

    found = [float(reward(jnp.full(12, position))) for position in (-1.5, -0.5)]
    assert found[0] == 0
    assert found[1] == pytest.approx(-12 * 0.05)
