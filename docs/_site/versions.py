"""The list of the versions of the site, for `switch.js`: `python -m docs._site.versions FOLDER`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

KEPT = 6  # versions


def main(site: Path) -> None:
    """Write `versions.js` beside the folders of the versions: the released ones, the newest first, then "dev"."""
    folders = [path.parent for path in site.glob("*/searchindex.js")]
    released = sorted((path for path in folders if path.name != "dev"), key=_numbers, reverse=True)
    kept = released[:KEPT] + [path for path in folders if path.name == "dev"]
    versions = [
        {"name": path.name, "pages": sorted(page.relative_to(path).as_posix() for page in path.rglob("*.html"))}
        for path in kept
    ]
    (site / "versions.js").write_text(f"window.FEEDPIPE_VERSIONS = {json.dumps(versions)};\n", encoding="utf-8")


def _numbers(path: Path) -> list[int]:
    return [int(number) for number in path.name.split(".")]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
