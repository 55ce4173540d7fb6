"""The compiler treats any class as artix's own, once it is told how."""

import jax
import jax.numpy as jnp
import pytest

import artix
from artix.compiler import argument_types
from artix.compiler.quantity import call_of
from artix.math import struct


class Spring(struct.PyTreeNode):
    """Parameters of a law."""

    stiffness: jax.Array


class Stretch(struct.PyTreeNode):
    """Its state."""

    length: jax.Array


def force(spring: Spring, stretch: Stretch) -> jax.Array:
    """The law."""
    return spring.stiffness * stretch.length


@pytest.fixture
def registered(monkeypatch):
    for table in ("_parameters", "_checks", "_contents"):
        monkeypatch.setattr(argument_types, table, {**getattr(argument_types, table)})

    def check(name, value, function):
        if not isinstance(value.length, jax.core.Tracer) and value.length < 0:
            raise ValueError(f"{name} of {function.__name__}: a length")

    argument_types.register_parameters(
        Spring, lambda _: {"stretch": lambda: Stretch(jnp.float32(1))}
    )
    argument_types.register_check(Stretch, check)


def test_parameters_become_constants(registered):
    spring, stretch = Spring(jnp.float32(3)), Stretch(jnp.float32(2))
    assert len(call_of(force, spring, stretch).operands) == 1
    reverse = call_of(lambda stretch, spring: force(spring, stretch), stretch, spring)
    assert len(reverse.operands) == 2  # only the first argument has parameters
    (cost,) = artix.explain(artix.quantity(force), spring).operations
    assert cost.operations == (0, 1, 0)


def test_values_are_checked(registered):
    law = artix.quantity(force)
    assert law(Spring(jnp.float32(3)), Stretch(jnp.float32(2))) == 6
    with pytest.raises(ValueError, match="stretch of force: a length"):
        law(Spring(jnp.float32(3)), Stretch(jnp.float32(-2)))


def test_content_replaces_what_a_process_caches(registered):
    argument_types.register_content(Spring, lambda spring: "content")
    assert argument_types.portable((1, [Spring(jnp.float32(3))])) == [1, ["content"]]
