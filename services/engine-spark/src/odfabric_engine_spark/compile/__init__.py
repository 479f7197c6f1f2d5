"""From a normal plan to a query that runs: stages, keys and the schema of the output."""
