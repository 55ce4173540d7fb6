"""What an articulation is, and how to build one."""
