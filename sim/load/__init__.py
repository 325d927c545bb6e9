"""The load: traces, arrivals, sizes, random streams."""
