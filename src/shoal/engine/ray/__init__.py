"""The engine for clusters: workers are Ray actors, placed and watched by Ray. Needs the extra `ray`."""
