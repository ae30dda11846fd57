"""Watching a trained agent: in a window, on film, with what it thinks."""
