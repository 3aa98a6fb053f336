"""The worker processes of `MultiProcess`: start, messages, restart. `transport` packs what crosses between them."""
