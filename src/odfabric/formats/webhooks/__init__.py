"""Events as CloudEvents, and the signatures of webhooks."""
