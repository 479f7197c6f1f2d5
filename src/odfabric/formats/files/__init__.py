"""Files of people: CSV, encodings, times, kinds of files."""
