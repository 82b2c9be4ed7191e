"""A user's own energy: fixed points, expectations, gradients, learning, and the theorems behind them as checks."""
