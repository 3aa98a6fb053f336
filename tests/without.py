"""The options `--without torch`, `pandas` and `servers`: skip the tests that need what the environment lacks.

No test says that it needs torch: it does if importing torch fails while it runs. What has to work without torch is in
`tests/test_smoke.py`. Everything else in the package has to work without pandas, so a test needs pandas only if it
imports pandas, or the package `datasets`, itself.
"""

from __future__ import annotations

import importlib.util
import traceback
from collections.abc import Generator, Iterable
from pathlib import Path

import pytest

SERVER_FIXTURES = {"hdfs", "hdfs_client", "s3", "s3_server"}
PACKAGE_CODE = str(Path(__file__).parent.with_name("pipes"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--without",
        action="append",
        choices=["pandas", "servers", "torch"],
        default=[],
        help="skip the tests that need torch or pandas, which must not be installed, or a server of HDFS or S3",
    )


def pytest_configure(config: pytest.Config) -> None:
    for package in ("torch", "pandas"):
        if _is_without(config, package) and importlib.util.find_spec(package):
            raise pytest.UsageError(f"--without {package}: this environment has {package}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if _is_without(config, "servers"):
        for item in items:
            if not SERVER_FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
                item.add_marker(pytest.mark.skip(reason="needs a server"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    try:
        yield
    except Exception as error:
        _skip_if_a_package_is_missing(item, error)
        raise


pytest_runtest_call = pytest_runtest_setup


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module:
    return _Module.from_parent(parent, path=module_path)


class _Module(pytest.Module):
    """A file of tests; all of it needs a package that its head imports."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        try:
            return super().collect()
        except Exception as error:
            _skip_if_a_package_is_missing(self, error)
            raise


def _skip_if_a_package_is_missing(node: pytest.Item | pytest.Collector, error: Exception) -> None:
    # The text has all causes and the exceptions of groups; errors of other processes are text only.
    text = "".join(traceback.format_exception(error))
    needs_torch = "No module named 'torch'" in text or "the package torch, which is not installed" in text
    if _is_without(node.config, "torch") and needs_torch:
        pytest.skip("needs torch", allow_module_level=True)
    imports_pandas = "No module named 'pandas'" in text or "No module named 'datasets'" in text
    if _is_without(node.config, "pandas") and imports_pandas and PACKAGE_CODE not in text:
        pytest.skip("needs pandas", allow_module_level=True)


def _is_without(config: pytest.Config, what: str) -> bool:
    return what in config.getoption("--without")
