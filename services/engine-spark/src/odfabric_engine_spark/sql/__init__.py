"""The SQL gate: which text may become a plan, and which plan may run."""
