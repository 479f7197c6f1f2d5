"""The JVM under Spark: its process, its class archive and its class names."""
