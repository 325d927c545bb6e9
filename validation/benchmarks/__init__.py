"""What the engines are timed against: a program by hand, a first model, general tools."""
