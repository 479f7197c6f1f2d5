"""Conformance suites and builders, shipped with the package."""
