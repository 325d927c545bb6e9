"""Clients: when they come, what they send, when they give up or try again."""
