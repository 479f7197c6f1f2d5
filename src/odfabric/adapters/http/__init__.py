"""Requests to user-chosen addresses (polling, webhooks, peers), behind one guard."""
