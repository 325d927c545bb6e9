"""Questions that take many runs: sweep, capacity, tune, sensitivity, forecast.

    factors ─► points ─► runs (seeds, draws of the costs) ─► store ─► records ─► answer
    what is varied       common random numbers               kept       rows      with an interval

A verb a file; each returns an answer that knows its sentence, its table as a pandas frame
(`frame`), its picture (`plot`) and what to know before one believes it (`warnings`).
"""
