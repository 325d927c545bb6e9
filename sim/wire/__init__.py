"""The network between clients and server: link, paths, segments, retransmission timers."""
