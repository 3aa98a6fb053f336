"""What a loader is made of: its rank, the schedule of epochs, one epoch, its state."""
