"""The machine under test: namespaces, processes, C programs, facts."""
