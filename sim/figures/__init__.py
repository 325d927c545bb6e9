"""From a run to its record and its metrics."""
