"""How often intervals and selections are right, on queues with known results."""
