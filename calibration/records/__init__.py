"""Records of measured runs on disk, and the gates that reject disturbed runs."""
