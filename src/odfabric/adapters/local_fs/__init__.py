"""Files of the machine.

Objects, the exchange folder, polled files, archives, the key file.
"""
