"""Webhooks: subscribe, decide what is sent, sign, deliver."""
