"""Commands of a node's operator: backups, diagnosis, listing."""
