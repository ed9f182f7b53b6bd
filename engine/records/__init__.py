"""Record files: their format, reading and writing them, attachments, redaction, and work on many of them."""
