"""`odf demo`: all of odfabric on real data in minutes; leaves nothing running."""
