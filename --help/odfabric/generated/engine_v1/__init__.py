"""Generated from proto/odfabric/engine/v1 by proto/generate.py; never edited."""
