"""Blob, Consensus and Shard: a durable, definite storage core that knows nothing of ODF."""
