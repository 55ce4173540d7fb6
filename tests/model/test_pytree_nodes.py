"""artix's dataclasses that are pytrees, against Flax's."""

import dataclasses

import flax.struct
import jax
import jax.export
import jax.numpy as jnp
import pytest

import artix
from artix.math import struct


def pair(of, name="Pair"):
    """The same class made by flax and by artix."""

    class Pair(of.PyTreeNode):
        first: jax.Array
        name: str = of.field(pytree_node=False, default="none")
        second: dict = of.field(default_factory=dict)

    return Pair


OURS, THEIRS = pair(struct), pair(flax.struct)


def test_a_node_is_what_flax_would_make_of_it():
    ours, theirs = (of(jnp.ones(2), second={"x": jnp.zeros(3)}, name="a") for of in (OURS, THEIRS))
    paths = [
        [(str(path), leaf.shape) for path, leaf in jax.tree.leaves_with_path(one)]
        for one in (ours, theirs)
    ]
    assert paths[0] == paths[1] == [("(GetAttrKey(name='first'),)", (2,)), (paths[0][1][0], (3,))]
    assert repr(ours).replace("Pair", "") == repr(theirs).replace("Pair", "")
    for one in (ours, theirs):
        doubled = jax.jit(lambda x: jax.tree.map(lambda leaf: 2 * leaf, x))(one)
        assert type(doubled) is type(one)
        assert (doubled.name, doubled.first.tolist()) == ("a", [2.0, 2.0])
        renamed = one.replace(name="b")
        assert jax.tree.structure(renamed) != jax.tree.structure(one)
        assert jax.tree.structure(renamed.replace(name="a")) == jax.tree.structure(one)
        with pytest.raises(dataclasses.FrozenInstanceError):
            one.first = jnp.zeros(2)
        with pytest.raises(TypeError, match="third"):
            one.replace(third=1)


def test_options_of_dataclasses_go_with_the_class():
    class Named(struct.PyTreeNode, kw_only=True):
        value: float = 0.0

    assert Named(value=2.0).replace(value=3.0).value == 3.0
    with pytest.raises(TypeError, match="positional"):
        Named(1.0)


def test_a_robot_prints_as_one_line():
    robot = artix.robots.load("quadruped")
    assert repr(robot.topology) == "Topology('quadruped', floating base, 18 links, 12 DOFs)"
    assert repr(robot) == f"Articulation({robot.topology!r})"
    batch = jax.vmap(lambda factor: robot.replace(link_mass=factor * robot.link_mass))(jnp.ones(3))
    assert repr(batch) == f"Articulation({robot.topology!r}, batch of shape (3,))"
    assert repr(jax.tree.map(lambda leaf: 0, robot)) == repr(robot)  # in_axes


@pytest.mark.slow
def test_exported_programs_take_and_return_states():
    arm = artix.robots.load("double_pendulum")
    state, control = artix.neutral_state(arm), artix.Control(joint_force=jnp.ones(2, arm.dtype))
    step = jax.jit(lambda state, control: artix.step(arm, state, control, 0.01))
    program = jax.export.deserialize(jax.export.export(step)(state, control).serialize())
    found, wanted = program.call(state, control), step(state, control)
    assert isinstance(found, artix.State)
    assert jnp.allclose(found.joint_velocity, wanted.joint_velocity, rtol=1e-5)


@pytest.mark.slow
def test_a_field_that_does_not_exist_is_refused_by_name():
    state = artix.neutral_state(artix.robots.load("arm7"))
    with pytest.raises(
        TypeError, match="State: there is no field 'joint_positions'; there are root_pose, root_vel"
    ):
        state.replace(joint_positions=state.joint_position)
