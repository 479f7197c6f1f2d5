"""Flags of the engines of tests: they live for minutes and run each query a few times.

Owns nothing that a result depends on: how a JVM compiles and which collector of garbage it has. Measured on two cores: the tests of
waiting joins and of aggregates without order take 43 s of processor time with them, 73 s without.
"""

from __future__ import annotations

import os

QUICK_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"

LONG_CASES = 300
"""A law run of so many cases is worth compiling well: from some 300 cases on it makes a fifth more in the same time."""


def jvm_of_laws() -> str:
    """Flags of the Spark in which the laws run."""
    return QUICK_JVM if int(os.environ.get("ODF_LAW_CASES", "0")) < LONG_CASES else ""
