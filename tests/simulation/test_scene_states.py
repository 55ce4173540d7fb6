"""Scenes of one and of several: what their states carry, MuJoCo's motion of two robots, and the
former functions."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

import artix
from artix import Geometry, Ground, Scene, State
from artix.simulation import former

DT = 0.005


def ball(**surface) -> artix.Articulation:
    """A free ball of one kilogram and ten centimetres."""
    builder = artix.ArticulationBuilder(name="ball")
    builder.add_link(mass=1.0, inertia=(0.004,) * 3, name="ball")
    builder.add_geometry("ball", Geometry.sphere(0.1, **surface), name="ball")
    return builder.build("float64")


def at(robot: artix.Articulation, x: float, z: float, speed: float = 0.0) -> State:
    place = jnp.array([x, 0.0, z, 0.0, 0.0, 0.0, 1.0])
    return artix.neutral_state(robot).replace(
        root_pose=place, root_velocity=jnp.zeros(6).at[0].set(speed)
    )


def stacked(offset: float = 0.01, speed: float = 0.05) -> tuple[Scene, dict[str, State]]:
    """A ball on a ball on the ground, the upper one a little aside and moving."""
    one = ball(friction=0.6)
    scene = Scene(
        {"low": one, "high": one},
        ground=Ground.flat().astype("float64"),
        pairs=[("high/ball", "low/ball")],
    )
    return scene, {"low": at(one, 0.0, 0.1), "high": at(one, offset, 0.3, speed)}


def last(path):
    return jax.tree.map(lambda leaf: leaf[-1], path)


def assert_same(one, other, tolerance: float = 0.0) -> None:
    assert jax.tree.structure(one) == jax.tree.structure(other)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=tolerance), one, other)


@pytest.mark.slow
def test_a_state_with_a_memory_goes_on_where_a_rollout_ended() -> None:
    """Ten steps are five and five to the last digit, by one rollout, two, and a scan of steps."""
    scene, start = stacked()
    remembering = artix.remember_contacts(scene, start, None, DT)
    run = functools.partial(artix.rollout, scene, control=None, dt=DT)
    whole = last(run(remembering, num_steps=10))
    assert_same(last(run(last(run(remembering, num_steps=5)), num_steps=5)), whole)
    steps = jax.jit(
        lambda state: jax.lax.fori_loop(
            0, 10, lambda _, now: artix.step(scene, now, None, DT), state
        )
    )
    assert_same(steps(remembering), whole)
    # A state without a memory gets the same first one and does not show it.
    forgetful = last(run(start, num_steps=10))
    assert all(part.contact_memory is None for part in forgetful.values())
    assert_same(
        forgetful, {name: part.replace(contact_memory=None) for name, part in whole.items()}
    )


@pytest.mark.slow
def test_memories_of_a_scene_are_those_of_its_robots() -> None:
    """The impulses of each robot add up to the weight that it carries."""
    scene, start = stacked(0.0, 0.0)
    take_step = jax.jit(lambda state: artix.step(scene, state, None, DT))
    state = take_step(take_step(artix.remember_contacts(scene, start, None, DT)))
    low, high = (state[name].contact_memory.impulse for name in ("low", "high"))
    assert low.shape == (1, 3)  # on the ground
    assert high.shape == (
        2,
        3,
    )  # on the ground, and the point of the pair whose first shape is high's
    np.testing.assert_allclose(low[0], [0, 0, 2 * 9.81 * DT], atol=1e-9)
    np.testing.assert_allclose(high, [[0, 0, 0], [0, 0, 9.81 * DT]], atol=1e-9)
    # One robot may forget; the others' memories stay.
    mixed = artix.step(
        scene, state | {"high": state["high"].replace(contact_memory=None)}, None, DT
    )
    assert mixed["high"].contact_memory is None
    np.testing.assert_allclose(mixed["low"].contact_memory.impulse, low, atol=1e-6)


@pytest.mark.slow
def test_memories_under_vmap_grad_and_donation() -> None:
    scene, start = stacked()

    def end(shift: jax.Array) -> dict[str, State]:
        place = start["high"].root_pose.at[0].add(shift)
        state = start | {"high": start["high"].replace(root_pose=place)}
        return artix.step(scene, artix.remember_contacts(scene, state), None, DT)

    shifts, alone = jnp.array([0.0, 0.002, -0.001]), jax.jit(end)
    together = jax.vmap(end)(shifts)
    for k, shift in enumerate(shifts):
        assert_same(jax.tree.map(lambda leaf, k=k: leaf[k], together), alone(shift), 1e-12)

    remembering = artix.remember_contacts(scene, start)
    cost = lambda state: jnp.sum(artix.step(scene, state, None, DT)["high"].root_velocity ** 2)  # noqa: E731
    gradient = jax.grad(cost)(remembering)
    np.testing.assert_array_equal(gradient["high"].contact_memory.impulse, 0)
    turn = remembering["high"].root_velocity

    @jax.jit
    def faster(h: jax.Array) -> jax.Array:
        return cost(
            remembering | {"high": remembering["high"].replace(root_velocity=turn.at[0].add(h))}
        )

    np.testing.assert_allclose(
        gradient["high"].root_velocity[0],
        (faster(1e-6) - faster(-1e-6)) / 2e-6,
        rtol=1e-6,
        atol=1e-9,
    )

    wanted = artix.step(scene, remembering, None, DT)
    given = jax.tree.map(jnp.copy, remembering)
    assert_same(
        jax.jit(lambda state: artix.step(scene, state, None, DT), donate_argnums=0)(given),
        wanted,
        1e-15,
    )


@pytest.mark.slow
def test_a_robot_is_a_scene_of_one() -> None:
    one, ground = ball(), Ground.flat().astype("float64")
    scene, named = Scene(one, ground=ground), Scene({"one": one}, ground=ground)
    assert isinstance(scene.neutral_state(), State)
    assert scene.geometry_names == ("ball",)
    assert named.geometry_names == ("one/ball",)
    start = at(one, 0.0, 0.099, 0.2)
    end, report = artix.step_and_report(scene, start, None, DT)
    ends, reports = artix.step_and_report(named, {"one": start}, None, DT)
    assert_same((ends["one"], reports.members["one"]), (end, report))
    assert_same(artix.step(Scene(one), start, None, DT), artix.step(one, start, None, DT))
    assert hash(jax.tree.structure(scene)) == hash(jax.tree.structure(Scene(ball(), ground=ground)))
    assert scene.astype("float32").ground.surfaces[0].friction.dtype == jnp.float32


@pytest.mark.slow
def test_grounds_are_leaves() -> None:
    """A batch of grounds under ``vmap``, and the derivative of a slide with respect to friction."""
    builder = artix.builder_from_articulation(ball(friction=0.0))
    builder.add_geometry("ball", Geometry.sphere(0.1, position=(0.5, 0.0, 0.0), friction=0.0))
    sled = builder.build("float64")  # Two feet.
    scene = Scene(sled, ground=Ground.flat(friction=0.0).astype("float64"))

    def speed(friction: jax.Array) -> jax.Array:
        (floor,) = scene.ground.surfaces
        ground = scene.ground.replace(surfaces=(floor.replace(friction=friction),))
        return artix.step(
            scene.replace(ground=ground), at(sled, 0.0, 0.1, 1.0), None, DT
        ).root_velocity[0]

    frictions = jnp.array([0.05, 0.1])
    alone = jax.jit(speed)
    wanted = jnp.array([alone(friction) for friction in frictions])
    np.testing.assert_allclose(jax.vmap(speed)(frictions), wanted, atol=1e-12)
    h = 1e-6
    slope = (alone(frictions[0] + h) - alone(frictions[0] - h)) / (2 * h)
    assert slope < -9.81 * DT / 2
    np.testing.assert_allclose(jax.grad(speed)(frictions[0]), slope, rtol=1e-6)


def test_budgets_belong_to_the_scene() -> None:
    builder = artix.ArticulationBuilder(name="box")
    builder.add_link(mass=1.0, inertia=(0.002,) * 3, name="box")
    builder.add_geometry("box", Geometry.box((0.05,) * 3), name="box")
    box, ground = builder.build("float64"), Ground.flat().astype("float64")
    start = artix.neutral_state(box)
    for most, options in (
        (2, artix.SolverOptions()),
        (None, artix.SolverOptions(max_contacts_per_geometry=2)),
    ):
        scene = Scene(box, ground=ground, max_contacts_per_geometry=most)
        shapes = jax.eval_shape(
            lambda scene=scene, options=options: artix.step_and_report(
                scene, start, None, DT, options
            )
        )
        assert shapes[1].contacts.geometries == (0, 0)


PAIR = """<mujoco><option timestep="0.002" tolerance="0" iterations="100"/>
<default><geom condim="1" solref="-4000 -450" solimp=".9 .9 1" contype="0" conaffinity="0"/></default>
<worldbody><geom name="floor" type="plane" size="0 0 1" contype="1"/>
  <body pos="0 0 1.05"><joint axis="0 1 0"/><inertial pos="0 0 -0.4" mass="0.8" diaginertia="0.05 0.05 0.01"/>
    <geom name="tip" size="0.1" pos="0 0 -0.9"/></body>
  <body pos="-0.19 0.03 0.0997"><freejoint/><inertial pos="0 0 0" mass="0.3" diaginertia="2e-3 2e-3 2e-3"/>
    <geom name="ball" size="0.1" conaffinity="1"/></body>
</worldbody><contact><pair geom1="tip" geom2="ball" condim="1" solref="-4000 -450" solimp=".9 .9 1"/></contact></mujoco>"""


@pytest.mark.slow
def test_two_robots_on_the_ground_move_as_in_mujoco() -> None:
    """A pendulum kicks a ball that lies on the floor, both contacts compliant and without friction.

    MuJoCo's force at the end of a step is that of a spring and damper where the damping is one over
    the time step, as ``test_a_pendulum_pushes_a_ball_as_in_mujoco`` explains. The floor and the
    pendulum get the coefficients that MuJoCo reports for their contacts.
    """
    model = mujoco.MjModel.from_xml_string(PAIR)
    data, dt = mujoco.MjData(model), model.opt.timestep
    data.qvel[0] = 0.5
    mujoco.mj_forward(model, data)
    assert data.ncon == 2
    soft = {}
    for k in range(2):
        contact = data.contact[k]
        names = {model.geom(contact.geom1).name, model.geom(contact.geom2).name}
        spring, damping, impedance, _ = data.efc_KBIP[contact.efc_address]
        inverse = 1 / data.efc_R[contact.efc_address]
        stiffness = spring * impedance * inverse
        np.testing.assert_allclose(damping * dt, 1.0)
        what = "tip" if "tip" in names else "floor"
        soft[what] = {"stiffness": stiffness, "damping": inverse / dt - stiffness * dt}
    builder = artix.ArticulationBuilder(fixed_base=True, name="pendulum")
    joint = artix.Joint.revolute(artix.Axis.SWING1, parent_pose=(0, 0, 1.05, 0, 0, 0, 1))
    inertia = {"mass": 0.8, "com_pose": (0, 0, -0.4, 0, 0, 0, 1), "inertia": (0.05, 0.05, 0.01)}
    arm = builder.add_link(builder.add_link(), joint, **inertia)
    shape = Geometry.sphere(0.1, position=(0, 0, -0.9), friction=0.0, sensor=True, **soft["tip"])
    builder.add_geometry(arm, shape, name="tip")
    pendulum = builder.build("float64")
    kicked = ball(friction=0.0)
    kicked = kicked.replace(link_mass=jnp.array([0.3]), link_inertia=kicked.link_inertia / 2)
    ground = Ground.flat(friction=0.0, **soft["floor"]).astype("float64")
    scene = Scene(
        {"pendulum": pendulum, "ball": kicked}, ground=ground, pairs=[("pendulum/tip", "ball/ball")]
    )
    state = scene.neutral_state()
    state["pendulum"] = state["pendulum"].replace(joint_velocity=jnp.array([0.5]))
    state["ball"] = state["ball"].replace(root_pose=jnp.array([-0.19, 0.03, 0.0997, 0, 0, 0, 1.0]))
    path = artix.rollout(scene, state, None, dt, num_steps=100)
    places = []
    for _ in range(100):
        mujoco.mj_step(model, data)
        places.append(data.qpos[:4].copy())
    error = (
        np.concatenate([path["pendulum"].joint_position, path["ball"].root_pose[:, :3]], axis=1)
        - places
    )
    assert abs(places[-1][1] + 0.19) > 0.01  # The ball was kicked.
    np.testing.assert_allclose(error, 0, atol=1e-12)


@pytest.mark.slow
def test_former_functions_do_what_their_successors_do() -> None:
    """Each warns where it is used, see ``test_deprecated.py``; here are their results."""
    scene, start = stacked()
    bare, ground = scene.replace(ground=None), scene.ground
    assert_same(
        former.scene_step(bare, start, None, DT, ground=ground), artix.step(scene, start, None, DT)
    )
    reported = former.scene_step_and_report(bare, start, None, DT, ground=ground)
    assert_same(reported, artix.step_and_report(scene, start, None, DT))
    path = artix.rollout(scene, start, None, DT, num_steps=3)
    assert_same(former.scene_rollout(bare, start, None, DT, num_steps=3, ground=ground), path)
    memory = former.settled_contact_memory(bare, start, None, DT, ground=ground)
    assert memory.impulse.shape == (3, 3)
    states = start
    for _ in range(3):
        states, memory = former.scene_step_with_contact_memory(
            bare, states, memory, None, DT, ground=ground
        )
    assert_same(states, last(path), 1e-15)
    one, state, alone = scene["low"], start["low"], Scene(scene["low"], ground=ground)
    memory = former.settled_contact_memory(one, state, None, DT, ground=ground)
    end, memory = former.step_with_contact_memory(one, state, memory, None, DT, ground=ground)
    wanted = artix.step(alone, artix.remember_contacts(alone, state, None, DT), None, DT)
    assert_same(end.replace(contact_memory=memory), wanted)


@pytest.mark.slow
def test_ground_as_a_keyword_works_for_one_more_release() -> None:
    one, ground = ball(), Ground.flat().astype("float64")
    state = artix.neutral_state(one)
    for function, more in (
        (artix.step, {}),
        (artix.step_and_report, {}),
        (artix.rollout, {"num_steps": 2}),
    ):
        with pytest.warns(
            DeprecationWarning, match=r"is now artix\.\w+\(artix\.Scene\(robot, ground=ground\)"
        ) as caught:
            old = function(one, state, None, DT, ground=ground, **more)
        assert [warning.filename for warning in caught] == [__file__]
        assert_same(old, function(Scene(one, ground=ground), state, None, DT, **more))
    with pytest.warns(DeprecationWarning, match="ground= leaves"):
        old = artix.step(articulation=one, state=state, control=None, dt=DT, ground=ground)
    assert_same(old, artix.step(Scene(one, ground=ground), state, None, DT))
    with pytest.warns(DeprecationWarning, match=r"Scene\.of is now Scene\(members, pairs"):
        scene = Scene.of({"one": one})
    with pytest.warns(DeprecationWarning, match="is now scene.neutral_state"):
        assert_same(scene.neutral_states(), {"one": state})
