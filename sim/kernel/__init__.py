"""System calls: descriptors, sockets, interest sets, sleeping."""
