"""Spark as the engine uses it: settings, session, JVM, Catalyst, calls, cluster and frames."""
