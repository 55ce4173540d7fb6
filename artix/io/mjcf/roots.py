"""Which articulations a compiled MJCF has, and which of them is read."""

from __future__ import annotations

import dataclasses

from artix.io.mjcf.bodies import WORLD, has_dofs, is_free, top_bodies
from artix.io.mjcf.source import MjcfSource


@dataclasses.dataclass(frozen=True)
class Root:
    """One articulation of a model: its root body (the world, 0, for a fixed base) and its children of the world."""

    name: str
    body: int
    tops: tuple[int, ...]


def roots_of(source: MjcfSource) -> dict[str, Root]:
    """The articulations of a model by name; only the static world if nothing moves."""
    model, names = source.model, source.names
    tops = top_bodies(model)
    fixed = tuple(top for top in tops if not is_free(model, top))
    free = [Root(names.bodies[top], top, (top,)) for top in tops if is_free(model, top)]
    moves = any(has_dofs(model, top) for top in fixed)
    world = [Root(WORLD, 0, fixed)] if moves or not free else []
    return {root.name: root for root in [*world, *free]}


def choose_root(source: MjcfSource, body: str | None) -> Root:
    """The articulation of this name, or the only one.

    Raises:
      ValueError: there is none of this name, or several and no name.
    """
    roots = roots_of(source)
    if body is None:
        if len(roots) > 1:
            listed = ", ".join(map(repr, roots))
            raise ValueError(
                f"{source.report.file}: the model has {len(roots)} articulations ({listed}); choose one with "
                "body=..., or read all with load_mjcf_all"
            )
        return next(iter(roots.values()))
    tops = {source.names.bodies[top]: top for top in top_bodies(source.model)}
    if body in roots:
        return roots[body]
    if body == WORLD:
        return Root(WORLD, 0, tuple(top for top in tops.values() if not is_free(source.model, top)))
    if body not in tops:
        known = ", ".join(map(repr, [WORLD, *tops]))
        raise ValueError(f"{source.report.file}: no child of the world is called {body!r}; choose from: {known}")
    return Root(body, 0, (tops[body],))


def with_base(source: MjcfSource, root: Root, fixed_base: bool | None) -> Root:
    """The root with its base fixed or freed as requested.

    Raises:
      ValueError: it cannot float.
    """
    if fixed_base is True:
        return dataclasses.replace(root, body=0)
    if fixed_base is False and root.body == 0:
        if len(root.tops) != 1 or source.model.body_jntnum[root.tops[0]]:
            raise ValueError(
                f"{source.report.file}: {root.name!r} cannot float: only a single body without a joint to the world "
                "can; choose it with body=..."
            )
        return dataclasses.replace(root, body=root.tops[0])
    return root


def articulation_name(source: MjcfSource, root: Root) -> str:
    """The model's name if it has a single articulation, else the root's."""
    model_name = source.model.names.split(b"\0", 1)[0].decode("utf-8", "replace")
    return model_name or "articulation" if len(roots_of(source)) == 1 else root.name
