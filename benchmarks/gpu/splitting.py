"""``python -m benchmarks gpu-splitting``: what could be gained by several threads for a robot, by counts.

The operations of a program are scheduled on one warp and on four, on schedulers of their own, which exchange scalars
through shared memory: heterogeneous earliest finish time (Topcuoglu, Hariri and Wu, 2002). An operation takes a cycle
to issue and four until its result can be used; a scalar from another warp, a store, a load and 40 cycles. Registers and
instruction caches are not counted, and each loop runs once.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import jax
import numpy as np

from artix.compiler.batch_axes import groups_of, merged
from artix.compiler.compilation import scalars_of
from artix.compiler.operation import levels_of, program_p
from artix.compiler.scalar_program import Op, ScalarProgram
from benchmarks.gpu.cases import FUNCTIONS, ROBOTS, cases

#: Cycles until a result can be used, in the same warp and in another.
LATENCY, EXCHANGE = 4, 40


def cycles(program: ScalarProgram, warps: int) -> int:
    """Cycles of a program on so many warps, which wait for each other at the ends of loops."""
    is_input = np.isin(program.operations, [Op.INPUT, Op.CARRIED])
    operands = np.where(is_input[:, None], -1, program.operands) >> 1
    is_real = (program.operations > Op.CONSTANT) & ~is_input
    stages = (np.flatnonzero(is_real & (program.stages == stage)) for stage in range(len(program.nests)))
    return sum(_cycles(operands, numbers.tolist(), warps) for numbers in stages)


def _cycles(operands: np.ndarray, numbers: Sequence[int], warps: int) -> int:
    inside = set(numbers)
    before = {number: {x for x in operands[number].tolist() if x in inside} for number in numbers}
    ranks = dict.fromkeys(numbers, LATENCY)  # Cycles until the end of the program.
    for number in reversed(numbers):
        for operand in before[number]:
            ranks[operand] = max(ranks[operand], ranks[number] + LATENCY)
    is_free = [0] * warps
    ends, places = dict[int, int](), dict[int, int]()
    copies, stored = set[tuple[int, int]](), set[int]()
    for number in sorted(numbers, key=lambda each: (-ranks[each], each)):
        starts = []
        for warp in range(warps):
            far = [x for x in before[number] if places[x] != warp and (x, warp) not in copies]
            ready = [ends[x] + (EXCHANGE if x in far else 0) for x in before[number]]
            starts.append((max([is_free[warp] + len(far), *ready]), warp, far))
        start, warp, far = min(starts)
        for operand in far:
            copies.add((operand, warp))
            is_free[places[operand]] += operand not in stored
            stored.add(operand)
        is_free[warp] = start + 1
        ends[number], places[number] = start + LATENCY, warp
    return max(ends.values(), default=0)


def main(arguments: list[str]) -> int:
    """Prints, for each function, cycles on one warp and on four."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks gpu-splitting", description=__doc__)
    parser.add_argument("--robots", nargs="+", choices=ROBOTS, default=["quadruped"], metavar="NAME")
    parser.add_argument("--functions", nargs="+", choices=FUNCTIONS, default=FUNCTIONS[:2], metavar="NAME")
    options = parser.parse_args(arguments)
    for robot in options.robots:
        found = cases("artix", robot, 2)
        for name in options.functions:
            jaxpr = jax.make_jaxpr(found[name].function)(*found[name].types)
            for equation in jaxpr.eqns:
                if equation.primitive is program_p:
                    program, count = equation.params["program"], len(equation.invars)
                    axes = merged(groups_of(equation.params["axes"], program.num_operand_values))
                    scalars = scalars_of(program, levels_of(axes, count))
                    one, four = (cycles(scalars, warps) for warps in (1, 4))
                    print(f"{robot} {name}: {one:,} / {four:,} cycles, {one / four:.2f} times", flush=True)
    return 0
