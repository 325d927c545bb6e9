"""Where the instructions of the emulated target go: the measured side of the CPU's ledger."""

from .instruction_profile import InstructionProfile, profile_point

__all__ = ["InstructionProfile", "profile_point"]
