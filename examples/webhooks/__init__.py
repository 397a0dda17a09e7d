"""A receiver of webhooks, in Python (`receiver.py`) and in JavaScript (`receiver.mjs`), and a tour by curl (`tour.sh`)."""
