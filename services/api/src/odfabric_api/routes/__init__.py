"""Routes: what is asked for, translated into verbs of the node and back.

One file a subject.
"""
