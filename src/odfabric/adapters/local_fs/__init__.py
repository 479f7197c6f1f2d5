"""Files of the machine: objects, the exchange folder, polled files, archives, the key file."""
