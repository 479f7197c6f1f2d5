"""In SQL: work of the node: jobs, flows, duties."""
