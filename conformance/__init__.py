"""The public conformance kit, driven against the real processes: ``python -m conformance``.

What the kit asks is in its vectors; ``subject`` answers with what a served dataset agent, a policy
server and a root agent do, over HTTP, on files of their own. It uses what anybody can use: the
command, the files it documents, the wire, and the root agent's Python door.
"""
