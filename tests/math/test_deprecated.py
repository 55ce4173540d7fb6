"""Old public names work for one release and say what to write instead; removed ones say why."""

import importlib
import re
import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix.math.deprecated import ATTRIBUTES, CALLS, MOVED, REMOVED, RENAMED, REPLACED


def value_of(path: str):
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("old", RENAMED)
def test_an_old_name_is_the_new_one_and_says_so_where_it_is_used(old):
    with pytest.warns(
        DeprecationWarning, match=f"^{re.escape(f'{old} is now {RENAMED[old]};')}"
    ) as caught:
        value = value_of(old)
    assert value is value_of(RENAMED[old])
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize("old", MOVED)
def test_a_moved_module_has_the_names_of_the_new_one(old):
    package, _, name = old.rpartition(".")
    new = importlib.import_module(MOVED[old])
    module = importlib.import_module(old)
    assert getattr(importlib.import_module(package), name) is module
    example = next(
        each
        for each, value in vars(new).items()
        if getattr(value, "__module__", "") == MOVED[old] and not each.startswith("_")
    )
    with pytest.warns(
        DeprecationWarning, match=f"^{re.escape(f'{old}.{example} is now {MOVED[old]}.{example};')}"
    ) as caught:
        value = getattr(module, example)
    assert value is getattr(new, example)
    assert [warning.filename for warning in caught] == [__file__]
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = module.nothing


@pytest.mark.parametrize("old", REPLACED)
def test_a_replaced_name_works_and_says_what_to_write(old):
    home, advice = REPLACED[old]
    with pytest.warns(
        DeprecationWarning, match=f"^{re.escape(f'{old} leaves with the next release: {advice}')}"
    ) as caught:
        value = value_of(old)
    assert value is value_of(home)
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize("old", CALLS)
def test_an_old_function_is_a_call_of_the_new_one(old):
    """The new functions themselves are compared with Pinocchio, which knows no old ones."""
    new, fixed = CALLS[old]
    with pytest.warns(
        DeprecationWarning, match=f"^{re.escape(f'{old} is now {new}(...')}"
    ) as caught:
        function, again = value_of(old), value_of(old)
    assert function is again  # So that JAX traces it once.
    assert (function.func, function.keywords) == (value_of(new), fixed)
    assert {warning.filename for warning in caught} == {__file__}


def test_old_functions_take_the_old_arguments():
    robot = artix.robots.load("double_pendulum")
    state = artix.neutral_state(robot).replace(joint_velocity=jnp.array([2.0, 0.0]))
    with pytest.warns(DeprecationWarning, match="offset='com'"):
        velocities, accelerations = artix.link_velocities, artix.link_accelerations
    np.testing.assert_allclose(velocities(robot, state)[:, 0], [0, -1, -3], atol=1e-6)
    np.testing.assert_allclose(
        accelerations(robot, state, jnp.zeros(2))[:, 2], [0, 2, 6], atol=1e-5
    )


def test_an_old_getter_reads_the_attribute_that_it_names():
    simulation = artix.physx.create_simulation(artix.robots.load("cart_pole"))
    for old, attribute in ATTRIBUTES.items():
        with pytest.warns(
            DeprecationWarning,
            match=rf"^{re.escape(f'{old}(simulation) is now simulation.{attribute};')}",
        ):
            get = value_of(old)
        assert repr(get(simulation)) == repr(getattr(simulation, attribute))


@pytest.mark.parametrize("old", REMOVED)
def test_a_removed_name_says_why(old):
    module, _, name = old.rpartition(".")
    with pytest.raises(AttributeError) as caught:
        value_of(old)
    assert str(caught.value) == f"{module} no longer has {name}: {REMOVED[old]}"


def test_from_imports_find_old_names_too():
    with pytest.warns(DeprecationWarning, match=r"is now artix\.physx\.solver\.step_with_sleep"):
        from artix.simulation import step_with_sleep
    assert step_with_sleep is artix.step_with_sleep


def test_other_names_are_refused_as_ever():
    for module in ("artix", "artix.model", "artix.physx", "artix.simulation"):
        with pytest.raises(AttributeError, match=f"module '{module}' has no attribute 'nothing'"):
            value_of(f"{module}.nothing")


def test_names_of_artix_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert artix.wake_up and artix.with_joint_drift
