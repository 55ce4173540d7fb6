"""Physically impossible inertias: used as given, repaired or refused, by the same rules in every reader."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from artix.io.common.diagnostics import Place, Report, listed
from artix.model.validation import (
    impossible_inertia,
    inertia_rounding,
    principal_inertias,
    without_negative_moments,
)

#: Smaller moments are raised to this fraction of the largest one.
_MIN_MOMENT = 1e-6


class _Link(Protocol):
    """A link whose inertia can be checked."""

    @property
    def name(self) -> str: ...
    @property
    def mass(self) -> float: ...
    @property
    def inertia(self) -> np.ndarray: ...


_AnyLink = TypeVar("_AnyLink", bound=_Link)


def check_inertias(
    links: Sequence[_AnyLink], places: Mapping[str, Place], report: Report, *, repair: bool
) -> list[_AnyLink]:
    """Checks the masses and inertias of links.

    Moments that are negative within rounding become zero. Inertias that are impossible but still give well-defined
    dynamics (one principal moment above the sum of the others, inertia without mass) are kept, with one warning for all
    such links. Negative masses and moments are errors.

    Args:
      links: dataclasses with ``name``, ``mass`` and ``inertia``.
      places: where the file gives the mass of a link, by the link's name.
      report: receives the issues; every impossible inertia is an error if it is strict.
      repair: whether to repair inertias by :func:`repaired_inertia`, and to drop inertias without mass.

    Returns:
      The links, their inertias replaced where necessary.
    """
    checked: list[_AnyLink] = []
    impossible: dict[str, str] = {}
    for link in links:
        place = places.get(link.name)
        inertia = link.inertia
        if place is not None:
            inertia, problem = _checked_inertia(link, place, report, repair=repair)
            impossible |= {link.name: problem} if problem else {}
        checked.append(link if inertia is link.inertia else _with_inertia(link, inertia))
    if impossible:
        first, problem = next(iter(impossible.items()))
        message = f"link {first!r} has a physically impossible inertia, used as given: {problem}"
        if len(impossible) > 1:
            message = f"{len(impossible)} links have physically impossible inertias, used as given: "
            message += listed(map(repr, impossible))
        fix = "correct it in the file, or pass repair=('inertia',) to the reader; strict=True refuses it"
        report.warning(places[first], message, fix)
    return checked


def _with_inertia(link: Any, inertia: np.ndarray) -> Any:
    return dataclasses.replace(link, inertia=inertia)


def _checked_inertia(link: _Link, place: Place, report: Report, *, repair: bool) -> tuple[np.ndarray, str | None]:
    """The inertia to compute with, and why it is impossible if it is kept all the same."""
    mass, inertia = link.mass, link.inertia
    if mass < 0.0:
        report.error(place, f"the mass {mass:g} kg is negative", "give the mass in kg, 0 for a massless link")
        return inertia, None
    least = float(np.linalg.eigvalsh(inertia)[0])
    negative = least < -inertia_rounding(mass, inertia)
    if negative:
        problem: str | None = f"the inertia is not positive definite: {principal_inertias(inertia)}"
    else:
        inertia = without_negative_moments(inertia)
        problem = impossible_inertia(mass, inertia)
    if problem is None:
        if mass > 0.0 and not np.any(inertia):
            point = f"a point mass: {mass:g} kg without rotational inertia"
            fix = "nothing, unless its inertia about the centre of mass matters [kg m^2]"
            report.note(place, point, fix, "point masses: no rotational inertia")
        return inertia, None
    if repair:
        repaired = repaired_inertia(inertia) if mass > 0.0 else np.zeros((3, 3))
        several = "{count} links had physically impossible inertias"
        report.repaired(place, f"{problem}; now {principal_inertias(repaired)}", "correct it in the file", several)
        return repaired, None
    if negative or report.strict:
        report.error(place, problem, "correct it, or pass repair=('inertia',) to the reader")
        return inertia, None
    return inertia, problem


def repaired_inertia(inertia: np.ndarray) -> np.ndarray:
    """Raises the principal moments of an inertia just enough to make it physically possible; the axes stay.

    Every moment is first raised to a millionth of the largest. If the two smaller ones then sum to less than the
    largest, each is raised by half the difference. Raising moments only slows the motion about their axes; lowering
    the largest one could make a simulation unstable.

    Args:
      inertia: a symmetric matrix [kg m^2], shape [3, 3].
    """
    moments, axes = np.linalg.eigh(inertia)
    size = np.abs(moments).max()
    moments = np.maximum(moments, _MIN_MOMENT * size)
    missing = moments[2] - moments[0] - moments[1]
    moments[:2] += 0.5 * max(missing, 0.0)
    result = (axes * moments) @ axes.T
    return 0.5 * (result + result.T)
