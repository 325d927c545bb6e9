"""The substrate: laws of every server, independent of its dispatch mechanism."""
