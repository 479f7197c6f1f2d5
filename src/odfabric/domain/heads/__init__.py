"""Rules of head logs: what continues one, and what is wrong with another."""
