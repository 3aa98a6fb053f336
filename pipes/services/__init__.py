"""Where plans run, one reading service a file. A service knows plans, never operators."""
