"""Where a shard lies: a store of immutable blobs and a register of versions, each behind a small protocol."""
