"""A real S3 server (moto) in a process of its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from .process import Process

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from pyarrow.fs import S3FileSystem

ACCOUNT = "123456789012"  # the only account of moto
KEY, SECRET, REGION = "testing", "testing", "us-east-1"


@dataclass(frozen=True)
class S3:
    """A running server.

    moto accepts every signature, so wrong credentials cannot be tested with it.
    """

    endpoint: str
    process: Process

    @classmethod
    def start(cls, log: Path) -> S3:
        process = Process("tests.servers.s3", log)
        return cls(f"127.0.0.1:{process.ask('port')}", process)

    @property
    def environment(self) -> dict[str, str]:
        """Variables with which plain `s3://` URLs lead to this server, and to no other."""
        return {
            "AWS_ENDPOINT_URL": f"http://{self.endpoint}",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }

    def filesystem(self, endpoint: str | None = None, **options: object) -> S3FileSystem:
        """A client; `endpoint` may be that of a proxy."""
        from pyarrow.fs import S3FileSystem

        return S3FileSystem(
            access_key=KEY,
            secret_key=SECRET,
            region=REGION,
            scheme="http",
            endpoint_override=endpoint or self.endpoint,
            **options,  # type: ignore[arg-type]
        )

    def put(self, bucket: str, objects: Mapping[str, bytes], *, age: int = 0) -> None:
        """Puts objects into a bucket, as if `age` seconds ago, and creates the bucket if there is none.

        It does not use HTTP, because moto accepts only a few dozen uploads per second.
        """
        self.process.ask("put", bucket, dict(objects), age)


def main(owner: Connection) -> None:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from moto.s3.models import s3_backends
    from werkzeug.serving import make_server

    server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    backend = s3_backends[ACCOUNT]["aws"]
    while True:
        try:
            question = owner.recv()
        except EOFError:
            return
        if question[0] == "port":
            owner.send(server.port)
            continue
        _, bucket, objects, age = question
        if bucket not in backend.buckets:
            backend.create_bucket(bucket, REGION)
        for key, value in objects.items():
            backend.put_object(bucket, key, value).last_modified -= timedelta(seconds=age)
        owner.send(None)
