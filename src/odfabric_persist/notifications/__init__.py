"""Tell readers that a shard has grown: in process, Redis, PostgreSQL."""
