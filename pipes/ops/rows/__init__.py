"""Operators that look at rows one by one, or at a few of them: functions of the user, filters, decoding."""
