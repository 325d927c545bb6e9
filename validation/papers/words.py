"""How papers' words are read: one number for each word, for all claims alike.

Words that only one paper has ("small", "slowly") are read where they stand. Numbers that a paper
gives are held to: CPU and rates 10%, counts 20%, profile shares 2 points.
"""

RATE = 0.10
"""CPU and rates; "similar", "comparable", "tracks", "independent of"."""
COUNT = 0.20
"""Counts of calls and events."""
POINTS = 0.02
"""Shares of a profile, and errors that are said to be none."""
SAME = 0.05
"""Of "identical", "very similar", "very close"."""
MUCH = 2 / 3
"""At most this share of the other is "much less", "dramatically lower"; at least its inverse "much
more"."""
LESS = 0.95
"""At most this share of the other is "less" or "affected"."""
ALL = 0.97
"""At least this share of a CPU is "100%", "saturated"."""
KEPT = 0.95
"""At least this share of what was asked for is answered where a server "keeps up"."""
LOST = 0.90
"""At most this share is answered where it "loses load", "drops", "breaks down"."""
DROP = 0.70
"""At most this share of its peak is left where a server "drops sharply"; at least as much, where it
"declines slowly"."""
LINEAR = 0.98
"""At least this R squared is "linear"."""
