"""The Hugging Face hub: `hf://` URLs, whose files stay as they were listed, and what its answers mean.

`huggingface_hub` has the file system, which fsspec opens. It takes the token from HF_TOKEN, or from its own login.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from time import time
from typing import Any
from urllib.parse import unquote

TYPE_NAME = "py::fsspec+hf"
"""The type of the file system in pyarrow."""

_REPOSITORY = re.compile(
    r"(?P<begin>hf://(?:(?P<kind>datasets|spaces)/)?(?P<name>(?!buckets/)[^/@]+/[^/@]+))"
    r"(?:@(?P<revision>refs/(?:convert|pr)/[^/]+|[^/]+))?(?=/|$)"
)
_COMMIT = re.compile(r"@[0-9a-f]{40}(?=/|$)")


def is_fixed(path: str) -> bool:
    """Whether the path of a file names a commit, so that the file cannot change."""
    return _COMMIT.search(path) is not None


def with_commits(paths: list[str]) -> list[str]:
    """Let `hf://` URLs name the commits that their revisions are now; other paths stay as they are.

    All processes of a job then read the same files, whatever is pushed meanwhile.
    """
    if not any(path.startswith("hf://") for path in paths):
        return paths
    try:
        from huggingface_hub import HfApi  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return paths  # `locate` says what is missing
    commits: dict[str, str] = {}
    fixed: list[str] = []
    for path in paths:
        match = None if is_fixed(path) else _REPOSITORY.match(path)
        if match is not None:
            if match[0] not in commits:
                kind, revision = (match["kind"] or "models")[:-1], match["revision"]
                info = HfApi().repo_info(match["name"], repo_type=kind, revision=revision and unquote(revision))
                commits[match[0]] = f"{match['begin']}@{info.sha}"
            path = commits[match[0]] + path[match.end() :]
        fixed.append(path)
    return fixed


class HubFile:
    """A file of a commit, as `RemoteFile` reads it: each range is a request, and nothing is looked up before.

    The file system, an `HfFileSystem`, would look up the repository, and list the folder, in each process.
    """

    def __init__(self, path: str, size: int, filesystem: Any) -> None:
        from huggingface_hub import hf_hub_url

        match = _REPOSITORY.match(f"hf://{path}")
        assert match is not None, "the path names a commit"
        self._url = hf_hub_url(
            match["name"],
            f"hf://{path}"[match.end() + 1 :],
            repo_type=(match["kind"] or "models")[:-1],
            revision=match["revision"],
            endpoint=filesystem.endpoint,
        )
        self._size = size
        self._token = filesystem.token

    def read_at(self, size: int, start: int) -> bytes:
        utils: Any = importlib.import_module("huggingface_hub.utils")
        if not size:
            return b""
        headers = {**utils.build_hf_headers(token=self._token), "range": f"bytes={start}-{start + size - 1}"}
        try:
            answer = utils.get_session().get(
                self._url, headers=headers, timeout=_TIMEOUT_SECONDS, follow_redirects=True
            )
            utils.hf_raise_for_status(answer)
        except OSError:
            raise
        except Exception as error:  # those of httpx are no `OSError`s
            raise ConnectionError(str(error) or type(error).__name__) from error
        return bytes(answer.content)

    def size(self) -> int:
        return self._size

    def metadata(self) -> None:
        """A commit has one version of a file."""

    def close(self) -> None:
        """There is nothing to close."""


_TIMEOUT_SECONDS = 60.0
_MESSAGES = {
    "RepoNotFound": "the hub has no such repository, or it is private, and HF_TOKEN must hold a token that may read it",
    "GatedRepo": "the repository is gated: accept its terms on its page, and set HF_TOKEN to a token of that account",
    "RevisionNotFound": "the repository has no such revision",
    "EntryNotFound": "the repository has no such file",
}


def hub_message(error: BaseException) -> str | None:
    """What an error means that only the hub or its client has: a setting, or an answer with a code; else None."""
    if type(error).__name__ == "OfflineModeIsEnabled":
        return "HF_HUB_OFFLINE forbids requests to the hub"
    return _MESSAGES.get(_headers(error).get("x-error-code", ""))


def asked_pause(error: BaseException) -> float | None:
    """The seconds that a server asks to wait, by `Retry-After` or, as the hub, by the `RateLimit` of a spent window."""
    headers = _headers(error)
    text = headers.get("retry-after", "")
    window = re.search(r"\br=0\s*;\s*t=(\d+)", headers.get("ratelimit", ""))
    if window is not None:
        return float(window[1])
    if text.isdecimal():
        return float(text)
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time()) if text else None
    except ValueError:
        return None


def _headers(error: BaseException) -> dict[str, str]:
    """The headers of an answer that is an error, as the clients of fsspec keep them."""
    headers: object = getattr(getattr(error, "response", error), "headers", None)
    return {str(name).lower(): str(value) for name, value in headers.items()} if isinstance(headers, Mapping) else {}
