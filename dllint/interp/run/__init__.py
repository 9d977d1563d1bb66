"""The interpretation itself: statements and expressions, calls, and the events that they are."""
