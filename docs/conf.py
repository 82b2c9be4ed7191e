"""How the site is built: `make docs`, offline. Every page's code runs; a warning is an error."""

import sys
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

project = "equilibria"
author = "The equilibria developers"
copyright = f"2026, {author}"
release = version = metadata.version("equilibria")

extensions = [
    "myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.intersphinx", "sphinx.ext.viewcode",
    "sphinx_copybutton", "sphinx_design", "reference", "gallery", "inventory",
]  # fmt: skip
exclude_patterns = ["_build", "results/**", "_ext", "inventories", "**/.ipynb_checkpoints"]
suppress_warnings = ["mystnb.unknown_mime_type", "myst.xref_missing_file"]

myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 3

nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE / "_build" / ".jupyter_cache")
nb_execution_timeout = 240
nb_merge_streams = True

autodoc_typehints = "none"  # the docstrings say what arguments are
autodoc_member_order = "bysource"
napoleon_numpy_docstring = False
napoleon_use_ivar = True
default_role = "py:obj"

intersphinx_timeout = 1

html_theme = "furo"
html_title = "equilibria"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5f8a", "color-brand-content": "#0b5f8a"},
    "dark_css_variables": {"color-brand-primary": "#6cc0e5", "color-brand-content": "#6cc0e5"},
}
