"""Bodies of requests and answers: read, checked, written."""
