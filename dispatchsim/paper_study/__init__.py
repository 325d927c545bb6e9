"""The claims of papers, simulated and scored."""
