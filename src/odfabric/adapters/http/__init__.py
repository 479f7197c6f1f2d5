"""Requests to addresses that users choose: polling, webhooks, peers, all behind one guard."""
