"""The mirror symmetry of robots: it is its own inverse, and steps and observations commute with
it."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import envs
from artix.envs import starts
from artix.envs.observation_terms import ObservationTerm
from artix.envs.symmetry import REFLECTION, SignedPermutation, find_mirror
from artix.envs.tasks.legged import OBSERVATIONS
from artix.envs.tasks.quadruped_velocity import FEET
from tests.support.oracles import ROBOTS

#: Robots of others, by file: their descriptions are symmetric to this fraction of mass.
OTHERS = {"go2_description/urdf/go2.urdf": 1e-12, "solo_description/robots/solo12.urdf": 1e-5,
          "anymal_c_simple_description/urdf/anymal.urdf": 1e-3, "g1_description/urdf/g1_29dof_rev_1_0.urdf": 1e-3}  # fmt: skip


def load(name):
    if name in ("quadruped", "humanoid"):
        return artix.robots.load(name, dtype="float64")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", artix.DescriptionWarning)
        return artix.load_urdf(ROBOTS / name, fixed_base=False)


@pytest.mark.parametrize(
    "name", ["quadruped", *(pytest.param(x, marks=pytest.mark.slow) for x in ["humanoid", *OTHERS])]
)
def test_it_is_its_own_inverse_and_reflects_the_robot(name):
    robot = load(name)
    mirror = find_mirror(robot)
    assert mirror.asymmetry <= OTHERS.get(name, 0.0)
    for permutation in (mirror.joints.permutation, mirror.bodies, mirror.feet):
        np.testing.assert_array_equal(permutation[permutation], np.arange(len(permutation)))
    np.testing.assert_array_equal(mirror.joints.sign, mirror.joints.sign[mirror.joints.permutation])
    state = artix.random_state(robot, jax.random.key(1))
    twice = mirror.state(mirror.state(state))
    jax.tree.map(np.testing.assert_array_equal, state, twice)
    # The links of the mirror image are at the mirrored places.
    topology = robot.topology
    poses, images = (
        np.asarray(artix.frame_pose(robot, each)) for each in (state, mirror.state(state))
    )
    moving = [link for link, axes in enumerate(topology.joint_axes) if axes]
    for link in moving:
        body = mirror.bodies[topology.link_body[link]]
        image = next(other for other in moving if topology.link_body[other] == body)
        np.testing.assert_allclose(images[image, :3], REFLECTION @ poses[link, :3], atol=2e-3)


def exact(robot):
    """The robot with quarter turns for the angles of 1.5708 in its file, so that it is exactly
    symmetric."""
    pose = np.array(robot.link_com_pose)
    pose[:, 3:] = np.sign(pose[:, 3:]) * np.sqrt(np.round(pose[:, 3:] ** 2, 4))
    return robot.replace(link_com_pose=jnp.asarray(pose))


@pytest.mark.parametrize("name", ["quadruped", pytest.param("humanoid", marks=pytest.mark.slow)])
def test_dynamics_commute_with_it(name):
    robot = exact(load(name))
    mirror, num = find_mirror(robot), robot.topology.num_dofs
    polar = np.array([1.0, -1.0, 1.0])
    for seed in range(3):
        state = artix.random_state(robot, jax.random.key(seed))
        force = jax.random.normal(jax.random.key(seed + 10), (6 + num,))
        image = jnp.concatenate([polar * force[:3], -polar * force[3:6], mirror.joints(force[6:])])
        found = artix.forward_dynamics(robot, mirror.state(state), image)
        wanted = artix.forward_dynamics(robot, state, force)
        wanted = np.concatenate(
            [polar * wanted[:3], -polar * wanted[3:6], mirror.joints(wanted[6:])]
        )
        np.testing.assert_allclose(found, wanted, atol=1e-10 * np.abs(wanted).max())


@pytest.mark.slow
def test_steps_on_the_ground_commute_with_it():
    """A robot that drops onto its feet; the sweeps of the solver must have converged, since they go
    foot by foot."""
    task = envs.make("quadruped_velocity", dtype="float64")
    robot, ground = exact(task.articulation), task.ground
    mirror = find_mirror(robot, task.robot.feet)
    options = artix.SolverOptions(contact_iterations=12, position_iterations=40)
    still = starts.standing(robot, task.robot.default_position, task.robot.height)
    terms = starts.check_resets(
        {"tilt": 0.05, "joint_position": 0.05, "velocity": 0.1, "joint_velocity": 0.5}
    )
    drop = starts.varied(robot, jax.random.key(0), still, terms, ground)
    target = task.target(0.1 * jax.random.uniform(jax.random.key(1), (12,), minval=-1, maxval=1))

    @jax.jit
    def after(state, target):
        def one(_, state):
            return artix.step(
                artix.Scene(robot, ground=ground),
                state,
                artix.Control(drive_target=target),
                0.004,
                options,
            )

        return jax.lax.fori_loop(0, 10, one, state)

    assert (
        artix.geometry_distances(artix.Scene(robot, ground=ground), after(drop, target))[:4].min()
        < 1e-4
    )  # two feet stand
    found, wanted = (
        after(mirror.state(drop), mirror.joints(target)),
        mirror.state(after(drop, target)),
    )
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-9), found, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["quadruped_velocity", "humanoid_velocity"])
def test_observations_are_those_of_the_mirror_image(name):
    history = {**OBSERVATIONS, "gyro": ObservationTerm(scale=0.25, history=2), "contact": 1.0}
    options = (
        {"observations": history, "gait_frequency": 1.5} if name == "quadruped_velocity" else {}
    )
    task = envs.make(name, dtype="float64", noise_scales={}, resets={}, **options)
    assert task.asymmetry == ""
    mirror, robot = task.mirror, find_mirror(task.articulation, task.robot.feet)
    for reflect in mirror.values():
        x = np.arange(1.0, len(reflect.sign) + 1)
        np.testing.assert_array_equal(reflect(reflect(x)), x)
    state = task.reset(jax.random.key(0))

    def seen(where, info, action, feet):
        gait = info["gait"].replace(
            contact=jnp.array(feet), air_time=0.1 * jnp.arange(1.0, 1 + len(feet))
        )
        memory = info | {"last_action": action, "gait": gait}
        impulse = jnp.zeros_like(info["contact_memory"].impulse)
        transition = envs.Transition(
            task.articulation, task.ground, where, where, impulse, memory, action, {"noise": {}}
        )
        memory |= task.remember(transition, is_first=True)
        return task.observe(transition.replace(memory=memory))

    where = artix.random_state(task.articulation, jax.random.key(3))
    action = jax.random.uniform(jax.random.key(4), (task.action_size,))
    info = state.info | {"command": jnp.array([0.5, 0.2, -0.7])}
    feet = np.arange(len(task.robot.feet)) == 0
    other = {**info, "command": jnp.array([0.5, -0.2, 0.7])}
    if "phase" in info:  # Half a period later, the other group swings.
        other["phase"] = info["phase"] + jnp.pi
    obs = jax.jit(seen)(where, info, action, feet)
    # What is counted for a foot is that of its image.
    image = jax.jit(lambda *x: _reflect_air(task, robot, seen, *x))(where, other, action, feet)
    for part in ("state", "privileged_state"):
        np.testing.assert_allclose(mirror[part](obs[part]), image[part], atol=1e-9)


def _reflect_air(task, robot, seen, where, info, action, feet):
    def swapped(*arguments):
        obs = seen(*arguments)
        # The air times are the last of what is privileged
        times = slice(-len(task.robot.feet), None)
        return obs | {"privileged_state": obs["privileged_state"].at[times].set(
            obs["privileged_state"][times][robot.feet])}  # fmt: skip

    return swapped(robot.state(where), info, robot.joints(action), jnp.array(feet)[robot.feet])


def test_what_is_not_symmetric_is_said():
    robot = artix.robots.load("quadruped")
    with pytest.raises(ValueError, match="only a floating robot"):
        find_mirror(artix.robots.load("arm7"))
    moved = robot.replace(joint_parent_pose=robot.joint_parent_pose.at[2, 1].add(0.05))
    with pytest.raises(ValueError, match="no joint is the mirror image of that of"):
        find_mirror(moved)
    heavy = robot.replace(link_mass=robot.link_mass.at[2].set(9.0))
    with pytest.raises(ValueError, match=r"masses differ from their mirror images by \d+ %"):
        find_mirror(heavy)
    task = envs.make(
        "quadruped_velocity", observations={"gyro": 1.0, "mine": ObservationTerm(function=_mine)}
    )
    assert task.mirror is None
    assert "'mine' does not say how it looks in the mirror" in task.asymmetry


def _mine(joint_position):
    return joint_position[:3]


def test_a_signed_permutation_keeps_the_dtype():
    swap = SignedPermutation(np.array([1, 0]), np.array([-1.0, -1.0]))
    assert swap(jnp.ones((5, 2), jnp.float32)).dtype == jnp.float32


@pytest.mark.slow
def test_getting_up_is_seen_in_the_mirror():
    """A control step of a robot that lies on its side, and of its image with the image of the
    action."""
    task = envs.make("quadruped_get_up", dtype="float64", noise_scales={}, chance_of_fall=1.0)
    mirror, robot = task.mirror, find_mirror(task.articulation, FEET)
    state = jax.jit(task.reset)(jax.random.key(3))
    info = state.info | {
        name: robot.joints(state.info[name])
        for name in ("drive_target", "last_action", "action_before_last")
    }
    image = state.replace(articulation_state=robot.state(state.articulation_state), info=info)
    action, step = (
        jax.random.uniform(jax.random.key(4), (12,), minval=-0.5, maxval=0.5),
        jax.jit(task.step),
    )
    for _ in range(10):  # until it lies on the ground
        state, image = step(state, action), step(image, mirror["action"](action))
    for part, seen in state.obs.items():
        np.testing.assert_allclose(mirror[part](seen), image.obs[part], atol=1e-5)
    contacts = state.obs["privileged_state"][-16:]
    assert 0 < np.sum(contacts) < 16
