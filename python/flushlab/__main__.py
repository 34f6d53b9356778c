"""The entry of the program `flushlab` and of `python -m flushlab`.

Beside the layers. Until `main` listens, Ctrl-C ends the process as it ends `cat`: nothing has been started,
and half-imported modules would only show a traceback. Hence `_signal`, which is built into the interpreter,
and not `signal`, which imports for milliseconds first. Before this file it is the interpreter's: its own
start and the script that pip wrote can still show a traceback, and nothing in a package runs earlier.
"""

from importlib import import_module

_signal = import_module("_signal")
if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:  # else the caller has it ignored
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

from flushlab.cli.main import main  # noqa: E402

if __name__ == "__main__":
    main()
