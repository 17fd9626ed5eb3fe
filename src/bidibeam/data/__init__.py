"""Text to ids: conversations, corpora, splits, tokens, and the prepared data that training reads."""
