"""The parts of a loader: rank, schedule of epochs, one epoch, state. None of them knows where a plan runs."""
