"""What the command line does, one module for a family of commands; imported when a command runs."""
