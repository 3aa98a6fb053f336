"""The door to the internals of the package: a module for each folder, with the names that tests take from it."""
