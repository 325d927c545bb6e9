"""Examples with real servers: a fit to one back end without idle connections, and forecasts.

descriptions ─► plan ─► campaign ─┬─► fit.jsonl ─────► profile ─► forecasts ─┐
nginx, memcached, ...             └─► heldout.jsonl ─────────────────────────┴─► report
"""
