"""GPU kernels, checked without a GPU: their functions on a CPU, their schedules, their PTX, and the
calls from XLA."""

from __future__ import annotations

import functools
import importlib.util
import operator
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix.compiler import gpu_compilation
from artix.compiler.batch_axes import Axes, groups_of, levels_of, merge_operands, merged
from artix.compiler.compilation import scalars_of
from artix.compiler.gpu_compilation import of_thread
from artix.compiler.kernels import available as cpu_available
from artix.compiler.kernels.gpu import build_for_gpu
from artix.compiler.kernels.gpu_layout import Layout, Mapped
from artix.compiler.kernels.machine import gpu_available
from artix.compiler.operation import program_p
from artix.compiler.scalar_order import depth_first, fewest_live, live
from artix.compiler.scalar_program import Op, ScalarProgram
from artix.compiler.scalarize import scalarize
from artix.math.random_keys import threefry
from tests.compiler.test_branches import masked
from tests.support.gpu_threads import run_threads
from tests.support.programs import operands_of, programs_in, rows_of
from tests.support.scalar_interpreter import interpret

pytestmark = pytest.mark.skipif(
    cpu_available() is not None, reason=f"no kernels here: {cpu_available()}"
)
needs_target = pytest.mark.skipif(gpu_available() is not None, reason=str(gpu_available()))


@functools.cache
def robot(name: str) -> artix.Articulation:
    return single(artix.robots.load(name))


def single(tree: Any) -> Any:
    """In single precision, as on GPUs."""
    return jax.tree.map(lambda x: x.astype("float32") if x.dtype == "float64" else x, tree)


def states(name: str, count: int) -> tuple[Any, jax.Array]:
    keys = jax.random.split(jax.random.key(3), count)
    state = jax.vmap(functools.partial(artix.random_state, robot(name)))(keys)
    return single((state, jax.random.normal(jax.random.key(4), (count, robot(name).topology.nv))))


def groups_in(equation: Any) -> tuple[Axes, ...]:
    return groups_of(equation.params["axes"], equation.params["program"].num_operand_values)


def layout_of(equation: Any) -> Layout:
    program, axes = equation.params["program"], merged(groups_in(equation))
    count = len(equation.invars)
    rows = [tuple(axis.mapped[number] for axis in axes) for number in range(count)]
    mapped = [Mapped(row[:1] == (True,), row[1:] == (True,)) for row in rows]
    scalars, lanes = of_thread(scalars_of(program, levels_of(axes, count)), len(axes) == 1)
    return Layout(scalars, mapped, len(axes) == 2, lanes)


def check(
    function: Callable[..., Any], *arguments: Any, tolerance: float = 2e-5, loops: bool = False
) -> Layout:
    """The last operation of a function beside the same program, in the order as traced, by
    NumPy."""
    jaxpr = jax.make_jaxpr(function)(*arguments)
    equation = [e for e in jaxpr.eqns if e.primitive is program_p][-1]
    layout, groups = layout_of(equation), groups_in(equation)
    assert layout.loops_over_items == loops
    values = operands_of(
        jaxpr, dict(zip(jaxpr.jaxpr.invars, jax.tree.leaves(arguments), strict=True)), equation
    )
    axes, operands = merged(groups), [np.asarray(x) for x in merge_operands(groups, values)]
    sizes = [axis.size for axis in axes]
    found = run_threads(layout, operands, *sizes)
    program = scalars_of(equation.params["program"], levels_of(axes, len(operands)))
    for one, other in zip(found, interpret(program, rows_of(operands, axes)), strict=True):
        scale = max(float(np.abs(other).max(initial=0)), 1e-3)
        np.testing.assert_allclose(one.reshape(other.shape) / scale, other / scale, atol=tolerance)
    return layout


def bound(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    return lambda state, extra: jax.vmap(functools.partial(function, robot(name)))(state, extra)


@pytest.mark.parametrize("count", [70, 3])
def test_branches(count: int) -> None:
    """What counts where a condition holds, of which some threads' robots have none."""
    generator = np.random.default_rng(3)
    arguments = [jnp.asarray(generator.normal(size=(count, 20)), "float32") for _ in range(2)]
    arguments[0] = arguments[0].at[1, 0].set(-1)
    assert 0 < jnp.sum(arguments[0][:, 0] > 0) < count
    layout = check(jax.vmap(artix.quantity(masked)), *arguments, tolerance=2e-4)
    assert all(loop.has_condition for loop in layout.program.loops)
    assert len(layout.program.loops) == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["arm7", "quadruped"])
@pytest.mark.parametrize("count", [70, 3])
def test_dynamics(name: str, count: int) -> None:
    state, extra = states(name, count)
    layout = check(bound(artix.forward_dynamics, name), state, extra, tolerance=2e-3)
    assert layout.staged_arguments and layout.staged_results
    check(bound(artix.inverse_dynamics, name), state, extra)
    check(lambda s: jax.vmap(functools.partial(artix.frame_pose, robot(name)))(s), state)
    matrix = check(lambda s: jax.vmap(functools.partial(artix.mass_matrix, robot(name)))(s), state)
    assert not matrix.staged_results[0].is_plain  # symmetric: each entry is kept once


@pytest.mark.slow
def test_step() -> None:
    """Velocities of random arms round to 4e-6 to 3e-5 of the largest, depending on the states."""
    state, _ = states("arm7", 40)
    check(
        lambda s: jax.vmap(lambda x: artix.step(robot("arm7"), x, None, 0.01))(s),
        state,
        tolerance=1e-4,
    )


@functools.cache
def arm(max_force: float) -> artix.Articulation:
    """Two links, driven with limited efforts, of which the second has a limit and friction."""
    builder = artix.ArticulationBuilder(fixed_base=True)
    builder.add_link(mass=1.0, inertia=(1.0, 1.0, 1.0))
    above, center = (0.0, 0.0, -0.5, 0.0, 0.0, 0.0, 1.0), (0.0, 0.0, -0.25, 0.0, 0.0, 0.0, 1.0)
    drive = artix.Drive(stiffness=300.0, damping=2.0, max_force=max_force)
    for link in range(2):
        options: dict[str, Any] = {"limits": [(-0.3, 0.3)]} if link else {}
        joint = artix.Joint.revolute(artix.Axis.SWING1, parent_pose=above, drive=drive, **options)
        builder.add_link(link, joint, mass=1.0, inertia=(0.02, 0.02, 0.002), com_pose=center)
    return builder.build("float32")


@functools.cache
def ball() -> artix.Articulation:
    builder = artix.ArticulationBuilder(gravity=(0.0, 0.0, -9.81))
    builder.add_link(mass=1.0, inertia=(0.01, 0.02, 0.03))
    builder.add_geometry(0, artix.Geometry.sphere(0.1, friction=0.5))
    return builder.build("float32")


def random_states(articulation: artix.Articulation, scale: float = 1.0) -> artix.State:
    keys = jax.random.split(jax.random.key(5), 35)
    return single(
        jax.vmap(lambda key: artix.random_state(articulation, key, velocity_scale=scale))(keys)
    )


@pytest.mark.parametrize("max_force", [5.0, np.inf])
def test_steps_that_iterate(max_force: float) -> None:
    """Newton's method, whose loops end when a robot's rows hold: drives at their limits, joint
    limits."""
    states = random_states(arm(max_force))
    check(jax.vmap(lambda s: artix.step(arm(max_force), s, None, 0.01)), states, tolerance=1e-4)


@pytest.mark.slow
def test_steps_on_the_ground() -> None:
    """Balls that fly, roll, slide, and hit the ground."""
    states = random_states(ball())
    states = states.replace(root_pose=states.root_pose.at[:, 2].multiply(0.1).at[:, 2].add(0.1))
    scene = artix.Scene(ball(), ground=artix.Ground.flat(dtype="float32"))
    check(jax.vmap(lambda s: artix.step(scene, s, None, 0.01)), states, tolerance=1e-4)


def test_fast_motion() -> None:
    """Bodies that turn by up to a radian a step."""
    states = random_states(ball(), 30.0)
    check(jax.vmap(lambda s: artix.step(ball(), s, None, 0.01)), states, tolerance=1e-4)


@pytest.mark.slow
def test_transposes_of_steps() -> None:
    states = random_states(arm(5.0))

    def total(velocity: jax.Array) -> jax.Array:
        end = jax.vmap(lambda v, s: artix.step(arm(5.0), s.replace(joint_velocity=v), None, 0.01))(
            velocity, states
        )
        return jnp.sum(end.joint_position**2)

    check(jax.grad(total), states.joint_velocity, tolerance=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("on_the_ground", [False, True])
def test_steps_of_a_driven_quadruped(on_the_ground: bool) -> None:
    legged = robot("quadruped")
    legged = legged.replace(drive=legged.drive.replace(stiffness=jnp.full(12, 30.0, "float32")))
    # A warp and a part of one. All of a warp go on until its last robot is done, and those of the
    # robots before these exchange ten times as many words on the ground.
    states = jax.tree.map(lambda x: x[24:], random_states(legged, 0.3))
    states = states.replace(root_pose=states.root_pose.at[:, 2].add(0.5))
    scene = (
        artix.Scene(legged, ground=artix.Ground.flat(dtype="float32")) if on_the_ground else legged
    )
    check(jax.vmap(lambda s: artix.step(scene, s, None, 0.01)), states, tolerance=1e-3)


def test_one_robot() -> None:
    state, extra = jax.tree.map(lambda x: x[0], states("arm7", 1))
    check(lambda s, x: artix.inverse_dynamics(robot("arm7"), s, x), state, extra)


def test_robot_as_an_argument() -> None:
    """What is the same for all robots, and what is not, of robots whose numbers are arguments."""
    state, extra = states("arm7", 33)
    arm = robot("arm7")

    def one(mass: jax.Array, s: Any, x: jax.Array) -> jax.Array:
        return artix.inverse_dynamics(arm.replace(link_mass=mass), s, x)

    check(jax.vmap(one, in_axes=(None, 0, 0)), arm.link_mass, state, extra)
    masses = arm.link_mass * jnp.linspace(0.5, 2, 33, dtype="float32")[:, None]
    check(jax.vmap(one), masses, state, extra)


@pytest.mark.slow
def test_entries_of_a_terrain() -> None:
    """Loads from an array that all robots share, from one for each, and from one that is known."""
    state, _ = states("quadruped", 33)
    state = state.replace(root_pose=state.root_pose.at[:, :2].multiply(3.0))
    heights = jax.random.normal(jax.random.key(0), (50, 60), "float32") * 0.1

    def one(h: jax.Array, s: Any) -> jax.Array:
        field = artix.HeightField.of(
            h, spacing=(0.2, 0.2), origin=(-5.0, -6.0, 0.0), dtype="float32"
        )
        return artix.geometry_distances(
            artix.Scene(robot("quadruped"), ground=artix.Ground((field,))), s
        )

    check(jax.vmap(one, in_axes=(None, 0)), heights, state)
    check(jax.vmap(one), heights * jnp.linspace(0.5, 2, 33, dtype="float32")[:, None, None], state)
    check(jax.vmap(functools.partial(one, heights)), state)


@pytest.mark.slow
def test_items_of_robots() -> None:
    """Many tangents of each robot: a thread does all of them where much is common to them, else
    each has a thread."""
    state, extra = states("arm7", 37)

    def jacobian(s: Any, x: jax.Array) -> jax.Array:
        return jax.jacfwd(
            lambda q: artix.inverse_dynamics(robot("arm7"), s.replace(joint_position=q), x)
        )(s.joint_position)

    check(jax.vmap(jacobian), state, extra, loops=True, tolerance=1e-4)

    def rotated(s: Any, directions: jax.Array) -> jax.Array:
        return jax.vmap(lambda a: artix.inverse_dynamics(robot("arm7"), s, a))(directions)

    check(jax.vmap(rotated), state, jnp.stack([extra, 2 * extra, -extra], 1))


@pytest.mark.parametrize("of_robots", [False, True])
def test_items_with_threads(of_robots: bool) -> None:
    def function(x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.stack([jnp.sin(x[0] * y) + jnp.cos(y * x[1]), jnp.exp(-y * y) * x[2], y])

    x, y = (
        np.random.default_rng(0).normal(size=(21, 3)),
        np.random.default_rng(1).normal(size=(21, 5, 4)),
    )
    x, y = (
        x.astype("float32"),
        y.astype("float32")[:, :, :] if of_robots else y.astype("float32")[0],
    )
    program = scalarize(
        jax.make_jaxpr(function)(x[0], y.reshape(-1, 4)[0]), [1, 2], {}, max_operations=1000
    )
    layout = Layout(fewest_live(program), [Mapped(True, False), Mapped(of_robots, True)], True)
    assert not layout.loops_over_items and (1 in layout.staged_arguments) == of_robots
    (found,) = run_threads(layout, [x, y], 21, 5)
    inner = jax.vmap(function, (None, 0))
    np.testing.assert_allclose(
        found, jax.vmap(inner, (0, 0 if of_robots else None))(x, y), rtol=2e-6, atol=1e-6
    )


def test_kinds_of_numbers() -> None:
    """Entries of one, four and eight bytes, integers, negatives, constants and arguments as
    results."""

    def function(x: jax.Array, k: jax.Array, yes: jax.Array) -> Sequence[jax.Array]:
        kept = jnp.where(yes, x, -x)
        return kept, k * 2 - 3, yes & (x > 0), -x, jnp.ones((2, 2), x.dtype), k, x[:1]

    with jax.enable_x64(True):
        for dtype in ("float32", "float64"):
            generator = np.random.default_rng(0)
            x = generator.normal(size=(35, 4)).astype(dtype)
            k, yes = (
                generator.integers(-9, 9, (35, 3)).astype("int32"),
                generator.random((35, 4)) < 0.5,
            )
            program = scalarize(
                jax.make_jaxpr(function)(x[0], k[0], yes[0]), [1, 1, 1], {}, max_operations=1000
            )
            found = run_threads(
                Layout(fewest_live(program), [Mapped(True, False)] * 3, False), [x, k, yes], 35
            )
            for one, other in zip(found, jax.vmap(function)(x, k, yes), strict=True):
                assert one.dtype == other.dtype
                np.testing.assert_array_equal(one, other)


def test_words() -> None:
    """Random numbers, whose words are integers without a sign."""

    def function(words: jax.Array) -> Sequence[jax.Array]:
        first, second = threefry(words, words[:1], jnp.arange(3, dtype=jnp.uint32))
        floats = jax.lax.bitcast_convert_type((first >> 9) | 0x3F800000, jnp.float32)
        return first, second, first < second, first.astype(jnp.float32), floats, first * second

    words = np.random.default_rng(0).integers(0, 2**32, (35, 2)).astype("uint32")
    program = scalarize(jax.make_jaxpr(function)(words[0]), [1], {}, max_operations=3000)
    results = run_threads(Layout(fewest_live(program), [Mapped(True, False)], False), [words], 35)
    for one, other in zip(results, jax.vmap(function)(words), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def test_rows_too_long_for_shared_memory() -> None:
    function = lambda x: (x * 2, x[:5])  # noqa: E731
    x = np.random.default_rng(0).normal(size=(34, 300)).astype("float32")
    program = scalarize(jax.make_jaxpr(function)(x[0]), [1], {}, max_operations=1000)
    layout = Layout(fewest_live(program), [Mapped(True, False)], False)
    assert len(layout.staged_arguments) + len(layout.staged_results) == 2
    for one, other in zip(run_threads(layout, [x], 34), jax.vmap(function)(x), strict=True):
        np.testing.assert_array_equal(one, other)


def program_of(function: Callable[..., Any], name: str) -> ScalarProgram:
    equation = programs_in(bound(function, name), *states(name, 2))[-1]
    return scalars_of(
        equation.params["program"], levels_of(equation.params["axes"], len(equation.invars))
    )


def test_schedule_keeps_the_program_and_has_fewer_live_scalars() -> None:
    program = program_of(artix.inverse_dynamics, "quadruped")
    ordered = fewest_live(program)
    assert live(ordered) < 0.9 * live(depth_first(program)) < 200  # torques leg by leg
    operands = np.where((ordered.operations == Op.INPUT)[:, None], -1, ordered.operands) >> 1
    assert (operands < np.arange(len(operands))[:, None]).all()
    assert ordered.size == program.size
    inputs = [
        np.sort(p.operands[p.operations == Op.INPUT], axis=0).tolist() for p in (program, ordered)
    ]
    assert inputs[0] == inputs[1]


# --- PTX ----------------------------------------------------------------------------------------


def kernel_of(function: Callable[..., Any], name: str) -> Any:
    equation = programs_in(bound(function, name), *states(name, 2))[-1]
    layout = layout_of(equation)
    return build_for_gpu(layout.program, layout.mapped, layout.has_items)


@needs_target
def test_ptx() -> None:
    text = kernel_of(artix.inverse_dynamics, "arm7").ptx
    assert ".maxntid 32" in text
    assert "cp.async.ca.shared.global" in text
    assert "fma.rn.f32" in text
    assert "ld.global.nc" in text, "the size of the batch"
    assert "\tcall" not in text, "elementary functions are drawn in"
    assert "ld.local" not in text, "LLVM itself keeps nothing in local memory"
    assert ".f64" not in text


@functools.cache
def assembler() -> str | None:
    """The program ptxas of the wheel nvidia-cuda-nvcc-cu12."""
    found = importlib.util.find_spec("nvidia")
    places = found.submodule_search_locations if found and found.submodule_search_locations else []
    files = [Path(place) / "cuda_nvcc/bin/ptxas" for place in places]
    return next((str(file) for file in files if file.is_file()), None)


@needs_target
@pytest.mark.parametrize("device", ["sm_80", "sm_90"])
def test_ptx_assembles(device: str, tmp_path: Path) -> None:
    program = assembler()
    if program is None:
        pytest.skip("needs ptxas, of nvidia-cuda-nvcc-cu12")
    file = tmp_path / "kernel.ptx"
    file.write_text(kernel_of(artix.inverse_dynamics, "arm7").ptx)
    command = [program, f"-arch={device}", "-v", "-o", str(tmp_path / "kernel.cubin"), str(file)]
    report = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert "0 bytes spill stores" in report


# --- How XLA is handed them ---------------------------------------------------------------------


def lowered(function: Callable[..., Any] = artix.inverse_dynamics, **switches: bool) -> str:
    state, extra = states("arm7", 5)
    with artix.use_kernels(True, **switches):
        function = jax.jit(lambda s, x, f=function: bound(f, "arm7")(s, x))
        return function.trace(state, extra).lower(lowering_platforms=("cuda",)).as_text()


def test_off_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ARTIX_GPU_KERNELS", raising=False)
    assert "gpu.ptx" not in lowered()
    assert "gpu.ptx" not in lowered(gpu=False)


@needs_target
def test_switches(monkeypatch: pytest.MonkeyPatch) -> None:
    text = lowered(gpu=True)
    assert text.count("@__gpu$xla.gpu.ptx") == 1
    assert 'name = "artix_inverse_dynamics"' in text and ".entry artix_inverse_dynamics(" in text
    assert "dot_general" not in text
    monkeypatch.setenv("ARTIX_GPU_KERNELS", "1")
    assert "gpu.ptx" in lowered()
    assert "gpu.ptx" not in lowered(gpu=False)


@needs_target
def test_batches_of_all_sizes_share_a_text() -> None:
    """The driver assembles it once and keeps it, so it may depend on nothing but the program."""
    texts = []
    every, extras = states("arm7", 41)
    for count in (5, 6, 41):
        state, extra = jax.tree.map(operator.itemgetter(slice(count)), (every, extras))
        with artix.use_kernels(True, gpu=True):
            function = jax.jit(bound(artix.inverse_dynamics, "arm7"))
            text = function.trace(state, extra).lower(lowering_platforms=("cuda",)).as_text()
        assert f"dense<{count}> : tensor<i32>" in text
        assert f"grid_x = {-(-count // 32)} : i32" in text
        texts.append(re.findall(r'kernel_data = "[^"]*"', text))
    assert len(texts[0]) == 1
    assert texts[0] == texts[1] == texts[2]


@needs_target
def test_derivatives_keep_the_switch() -> None:
    state, extra = states("arm7", 5)

    def total(extra: jax.Array, state: Any) -> jax.Array:
        return jnp.sum(bound(artix.inverse_dynamics, "arm7")(state, extra))

    with artix.use_kernels(True, gpu=True):
        text = (
            jax.jit(jax.grad(total))
            .trace(extra, state)
            .lower(lowering_platforms=("cuda",))
            .as_text()
        )
    assert text.count("@__gpu$xla.gpu.ptx") == 1


@needs_target
@pytest.mark.skipif(jax.device_count("cpu") < 2, reason="needs several devices")
def test_parts_on_several_devices_have_kernels() -> None:
    """XLA is told how to split the call; what it makes of it for two GPUs is tested ahead of
    time."""
    mesh = jax.sharding.Mesh(np.array(jax.devices("cpu")[:2]), ("batch",))
    split = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("batch"))
    state, extra = jax.device_put(states("arm7", 6), split)
    for on, words in ((True, ("CustomSPMDPartitioning",)), (False, ())):
        with artix.use_kernels(True, gpu=on):
            function = jax.jit(lambda s, x: bound(artix.inverse_dynamics, "arm7")(s, x))
            text = function.trace(state, extra).lower(lowering_platforms=("cuda",)).as_text()
        assert all(word in text for word in words) and ("CustomSPMDPartitioning" in text) == on


@needs_target
@pytest.mark.skipif(jax.device_count("cpu") < 2, reason="needs several devices")
def test_shard_map_has_kernels() -> None:
    """Each device's part has the kernel of its own number of robots."""
    mesh = jax.sharding.Mesh(np.array(jax.devices("cpu")[:2]), ("batch",))
    part = jax.sharding.PartitionSpec("batch")
    function = bound(artix.inverse_dynamics, "arm7")
    with artix.use_kernels(True, gpu=True):
        split = jax.jit(jax.shard_map(function, mesh=mesh, in_specs=(part, part), out_specs=part))
        text = split.trace(*states("arm7", 66)).lower(lowering_platforms=("cuda",)).as_text()
    assert text.count("@__gpu$xla.gpu.ptx") == 1
    assert "dense<33> : tensor<i32>" in text


@needs_target
def test_exports_have_no_kernels() -> None:
    state, extra = states("arm7", 5)
    with artix.use_kernels(True, gpu=True):
        function = jax.jit(lambda s, x: bound(artix.inverse_dynamics, "arm7")(s, x).sum())
        exported = jax.export.export(function, platforms=("cuda",))(
            *jax.tree.map(jnp.asarray, (state, extra))
        )
    assert "gpu.ptx" not in exported.mlir_module()


def test_without_the_target(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(gpu_compilation, "gpu_available", lambda: "no such target")
    assert "gpu.ptx" not in lowered(gpu=True)


def test_programs_that_take_the_assembler_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_compilation, "MAX_SECONDS", 0.01)
    assert "gpu.ptx" not in lowered(lambda a, s, x: artix.forward_dynamics(a, s, 2 * x), gpu=True)


@needs_target
def test_long_assembly_is_announced(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("ARTIX_CACHE", "0")
    gravity: Any = lambda a, s, x: artix.gravity_compensation(a, s)  # noqa: E731
    state, extra = states("arm7", 5)

    def lower(count: int) -> None:
        few = jax.tree.map(lambda x: x[:count], (state, extra))
        with artix.use_kernels(True, gpu=True):
            jax.jit(bound(gravity, "arm7")).trace(*few).lower(lowering_platforms=("cuda",))

    monkeypatch.setattr(gpu_compilation, "_LONG", 0.0)
    lower(5)
    (line,) = caplog.messages
    assert "gravity_compensation" in line and "assemble" in line
    lower(4)  # Its kernel is the same.
    assert len(caplog.messages) == 1


@pytest.mark.parametrize(
    ("operations", "alive", "seconds"),
    [
        (5_587, 266, 0.27),
        (28_043, 965, 5.2),
        (41_336, 1_107, 9.5),
        (63_568, 2_079, 20.8),
        (86_789, 4_454, 48.1),
        (105_560, 2_456, 51.1),
    ],
)
def test_estimates_of_assembly(operations: int, alive: int, seconds: float) -> None:
    """Beside ptxas 12.9, for forward dynamics, steps, and the transpose of a step."""
    assert gpu_compilation.assembly_seconds(operations, alive) == pytest.approx(seconds, rel=0.15)
