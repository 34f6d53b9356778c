"""Machine: what flushlab runs on: its home folder, the servers' user, processors, memory, devices, pressure."""

from flushlab.machine.home import home, home_path
from flushlab.machine.user import ServerUser, may_enter, may_write, server_user

__all__ = ["ServerUser", "home", "home_path", "may_enter", "may_write", "server_user"]
