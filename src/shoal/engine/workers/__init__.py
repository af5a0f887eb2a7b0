"""Worker processes: how they are started, talked to and ended, and the loop inside them. Shared by engines."""
