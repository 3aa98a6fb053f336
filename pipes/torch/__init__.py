"""What needs torch. Its modules import torch at their head, and are themselves imported only when they run."""
