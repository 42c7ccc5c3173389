"""An object store for tests: moto's S3 server on this machine, which child processes reach by its address."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def bucket(name: str = "archive") -> Iterator[str]:
    """The address of an empty bucket, such as s3://archive."""
    server = pytest.importorskip("moto.server")
    pytest.importorskip("s3fs")
    boto3 = pytest.importorskip("boto3")
    service = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    service.start()
    try:
        with pytest.MonkeyPatch.context() as patch:
            host, port = service.get_host_and_port()
            patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
            patch.setenv("AWS_ACCESS_KEY_ID", "test")
            patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
            patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
            boto3.client("s3").create_bucket(Bucket=name)
            yield f"s3://{name}"
    finally:
        service.stop()
