"""Benchmarks of the engines against a C program by hand, a first model and general tools."""
