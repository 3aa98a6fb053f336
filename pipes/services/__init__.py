"""Where plans run, one reading service per file. A service knows plans and not operators."""
