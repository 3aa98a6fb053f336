"""Writers, one per file: functions that run a pipe and write its rows, and `verify`. No operator lives here."""
