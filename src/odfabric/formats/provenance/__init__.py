"""Answers on provenance in the words of others: PROV-JSON and OpenLineage."""
