"""Meta-gradients: adaptation, policy gradient, curvature, and the variants built of them."""
