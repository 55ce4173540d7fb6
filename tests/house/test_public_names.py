"""Public names and parameters do not change unnoticed."""

import pytest

import artix
from tests.support.public_names import FILE, ROOMS, public_names


def test_public_names_are_as_recorded():
    recorded, found = (set(text.splitlines()) for text in (FILE.read_text(), public_names()))
    changes = [f"- {line}" for line in sorted(recorded - found)] + [
        f"+ {line}" for line in sorted(found - recorded)
    ]
    assert not changes, "\n".join(
        [
            *changes,
            "if this is meant, say so in CHANGELOG.md and run python -m tests.support.public_names",
        ]
    )


def test_every_name_has_one_room():
    homes = {}
    for room in ROOMS:
        for name in room.__all__:
            homes.setdefault(name, []).append(room.__name__)
    assert {name: rooms for name, rooms in homes.items() if len(rooms) > 1} == {}
    aliases = {
        name
        for name in vars(artix)
        if getattr(getattr(artix, name), "__module__", "").startswith("artix.")
    }
    assert sorted(aliases - set(homes) - {"__dir__"}) == []
    assert all(
        getattr(artix, name) is getattr(room, name) for room in ROOMS for name in room.__all__
    )


def test_completion_offers_the_first_weeks_names_and_rooms():
    offered = dir(artix)
    assert set(artix.__all__) <= set(offered)
    assert len(artix.__all__) <= 90
    assert "kinematics" in offered
    assert "joint_kinematic_hessians" not in offered and artix.joint_kinematic_hessians


def test_the_compiler_has_its_old_name_for_one_release():
    with pytest.warns(
        DeprecationWarning, match=r"artix\.evaluation\.quantity is now artix\.compiler\.quantity"
    ):
        from artix.evaluation import quantity
    assert quantity is artix.quantity
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = artix.evaluation.nothing
