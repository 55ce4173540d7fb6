"""Arrays and the algebra of rotations and rigid motions; nothing of robots."""
