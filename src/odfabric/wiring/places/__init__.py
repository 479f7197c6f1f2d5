"""Where a node keeps things: database, object store, keys; and which node it is."""
