"""The configuration of Sphinx. The pages that it reads are those that `assemble.py` writes."""

import os
import re
from typing import Any

project = "feedpipe"
author = "the feedpipe developers"
release = version = os.environ["FEEDPIPE_SITE_VERSION"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton", "sphinxext.opengraph"]
source_suffix = {".md": "markdown"}
myst_enable_extensions = ["attrs_inline"]
myst_heading_anchors = 4
smartquotes_action = "D"  # dashes alone

autodoc_member_order = "bysource"
add_module_names = False
python_maximum_signature_line_length = 88
python_use_unqualified_type_names = True
napoleon_use_rtype = False
ogp_site_url = os.environ.get("FEEDPIPE_SITE_URL", "")
ogp_social_cards = {"enable": False}

html_theme = "furo"
html_title = f"feedpipe {version}"
html_static_path = ["feedpipe.css"]
html_css_files = ["feedpipe.css"]
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


def as_rest(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Docstrings have Markdown's code and links, and indented lines that are shown as they are."""
    text: list[str] = []
    section = shown = False
    for line in lines:
        if line and not line.startswith(" "):
            section = bool(re.fullmatch(r"[A-Z]\w+:", line))
            shown = False
        if line.startswith("    ") and not section and not shown:
            text += [".. code-block:: text", ""]
            shown = True
        text.append(line)
    parts = re.split(
        r"(^ *>>> .*?(?:\n\n|\Z)|^\.\. code-block.*?(?=^\S|\Z))", "\n".join(text) + "\n", flags=re.S | re.M
    )
    for number in range(0, len(parts), 2):
        part = re.sub(r"\[([^\]]*)\]\((?!\w+:)([\w/-]+)\.md(?:#\S*)?\)", r":doc:`\1 </\2>`", parts[number])
        parts[number] = re.sub(r":doc:`[^`]+`|``.*?``|`([^`]+)`(?=(\w)?)", _code, part)
    lines[:] = "".join(parts).split("\n")


def _code(found: re.Match[str]) -> str:
    return f"``{found[1]}``" + ("\\ " if found[2] else "") if found[1] else found[0]


def setup(app: Any) -> None:
    """Register the conversion, before that of napoleon."""
    app.connect("autodoc-process-docstring", as_rest, priority=100)
