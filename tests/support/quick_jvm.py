"""Flags of the engines of tests: they live for minutes and run each query a few times.

Owns nothing that a result depends on: how a JVM compiles and which collector of garbage it has. Measured on two cores: the tests of
waiting joins and of aggregates without order take 43 s of processor time with them, 73 s without.
"""

QUICK_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
