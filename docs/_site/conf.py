"""The configuration of Sphinx. The pages that it reads are those that `assemble.py` writes."""

import os

project = "feedpipe"
author = "the feedpipe developers"
release = version = os.environ["FEEDPIPE_SITE_VERSION"]
extensions = ["myst_parser", "sphinx_copybutton"]
source_suffix = {".md": "markdown"}
myst_enable_extensions = ["attrs_inline"]
myst_heading_anchors = 4
smartquotes = False
nitpicky = True

html_theme = "furo"
html_title = f"feedpipe {version}"
html_static_path = ["feedpipe.css", "switch.js"]
html_extra_path = ["../../.site/extra"]  # pages that are HTML as they are
html_css_files = ["feedpipe.css"]
html_js_files = ["switch.js"]
html_show_sourcelink = False
html_copy_source = False
html_show_copyright = False
# The search would fetch the pages that it found, which a browser refuses for files.
html_show_search_summary = False
html_search_scorer = os.path.join(os.path.dirname(__file__), "scorer.js")
pygments_style, pygments_dark_style = "a11y-high-contrast-light", "a11y-high-contrast-dark"
# The prompts and the outputs of an example are not copied.
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True
