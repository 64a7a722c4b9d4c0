"""The plugin for pytest; a package beside `bedplate`, so that pytest loads it without that."""
