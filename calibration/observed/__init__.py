"""Runs of servers that are not ours, as observed from outside by any tool.

httperf, wrk, wrk2 ─ printed output ─┐
HdrHistogram ─────── log, spectrum ──┼─► ObservedRun ─► one line of JSON
CSV ──────────────── with a mapping ─┘       └─► unseen by the tool: `doubts`
"""
