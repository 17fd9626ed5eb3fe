"""CTranslate2: models that it runs, and Hugging Face models converted for it."""
