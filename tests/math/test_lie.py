"""Functions on SO(3) and SE(3): what they refuse, and that each is one program. Values: tests/pinocchio."""

import jax
import jax.numpy as jnp
import pytest

from artix import lie

SIZES = {"so3_log": 4, "se3_log": 7} | {
    f"{group}_{name}": size
    for group, size in (("so3", 3), ("se3", 6))
    for name in ("exp", "right_jacobian", "left_jacobian", "right_jacobian_inverse", "left_jacobian_inverse")
}


@pytest.mark.parametrize("name", sorted(SIZES))
def test_another_shape_is_refused(name):
    function, size = getattr(lie, name), SIZES[name]
    with pytest.raises(ValueError, match=rf"has shape \(2, {size}\), expected \({size},\).*vmap"):
        function(jnp.ones((2, size)))
    with pytest.raises(ValueError, match=rf"expected \({size},\)"):
        function(jnp.ones(size + 1))


@pytest.mark.parametrize("name", sorted(SIZES))
def test_within_a_program_nothing_is_a_call(name):
    """Programs of one robot stay straight lines."""
    jaxpr = jax.make_jaxpr(getattr(lie, name))(jnp.ones(SIZES[name]) / 2)
    assert getattr(lie, name).__name__ not in {equation.params.get("name") for equation in jaxpr.eqns}
