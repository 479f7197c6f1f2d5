"""JVM flags of test engines: they live for minutes and run queries a few times.

Owns nothing that a result depends on: how a JVM compiles and which collector of garbage it has. Measured on two cores: the tests of
waiting joins and of aggregates without order take 43 s of processor time with them, 73 s without.
"""

from __future__ import annotations

QUICK_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"

JVM_OF_MANY_TESTS = "-XX:+UseSerialGC"
"""Flags of the Spark that all tests of a process share. In the long run compiling well pays: the tests of engines take 6 % less in all
with it, those that come late up to a third, and the first ones some percent more; a law run of 300 cases and more makes a fifth more."""
