"""How Sphinx builds the site, from sources that docs/making has gathered.

python -m docs.making ──stage──► sources ──this──► HTML

Nothing here asks the network: no inventories of other sites, no fonts, no theme to download.
"""

from __future__ import annotations

from docs.making.accuracy import numbers

from dispatchsim import __version__

project = "dispatchsim"
author = "the dispatchsim authors"
release = __version__
extensions = [
    "docs.making.commands",
    "docs.making.names",
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_design",
]
exclude_patterns = ["accuracy-tables.md"]

# Pages are MyST; their cells are executed anew in each build, and none may fail.
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}
myst_enable_extensions = ["colon_fence", "deflist", "substitution"]
myst_heading_anchors = 4
myst_substitutions = numbers()
nb_execution_mode = "force"
is_quick: bool = "quick" in tags  # type: ignore[name-defined]  # noqa: F821
nb_execution_excludepatterns = ["notebooks/*.ipynb"] if is_quick else []
command_pages = ["tutorial"] if is_quick else None
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_execution_show_tb = True
nb_merge_streams = True

# References that the site does not hold: other libraries' (asking their sites needs the network),
# and names of our own that have no entry of theirs.
default_role = "code"
nitpick_ignore_regex = [("py:.*", r"(?!dispatchsim\.).*")]
# Two classes may have one name; a short name in a signature then leads to either.
suppress_warnings = ["ref.python"]
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False

html_theme = "furo"
html_title = "dispatchsim"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["accessible.js"]
html_extra_path = ["extra"]
html_copy_source = False
html_show_sphinx = False
html_theme_options: dict[str, list[str]] = {"top_of_page_buttons": []}
linkcheck_timeout = 20
