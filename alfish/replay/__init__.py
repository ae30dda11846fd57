"""Replay: experience kept to learn from again."""
