"""The web console: pages for people, by the same use cases and policies as the REST API."""
