"""The meaning of a storage error: in a short message, and whether the error is transient."""

from __future__ import annotations

import errno
import os
import re
import socket
from typing import NamedTuple

from ..errors import redacted

HDFS_UNKNOWN = 255
"""The `errno` of every error for which libhdfs has no other."""

_CREDENTIALS = "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or AWS_PROFILE"
_REFUSED = f"access is denied, or the credentials are wrong or have expired; they come from {_CREDENTIALS}"
_SIGNATURE = f"the server refuses the signature: the secret key is wrong; it comes from {_CREDENTIALS}"
_REGION = "the bucket is in another region; AWS_REGION or `?region=` in the URL names it"
_AWS_ERROR = re.compile(r"AWS Error (\w+)(?: \(HTTP status (\d+)\))? during \w+ operation: ?(.*)", re.DOTALL)
_AWS_EXCEPTION = re.compile(r"ExceptionName: (\w+) Message: (.*)", re.DOTALL)
_CURL = re.compile(r"curlCode: (\d+), ([^;]*)")
_CURL_UNKNOWN_HOST, _CURL_BAD_CERTIFICATE = 6, 60

_BUSY_STATUSES = {408, 429, 500, 502, 503, 504}
_BUSY_AWS_ERRORS = {"SLOW_DOWN", "SERVICE_UNAVAILABLE", "INTERNAL_FAILURE", "THROTTLING", "REQUEST_TIMEOUT"}
_BUSY_EXCEPTIONS = {
    "SlowDown",
    "ServiceUnavailable",
    "InternalError",
    "RequestTimeout",
    "Throttling",
    "TooManyRequests",
}
_AWS_MESSAGES = {
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
_STATUS_MESSAGES = {
    301: _REGION,
    307: _REGION,
    400: f"the server refuses the request: the credentials may have expired ({_CREDENTIALS}), or {_REGION}",
    401: _REFUSED,
    403: _REFUSED,
    416: "it has become shorter",
}
_TRANSIENT_ERRNOS = {
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
    HDFS_UNKNOWN,  # such as a DataNode that is gone, or a NameNode that does not answer
}


class _Meaning(NamedTuple):
    message: str
    transient: bool


def describe(error: BaseException) -> str:
    """A short message for an error."""
    return redacted(_meaning(error).message)


def is_transient(error: BaseException) -> bool:
    """Whether the next attempt may succeed, as after a busy server or a lost connection."""
    return _meaning(error).transient


def says_missing(error: OSError) -> bool:
    """Whether an error says that there is no such file, and not that it cannot be reached."""
    return isinstance(error, FileNotFoundError) or "AWS Error NO_SUCH_BUCKET" in str(error)


def _meaning(error: BaseException) -> _Meaning:
    text = str(error)
    if aws := _AWS_ERROR.search(text):
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
    transient = isinstance(error, (ConnectionError, TimeoutError)) or number in _TRANSIENT_ERRNOS
    if number == HDFS_UNKNOWN:
        message = "HDFS does not answer, or refuses; its client has printed what it knows"
        if not os.environ.get("CLASSPATH"):
            message += "; CLASSPATH is not set: `hadoop classpath --glob` prints what it needs"
        return _Meaning(message, transient)
    status = getattr(error, "status", None)  # of an HTTP response; fsspec's clients set it
    if isinstance(status, int):
        return _Meaning(
            _STATUS_MESSAGES.get(status, f"the server answers with status {status}"), status in _BUSY_STATUSES
        )
    if isinstance(error, socket.gaierror):
        return _Meaning("there is no host of that name, or no network", transient)
    return _Meaning(os.strerror(number) if number else text or type(error).__name__, transient)


def _meaning_of_s3(name: str, status: int, text: str) -> _Meaning:
    """The meaning of an error of pyarrow's S3 client, which has a name or a status, and the server's text."""
    if name == "NETWORK_CONNECTION":
        curl = _CURL.search(text)
        code = int(curl[1]) if curl else 0
        if code == _CURL_UNKNOWN_HOST:
            return _Meaning("there is no host of that name, or no network", False)
        message = curl[2].strip() if curl else "the connection failed"
        return _Meaning(message[:1].lower() + message[1:], code != _CURL_BAD_CERTIFICATE)
    if unknown := _AWS_EXCEPTION.search(text):  # an exception whose name the client does not know
        name, text = unknown[1], unknown[2]
    if name in _BUSY_AWS_ERRORS or name in _BUSY_EXCEPTIONS or status in _BUSY_STATUSES:
        return _Meaning(f"the server is busy or fails ({f'status {status}' if status else name})", True)
    message = _AWS_MESSAGES.get(name) or _STATUS_MESSAGES.get(status) or ""
    return _Meaning(message or f"{' '.join(text.split()) or 'the server refuses'} ({status or name})", False)
