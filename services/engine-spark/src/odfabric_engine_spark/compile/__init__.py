"""Normal plans to runnable queries: stages, keys and the output's schema."""
