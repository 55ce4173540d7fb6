"""Tasks, a module each."""
