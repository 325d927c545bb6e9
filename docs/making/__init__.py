"""How the site of documents is made: pages by hand, pages from the sources, commands that run."""
