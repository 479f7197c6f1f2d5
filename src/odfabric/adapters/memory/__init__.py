"""Every port of storage, jobs and time kept in memory: for tests and drills, held to the same suites as the real adapters."""
