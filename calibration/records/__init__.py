"""What a measured run leaves on disk, and whether noise spoiled it."""
