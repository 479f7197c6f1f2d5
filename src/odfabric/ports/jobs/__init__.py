"""Ports: work of the node: jobs, flows, duties."""
