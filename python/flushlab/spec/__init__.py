"""Specifications: what a campaign is asked for, each field declared once.

Sits in `spec`, pure, below `plan`. From a declaration come the option of the command line, the parameter of
the Python function with its documentation, what is stored, and the command that repeats a campaign.

    option   a field's declaration: help, bounds, what it needs; values as they are typed and as they are kept
    parts    the server, its storage, a running server, data, workload and its changes, base
    kinds    the specification of each command that runs a campaign or a load, composed of parts
    commands the specification of the others: server start, test, probe, settings, watch
    build    named values → a specification; what makes no sense by itself is refused here; a specification →
             the words of its command
    sugar    a function's parameters and documentation, from a specification
"""

from flushlab.spec.option import Field, Option, Spec, fields
