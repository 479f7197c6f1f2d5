"""`odf demo`: the whole of odfabric on real data, in a few minutes, leaving nothing running."""
