"""Spark as used here: settings, session, JVM, Catalyst, calls, cluster, frames."""
