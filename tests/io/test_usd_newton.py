"""The USD assets of the ``newton`` package: each loads or is refused by name, and newton's own
importer agrees."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import warnings
from pathlib import Path

import numpy as np
import pytest
from pxr import Usd

import artix
from tests.support.usd_stages import body_inertias

SPECIFICATION = importlib.util.find_spec("newton")
FOLDER = (
    Path(SPECIFICATION.origin).parent
    if SPECIFICATION and SPECIFICATION.origin
    else Path("/nowhere")
)
ASSETS = sorted(path for path in FOLDER.rglob("*.usd*") if path.suffix in (".usd", ".usda"))

pytestmark = pytest.mark.skipif(not ASSETS, reason="newton is not installed")


def load(path: Path) -> tuple[artix.Articulation | None, list[str]]:
    """The articulation of a stage, of its own root or all that is below its default prim; and what
    was refused."""
    stage = Usd.Stage.Open(str(path))
    default = stage.GetDefaultPrim()
    said: list[str] = []
    for root in (None, str(default.GetPath()) if default else None):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", artix.DescriptionWarning)
                return artix.load_usd(path, root=root), said
        except artix.DescriptionError as error:
            said += [str(issue) for issue in error.issues]
    return None, said


def test_every_asset_loads_or_is_refused_by_name():
    loaded = 0
    for path in ASSETS:
        articulation, said = load(path)
        loaded += articulation is not None
        assert articulation is not None or (said and all(path.name in words for words in said))
    # The others hold cloth and fluids, several robots, loops, or joints of many axes.
    assert loaded > 0.5 * len(ASSETS)


def newton_bodies(path: Path) -> dict[str, tuple[float, np.ndarray, np.ndarray]]:
    """Mass, centre and inertia of each body by the name of its prim, by newton's importer."""
    import newton

    builder = newton.ModelBuilder()
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        builder.add_usd(str(path))
    bodies = zip(
        builder.body_label, builder.body_mass, builder.body_com, builder.body_inertia, strict=True
    )
    return {
        label.rpartition("/")[2]: (float(mass), np.array(center), np.array(inertia).reshape(3, 3))
        for label, mass, center, inertia in bodies
    }


@pytest.mark.slow
@pytest.mark.parametrize("path", ASSETS, ids=lambda path: path.stem)
def test_masses_are_those_of_newtons_importer(path):
    pytest.importorskip("newton_usd_schemas")
    articulation, _ = load(path)
    if articulation is None:
        pytest.skip("refused")
    wanted = newton_bodies(path)
    inertias = body_inertias(articulation)
    compared = 0
    for link, name in enumerate(articulation.topology.link_names):
        if name not in wanted or wanted[name][0] == 0.0:
            continue  # Newton has no mass where we have PhysX's.
        mass, center, inertia = wanted[name]
        assert float(articulation.link_mass[link]) == pytest.approx(mass, rel=1e-5)
        assert np.allclose(articulation.link_com_pose[link, :3], center, atol=1e-5)
        assert np.allclose(inertias[link], inertia, atol=1e-5 * np.trace(inertia))
        compared += 1
    assert compared
