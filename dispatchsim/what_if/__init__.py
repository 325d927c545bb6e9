"""The what-if page: `dispatchsim explore` serves it, `ds.explore()` shows it in a notebook.

choices ─► view ─► questions ─► answers ─► series, sentences ─► charts, downloads
                      │  ▲
                   simulating              one pool of processes for all viewers

session   one viewer, without Panel        page, serving, notebook   with it
"""
