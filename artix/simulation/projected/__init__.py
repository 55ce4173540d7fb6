"""PhysX's step by projected Gauss-Seidel sweeps."""
