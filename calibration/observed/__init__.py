"""Runs of servers that are not ours: what was seen of them from outside, by whatever tool.

httperf, wrk, wrk2 ─ printed output ─┐
HdrHistogram ─────── log, spectrum ──┼─► ObservedRun ─► one line of JSON
CSV ──────────────── with a mapping ─┘       └─► doubts: what the tool could not have seen
"""
