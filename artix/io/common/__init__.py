"""Code shared by the readers and writers of all formats."""
