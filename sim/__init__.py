"""The substrate: what is true of any server, whatever its dispatch mechanism."""
