"""Arrays, rotations and rigid motions; nothing here knows about robots."""
