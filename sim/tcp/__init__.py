"""TCP at the server: listen queue, windows, acknowledgements, closing."""
