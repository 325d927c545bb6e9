"""What can be asked: scenario files, their keys and quantities, programs, examples."""
