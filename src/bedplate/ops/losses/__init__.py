"""Losses: against classes, of yes and no, between numbers, of pairs, over sequences."""
