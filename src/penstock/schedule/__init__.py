"""Facts about what waits come in; what runs next goes out. Pure: no clock, no Spark; engine and simulator share it."""
