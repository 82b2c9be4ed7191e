"""How the site is built: `make docs`, offline. Every page's code runs; a warning is an error."""

import importlib.util
import os
import sys
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # pages call `equilibria`
os.environ.pop(
    "MPLBACKEND", None
)  # with another one than the notebook's own a page has no pictures, and nothing says so

# Pages compile much the same programs: what one has compiled serves the others, and the next build.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(HERE / "_build" / ".compiled"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")

project = "equilibria"
author = "The equilibria developers"
copyright = f"2026, {author}"
release = version = metadata.version("equilibria")

extensions = [
    "myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.intersphinx", "sphinx.ext.viewcode",
    "sphinx_copybutton", "sphinx_design", "reference", "gallery", "inventory", "names", "links",
]  # fmt: skip
exclude_patterns = ["_build", "results/*/**", "_ext", "inventories", "**/.ipynb_checkpoints"]
suppress_warnings = ["mystnb.unknown_mime_type"]

myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 3

nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE / "_build" / ".jupyter_cache")
nb_execution_timeout = 240
nb_execution_in_temp = True  # what a page writes is not kept
nb_execution_raise_on_error = True
nb_merge_streams = True

autodoc_typehints = "none"  # the docstrings say what arguments are
autodoc_member_order = "bysource"
napoleon_numpy_docstring = False
napoleon_use_ivar = True
default_role = "py:obj"

intersphinx_timeout = 1
linkcheck_ignore = [r"https?://"]  # `links` looks at those inside the site; other sites cannot be reached from a build

html_theme = "furo"
html_title = "equilibria"
html_static_path = ["_static"]
_mathjax = importlib.util.find_spec("sphinx-mathjax-offline")  # read without a network, too
if _mathjax is not None:
    html_static_path += [str(Path(folder) / "static") for folder in _mathjax.submodule_search_locations]
    mathjax_path = "mathjax/tex-chtml.js"
html_css_files = ["site.css"]
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5f8a", "color-brand-content": "#0b5f8a"},
    "dark_css_variables": {"color-brand-primary": "#6cc0e5", "color-brand-content": "#6cc0e5"},
}
