"""How often intervals and selections hold the truth, on queues with known answers."""
