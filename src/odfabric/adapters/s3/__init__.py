"""Objects in a bucket of S3, or of a server that speaks as S3 does."""
