"""Storage: the only part that touches file systems; everything above asks for listings and streams."""
