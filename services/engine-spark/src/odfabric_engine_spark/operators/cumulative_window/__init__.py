"""Window functions from the first row of a partition to the current one."""
