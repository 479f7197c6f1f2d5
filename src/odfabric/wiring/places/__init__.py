"""Where a node keeps things: its database, its object store, its keys, and which node it is."""
