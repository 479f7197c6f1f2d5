"""Reading Parquet of users."""
