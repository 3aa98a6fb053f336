"""How elements, graphs and errors cross from one process to another."""
