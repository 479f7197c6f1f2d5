"""Every port of storage, jobs and time in memory, for tests and drills.

They pass the same suites as the real adapters.
"""
