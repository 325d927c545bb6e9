"""Events as queued signals, and the server's recovery from an overflow of the queue."""
