"""A guard against regressions of speed: ratios of artix to its peers in one run, never absolute
times.

Each floor is a quarter to a half of the ratio measured when it was set (for the arm, before
functions became kernels). Another machine, perhaps with shorter vectors, or a noisy one should not
trip it.
"""

from __future__ import annotations

from benchmarks.report import Table

#: robot, quantity, peer: how many times as long as artix the peer takes at least
FLOORS: dict[tuple[str, str, str], float] = {
    ("arm", "link poses", "Brax"): 5.0,
    ("arm", "dense Jacobian", "Brax"): 4.5,
    ("arm", "mass matrix", "Brax"): 3.0,
    ("arm", "mass matrix", "frax"): 9.0,
    ("arm", "inverse dynamics", "frax"): 10.0,
    ("arm", "forward dynamics", "frax"): 10.0,
    ("quadruped", "step", "MJX"): 35.0,
    ("quadruped", "inverse dynamics", "MJX"): 15.0,
    ("humanoid", "forward dynamics", "MJX"): 30.0,
    ("humanoid", "gradient of forward dynamics", "frax"): 40.0,
    ("humanoid", "forward dynamics derivatives", "frax"): 250.0,
}

BATCH = 4096

ROBOTS = tuple(dict.fromkeys(robot for robot, _, _ in FLOORS))
QUANTITIES = tuple(dict.fromkeys(quantity for _, quantity, _ in FLOORS))
LIBRARIES = ("artix", *dict.fromkeys(peer for _, _, peer in FLOORS))


def broken(table: Table) -> list[str]:
    """One line for each ratio that is below its floor or missing."""
    lines = []
    for (robot, quantity, peer), floor in FLOORS.items():
        ratio = table.ratio(robot, quantity, BATCH, peer)
        if ratio is None:
            results = [table.result(robot, quantity, BATCH, name) for name in ("artix", peer)]
            reasons = [
                result.failure
                for result in results
                if result is not None and result.failure is not None
            ]
            lines.append(
                f"{robot}, {quantity}: no ratio to {peer}: {'; '.join(reasons) or 'not measured'}"
            )
        elif ratio < floor:
            lines.append(
                f"{robot}, {quantity}: {peer} takes {ratio:.2f} times as long as artix; the floor "
                f"is {floor:g}"
            )
    return lines
