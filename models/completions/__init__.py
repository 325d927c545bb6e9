"""Completions instead of readiness: io_uring, completion ports, AIO polls."""
