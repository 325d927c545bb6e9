"""From settings to the world before a run; the window of rows of a long one."""
