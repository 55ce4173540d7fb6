"""What a program does not need is dropped; what it needs wholly stays as it is."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun

from artix.compiler.jax_internals import without_unused
from artix.compiler.program import closed


@jax.jit
def both(x):
    return jnp.sin(x), jnp.cos(x)


def function(x, y, z):
    whole, half = both(x), both(y)[1]
    _ = jnp.exp(z)
    return whole[0] * whole[1], half + x, z


def test_what_is_not_needed_is_dropped():
    program = jax.make_jaxpr(function)(1.0, 2.0, 3.0)
    shorter, stays = without_unused(program.jaxpr, [True, True, False], [False, False, False])
    assert stays == [True, True, False]
    calls = [each for each in shorter.eqns if "jaxpr" in each.params]
    before = [each for each in program.jaxpr.eqns if "jaxpr" in each.params]
    assert [len(each.outvars) for each in calls] == [2, 1]
    assert calls[0] is before[0]
    assert not any(each.primitive.name == "exp" for each in shorter.eqns)
    found = jaxpr_as_fun(closed(shorter, program.consts))(1.0, 2.0)
    np.testing.assert_allclose(found, function(1.0, 2.0, 3.0)[:2], rtol=1e-6)


def test_arguments_stay_where_they_are_wanted():
    program = jax.make_jaxpr(function)(1.0, 2.0, 3.0)
    shorter, stays = without_unused(program.jaxpr, [False, False, True], [True, False, False])
    assert stays == [True, False, True]
    assert not shorter.eqns


def test_effects_stay():
    program = jax.make_jaxpr(lambda x: jax.debug.print("{}", x) or 2 * x)(1.0)
    shorter, _ = without_unused(program.jaxpr, [False], [True])
    assert len(shorter.eqns) == 1
