"""Overload control: limits on what a server accepts and keeps."""
