"""Evaluation of the served product by an eval set in ADK's format: ``python -m evals``.

``governance.evalset.json`` says what is asked in words, by whom, what is decided and which governed call leaves. The
root agent is asked as an application asks it, before a dataset agent that is a process of its own; ``custom_metrics``
judges what came, without a model.
"""
