"""The operation that evaluates functions: under every JAX transformation it must behave like the
plain function."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify
from jax.experimental.jet import jet

import artix
from artix.compiler import quantity
from artix.compiler.operation import evaluate, program_p
from tests.support.models import random_states, random_tree, state_at
from tests.support.programs import agree, programs_in


def function(x, parameters):
    """Of [3] and a dictionary, results of two shapes."""
    turned = jnp.sin(parameters["matrix"] @ x) * x
    return {"all": turned * parameters["scale"], "sum": jnp.sum(turned**2)}


operation = quantity(function)


def total(found) -> jax.Array:
    return jnp.sum(found["all"] ** 3) + jnp.sum(found["sum"])


def _gradient(f):
    return jax.grad(lambda x, p: total(f(x, p)), (0, 1))


def _of_one_tangent(f, x, p):
    """Of two tangents one is known when the derivative is transposed."""

    def along(d_x):
        return total(jax.jvp(f, (x, p), (d_x, jax.tree.map(jnp.ones_like, p)))[1])

    return jax.grad(along)(jnp.ones_like(x))


def _through_a_loop(f, **options):
    def after(x, p):
        moved = jax.lax.scan(
            lambda x, _: (jax.checkpoint(f, **options)(x, p)["all"] + x, None), x, None, length=3
        )[0]
        return jnp.sum(moved**2)

    return jax.grad(after, (0, 1))


def _third(f, x, p):
    return jax.jacfwd(jax.jacrev(jax.jacfwd(lambda x: f(x, p)["sum"])))(x)


def _transposed(f, x, p):
    """By the scale the function is linear."""
    by_scale = jax.linear_transpose(
        lambda s: jax.jvp(lambda s: f(x, {**p, "scale": s}), (p["scale"],), (s,))[1], 1.0
    )
    return by_scale({"all": x, "sum": jnp.asarray(1.0)})


NESTINGS: dict[str, Callable[..., Any]] = {
    "value": lambda f, x, p: f(x[0], p),
    "batch": lambda f, x, p: jax.vmap(f, (0, None))(x, p),
    "batch of parameters": lambda f, x, p: jax.vmap(lambda s: f(x[0], {**p, "scale": s}))(
        jnp.arange(4.0)
    ),
    "batches of batches": lambda f, x, p: jax.vmap(
        lambda s: jax.vmap(lambda x: f(x, {**p, "scale": s}))(x)
    )(jnp.arange(4.0)),
    "gradient": lambda f, x, p: _gradient(f)(x[0], p),
    "gradients": lambda f, x, p: jax.vmap(_gradient(f), (0, None))(x, p),
    "gradient of a batch": lambda f, x, p: _gradient(jax.vmap(f, (0, None)))(x, p),
    "gradients of batches": lambda f, x, p: jax.vmap(
        lambda scale: _gradient(jax.vmap(f, (0, None)))(x, {**p, "scale": scale})
    )(jnp.arange(2.0)),
    "batches of gradients of batches": lambda f, x, p: jax.vmap(
        _gradient(jax.vmap(f, (0, None))), (0, None)
    )(jnp.stack([x, 2 * x]), p),
    "one output": lambda f, x, p: jax.vmap(jax.grad(lambda x: f(x, p)["sum"]))(x),
    "tangents": lambda f, x, p: jax.jvp(lambda x: f(x, p), (x[0],), (x[1],)),
    "tangents of a batch": lambda f, x, p: jax.jvp(jax.vmap(f, (0, None)), (x, p), (x, p)),
    "shared tangents": lambda f, x, p: jax.vmap(
        lambda x: jax.jvp(lambda s: f(x, {**p, "scale": s}), (p["scale"],), (p["scale"],))
    )(x),
    "one of two tangents": lambda f, x, p: jax.vmap(lambda x: _of_one_tangent(f, x, p))(x),
    "forward Jacobians": lambda f, x, p: jax.vmap(jax.jacfwd(f, (0, 1)), (0, None))(x, p),
    "backward Jacobians": lambda f, x, p: jax.vmap(jax.jacrev(f, (0, 1)), (0, None))(x, p),
    "forward Jacobians of batches": lambda f, x, p: jax.vmap(
        lambda s: jax.vmap(jax.jacfwd(lambda x: f(x, {**p, "scale": s})))(x)
    )(jnp.arange(2.0)),
    "forward Jacobian of a batch": lambda f, x, p: jax.jacfwd(jax.vmap(f, (0, None)), (0, 1))(x, p),
    "backward Jacobian of a batch": lambda f, x, p: jax.jacrev(jax.vmap(f, (0, None)), (0, 1))(
        x, p
    ),
    "Hessians": lambda f, x, p: jax.vmap(jax.hessian(lambda x: total(f(x, p))))(x),
    "Hessian of a batch": lambda f, x, p: jax.hessian(
        lambda x: jnp.sum(jax.vmap(f, (0, None))(x, p)["all"] ** 2)
    )(x),
    "gradients of gradients": lambda f, x, p: jax.vmap(
        jax.grad(lambda x: jnp.sum(jax.grad(lambda x: total(f(x, p)))(x) ** 2))
    )(x),
    "third derivatives": lambda f, x, p: jax.vmap(lambda x: _third(f, x, p))(x),
    "linearized": lambda f, x, p: jax.vmap(lambda x: jax.linearize(lambda x: f(x, p), x)[1](2 * x))(
        x
    ),
    "transposed": lambda f, x, p: jax.vmap(lambda x: _transposed(f, x, p))(x),
    "loop": lambda f, x, p: jax.vmap(_through_a_loop(f), (0, None))(x, p),
    "loop that keeps nothing": lambda f, x, p: jax.vmap(
        _through_a_loop(f, policy=jax.checkpoint_policies.nothing_saveable), (0, None)
    )(x, p),
    "loop that keeps products": lambda f, x, p: jax.vmap(
        _through_a_loop(f, policy=jax.checkpoint_policies.dots_saveable), (0, None)
    )(x, p),
    "other axes": lambda f, x, p: jax.vmap(_gradient(f), (1, {"matrix": 2, "scale": None}))(
        x.T, {**p, "matrix": jnp.stack([p["matrix"]] * len(x), 2)}
    ),
    "custom derivative around it": lambda f, x, p: jax.grad(lambda x: total(_with_rule(f)(x, p)))(
        x[0]
    ),
}


def _with_rule(f):
    ruled = jax.custom_jvp(f)
    ruled.defjvp(lambda primals, tangents: jax.jvp(f, primals, tangents))
    return ruled


def _inputs() -> tuple[jax.Array, dict[str, jax.Array]]:
    rng = np.random.default_rng(0)
    return jnp.asarray(rng.normal(size=(5, 3))), {
        "matrix": jnp.asarray(rng.normal(size=(3, 3))),
        "scale": jnp.asarray(0.7),
    }


#: Nestings that take a second each and whose parts are among the others; the everyday suite leaves
#: them out.
LONG_NESTINGS = (
    "gradients",
    "tangents",
    "batches of gradients of batches",
    "backward Jacobians",
    "gradients of batches",
    "forward Jacobians of batches",
    "forward Jacobian of a batch",
    "backward Jacobian of a batch",
    "Hessian of a batch",
    "gradients of gradients",
    "loop that keeps products",
)


@pytest.mark.parametrize(
    "nesting",
    [
        pytest.param(name, marks=pytest.mark.slow if name in LONG_NESTINGS else ())
        for name in NESTINGS
    ],
)
def test_nestings(nesting: str) -> None:
    """Kernels and XLA's programs: not compiled, compiled, and compiled with known parameters."""
    x, parameters = _inputs()
    wanted = jax.jit(functools.partial(NESTINGS[nesting], function))(x, parameters)
    for kernels in (True, False):
        with artix.use_kernels(kernels):
            agree(NESTINGS[nesting](operation, x, parameters), wanted)
            agree(jax.jit(functools.partial(NESTINGS[nesting], operation))(x, parameters), wanted)
            agree(jax.jit(lambda x: NESTINGS[nesting](operation, x, parameters))(x), wanted)


def motion(name: str, robot: artix.Articulation, state: artix.State) -> jax.Array:
    if name == "step":
        return artix.step(robot, state, None, 0.01).joint_velocity
    return artix.forward_dynamics(robot, state, jnp.ones(robot.topology.nv, robot.dtype))


@pytest.mark.parametrize("name", ["forward_dynamics", "step"])
def test_derivatives_of_batches_are_one_operation(name: str) -> None:
    """Whose values are computed once for all tangents."""
    robot = random_tree(3, 3, fixed_base=False)
    states = random_states(robot, 7)
    forward = programs_in(jax.vmap(jax.jacfwd(lambda state: motion(name, robot, state))), states)
    assert [len(each.params["axes"]) for each in forward[-1:]] == [2]
    assert forward[-1].params["axes"][0].size == 7
    backward = programs_in(jax.vmap(jax.jacrev(lambda state: motion(name, robot, state))), states)
    assert [axis.size for axis in backward[-1].params["axes"]] == [
        7,
        robot.topology.num_dofs + 6 * (name != "step"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("fixed_base", [pytest.param(True, marks=pytest.mark.slow), False])
def test_linear_functions_can_be_transposed(fixed_base: bool) -> None:
    """A symmetric matrix, then one that is not: by jax.linear_transpose as by its matrix."""
    robot = random_tree(3, 3, fixed_base=fixed_base)
    states = random_states(robot, 5)
    state, n = state_at(states, 0), robot.topology.nv
    force = jnp.asarray(np.random.default_rng(0).normal(size=n))

    def solve(x: jax.Array) -> jax.Array:
        return artix.mass_matrix_solve(robot, state, x)

    def scaled(x: jax.Array) -> jax.Array:
        return artix.mass_matrix_solve(robot, state, jnp.arange(1.0, n + 1) * x)

    for linear in (solve, scaled):
        matrix = jax.jacfwd(linear)(jnp.zeros(n))
        transposed = jax.linear_transpose(linear, force)
        agree(transposed(force)[0], force @ matrix, 1e-9)
        agree(
            jax.jit(lambda y, transposed=transposed: transposed(y)[0])(force), force @ matrix, 1e-9
        )
    many = jax.vmap(lambda state, x: artix.mass_matrix_solve(robot, state, x), (0, None))
    matrices = jax.vmap(lambda state: artix.mass_matrix_inverse(robot, state))(states)
    cotangents = jnp.asarray(np.random.default_rng(1).normal(size=(5, n)))
    (found,) = jax.linear_transpose(lambda x: many(states, x), force)(cotangents)
    agree(found, jnp.einsum("bi,bij->j", cotangents, matrices), 1e-9)


def test_what_cannot_be_transposed_or_expanded_is_refused_by_name() -> None:
    robot = random_tree(3, 3, fixed_base=True)
    state = state_at(random_states(robot, 1), 0)

    def gravity(position: jax.Array) -> jax.Array:
        return artix.gravity_compensation(robot, state.replace(joint_position=position))

    with pytest.raises(
        TypeError, match=r"gravity_compensation is not linear in an argument .* jax\.vjp"
    ):
        jax.linear_transpose(gravity, state.joint_position)(jnp.zeros(robot.topology.nv))
    with pytest.raises(
        NotImplementedError,
        match=r"gravity_compensation has no rule for Taylor series: .* jax\.jvp",
    ):
        jet(gravity, (state.joint_position,), ((jnp.ones_like(state.joint_position),),))


def test_gradients_of_rollouts_keep_states_alone() -> None:
    """On every platform: what a scan stacks for its way back is seen in the traced program, before
    any lowering."""
    robot, count = random_tree(3, 6, fixed_base=False), 10
    state = state_at(random_states(robot, 1), 0)
    forces = jnp.zeros((count, robot.topology.num_dofs))

    def run(state: artix.State, forces: jax.Array) -> artix.State:
        return artix.rollout(robot, state, artix.Control(joint_force=forces), 0.01)

    size = sum(x.size for x in jax.tree.leaves(state)) + forces.shape[1]
    for solver in (run, jax.vmap(run, (0, None))):
        batch = 1 if solver is run else 64
        start = state if solver is run else jax.tree.map(lambda x: jnp.stack([x] * 64), state)
        residuals = lambda *given, f=solver: jax.tree.leaves(jax.vjp(f, *given)[1])  # noqa: E731
        kept = jax.make_jaxpr(residuals)(start, forces)
        assert sum(x.size for x in kept.out_avals) <= 3 * batch * count * size


@pytest.mark.parametrize("name", ["forward_dynamics", "step"])
def test_little_is_kept_for_gradients(name: str) -> None:
    """Arguments, and of a step its solution: the velocity, impulses of a joint's drive, friction
    and limits, and what is added to both momenta.
    """
    robot = random_tree(3, 6, fixed_base=False)
    state = state_at(random_states(robot, 1), 0)
    kept = jax.make_jaxpr(
        lambda state: jax.tree.leaves(jax.vjp(lambda s: motion(name, robot, s), state)[1])
    )(state)
    nv, solution = robot.topology.nv, 0
    if name == "step":
        solution = nv + 3 * (nv - 6) + 6
    size = sum(x.size for x in jax.tree.leaves(state))
    assert sum(x.size for x in kept.out_avals) <= 2 * size + solution


def test_known_parameters_are_numbers_of_the_program() -> None:
    """What a compiled function closes over; arguments, and what is not compiled, are operands."""
    robot = random_tree(3, 3, fixed_base=False)
    state = state_at(random_states(robot, 1), 0)
    (closed,) = programs_in(lambda state: artix.mass_matrix(robot, state), state)
    (given,) = programs_in(artix.mass_matrix, robot, state)
    assert (len(closed.invars), len(given.invars)) == (4, 4 + len(jax.tree.leaves(robot)))
    assert given.params["program"].known == {}
    inside = jax.make_jaxpr(
        lambda states: jax.lax.map(lambda state: artix.mass_matrix(robot, state), states)
    )
    (loop,) = inside(jax.tree.map(lambda x: x[None], state)).eqns
    assert [
        len(each.invars) for each in loop.params["jaxpr"].eqns if each.primitive is program_p
    ] == [4]


def test_few_robots_are_known_outside_of_compiled_functions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So that a loop over parameters does not compile a kernel for each."""
    robot = random_tree(5, 3, fixed_base=False)
    state = state_at(random_states(robot, 1), 0)
    seen = []
    module = sys.modules["artix.compiler.quantity"]

    def recorded(program, operands):
        seen.append(len(program.known))
        return evaluate(program, operands)

    robots = [
        robot.replace(link_mass=scale * robot.link_mass) for scale in (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    ]
    robots += [robots[1], jax.tree.map(jnp.copy, robots[1])]
    again = jax.tree.map(jnp.copy, robots[0])
    wanted = [jax.jit(artix.bias_force)(one, state) for one in robots]
    monkeypatch.setattr(module, "evaluate", recorded)
    agree([artix.bias_force(one, state) for one in robots], wanted)
    count = len(jax.tree.leaves(robot))
    assert seen == [count] * 4 + [0, 0] + [count] * 2
    # What is known is kept by the program, whatever becomes of the robot.
    robots[0].link_mass.delete()
    agree(artix.bias_force(again, state), wanted[0])
    assert seen[-1] == count
    # For the others no program is made, not even to be forgotten.
    monkeypatch.setattr("artix.compiler.program.Program.with_known", None)
    artix.bias_force(robots[5], state)


def test_arrays_of_numpy_may_change() -> None:
    robot = random_tree(5, 3, fixed_base=False)
    state = state_at(random_states(robot, 1), 0)
    masses = np.array(robot.link_mass)
    heavier = robot.replace(link_mass=masses)
    before = artix.bias_force(heavier, state)
    masses *= 2
    found = artix.bias_force(heavier, state)
    agree(found, artix.bias_force(robot.replace(link_mass=2 * robot.link_mass), state))
    assert float(jnp.max(jnp.abs(found - before))) > 1e-3


def test_a_program_is_traced_once() -> None:
    traced = []

    @quantity
    def counted(x):
        traced.append(None)
        return jnp.sin(x)

    x = jnp.arange(3.0)
    for _ in range(3):
        counted(x)
        jax.vmap(counted)(x[None])
        jax.jit(counted)(x)
        jax.grad(lambda x: counted(x).sum())(x)
    assert len(traced) == 1
    counted(x.astype("float32"))
    assert len(traced) == 2


def test_what_is_traced_within_a_program_is_one_program_elsewhere() -> None:
    """JAX keeps what it traced within the program, which consists of operations, for that program
    alone."""
    inner = jax.jit(lambda x: operation(x, {"matrix": jnp.eye(3), "scale": 2.0})["all"])
    outer = quantity(lambda x: 2 * inner(x))
    x = jnp.asarray(np.arange(3.0))
    found = outer(x)
    agree(found, 2 * inner(x))
    (call,) = jax.make_jaxpr(inner)(x).eqns
    assert program_p in [each.primitive for each in call.params["jaxpr"].eqns]


def test_programs_may_promote_ranks_where_the_caller_may_not() -> None:
    promoting = quantity(lambda x: jnp.ones((2, 1)) * jnp.sin(x))
    with jax.numpy_rank_promotion("raise"):
        found = promoting(jnp.arange(3.0))
    agree(found, np.sin([np.arange(3.0)] * 2))


def test_static_arguments_are_told_apart() -> None:
    """Also those that Python takes for equal."""

    @quantity
    def described(x, what):
        return x + (1 if what is True else 2 if isinstance(what, float) else 3)

    x = jnp.zeros(2)
    assert [float(described(x, what)[0]) for what in (True, 1, 1.0, True)] == [1, 3, 2, 1]
    signed = quantity(lambda x, sign: jnp.copysign(x, sign))
    assert [float(signed(x + 2, sign)[0]) for sign in (0.0, -0.0)] == [2, -2]


@pytest.mark.slow
def test_functions_made_from_a_quantity_are_not_taken_for_it() -> None:
    """Decorators and transformations give them its name and attributes."""
    robot = artix.robots.load("double_pendulum")
    states = jax.vmap(lambda key: artix.random_state(robot, key))(
        jax.random.split(jax.random.key(0), 3)
    )
    matrices = jax.vmap(lambda state: artix.mass_matrix(robot, state))(states)

    @functools.wraps(artix.mass_matrix)
    def doubled(robot: Any, state: Any) -> jax.Array:
        return 2 * artix.mass_matrix(robot, state)

    first = jax.tree.map(lambda x: x[0], states)
    batched = jax.vmap(artix.mass_matrix, (None, 0))
    agree(quantity(doubled)(robot, first), 2 * matrices[0])
    agree(quantity(batched)(robot, states), matrices)
    fleet = artix.Fleet([robot] * 3)
    agree(fleet.evaluate(doubled, states), 2 * matrices)
    blocks = artix.fleet.vmap_in_blocks(artix.mass_matrix)
    agree(quantity(blocks)(fleet.articulation, states), matrices)

    @functools.wraps(artix.step)
    def stepped_twice(robot: Any, state: Any, control: Any, dt: Any) -> Any:
        return artix.step(robot, artix.step(robot, state, control, dt), control, dt)

    fleet = artix.Fleet([robot, robot.replace(link_mass=2 * robot.link_mass)] * 2)
    states = fleet.random_state(jax.random.key(1))
    ends = fleet.evaluate(stepped_twice, states, None, 0.01)
    agree(ends, fleet.evaluate(lambda *all: stepped_twice(*all), states, None, 0.01))


def test_refusals_are_said_as_they_are() -> None:
    robot = random_tree(3, 3, fixed_base=False)
    state = state_at(random_states(robot, 1), 0)
    wrong = state.replace(joint_position=jnp.zeros(77))
    many = jax.tree.map(lambda x: x[None], wrong)
    batched = jax.vmap(artix.mass_matrix, (None, 0))
    for call, given in (
        (artix.mass_matrix, wrong),
        (jax.jit(artix.mass_matrix), wrong),
        (batched, many),
    ):
        with pytest.raises(ValueError, match=r"^state.joint_position: expected shape"):
            call(robot, given)
    with pytest.raises(ValueError, match="joint_position") as refusal:
        artix.mass_matrix(robot, wrong)
    assert not getattr(refusal.value, "__notes__", [])


@pytest.mark.parametrize("kernels", [True, False], ids=["kernels", "xla"])
def test_checkify_finds_what_is_not_a_number(kernels: bool) -> None:
    x, parameters = _inputs()
    with artix.use_kernels(kernels):
        checked = jax.jit(
            checkify.checkify(jax.vmap(operation, (0, None)), errors=checkify.float_checks)
        )
        assert checked(x, parameters)[0].get() is None
        error, _ = checked(x.at[1, 2].set(jnp.nan), parameters)
    assert "nan generated by primitive: artix_program" in error.get()


@pytest.mark.slow
def test_checkify_and_debugging() -> None:
    robot = random_tree(3, 3, fixed_base=False)
    state = state_at(random_states(robot, 1), 0)
    error, found = checkify.checkify(artix.bias_force, errors=checkify.float_checks)(robot, state)
    error.throw()
    agree(found, artix.bias_force(robot, state))
    with jax.debug_nans(True):
        agree(jax.jit(artix.bias_force)(robot, state), found)
    bad = state.replace(joint_position=state.joint_position * jnp.nan)
    with jax.debug_nans(True), pytest.raises(FloatingPointError):
        jax.jit(artix.bias_force)(robot, bad)
    with jax.disable_jit():
        agree(artix.bias_force(robot, state), found)


def test_threads_share_programs() -> None:
    robot = random_tree(3, 3, fixed_base=False)
    states = random_states(robot, 8)
    wanted = jax.vmap(artix.mass_matrix, (None, 0))(robot, states)
    found: dict[int, Any] = {}

    def work(number: int) -> None:
        one = state_at(states, number)
        found[number] = jax.jit(lambda state: artix.mass_matrix(robot, state))(one)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(8):
        agree(found[number], wanted[number])


@pytest.mark.slow
def test_steps_of_robots_with_parameters_of_their_own() -> None:
    """Where drives are data a step has a condition, which the transposed program must get
    through."""
    robot = artix.robots.load("double_pendulum").astype("float64")
    drive = robot.drive.replace(stiffness=jnp.full(2, 50.0), max_force=jnp.full(2, 2.0))
    robot = robot.replace(drive=drive)
    scales, states = jnp.asarray([1.0, 2.0, 0.5]), random_states(robot, 3)
    robots = jax.vmap(lambda scale: robot.replace(link_mass=scale * robot.link_mass))(scales)

    def moved(robot, state):
        return jnp.sum(artix.step(robot, state, None, 0.01).joint_velocity ** 2)

    def gradient(state, robot):
        return jax.grad(lambda state, mass: moved(robot.replace(link_mass=mass), state), (0, 1))(
            state, robot.link_mass
        )

    found = jax.jit(jax.vmap(gradient))(states, robots)
    for k in range(3):
        alone = jax.jit(gradient)(
            *(jax.tree.map(lambda leaf, k=k: leaf[k], each) for each in (states, robots))
        )
        for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(alone), strict=True):
            np.testing.assert_allclose(one[k], other, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("robots", [1024, 2])
def test_items_of_a_batch_share_what_they_have_in_common(robots: int) -> None:
    """Right-hand sides of the same robot are solved with one factorisation, if there are many
    robots."""
    arm = artix.robots.load("double_pendulum").astype("float64")
    states = random_states(arm, robots)
    rights = jnp.asarray(np.random.default_rng(0).normal(size=(robots, 3, 2)))
    solve = jax.vmap(artix.mass_matrix_solve, in_axes=(None, None, 0))
    matrices = jax.vmap(lambda state: artix.mass_matrix(arm, state))(states)
    found = jax.jit(jax.vmap(lambda state, right: solve(arm, state, right)))(states, rights)
    np.testing.assert_allclose(
        found, np.linalg.solve(matrices[:, None], rights[..., None])[..., 0], rtol=1e-11
    )
    state = jax.tree.map(lambda leaf: leaf[0], states)
    (cost,) = artix.explain(solve, arm, state, rights[0]).operations
    (alone,) = artix.explain(artix.mass_matrix_solve, arm, state, rights[0, 0]).operations
    assert cost.operations[1] + cost.operations[2] == alone.operations[1]
    assert 5 * cost.operations[2] < cost.operations[1]


def test_what_is_static_and_what_cannot_be_an_argument() -> None:
    """Whole numbers and names of NumPy are static, like Python's; a random key is refused by
    name."""
    arm = artix.robots.load("arm7")
    state = artix.neutral_state(arm)
    for frame in (3, np.int64(3), "upper_arm", np.str_("upper_arm"), jnp.asarray(3)):
        np.testing.assert_allclose(
            artix.frame_pose(arm, state, frame), artix.frame_pose(arm, state, 3), atol=1e-15
        )
    for frame, error in (
        (np.int64(99), IndexError),
        (True, TypeError),
        (np.bool_(True), TypeError),
        (2.5, TypeError),
    ):
        with pytest.raises(error, match="frame: "):
            artix.frame_pose(arm, state, frame)


def test_robots_outlive_those_they_are_equal_to() -> None:
    first = artix.robots.load("double_pendulum")
    second = jax.tree.map(jnp.copy, first)
    state = artix.neutral_state(first)
    artix.mass_matrix(first, state)
    for array in jax.tree.leaves(first):
        array.delete()
    assert artix.mass_matrix(second, artix.neutral_state(second)).shape == (2, 2)


@pytest.mark.slow
def test_derivatives_in_64_bits_are_lowered_where_64_bits_are_off() -> None:
    """They are traced while they are lowered, after the context in which their function was traced
    has ended."""
    robot = artix.robots.load("double_pendulum").astype("float64")
    state = artix.neutral_state(robot)
    traced = jax.jit(jax.grad(lambda state: artix.kinetic_energy(robot, state))).trace(state)
    jax.clear_caches()  # Other tests may have traced the derivative.
    with jax.enable_x64(False):
        compiled = traced.lower().compile()
    wanted = jax.grad(lambda state: artix.kinetic_energy(robot, state))(state)
    jax.tree.map(np.testing.assert_array_equal, compiled(state), wanted)


def test_programs_keep_their_constants_when_the_caller_deletes_them() -> None:
    """A program outlives the call that made it, and donation takes arrays from whoever else holds
    them."""
    robot = random_tree(4, 3, fixed_base=True)
    offset = jnp.arange(robot.topology.num_dofs, dtype=robot.dtype) + 0.5

    @artix.quantity
    def shifted(articulation: artix.Articulation, state: artix.State) -> jax.Array:
        return state.joint_position + offset

    state = artix.neutral_state(robot)
    wanted = np.asarray(state.joint_position + offset)
    jax.eval_shape(shifted, robot, state)
    jax.jit(lambda x: x + 1, donate_argnums=0)(offset)
    assert offset.is_deleted()
    states = jax.tree.map(lambda x: x[None], state)
    assert (shifted(robot, state) == wanted).all()
    assert (jax.vmap(shifted, in_axes=(None, 0))(robot, states)[0] == wanted).all()
