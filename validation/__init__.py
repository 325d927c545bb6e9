"""Does it tell the truth: predictions against measurements and published results."""
