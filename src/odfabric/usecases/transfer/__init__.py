"""Transfer between nodes, folders and buckets: pull, push, serve objects to peers."""
