"""The command line: commands, options, tables for a terminal."""
