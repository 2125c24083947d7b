"""One scenario per fault kind and place; the description of each says what it proves."""
