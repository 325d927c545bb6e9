"""Questions that take many runs: sweep, capacity, tune, sensitivity, forecast.

    factors ─► points ─► runs (seeds, cost samples) ─► store ─► records ─► answer
    what is varied       common random numbers         kept       rows      with an interval

Each file holds one verb. It returns an answer with a sentence, a table as a pandas frame
(`frame`), a picture (`plot`) and `warnings`.
"""
