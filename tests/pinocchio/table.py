"""The table "Pinocchio to artix": every member of Pinocchio's ``Data``, its counterpart in artix,
and their difference.

``python -m tests.pinocchio.table`` computes all rows on the robots below and writes
``docs/pinocchio.md``.
"""

from __future__ import annotations

import functools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from artix import Articulation
from tests.pinocchio import (
    configuration_rows,
    constraint_rows,
    dynamic_rows,
    kinematic_rows,
    momentum_rows,
    topology_rows,
)
from tests.pinocchio.reference import Reference
from tests.pinocchio.rows import Row
from tests.support import oracles
from tests.support.models import random_pose, random_states, state_at

PAGE = Path(__file__).parents[2] / "docs" / "pinocchio.md"


#: Other modules append their own sections here.
TABLE: dict[str, list[Row]] = {
    "Kinematics": kinematic_rows.KINEMATICS,
    "Derivatives of kinematics": kinematic_rows.KINEMATIC_DERIVATIVES,
    "Inverse dynamics": dynamic_rows.INVERSE_DYNAMICS,
    "Mass matrix, factorisation, forward dynamics": dynamic_rows.MASS_MATRIX,
    "Derivatives of dynamics": dynamic_rows.DERIVATIVES,
    "Second derivatives": dynamic_rows.SECOND_DERIVATIVES,
    "Centres of mass": momentum_rows.CENTERS,
    "Centroidal momentum and energy": momentum_rows.MOMENTUM,
    "Regressors": momentum_rows.REGRESSORS,
    **constraint_rows.SECTIONS,
    "Indices of the tree": topology_rows.INDICES,
    "Configuration space": configuration_rows.CONFIGURATIONS,
    "Lie groups": configuration_rows.LIE_GROUPS,
    "Joint models": configuration_rows.JOINTS,
    "Model surgery": configuration_rows.SURGERY,
    "Types": topology_rows.TYPES,
    "Members of Pinocchio 4": topology_rows.LATER,
    "Features": topology_rows.FEATURES,
}

STATES = 2
#: The robot of the everyday tests.
EVERY_DAY = "tree, floating"

#: Branching trees of spherical, revolute and prismatic joints, and robots of
#: ``example-robot-data``.
ROBOTS = {
    "tree, fixed": lambda: oracles.spherical_model(3, fixed_base=True),
    "tree, floating": lambda: oracles.spherical_model(3, fixed_base=False),
    "panda": lambda: oracles.load_robot("panda_description/urdf/panda.urdf", fixed_base=True),
    "anymal_b": lambda: oracles.load_robot(
        "anymal_b_simple_description/robots/anymal.urdf", fixed_base=False
    ),
}


@functools.cache
def robot(name: str) -> tuple[oracles.pin.Model, Articulation]:
    """A model and its articulation; a fixed root has no mass, as Pinocchio has no such body."""
    model, articulation = ROBOTS[name]()
    if articulation.topology.fixed_base:
        fields = ("link_mass", "link_inertia")
        articulation = articulation.replace(
            **{k: getattr(articulation, k).at[0].set(0) for k in fields}
        )
    return model, articulation


def compared(section: str) -> list[Row]:
    """The rows of a section that have numbers."""
    return [row for row in TABLE[section] if row.is_compared]


def inputs_of(articulation: Articulation, dtype="float64") -> tuple:
    """States in one batch, other inputs in one batch, and the pose of the frame."""
    topology, rng = articulation.topology, np.random.default_rng(7)
    batch = {
        "acceleration": rng.normal(size=(STATES, topology.nv)),
        "force": rng.normal(size=(STATES, topology.nv)),
        "wrenches": rng.normal(size=(STATES, topology.num_links, 6)),
    }
    inputs = random_states(articulation, STATES, seed=5), batch, random_pose(rng, 0.3)
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), inputs)


def function_of(section: str):
    """All rows of a section as one function of articulation, state, other inputs and the pose of
    the frame."""

    def rows(articulation, state, x, offset):
        x = {**x, "offset": offset, "link": articulation.topology.num_links - 1}
        return [row.artix(articulation, state, x) for row in compared(section)]

    return rows


def references(model, articulation: Articulation) -> list[Reference]:
    """Pinocchio at the same states."""
    states, batch, offset = inputs_of(articulation)
    common = {"offset": offset, "link": articulation.topology.num_links - 1}
    return [
        Reference(
            model,
            articulation,
            state_at(states, k),
            {name: np.asarray(x[k]) for name, x in batch.items()} | common,
        )
        for k in range(STATES)
    ]


def error(found, wanted) -> float:
    """Largest error of any array of a row, relative to the largest number of that array."""
    worst, found = 0.0, jax.tree.leaves(found)
    wanted = [np.asarray(x, float) for x in jax.tree.leaves(wanted)]
    for have, want in zip([np.asarray(x, float) for x in found], wanted, strict=True):
        assert have.shape == want.shape, (have.shape, want.shape)
        scale = np.max(np.abs(want), initial=0.0)
        assert scale > 1e-3 or not np.any(have), "nothing to compare"
        worst = max(worst, float(np.max(np.abs(have - want), initial=0.0) / max(scale, 1e-3)))
    return worst


@functools.cache
def errors(name: str, section: str) -> dict[str, float]:
    """The largest error of each row of a section over all states of one robot; one program for all
    rows."""
    model, articulation = robot(name)
    states, batch, offset = inputs_of(articulation)
    program = jax.jit(functools.partial(function_of(section), articulation))
    worst = {row.members: 0.0 for row in compared(section)}
    for k, reference in enumerate(references(model, articulation)):
        found = program(state_at(states, k), {name: x[k] for name, x in batch.items()}, offset)
        for row, values in zip(compared(section), found, strict=True):
            worst[row.members] = max(worst[row.members], error(values, row.pinocchio(reference)))
    return worst


@functools.cache
def single_errors(name: str, section: str) -> dict[str, float]:
    """The same in single precision, all states in one batch; everything that comes out is
    single."""
    model, articulation = robot(name)
    a, inputs = articulation.astype("float32"), inputs_of(articulation, "float32")
    found = jax.jit(jax.vmap(functools.partial(function_of(section), a), in_axes=(0, 0, None)))(
        *inputs
    )
    assert {leaf.dtype for leaf in jax.tree.leaves(found)} == {np.dtype("float32")}
    worst = {row.members: 0.0 for row in compared(section)}
    for k, reference in enumerate(references(model, articulation)):
        for row, values in zip(compared(section), found, strict=True):
            of_state = jax.tree.map(lambda leaf, k=k: leaf[k], values)
            worst[row.members] = max(worst[row.members], error(of_state, row.pinocchio(reference)))
    return worst


# --- the page -----------------------------------------------------------------------------------

INTRODUCTION = """# Pinocchio to artix

<!-- Written by `python -m tests.pinocchio.table`; do not edit. -->

This page lists every member of Pinocchio's `Data`, and every related function, with the artix call that replaces it and the measured
difference between the two. Every artix function takes `(articulation, state, ...)` for one articulation. Batch it with `jax.vmap` and
differentiate it by states and parameters with `jax.grad`. If you are new to artix, start with the tutorial
[Coming from Pinocchio](tutorials/coming_from_pinocchio.md).

```python
import jax
import artix

robot = artix.robots.load("quadruped")
keys = jax.random.split(jax.random.key(0), 256)
states = jax.vmap(lambda key: artix.random_state(robot, key))(keys)
C = jax.jit(jax.vmap(artix.coriolis_matrix, in_axes=(None, 0)))(robot, states)
print(C.shape)  # data.C of 256 states
```

## How to read the tables

- **Symbols**: `a` is the articulation, `s` the state, `acc` the generalised acceleration `nu'` and `c` the [constraints](constraints.md).
  All functions are in `artix`.
- **Links instead of joints**: Pinocchio's quantities per joint are per **link** in artix. The link frame is Pinocchio's joint frame. Links are in
  breadth-first order, with the root as link 0.
- **Floating base**: the root entries of `nu` are in world axes at the root's centre of mass, so `nu = T v`. The
  [conventions](conventions.md) define `T`. The rows do not repeat these two differences.
- **Derivatives by the configuration** are along `integrate`.
- **Kinds**: *temporary* members are working memory of one algorithm; the row names the artix function that returns their result. *Dead*
  members are declared in Pinocchio but never written.
- **error**: the largest error relative to the largest entry of the array, in float64, at two random states of each of four robots: a branching
  tree with spherical, revolute and prismatic joints on a fixed and on a floating base, Panda, and ANYmal B. The constraints are a weld and a
  loop with Baumgarte gains. If Pinocchio 4.1 has nothing to compare with, the column says what was used instead.
- **float32**: the same error for the floating tree in single precision, in a batch.

In a [`Fleet`](fleets.md), each kind of robot is evaluated on its own, and every function on this page works.
"""
_NO_ERROR = "-"


def page(measured: dict[str, str]) -> str:
    """The page; ``measured`` has the entries of its last two columns, by members."""
    lines = [INTRODUCTION]
    for section, rows in TABLE.items():
        lines += [
            f"## {section}",
            "",
            "| Pinocchio | kind | artix | differences | error | float32 |",
            "|---|---|---|---|---|---|",
        ]
        for row in rows:
            convention = row.convention[:1].upper() + row.convention[1:]
            lines.append(
                f"| {row.members} | {row.kind} | {row.call} | {convention} | "
                f"{measured[row.members]} |"
            )
        lines.append("")
    return "\n".join(lines)


def entry(row: Row, double: float, single: float) -> str:
    """The entries of the last two columns."""
    if not row.is_compared:
        return f"{_NO_ERROR if row.check == 'Pinocchio' else row.check} | {_NO_ERROR}"
    first, second = ("0" if worst == 0 else f"{worst:.0e}" for worst in (double, single))
    return f"{first if row.check == 'Pinocchio' else f'{first}, against {row.check}'} | {second}"


def entries_of(text: str) -> dict[str, str]:
    """The last two columns of an existing page, by members."""
    cells = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    return {row[0]: " | ".join(cell.strip() for cell in row[-2:]) for row in cells}


def main() -> None:
    """Measures all rows on all robots and writes the page."""
    measured = {}
    for section, rows in TABLE.items():
        worst = [errors(name, section) for name in ROBOTS] if compared(section) else []
        single = (
            single_errors(EVERY_DAY, section)
            if compared(section) and section != "Indices of the tree"
            else {}
        )
        for row in rows:
            double = max((found.get(row.members, 0.0) for found in worst), default=0.0)
            measured[row.members] = entry(row, double, single.get(row.members, 0.0))
        print(
            section,
            {row.members: measured[row.members] for row in rows if row.is_compared},
            flush=True,
        )
    PAGE.write_text(page(measured), encoding="utf-8")


if __name__ == "__main__":
    import tests.conftest  # noqa: F401

    main()
