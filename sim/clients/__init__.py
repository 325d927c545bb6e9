"""Clients: their arrivals, requests, time-outs and retries."""
