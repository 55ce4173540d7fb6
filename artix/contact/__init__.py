"""Contact: shapes on links, the ground, and where the two may touch."""
