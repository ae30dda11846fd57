"""What a run tells about itself: metrics, event files, CSV, the line at the terminal."""
