"""The emulated target: a machine without noise, on which one instruction takes one nanosecond."""
