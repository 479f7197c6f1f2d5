"""Real test servers on free loopback ports: PostgreSQL, Valkey or Redis, S3.

Each is had in one order: the address in `ODF_TEST_POSTGRES_URL`, `ODF_TEST_REDIS_URL`, `ODF_TEST_S3_URL`; else a program of this machine or
of a wheel; else a container; else the test fails. Nothing is skipped.
"""
