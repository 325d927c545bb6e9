"""The machine under measurement: namespaces, processes, the C programs, its facts."""
