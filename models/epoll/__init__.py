"""The variants of epoll: level, edge, once, one-shot, removal by close, vectored changes."""
