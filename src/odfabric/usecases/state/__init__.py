"""The state of a dataset, by its index or by replaying its slices."""
