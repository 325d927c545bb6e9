"""Server and client programs that use a mechanism."""
