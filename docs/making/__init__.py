"""The builder of the documents: pages by hand, pages from the sources, commands that run."""
