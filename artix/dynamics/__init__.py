"""Mass matrix, inverse and forward dynamics, momentum, energy, regressors, and their derivatives."""
