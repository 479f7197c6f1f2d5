"""Stages: parts of a plan whose inputs are partitioned by a common key."""
