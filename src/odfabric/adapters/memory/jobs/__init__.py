"""In memory: work of the node: jobs, flows, duties."""
