"""Files of FTP servers."""
