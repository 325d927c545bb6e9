"""How much stack a worker gets: nothing recurs, and the compiler bounds every frame."""

from __future__ import annotations

FRAME_BYTES_MAX = 2048
"""The compiler refuses a function whose frame takes more."""
_ENGINE_FRAMES = 8
_SIGNAL_BYTES = 64 * 1024
"""Room for the frame of a signal: registers of AVX-512 and AMX take some 11 KB."""
_PAGE_BYTES = 4096


def stack_bytes(depth: int) -> int:
    """Return what a worker needs whose translated functions call each other *depth* deep."""
    # A program spends from its innermost call, and what happens meanwhile is as deep again.
    frames = 2 * depth + _ENGINE_FRAMES
    needed = frames * FRAME_BYTES_MAX + _SIGNAL_BYTES
    return -(-needed // _PAGE_BYTES) * _PAGE_BYTES
