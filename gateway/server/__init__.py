"""Between granian and Django: a request is taken in whole before a thread is given to it. Decides about no request."""
