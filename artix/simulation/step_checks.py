"""Checks of the arguments of a step."""

from __future__ import annotations

from artix.contact.ground import Ground
from artix.model.articulation import Articulation, State
from artix.model.checks import check_state, check_type
from artix.model.topology import Topology
from artix.simulation.common.options import Control, SolverOptions, check_control
from artix.simulation.remembered import has_pairs


def checked_control(
    articulation: Articulation, state: State, control: Control | None, options: SolverOptions, ground: Ground | None
) -> Control:
    """Checks all arguments and returns the control."""
    control = Control() if control is None else control
    check_state(articulation, state)
    check_type("options", options, SolverOptions)
    if ground is not None:
        check_type("ground", ground, Ground)
    if ground is not None and options.solver == "rk4":
        raise ValueError("solver='rk4' has no contacts: use solver='implicit', 'pgs' or 'tgs', or leave out ground")
    if options.solver != "implicit" and has_pairs(articulation):
        raise ValueError(
            f"solver={options.solver!r} has no contacts between links, but the articulation has pairs of shapes: use "
            "solver='implicit', or remove the pairs with artix.select_geometry_pairs(articulation, ())"
        )
    check_control(articulation, control)
    _check_topology(articulation, options)
    return control


def _check_topology(articulation: Articulation, options: SolverOptions) -> None:
    topology = articulation.topology
    if isinstance(topology, Topology):
        return
    if options.solver in ("pgs", "tgs"):
        raise TypeError(
            f"solver={options.solver!r} needs a static topology, and this articulation is padded: use "
            "solver='implicit', or a fleet with layout='kinds'"
        )
    padding = topology.padding
    if padding.fixed_tendons or padding.spatial_tendons or padding.loop_joints:
        raise TypeError(
            "steps with tendons or loop joints need a static topology, and this articulation is padded: use a fleet "
            "with layout='kinds'"
        )
