"""What tests take from the generator of the documentation site, which is no part of the package."""

from __future__ import annotations

from pathlib import Path

import pytest

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(Path(__file__).parents[2]))
    from docs._site import assemble as assemble
    from docs._site import gallery as gallery
    from docs._site import reference as reference
