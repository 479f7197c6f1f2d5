"""How Sphinx makes the documentation site from `docs/`; `./odf docs` runs it. Names are those that Sphinx reads."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

project = "odfabric"
author = "odfabric contributors"
copyright = "odfabric contributors, Apache-2.0"
html_title = "odfabric"

extensions = ["myst_parser", "site_pages"]
exclude_patterns = ["site", "adr/0000-template.md"]
root_doc = "index"

# Every heading down to the third level can be linked to, as on the pages of a Git host.
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "deflist"]
nitpicky = True
# `--option` in the help of a command stays as it is typed.
smartquotes = False

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_use_index = False
html_show_sourcelink = False
html_last_updated_fmt = None
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b6e63", "color-brand-content": "#0b6e63"},
    "dark_css_variables": {"color-brand-primary": "#56c2b3", "color-brand-content": "#56c2b3"},
    "footer_icons": [],
}
pygments_style = "github-light-high-contrast"
pygments_dark_style = "github-dark-high-contrast"
