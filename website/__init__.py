"""How the documentation site is made: `mkdocs build --strict`, with the extra ``docs``."""
