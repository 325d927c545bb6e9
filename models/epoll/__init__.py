"""epoll: level, edge, once, one-shot, closed without a call, changes in one call."""
