"""Every row of the table "Pinocchio to artix", on fixed and floating trees of all joints, and the
page made of it."""

from __future__ import annotations

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix

pin = pytest.importorskip("pinocchio")

from tests.pinocchio import constraint_rows, table  # noqa: E402
from tests.support.models import state_at  # noqa: E402

EVERY_DAY = table.EVERY_DAY
#: What other everyday tests compare, too.
SOMETIMES = (
    "Kinematics",
    "Inverse dynamics",
    "Mass matrix, factorisation, forward dynamics",
    "Derivatives of dynamics",
    "Second derivatives",
    *constraint_rows.SECTIONS,
    "Configuration space",
)
#: What slow tests of constraints compare, too.
SELDOM = ("Derivatives of constrained dynamics", "Frictional contact")
#: Everything has its gradients checked once a week; these often.
OFTEN = ("Regressors",)
SECTIONS = [
    section
    for section in table.TABLE
    if section != "Indices of the tree" and table.compared(section)
]
#: Members that the bindings do not have.
ONLY_IN_CPP = re.findall(
    r"\w+",
    """ddJ kinematic_hessians oinertias dYcrb doYcrb u Dinv tmp SDinv UDinv IS dVdq Itmp M6tmp M6tmpR M6tmpR2 d2tau_dqdq
    d2tau_dvdv d2tau_dqdv d2tau_dadq psid psidd bodyRegressor diff_lambda_c osim_llt oYaba_contact JMinvJt llt_JMinvJt
    sDUiJt torque_residual dlambda_dx_prox drhs_prox oa_drift oa_augmented KA LA lA lambdaA KAS a_bias par_cons_ind
    constraint_ind constraints_supported_dim extended_motion_propagator extended_motion_propagator2 spatial_inv_inertia
    accumulation_descendant accumulation_ancestor accumulation_joints joints_supporting_constraints
    constraints_supported constraints_on_joint""",
)


def _marks(robot: str, section: str) -> tuple:
    if robot != EVERY_DAY or section in SELDOM:
        return (pytest.mark.exhaustive,)
    return (pytest.mark.slow,) if section in SOMETIMES else ()


@pytest.mark.parametrize(
    ("robot", "section", "members"),
    [
        pytest.param(robot, section, row.members, marks=_marks(robot, section))
        for robot in table.ROBOTS
        for section in table.TABLE
        for row in table.compared(section)
    ],
)
def test_row(robot: str, section: str, members: str) -> None:
    (row,) = [row for row in table.compared(section) if row.members == members]
    assert table.errors(robot, section)[members] <= row.tolerance


def test_every_member_of_data_has_a_row() -> None:
    named = " ".join(row.members for rows in table.TABLE.values() for row in rows)
    named = set(re.findall(r"[A-Za-z_0-9]+", named))
    members = {
        name
        for name in dir(pin.Data)
        if not name.startswith("_") and not callable(getattr(pin.Data, name))
    }
    assert len(members) > 85
    assert members.union(ONLY_IN_CPP) - named == set()
    rows = [row.members for rows in table.TABLE.values() for row in rows]
    assert len(set(rows)) == len(rows)


def test_the_calls_exist() -> None:
    """Whatever a row calls is artix's or one of the local names of the page."""
    for row in (row for rows in table.TABLE.values() for row in rows):
        for call in re.findall(r"`([^`]+)`", row.call):
            for dotted in re.findall(r"(?<![\w.=\"])([A-Za-z_][\w.]*)\(", call):
                known = {
                    "jax": jax,
                    "jnp": jnp,
                    "topology": artix.Topology,
                    "articulation": artix.Articulation,
                }
                head, *tail = dotted.removeprefix("artix.").split(".")
                if head in known:
                    assert functools.reduce(getattr, tail, known[head]) is not None
                else:
                    assert functools.reduce(getattr, tail, getattr(artix, head)) is not None, call


def test_the_page_is_fresh() -> None:
    """Write it again with ``python -m tests.pinocchio.table`` after changing a row."""
    text = table.PAGE.read_text(encoding="utf-8")
    measured = table.entries_of(text)
    assert table.page(measured) == text
    for row in (row for rows in table.TABLE.values() for row in rows):
        found = measured[row.members]
        double, single = (
            float(cell.partition(",")[0]) if row.is_compared else 0.0 for cell in found.split(" | ")
        )
        assert double <= row.tolerance
        assert single <= row.single_tolerance
        assert found == table.entry(row, double, single)


@pytest.mark.exhaustive
@pytest.mark.parametrize("section", SECTIONS)
def test_single_precision_in_batches(section: str) -> None:
    worst = table.single_errors(EVERY_DAY, section)
    for row in table.compared(section):
        assert worst[row.members] <= row.single_tolerance, row.members


@pytest.mark.parametrize(
    "section",
    [
        pytest.param(k, marks=pytest.mark.slow if k in OFTEN else pytest.mark.exhaustive)
        for k in SECTIONS
    ],
)
def test_gradients(section: str) -> None:
    """Forwards against differences, backwards against forwards, and finite at rest with all
    rotations the identity."""
    _, a = table.robot(EVERY_DAY)
    states, batch, offset = table.inputs_of(a)
    state, x = state_at(states, 0), {name: leaf[0] for name, leaf in batch.items()}
    function, step = table.function_of(section), 1e-5

    def numbers(state, x):
        """One number of each row: every entry counts, differently."""
        sums = [
            sum(
                jnp.sum(leaf * jnp.cos(jnp.arange(1.0, leaf.size + 1)).reshape(leaf.shape))
                for leaf in jax.tree.leaves(row)
            )
            for row in function(a, state, x, offset)
        ]
        return jnp.stack(sums)

    @jax.jit
    def differentiated(at, direction):
        values, rates = jax.jvp(numbers, at, direction)
        _, pull = jax.vjp(lambda *y: jnp.sum(numbers(*y)), *at)
        return values, rates, pull(jnp.ones(()))

    direction = state_at(states, 1), {name: leaf[1] for name, leaf in batch.items()}
    _, rates, gradient = differentiated((state, x), direction)
    ahead, behind = (
        differentiated(jax.tree.map(lambda y, d, h=h: y + h * d, (state, x), direction), direction)[
            0
        ]
        for h in (step, -step)
    )
    differences = (ahead - behind) / (2 * step)
    np.testing.assert_allclose(
        rates, differences, rtol=1e-6, atol=1e-6 * float(jnp.max(jnp.abs(differences)))
    )
    dotted = sum(
        jnp.vdot(g, d) for g, d in zip(*map(jax.tree.leaves, (gradient, direction)), strict=True)
    )
    np.testing.assert_allclose(dotted, jnp.sum(rates), rtol=1e-9)
    rest = artix.neutral_state(a), jax.tree.map(jnp.zeros_like, x)
    for leaf in jax.tree.leaves(differentiated(rest, direction)):
        assert np.all(np.isfinite(leaf))
