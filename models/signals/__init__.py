"""Events told by queued signals, and what a server does when the queue overflows."""
