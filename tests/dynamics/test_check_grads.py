"""``jax.test_util.check_grads`` to second order, both modes, of every public function of the
dynamics."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import artix
from tests.support.models import random_states, state_at, tree_of
from tests.support.quantities import FUNCTIONS as EVERYDAY

PARAMETERS = (
    "link_mass",
    "link_com_pose",
    "link_inertia",
    "joint_parent_pose",
    "joint_child_pose",
    "armature",
    "gravity",
)

#: Of the dynamics, with armature where a function asks for it.
FUNCTIONS = {
    name: EVERYDAY[name]
    for name in (
        "forward_dynamics",
        "inverse_dynamics",
        "gravity_compensation",
        "coriolis_compensation",
        "bias_force",
        "generalized_external_force",
        "mass_matrix_solve",
        "mass_matrix_inverse",
        "mass_matrix_cholesky",
        "centroidal_momentum_matrix",
        "centroidal_momentum",
        "potential_energy",
        "inverse_dynamics_derivatives",
        "forward_dynamics_derivatives",
        "gravity_derivatives",
        "centroidal_derivatives",
        "frame_velocity_derivatives of links",
        "frame_acceleration_derivatives of links",
    )
} | {
    "mass_matrix": lambda a, s, x, w: artix.mass_matrix(a, s, armature=True),
    "center_of_mass": lambda a, s, x, w: artix.center_of_mass(a, s, "root"),
    "kinetic_energy": lambda a, s, x, w: artix.kinetic_energy(a, s, armature=True),
}
OFTEN = ("forward_dynamics",)


@pytest.mark.parametrize("of", ["state", "parameters"])
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=pytest.mark.slow if n in OFTEN else pytest.mark.exhaustive)
        for n in FUNCTIONS
    ],
)
def test_to_second_order(name: str, of: str) -> None:
    rng = np.random.default_rng(3)
    a = tree_of(
        ["spherical_012", "revolute_swing1", "prismatic_y"],
        [0, 1, 1],
        fixed_base=False,
        armature=0.3,
        seed=7,
    )
    s = state_at(random_states(a, 1, seed=2), 0)
    x, w = (
        jnp.asarray(rng.normal(size=a.topology.nv)),
        jnp.asarray(rng.normal(size=(a.topology.num_links, 6))),
    )
    values = {key: getattr(a, key) for key in PARAMETERS}

    def combined(values, s, x, w):
        found = jax.tree.leaves(FUNCTIONS[name](a.replace(**values), s, x, w))
        flat = jnp.concatenate([jnp.ravel(leaf) for leaf in found])
        return flat @ jnp.cos(jnp.arange(1.0, flat.size + 1.0)) / flat.size

    jitted = jax.jit(combined)
    function = (
        (lambda s, x, w: jitted(values, s, x, w)) if of == "state" else lambda v: jitted(v, s, x, w)
    )
    check_grads(
        function,
        (s, x, w) if of == "state" else (values,),
        order=2,
        modes=("fwd", "rev"),
        rtol=1e-4,
        eps=1e-5,
    )
