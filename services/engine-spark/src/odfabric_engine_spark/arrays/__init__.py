"""Numbers, order and hashes over numpy and Arrow arrays, without Spark."""
