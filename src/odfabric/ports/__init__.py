"""Protocols of everything outside the core; each docstring is the contract that the conformance suites test."""
