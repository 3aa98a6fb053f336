"""Messages for storage errors, and which errors are transient."""

from __future__ import annotations

import errno
import socket

import pytest

from ..support.storage import HDFS_UNKNOWN, describe, is_transient

HEAD = "When reading information for key 'a.csv' in bucket 'data': AWS Error"
GET = "AWS Error"


class AnswerError(OSError):
    def __init__(self, status: int) -> None:
        super().__init__(f"{status}, message='...'")
        self.status = status


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(f"{HEAD} UNKNOWN (HTTP status 503) during HeadObject operation: No response body."), "status 503"),
        (OSError(f"{GET} UNKNOWN (HTTP status 500) during GetObject operation: "), "busy or fails (status 500)"),
        (OSError(f"{GET} SLOW_DOWN during GetObject operation: Please reduce your request rate."), "(SLOW_DOWN)"),
        (
            OSError(
                f"{GET} UNKNOWN (HTTP status 400) during GetObject operation: Unable to parse ExceptionName: "
                "RequestTimeout Message: Your socket connection was not read from within the timeout period."
            ),
            "busy or fails (status 400)",
        ),
        (
            OSError(
                f"{GET} NETWORK_CONNECTION during GetObject operation: curlCode: 18, Transferred a partial file; "
                "Details: end of response with 1047576 bytes missing"
            ),
            "transferred a partial file",
        ),
        (OSError(f"{GET} NETWORK_CONNECTION during GetObject operation: what"), "the connection failed"),
        (ConnectionResetError(errno.ECONNRESET, "?"), "Connection reset by peer"),
        (ConnectionError("6 bytes came of 10"), "6 bytes came of 10"),
        (TimeoutError(), "TimeoutError"),
        (OSError(errno.EHOSTUNREACH, "?"), "No route to host"),
        (OSError(HDFS_UNKNOWN, "?"), "HDFS does not answer, or refuses"),
        (socket.gaierror(socket.EAI_AGAIN, "?"), "no network"),
        (AnswerError(429), "limits requests (status 429)"),
    ],
)
def test_transient_errors(error: OSError, message: str) -> None:
    assert is_transient(error)
    assert message in describe(error)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(f"{HEAD} ACCESS_DENIED during HeadObject operation: No response body."), "AWS_ACCESS_KEY_ID"),
        (OSError(f"{GET} SIGNATURE_DOES_NOT_MATCH during GetObject operation: The ..."), "the secret key is wrong"),
        (OSError(f"{GET} INVALID_ACCESS_KEY_ID during GetObject operation: The ..."), "does not know the access key"),
        (
            OSError(
                f"{GET} UNKNOWN (HTTP status 400) during ListObjectsV2 operation: Unable to parse ExceptionName: "
                "ExpiredToken Message: The provided token has expired."
            ),
            "the credentials have expired",
        ),
        (OSError(f"{HEAD} UNKNOWN (HTTP status 301) during HeadObject operation: No response body."), "another region"),
        (OSError(f"{HEAD} UNKNOWN (HTTP status 400) during HeadObject operation: No response body."), "AWS_REGION"),
        (OSError(f"{HEAD} NO_SUCH_BUCKET during HeadObject operation: x"), "there is no such bucket"),
        (
            OSError(f"{GET} UNKNOWN (HTTP status 418) during GetObject operation: I am\n a teapot"),
            "I am a teapot (418)",
        ),
        (
            OSError(f"{GET} NETWORK_CONNECTION during GetObject operation: curlCode: 6, Could not resolve hostname; D"),
            "there is no host of that name",
        ),
        (OSError(f"{GET} NETWORK_CONNECTION during GetObject operation: curlCode: 60, SSL peer; D"), "sSL peer"),
        (socket.gaierror(socket.EAI_NONAME, "?"), "there is no host of that name"),
        (PermissionError(errno.EACCES, "?"), "Permission denied"),
        (FileNotFoundError(errno.ENOENT, "?"), "No such file or directory"),
        (OSError("Unable to load libjvm\ndlopen(/usr/lib/jvm/...) failed\n" * 20), "let JAVA_HOME name its folder"),
        (OSError("Unable to load libhdfs\ndlopen ..."), "ARROW_LIBHDFS_DIR"),
        (AnswerError(403), "access is denied"),
        (AnswerError(418), "status 418"),
    ],
)
def test_permanent_errors(error: OSError, message: str) -> None:
    assert not is_transient(error)
    assert message in describe(error)
    assert "\n" not in describe(error) and len(describe(error)) < 250
