"""Redis: its URLs, clients that follow the primary, and Celery's broker."""
