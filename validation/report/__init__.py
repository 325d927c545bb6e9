"""The report: sections, tables, pictures, HTML, JSON."""
