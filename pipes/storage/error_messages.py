"""What an error of storage means: in few words, and whether it may pass by itself."""

from __future__ import annotations

import errno
import os
import re
import socket
from typing import NamedTuple

from ..errors import redacted

HDFS_UNKNOWN = 255
"""The `errno` of all that libhdfs has no other for."""

_CREDENTIALS = "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or AWS_PROFILE"
_REFUSED = f"access is denied, or the credentials are wrong or have expired; they come from {_CREDENTIALS}"
_SIGNATURE = f"the server refuses the signature: the secret key is wrong; it comes from {_CREDENTIALS}"
_REGION = "the bucket is in another region; AWS_REGION or `?region=` in the URL names it"
_AWS = re.compile(r"AWS Error (\w+)(?: \(HTTP status (\d+)\))? during \w+ operation: ?(.*)", re.DOTALL)
_AWS_NAME = re.compile(r"ExceptionName: (\w+) Message: (.*)", re.DOTALL)
_CURL = re.compile(r"curlCode: (\d+), ([^;]*)")
_CURL_HOST, _CURL_CERTIFICATE = 6, 60  # there is no such host; its certificate is not trusted

_BUSY_STATUS = {408, 429, 500, 502, 503, 504}
_BUSY = {"SLOW_DOWN", "SERVICE_UNAVAILABLE", "INTERNAL_FAILURE", "THROTTLING", "REQUEST_TIMEOUT"}
_BUSY_NAMES = {"SlowDown", "ServiceUnavailable", "InternalError", "RequestTimeout", "Throttling", "TooManyRequests"}
_AWS_WORDS = {
    "ACCESS_DENIED": _REFUSED,
    "INVALID_ACCESS_KEY_ID": f"the server does not know the access key; it comes from {_CREDENTIALS}",
    "INVALID_CLIENT_TOKEN_ID": f"the server does not know the credentials; they come from {_CREDENTIALS}",
    "INVALID_SIGNATURE": _SIGNATURE,
    "SIGNATURE_DOES_NOT_MATCH": _SIGNATURE,
    "REQUEST_EXPIRED": f"the credentials have expired; they come from {_CREDENTIALS}",
    "ExpiredToken": f"the credentials have expired; they come from {_CREDENTIALS}",
    "REQUEST_TIME_TOO_SKEWED": "the clock of this machine is wrong, so the server refuses the signature",
    "NO_SUCH_BUCKET": "there is no such bucket",
    "NO_SUCH_KEY": "there is no such object",
    "RESOURCE_NOT_FOUND": "there is no such object",
}
_STATUS_WORDS = {
    301: _REGION,
    307: _REGION,
    400: f"the server refuses the request: the credentials may have expired ({_CREDENTIALS}), or {_REGION}",
    401: _REFUSED,
    403: _REFUSED,
    416: "it has become shorter",
}
_PASSING = {
    errno.ECONNABORTED,
    errno.ECONNREFUSED,
    errno.ECONNRESET,
    errno.EHOSTUNREACH,
    errno.ENETDOWN,
    errno.ENETRESET,
    errno.ENETUNREACH,
    errno.EPIPE,
    errno.ETIMEDOUT,
    socket.EAI_AGAIN,
    HDFS_UNKNOWN,  # a DataNode that is gone, a NameNode that does not answer
}


class _Meaning(NamedTuple):
    words: str
    passing: bool


def describe(error: BaseException) -> str:
    """What an error says, in few words."""
    return redacted(_meaning(error).words)


def is_transient(error: BaseException) -> bool:
    """Whether an error may be gone at the next attempt: a busy server, a lost connection."""
    return _meaning(error).passing


def says_missing(error: OSError) -> bool:
    """Whether an error means that there is no such thing, and not that it could not be reached."""
    return isinstance(error, FileNotFoundError) or "AWS Error NO_SUCH_BUCKET" in str(error)


def _meaning(error: BaseException) -> _Meaning:
    text = str(error)
    if aws := _AWS.search(text):
        return _meaning_of_s3(aws[1], int(aws[2] or 0), aws[3])
    if "Unable to load libjvm" in text:
        return _Meaning("HDFS needs Java: install a JRE or JDK, and let JAVA_HOME name its folder", False)
    if "Unable to load libhdfs" in text:
        return _Meaning(
            "HDFS needs libhdfs.so of a Hadoop client: let HADOOP_HOME name Hadoop's folder, or ARROW_LIBHDFS_DIR the "
            "one with that file, and set CLASSPATH to what `hadoop classpath --glob` prints",
            False,
        )
    number = error.errno if isinstance(error, OSError) else None
    passing = isinstance(error, (ConnectionError, TimeoutError)) or number in _PASSING
    if number == HDFS_UNKNOWN:
        said = "HDFS does not answer, or refuses; what its client knows of that it has printed"
        if not os.environ.get("CLASSPATH"):
            said += "; CLASSPATH is not set: `hadoop classpath --glob` prints what it needs"
        return _Meaning(said, passing)
    status = getattr(error, "status", None)  # of an answer over HTTP, as the clients that fsspec uses have it
    if isinstance(status, int):
        return _Meaning(_STATUS_WORDS.get(status, f"the server answers with status {status}"), status in _BUSY_STATUS)
    if isinstance(error, socket.gaierror):
        return _Meaning("there is no host of that name, or no network", passing)
    return _Meaning(os.strerror(number) if number else text or type(error).__name__, passing)


def _meaning_of_s3(name: str, status: int, said: str) -> _Meaning:
    """Of an error of pyarrow's client of S3: a paragraph with a name or a status, and what the server said."""
    if name == "NETWORK_CONNECTION":
        curl = _CURL.search(said)
        code = int(curl[1]) if curl else 0
        if code == _CURL_HOST:
            return _Meaning("there is no host of that name, or no network", False)
        words = curl[2].strip() if curl else "the connection failed"
        return _Meaning(words[:1].lower() + words[1:], code != _CURL_CERTIFICATE)
    if told := _AWS_NAME.search(said):  # names that the client does not know
        name, said = told[1], told[2]
    if name in _BUSY or name in _BUSY_NAMES or status in _BUSY_STATUS:
        return _Meaning(f"the server is busy or fails ({f'status {status}' if status else name})", True)
    words = _AWS_WORDS.get(name) or _STATUS_WORDS.get(status)
    return _Meaning(words or f"{' '.join(said.split()) or 'the server refuses'} ({status or name})", False)
