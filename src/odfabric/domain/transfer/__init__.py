"""Moving datasets between nodes, folders and buckets: which way, to where, under which name."""
