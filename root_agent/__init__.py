"""The asking side: an ADK agent folder around a framework-free path (``ask.py``)."""
