"""HTTP service over the use cases: REST, transfer, subscriptions and web pages."""
