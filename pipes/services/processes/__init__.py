"""The worker processes of `MultiProcess`: pool, protocol, restarts."""
