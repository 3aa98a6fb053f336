"""The operators: a module has an operator, or a few that belong together, with their chain functions.

`_methods.py` leads from the name of a method to its module. The other modules whose names begin with an underscore have
code that operators share, or one part of a long operator.
"""
