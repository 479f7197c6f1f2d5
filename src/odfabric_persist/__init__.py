"""Blob, Consensus and Shard: a durable, definite storage core without ODF."""
