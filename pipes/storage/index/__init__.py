"""Indexes of files: folders of Arrow files, from which a process reads the blocks that it needs."""
