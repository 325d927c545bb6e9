"""What lies between clients and server: link, paths, segments, timers that send again."""
