"""Values of work: jobs, flows, duties."""
