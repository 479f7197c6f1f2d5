"""Rights and limits of a subject, read where they are kept."""
