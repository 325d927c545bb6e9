"""Worked examples on real servers: fitted at one back end without idle connections, then forecast.

descriptions ─► plan ─► campaign ─┬─► fit.jsonl ─────► profile ─► forecasts ─┐
nginx, memcached, ...             └─► heldout.jsonl ─────────────────────────┴─► report
"""
