"""Protocols of everything outside the core.

Each docstring is the contract that the conformance suites test.
"""
