"""A shard's location: immutable blobs and a register of versions, two protocols."""
