"""Suites are shipped with the package; their assertions explain themselves like those of test files."""

import pytest

pytest.register_assert_rewrite("odfabric.testing.conformance")
