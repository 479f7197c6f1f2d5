"""The HTTP service: REST, transfer protocols, subscriptions and web pages over the use cases."""
