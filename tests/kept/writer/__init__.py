"""Writes the kept files with the code of commit 44998bdc; see README.md one folder up. It names the modules of that commit."""
