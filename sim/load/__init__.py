"""Who comes and what they ask for: traces, arrivals, sizes, random streams."""
