"""The web console: pages for people, with the use cases and policies of REST."""
