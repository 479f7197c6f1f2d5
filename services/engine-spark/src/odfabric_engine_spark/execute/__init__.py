"""One transaction of a transform: read, run, write slice, checkpoint, watermark."""
