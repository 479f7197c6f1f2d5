"""Suites of ports: work of the node: jobs, flows, duties."""
