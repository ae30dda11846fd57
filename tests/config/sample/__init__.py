"""A small world of configurables to test the config layer with. Its names do not collide with alfish's."""
