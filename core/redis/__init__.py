"""Redis: its addresses, clients that find the primary, and Celery's broker."""
