"""Functions on SO(3) and SE(3): error messages, identities, and one program each. For values, see
tests/pinocchio."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from artix import lie

SIZES = {"so3_log": 4, "se3_log": 7} | {
    f"{group}_{name}": size
    for group, size in (("so3", 3), ("se3", 6))
    for name in (
        "exp",
        "right_jacobian",
        "left_jacobian",
        "right_jacobian_inverse",
        "left_jacobian_inverse",
    )
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
    """A function is inlined into the program that calls it: by JAX 0.10 when it traces, by 0.12
    when it lowers."""
    function = getattr(lie, name)
    program = jax.jit(lambda x: function(x)).lower(jnp.ones(SIZES[name]) / 2).as_text()
    assert f"call @{function.__name__}" not in program


@pytest.mark.slow
@pytest.mark.parametrize(("group", "size"), [("so3", 3), ("se3", 6)])
def test_identities(group, size):
    """Of logarithms, of left and right Jacobians, and of a step along the group."""
    exp, log, right, left, right_inverse, left_inverse = (
        getattr(lie, f"{group}_{name}")
        for name in (
            "exp",
            "log",
            "right_jacobian",
            "left_jacobian",
            "right_jacobian_inverse",
            "left_jacobian_inverse",
        )
    )
    for v in np.random.default_rng(0).uniform(-1.5, 1.5, (5, size)):  # turns of at most 2.6 rad
        np.testing.assert_allclose(log(exp(v)), v, atol=1e-14)
        np.testing.assert_allclose(left(v), right(-v), atol=1e-14)
        np.testing.assert_allclose(left_inverse(v), right_inverse(-v), atol=1e-14)
        np.testing.assert_allclose(left_inverse(v) @ left(v), np.eye(size), atol=1e-13)
        np.testing.assert_allclose(right_inverse(v) @ right(v), np.eye(size), atol=1e-13)
        if group == "so3":
            np.testing.assert_allclose(left(v), right(v).T, atol=1e-15)
