"""Texts for operators: settings, support bundles, traces."""
