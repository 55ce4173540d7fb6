"""No public name or parameter comes, goes or changes unnoticed."""

from tests.public_names import FILE, public_names


def test_public_names_are_as_recorded():
    recorded, found = (set(text.splitlines()) for text in (FILE.read_text(), public_names()))
    changes = [f"- {line}" for line in sorted(recorded - found)] + [f"+ {line}" for line in sorted(found - recorded)]
    assert not changes, "\n".join(
        [*changes, "if this is meant, say so in CHANGELOG.md and run python -m tests.public_names"]
    )
