"""Keep a node: backup, rebuild, collect, rotate its key."""
